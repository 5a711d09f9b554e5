//! Headings that name the host of the lines below them, as loops over hosts and `dshbak` write them: `--- host7 ---`, `### node-3`, a name
//! between two lines of dashes.

use super::Text;
use super::words::gpu_number;

/// A heading is believed where others of its kind name other hosts.
const FEWEST: usize = 2;

/// More than any text has.
const MOST: usize = 4096;

/// What is numbered like hosts and is none.
const OTHERS: [&str; 22] = [
    "gpu",
    "cpu",
    "mlx",
    "nic",
    "run",
    "test",
    "step",
    "rank",
    "iteration",
    "iter",
    "case",
    "part",
    "device",
    "dev",
    "card",
    "slot",
    "pcie",
    "version",
    "v",
    "numa",
    "port",
    "system",
];

/// The hosts of a text by the lines of their headings, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HostHeadings(Vec<(usize, String)>);

impl HostHeadings {
    /// Finds them.
    pub(super) fn of(text: &Text) -> Self {
        let mut all: Vec<(usize, String)> = Vec::new();
        // most texts have no line of this form
        for (i, line) in text.iter() {
            let Some(name) = named(line, || (i > 0 && is_rule(text.line(i - 1)), is_rule(text.line(i + 1)))) else {
                continue;
            };
            if all.len() < MOST {
                all.push((i, name.to_owned()));
            }
        }
        let stems: Vec<String> = all.iter().map(|(_, name)| stem(name)).collect();
        let believed = |at: usize| {
            let alike = all.iter().zip(&stems).filter(|(_, other)| stems.get(at) == Some(*other));
            let mut names: Vec<&str> = alike.map(|((_, name), _)| name.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            names.len() >= FEWEST
        };
        let kept: Vec<usize> = (0..all.len()).filter(|at| believed(*at)).collect();
        HostHeadings(kept.into_iter().filter_map(|at| all.get(at).cloned()).collect())
    }

    /// The host of a line, by index.
    pub(super) fn at(&self, line: usize) -> Option<&str> {
        let above = self.0.partition_point(|(heading, _)| *heading <= line).checked_sub(1)?;
        self.0.get(above).map(|(_, name)| name.as_str())
    }

    /// The lines of each host below its headings, and the lines above the first: `(first, end, host)`.
    pub(super) fn blocks(&self, lines: usize) -> Vec<(usize, usize, Option<&str>)> {
        let Some((first, _)) = self.0.first() else { return Vec::new() };
        let mut all = vec![(0, *first, None)];
        for (at, (heading, name)) in self.0.iter().enumerate() {
            let end = self.0.get(at + 1).map_or(lines, |(next, _)| *next);
            all.push((heading + 1, end, Some(name.as_str())));
        }
        all
    }
}

/// The host that a line names, if it is a heading; `between` says whether the lines around it are of dashes.
fn named(line: &str, between: impl Fn() -> (bool, bool)) -> Option<&str> {
    let line = line.trim();
    if line.len() > 90 || line.is_empty() {
        return None;
    }
    let is_mark = |c: char| matches!(c, '#' | '-' | '=' | '*' | '>' | '<' | '[' | ']' | ' ' | ':');
    let plain = line.trim_matches(is_mark);
    let name = plain
        .strip_prefix("host ")
        .or(plain.strip_prefix("node "))
        .or(plain.strip_prefix("Host: "))
        .unwrap_or(plain)
        .trim();
    let is_name = (2..=63).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b))
        && name.bytes().any(|b| b.is_ascii_digit())
        && name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic())
        && gpu_number(name).is_none()
        && !OTHERS.contains(&stem(name).trim_end_matches(['-', '_', '.']));
    if !is_name {
        return None;
    }
    let marked = line.starts_with("---")
        || line.starts_with("===")
        || line.starts_with("###")
        || line.starts_with("***")
        || line.starts_with(">>>")
        || line.starts_with("## ");
    (marked && line.len() > name.len() || between() == (true, true)).then_some(name)
}

/// `----------------`.
fn is_rule(line: &str) -> bool {
    let line = line.trim();
    line.len() >= 3 && (line.bytes().all(|b| b == b'-') || line.bytes().all(|b| b == b'='))
}

/// A name without its number: hosts of one machine room share it.
fn stem(name: &str) -> String {
    name.split('.').next().unwrap_or(name).trim_end_matches(|c: char| c.is_ascii_digit()).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(body: &str) -> Vec<(usize, String)> {
        HostHeadings::of(&Text::new("t", body.as_bytes())).0
    }

    #[test]
    fn headings_of_every_form() {
        for form in
            ["--- HOST ---", "### HOST", "=== HOST ===", ">>> HOST", "=== host HOST ===", "--------\nHOST\n--------"]
        {
            let body: String =
                ["node7", "node8"].iter().map(|host| format!("{}\nline\n", form.replace("HOST", host))).collect();
            let names: Vec<String> = hosts(&body).into_iter().map(|(_, name)| name).collect();
            assert_eq!(names, ["node7", "node8"], "{form}");
        }
        let all = HostHeadings::of(&Text::new("t", b"above\n--- a1 ---\none\n--- a2 ---\ntwo\n"));
        assert_eq!((all.at(0), all.at(2), all.at(4)), (None, Some("a1"), Some("a2")));
        assert_eq!(all.blocks(5), [(0, 1, None), (2, 3, Some("a1")), (4, 5, Some("a2"))]);
    }

    #[test]
    fn what_is_no_host() {
        for body in [
            "### GPU0\nx\n### GPU1\n",
            "--- run1 ---\n--- run2 ---\n",
            "### node7\nalone\n",
            "### Results\n### System\n",
            "node7\nnode8\n",
            "- node7\n- node8\n",
        ] {
            assert_eq!(hosts(body), [], "{body}");
        }
    }
}
