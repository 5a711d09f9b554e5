//! What was done, in few words: `GPU0→GPU1`, `host↔GPU0–GPU3`.

use crate::plan::{StreamKernel, Work};
use peerlane_machine::names::{is_host, list, natural};
use peerlane_machine::transfer::Transfer;

/// What a step or cell does, by its ends; several transfers in the order of their sources.
pub fn ends(work: &Work) -> String {
    match work {
        Work::Transfers(transfers) => transfers_between(transfers),
        Work::SmallCopies(one) => arrow(&one.source, &one.destination),
        Work::Loads { gpu, memory } => arrow(gpu, memory),
        Work::Signals { a, b } => format!("{a}↔{b}"),
        Work::Collective { operation, gpus } => format!("{} of {}", operation.name(), list(gpus)),
        Work::HostMemory { node, kernel } => {
            let kernel = match kernel {
                StreamKernel::Read => "read",
                StreamKernel::Copy => "copy",
                StreamKernel::Triad => "triad",
            };
            format!("{node} {kernel}")
        }
    }
}

fn arrow(a: &str, b: &str) -> String {
    format!("{a}→{b}")
}

fn transfers_between(transfers: &[Transfer]) -> String {
    let back: std::collections::HashSet<(&str, &str)> =
        transfers.iter().map(|t| (t.destination.as_str(), t.source.as_str())).collect();
    let pair =
        |t: &Transfer| (t.source.as_str(), t.destination.as_str()) == (t.destination.as_str(), t.source.as_str());
    let mutual =
        transfers.len() > 1 && transfers.iter().all(|t| !pair(t) && back.contains(&(&t.source, &t.destination)));
    let mut ways: Vec<(&str, &str)> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for t in transfers {
        let way = (t.source.as_str(), t.destination.as_str());
        // of two opposite ones the first is shown
        if !(mutual && seen.contains(&(way.1, way.0))) && seen.insert(way) {
            ways.push(way);
        }
    }
    // what comes from the host and what goes to it are two things
    let (down, rest): (Vec<_>, Vec<_>) = ways.iter().copied().partition(|(a, _)| is_host(a));
    if !down.is_empty() && rest.iter().any(|(_, b)| is_host(b)) {
        return format!("{}; {}", between(down, "→"), between(rest, "→"));
    }
    between(ways, if mutual { "↔" } else { "→" })
}

/// Ways, in the order of their sources.
fn between(mut ways: Vec<(&str, &str)>, arrow: &str) -> String {
    ways.sort_by(|a, b| natural(a.0).cmp(&natural(b.0)).then(natural(a.1).cmp(&natural(b.1))));
    let once = |names: Vec<&str>| {
        let first = names.first().copied().unwrap_or_default();
        if names.iter().all(|name| *name == first) { first.to_owned() } else { list(&names) }
    };
    let (from, to): (Vec<&str>, Vec<&str>) = ways.iter().copied().unzip();
    format!("{}{arrow}{}", once(from), once(to))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> String {
        ends(&Work::Transfers(pairs.iter().map(|(a, b)| Transfer::new(*a, *b)).collect()))
    }

    #[test]
    fn sets_in_few_words() {
        assert_eq!(of(&[("GPU0", "GPU1")]), "GPU0→GPU1");
        assert_eq!(of(&[("GPU0", "GPU0")]), "GPU0→GPU0");
        assert_eq!(of(&[("GPU0", "GPU1"), ("GPU1", "GPU0")]), "GPU0↔GPU1");
        assert_eq!(of(&[("GPU0", "GPU1"), ("GPU0", "GPU2"), ("GPU0", "GPU3")]), "GPU0→GPU1–GPU3");
        assert_eq!(of(&[("GPU2", "GPU0"), ("GPU1", "GPU0")]), "GPU1, GPU2→GPU0");
        assert_eq!(of(&[("host", "GPU0"), ("GPU0", "host"), ("host", "GPU1"), ("GPU1", "host")]), "host↔GPU0, GPU1");
        assert_eq!(of(&[("GPU0", "GPU1"), ("GPU2", "GPU0"), ("GPU1", "GPU2")]), "GPU0–GPU2→GPU1, GPU2, GPU0");
        assert_eq!(
            of(&[("GPU0", "GPU3"), ("GPU3", "GPU0"), ("GPU1", "GPU2"), ("GPU2", "GPU1")]),
            "GPU0, GPU1↔GPU3, GPU2"
        );
        assert_eq!(of(&[("host", "GPU0"), ("GPU1", "host"), ("host", "GPU2")]), "host→GPU0, GPU2; GPU1→host");
        assert_eq!(of(&[]), "→");
    }
}
