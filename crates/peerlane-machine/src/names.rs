//! Names of nodes that end in a number: their order as people count, and sets of them in few words.

/// Parts that [`list`] shows before it cuts.
const SHOWN: usize = 12;

/// `GPU` and 7 of `GPU7`; `None` where no number that fits ends the name.
pub fn numbered(name: &str) -> Option<(&str, u64)> {
    let (stem, digits) = name.split_at(name.trim_end_matches(|c: char| c.is_ascii_digit()).len());
    Some((stem, digits.parse().ok()?))
}

/// What makers call their accelerators in front of a number.
const ACCELERATORS: [&str; 9] = ["GPU", "NPU", "XPU", "DCU", "MLU", "HPU", "GCU", "PPU", "Device"];

/// The number of `GPU7`, or of another maker's `NPU7`; signs and overlong numbers are none.
pub fn gpu_number(name: &str) -> Option<u32> {
    ACCELERATORS.iter().find_map(|prefix| number_after(name, prefix))
}

/// The number that is all of a name behind `prefix`; signs and overlong numbers are none.
pub fn number_after(name: &str, prefix: &str) -> Option<u32> {
    let digits = name.strip_prefix(prefix)?;
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

/// Up to three names like this one, the most similar first.
pub fn closest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let name = name.to_lowercase();
    // an argument may be a whole text; only short ones are compared
    if name.is_empty() || name.len() > 64 {
        return Vec::new();
    }
    let near = names.filter_map(|candidate| {
        let lower = candidate.to_lowercase();
        let contains = name.len() >= 3 && lower.len() >= 3 && (lower.contains(&name) || name.contains(&lower));
        let distance = if contains { 0 } else { strsim::levenshtein(&name, &lower) };
        (distance <= 1 + name.chars().count() / 5).then_some((distance, candidate))
    });
    let mut near: Vec<(usize, &str)> = near.collect();
    near.sort();
    near.truncate(3);
    near.into_iter().map(|(_, candidate)| candidate).collect()
}

/// Whether a name means host memory: `host`, `host0` …, on one machine or as `node3/host0`.
pub fn is_host(name: &str) -> bool {
    let name = name.rsplit('/').next().unwrap_or(name);
    name.strip_prefix("host").is_some_and(|number| number.chars().all(|c| c.is_ascii_digit()))
}

/// Sorts `GPU10` after `GPU9`.
pub fn natural(name: &str) -> (&str, u64) {
    numbered(name).unwrap_or((name, 0))
}

/// Names in their order, three or more that count up joined: `GPU0–GPU5, GPU7`.
pub fn ranges<S: AsRef<str>>(names: &[S]) -> String {
    runs(names).join(", ")
}

/// The same, cut after twelve parts: `GPU0–GPU5, GPU7 … and 3 more`.
pub fn list<S: AsRef<str>>(names: &[S]) -> String {
    let mut parts = runs(names);
    let more = parts.len().saturating_sub(SHOWN);
    parts.truncate(SHOWN);
    let shown = parts.join(", ");
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}

fn runs<S: AsRef<str>>(names: &[S]) -> Vec<String> {
    let groups = names.chunk_by(|a, b| follows(a.as_ref(), b.as_ref()));
    let words = groups.flat_map(|group| match group {
        [first, _, .., last] => vec![format!("{}–{}", first.as_ref(), last.as_ref())],
        few => few.iter().map(|name| name.as_ref().to_owned()).collect(),
    });
    words.collect()
}

/// Whether `b` is `a` counted up by one.
fn follows(a: &str, b: &str) -> bool {
    match (numbered(a), numbered(b)) {
        (Some((stem_a, n)), Some((stem_b, m))) => stem_a == stem_b && n.checked_add(1) == Some(m),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_joined() {
        let names = ["GPU0", "GPU1", "GPU2", "GPU4", "GPU5", "mlx5_0", "mlx5_1"];
        assert_eq!(ranges(&names), "GPU0–GPU2, GPU4, GPU5, mlx5_0, mlx5_1");
        assert_eq!(ranges(&["GPU3", "GPU2"]), "GPU3, GPU2");
        assert_eq!(ranges(&["host"]), "host");
        assert_eq!(ranges::<&str>(&[]), "");
    }

    #[test]
    fn long_lists_are_cut() {
        let many: Vec<String> = (0..20).map(|i| format!("GPU{}", i * 2)).collect();
        assert!(list(&many).ends_with("GPU22 and 8 more"));
    }

    #[test]
    fn names_near_a_typo() {
        let names = || ["7gforce", "exxact-devbox", "exxact-tensor", "hpcac-tessa"].into_iter();
        assert_eq!(closest("7gforse", names()), ["7gforce"]);
        assert_eq!(closest("exxact", names()), ["exxact-devbox", "exxact-tensor"]);
        assert_eq!(closest("GPV0", ["GPU0"].into_iter()), ["GPU0"]);
        assert!(closest("zebra", names()).is_empty());
        assert!(closest("", names()).is_empty());
    }

    #[test]
    fn numbers_at_the_end_of_their_range() {
        let last = ["GPU18446744073709551614", "GPU18446744073709551615", "GPU0"];
        assert_eq!(ranges(&last), last.join(", "));
        assert_eq!(ranges(&["GPU99999999999999999999", "GPUé7"]), "GPU99999999999999999999, GPUé7");
    }

    #[test]
    fn host_memory_has_few_names() {
        for name in ["host", "host0", "host12", "node3/host1"] {
            assert!(is_host(name), "{name}");
        }
        for name in ["GPU0", "hostess", "host/GPU0", ""] {
            assert!(!is_host(name), "{name}");
        }
    }

    #[test]
    fn people_count_ten_after_nine() {
        let mut names = vec!["GPU10", "NIC0", "GPU9", "host"];
        names.sort_by_key(|n| natural(n));
        assert_eq!(names, ["GPU9", "GPU10", "NIC0", "host"]);
    }
}
