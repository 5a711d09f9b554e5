//! What was done, in few words: `GPU0→GPU1`, `host↔GPU0–GPU3`.

use std::collections::HashSet;

use crate::plan::{StreamKernel, Work};
use peerlane_machine::names::{is_host, list, natural};
use peerlane_machine::transfer::{Transfer, Via};

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
        Work::Halo(halo) => {
            let (gpus, parts, how) = (list(&halo.gpus), halo.decomposition(), halo.exchange.name());
            format!("{gpus} as {parts}, {how}, faces of {}", halo.face)
        }
        Work::SpinGlass(lattice) => {
            let how = match lattice.gpus.len() {
                1 => String::new(),
                _ => format!(", {}, {}", lattice.exchange.name(), if lattice.overlap { "overlap" } else { "serial" }),
            };
            let (cut, each) = (lattice.cut(), lattice.each());
            format!("{}{cut}, L = {}{each}{how}", list(&lattice.gpus), lattice.side)
        }
        Work::Bfs(search) => {
            let how = if search.gpus.len() > 1 { format!(", {}", search.exchange.name()) } else { String::new() };
            format!("{}, scale {}{how}", list(&search.gpus), search.scale)
        }
        Work::Rdma(rdma) => {
            let (from, to) = rdma.ends();
            arrow(from, to) + if rdma.via == Via::Direct { "" } else { ", staged" }
        }
    }
}

fn arrow(a: &str, b: &str) -> String {
    format!("{a}→{b}")
}

fn transfers_between(transfers: &[Transfer]) -> String {
    let mut pairs: Vec<(&str, &str)> = transfers.iter().map(|t| (t.source.as_str(), t.destination.as_str())).collect();
    let given: HashSet<(&str, &str)> = pairs.iter().copied().collect();
    let mutual = pairs.len() > 1 && pairs.iter().all(|(a, b)| a != b && given.contains(&(*b, *a)));
    // of two opposite ones the first is shown
    let mut shown = HashSet::new();
    pairs.retain(|(a, b)| !(mutual && shown.contains(&(*b, *a))) && shown.insert((*a, *b)));
    // what comes from the host and what goes to it are two things
    let (down, rest): (Vec<_>, Vec<_>) = pairs.iter().copied().partition(|(a, _)| is_host(a));
    if !down.is_empty() && rest.iter().any(|(_, b)| is_host(b)) {
        return format!("{}; {}", between(down, "→"), between(rest, "→"));
    }
    between(pairs, if mutual { "↔" } else { "→" })
}

/// Pairs, in the order of their sources.
fn between(mut pairs: Vec<(&str, &str)>, arrow: &str) -> String {
    pairs.sort_by_key(|(a, b)| (natural(a), natural(b)));
    let once = |names: Vec<&str>| {
        let first = names.first().copied().unwrap_or_default();
        if names.iter().all(|name| *name == first) { first.to_owned() } else { list(&names) }
    };
    let (from, to): (Vec<&str>, Vec<&str>) = pairs.into_iter().unzip();
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
