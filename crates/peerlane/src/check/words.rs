//! Turning names and numbers into short texts.

/// Names shown before a list is cut.
const SHOWN: usize = 12;

/// `GPU0–GPU5, GPU7`: three or more names that count up are joined; long lists are cut.
pub(super) fn list(names: &[String]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut i = 0;
    while let Some(first) = names.get(i) {
        let run = names[i..].windows(2).take_while(|w| follows(&w[0], &w[1])).count();
        match names.get(i + run) {
            Some(last) if run >= 2 => {
                parts.push(format!("{first}–{last}"));
                i += run + 1;
            }
            _ => {
                parts.push(first.clone());
                i += 1;
            }
        }
    }
    let more = parts.len().saturating_sub(SHOWN);
    parts.truncate(SHOWN);
    let shown = parts.join(", ");
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}

/// Whether `b` is `a` counted up by one.
fn follows(a: &str, b: &str) -> bool {
    match (numbered(a), numbered(b)) {
        (Some((stem_a, n)), Some((stem_b, m))) => stem_a == stem_b && n.checked_add(1) == Some(m),
        _ => false,
    }
}

fn numbered(name: &str) -> Option<(&str, u64)> {
    let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (stem, number) = name.split_at(name.len() - digits);
    Some((stem, number.parse().ok()?))
}

/// `runs` or `run`, by the number of subjects.
pub(super) fn verb(subjects: &[String], one: &'static str, many: &'static str) -> &'static str {
    if subjects.len() == 1 { one } else { many }
}

/// Adds a name unless it is there already. For the short lists of a finding.
pub(super) fn add(names: &mut Vec<String>, name: impl Into<String>) {
    let name = name.into();
    if !names.contains(&name) {
        names.push(name);
    }
}

/// `8 %` of a share between 0 and 1.
pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// The value in the middle; the lower of two. `None` of nothing.
pub(super) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().filter(|v| !v.is_nan()).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|n| (*n).to_owned()).collect()
    }

    #[test]
    fn runs_are_joined() {
        assert_eq!(list(&names(&["GPU0", "GPU1", "GPU2", "GPU4", "GPU5", "mlx5_0"])), "GPU0–GPU2, GPU4, GPU5, mlx5_0");
        assert_eq!(list(&names(&["GPU3", "GPU2"])), "GPU3, GPU2");
        assert_eq!(list(&[]), "");
        let many: Vec<String> = (0..20).map(|i| format!("GPU{}", i * 2)).collect();
        assert!(list(&many).ends_with("GPU22 and 8 more"));
    }

    #[test]
    fn medians() {
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([2.0, 1.0]), Some(1.0));
        assert_eq!(median([]), None);
    }
}
