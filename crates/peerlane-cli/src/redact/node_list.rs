//! Lists of hosts as Slurm writes them: `gpu[01-04,7],login1`.

/// The most hosts of one list: more than the largest clusters have.
const MOST: usize = 1 << 16;

/// The same list with the stand-ins that `stand_in` gives, as many as it has hosts; `None` if it is none.
pub(super) fn redacted(list: &str, mut stand_in: impl FnMut(&str) -> Option<String>) -> Option<String> {
    let mut hosts = Vec::new();
    for part in parts(list) {
        expand(part, &mut hosts)?;
    }
    let mut numbers = Vec::new();
    let mut others = Vec::new();
    for host in &hosts {
        let new = stand_in(host).unwrap_or_else(|| host.clone());
        match new.strip_prefix("host-").and_then(|number| number.parse::<usize>().ok()) {
            Some(number) => numbers.push(number),
            None => others.push(new),
        }
    }
    numbers.sort_unstable();
    numbers.dedup();
    let ranges = ranges(&numbers);
    match (numbers.len(), ranges.as_str()) {
        (0, _) => {}
        (1, one) => others.push(format!("host-{one}")),
        (_, many) => others.push(format!("host-[{many}]")),
    }
    Some(others.join(","))
}

/// The parts between commas that are outside of brackets.
fn parts(list: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_u32;
    list.split(move |c| {
        depth = match c {
            '[' => depth + 1,
            ']' => depth.saturating_sub(1),
            _ => depth,
        };
        c == ',' && depth == 0
    })
    .filter(|part| !part.is_empty())
}

/// Appends the hosts of one part; `None` where it cannot be read or has too many.
fn expand(part: &str, hosts: &mut Vec<String>) -> Option<()> {
    let Some((before, rest)) = part.split_once('[') else {
        hosts.push(part.to_owned());
        return (hosts.len() <= MOST).then_some(());
    };
    let (inner, after) = rest.split_once(']')?;
    for range in inner.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (from, to) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        if to < from || to - from >= MOST {
            return None;
        }
        for number in from..=to {
            expand(&format!("{before}{number:0width$}{after}", width = first.len()), hosts)?;
        }
    }
    Some(())
}

/// Numbers in order as `1-4,7`.
fn ranges(numbers: &[usize]) -> String {
    let mut all: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match all.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => all.push((*number, *number)),
        }
    }
    let text = |(a, b): &(usize, usize)| if a == b { a.to_string() } else { format!("{a}-{b}") };
    all.iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::super::pseudonyms::Pseudonyms;
    use super::super::rules;
    use super::*;

    #[test]
    fn lists_keep_their_count() {
        let mut names = Pseudonyms::default();
        let mut done = |list| redacted(list, |name| rules::host(name, &mut names));
        assert_eq!(done("gpu[01-03,7],login1").as_deref(), Some("host-[1-5]"));
        assert_eq!(done("gpu02").as_deref(), Some("host-2"));
        assert_eq!(done("gpu[01,03]").as_deref(), Some("host-[1,3]"));
        assert_eq!(done("rack[1-2]n[1-2]").as_deref(), Some("host-[6-9]"));
        for wrong in ["gpu[1-", "gpu[3-1]", "gpu[1-99999999]", "gpu[a-b]", "a[1-9999]b[1-9999]"] {
            assert_eq!(done(wrong), None, "{wrong}");
        }
    }
}
