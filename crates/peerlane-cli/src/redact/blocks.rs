//! What several lines say together: keys, tables, and what `kubectl describe` prints.

use super::allowed;
use super::pseudonyms::{Kind, Pseudonyms};
use super::tables::Table;

/// Domains of labels that describe the machine's hardware and nothing else.
const LABELS: [&str; 6] = [
    "nvidia.com/",
    "amd.com/",
    "feature.node.kubernetes.io/",
    "kubernetes.io/arch",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
];

/// Sections of a described object whose lines are settings of its owner.
const SECTIONS: [&str; 6] = ["Labels", "Annotations", "Node-Selectors", "Selector", "Environment", "Args"];

/// What the lines so far say about the next one.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    /// Within a key or a certificate.
    key: bool,
    table: Option<Table>,
    /// Within a described object of Kubernetes.
    object: bool,
    /// The section of settings that goes on, with the column in which it began.
    section: Option<usize>,
}

impl Blocks {
    /// A line as it should go on, with the line below it.
    pub(super) fn line(&mut self, line: &str, below: &str, names: &mut Pseudonyms) -> Option<String> {
        if self.key || line.contains("-----BEGIN ") {
            self.key = !line.contains("-----END ");
            return Some("(removed)".to_owned());
        }
        // a table may follow another at once
        let head = Table::of(line, below);
        if head.is_none()
            && let Some(row) = self.table.as_ref().and_then(|table| table.row(line, names))
        {
            return Some(row);
        }
        self.table = head;
        self.described(line, below, names)
    }

    /// `Name:` and settings of an object that `kubectl describe` prints.
    fn described(&mut self, line: &str, below: &str, names: &mut Pseudonyms) -> Option<String> {
        if let Some(name) = line.strip_prefix("Name:") {
            let below = below.split(':').next().unwrap_or_default();
            self.object = matches!(below, "Namespace" | "Roles" | "Labels" | "Priority" | "CreationTimestamp");
            self.section = None;
            if self.object {
                let kind = if below == "Roles" { Kind::Host } else { Kind::Other };
                return Some(line.replace(name.trim(), &names.word(kind, name.trim())));
            }
        }
        if !self.object {
            return None;
        }
        let start = line.len() - line.trim_start().len();
        if let Some((key, value)) = line.trim_start().split_once(':')
            && self.section.is_none_or(|column| start <= column)
        {
            self.section = SECTIONS.contains(&key).then_some(start);
            self.section?;
            let at = line.len() - value.trim_start().len();
            return Some(format!("{}{}", &line[..at], setting(value.trim(), names)));
        }
        if start == 0 && !line.is_empty() {
            self.section = None;
        }
        self.section?;
        Some(format!("{}{}", &line[..start], setting(line.trim(), names)))
    }
}

/// `key=value` or `key: value` of an owner: kept where it is of the hardware.
fn setting(text: &str, names: &mut Pseudonyms) -> String {
    let Some(at) = text.find(['=', ':']) else {
        return match text {
            "" | "<none>" => text.to_owned(),
            _ => names.of(Kind::Other, text),
        };
    };
    let (key, value) = (&text[..at], text[at + 1..].trim());
    if LABELS.iter().any(|domain| key.contains(domain)) || allowed::is_variable(key) {
        return text.to_owned();
    }
    let mark = &text[at..=at];
    match key.ends_with("hostname") {
        true => format!("{key}{mark}{}", names.word(Kind::Host, value)),
        // a name may be in the key too
        false => format!("{}{mark}{}", names.of(Kind::Other, key), names.of(Kind::Other, value)),
    }
}
