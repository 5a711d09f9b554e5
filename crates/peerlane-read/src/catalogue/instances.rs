//! Names of clouds and makers for machines of the catalogue.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

/// Names that mean one system of the catalogue.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instance {
    /// As makers and clouds write them.
    pub names: Vec<String>,
    /// The system that has the same GPUs, fabric and adapters.
    pub system: String,
    /// Parts of that system, and what the instance has in their place.
    #[serde(default)]
    pub replaced: BTreeMap<String, String>,
    /// Who says so.
    pub source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Instances {
    instance: Vec<Instance>,
}

impl Instance {
    /// The text of its system file, with its own parts.
    pub(super) fn text(&self, of_system: &str) -> String {
        let quoted = |part: &str| format!("part = \"{part}\"");
        self.replaced.iter().fold(of_system.to_owned(), |text, (old, new)| text.replace(&quoted(old), &quoted(new)))
    }

    /// What it is to the system, for a note.
    pub(super) fn words(&self, name: &str) -> String {
        let Instance { system, source, .. } = self;
        let but = self.replaced.iter().map(|(old, new)| format!(", but {new} for {old}")).collect::<String>();
        format!("{system} stands for {name}: it has the same GPUs, fabric and adapters{but} ({source})")
    }
}

/// All of them, in the file's order.
pub fn instances() -> &'static [Instance] {
    // the embedded file is right in every build, which a test holds
    static ALL: LazyLock<Vec<Instance>> = LazyLock::new(|| {
        toml::from_str::<Instances>(include_str!("instances.toml")).map_or_else(|_| Vec::new(), |all| all.instance)
    });
    &ALL
}

/// The system that a name means, however its parts are joined: `a3-ultragpu-8g`, `Standard_ND96isr_H100_v5`.
pub(super) fn instance(name: &str) -> Option<&'static Instance> {
    let plain = |text: &str| text.to_lowercase().replace(['.', '_', ' '], "-");
    let asked = plain(name);
    let asked = asked.strip_prefix("standard-").unwrap_or(&asked);
    instances().iter().find(|instance| instance.names.iter().any(|name| plain(name) == asked))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::{Parts, system, system_names, system_text};

    #[test]
    fn each_name_means_one_system_of_the_catalogue() {
        let known: Vec<&str> = system_names().collect();
        let mut names: Vec<String> = Vec::new();
        assert!(instances().len() > 5);
        for instance in instances() {
            assert!(known.contains(&instance.system.as_str()), "{instance:?}");
            let text = system_text(&instance.system).unwrap();
            for (old, new) in &instance.replaced {
                assert!(text.contains(&format!("part = \"{old}\"")), "{instance:?}: nothing to replace");
                assert!(Parts::embedded().get(new).is_some(), "{instance:?}: no part {new}");
            }
            names.extend(instance.names.iter().map(|name| name.to_lowercase()));
        }
        assert!(names.iter().all(|name| !known.contains(&name.as_str())), "a system has its own name");
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn names_are_understood_however_they_are_written() {
        for (name, key) in [
            ("a3-ultragpu-8g", "hgx-h200"),
            ("Standard_ND96isr_H100_v5", "azure-ndv5"),
            ("bm.gpu.h200.8", "hgx-h200"),
            ("p5.48xlarge", "aws-p5"),
            ("a3-megagpu-8g", "hgx-h100"),
        ] {
            let machine = system(name).unwrap().unwrap();
            assert_eq!(machine.name, key);
            assert!(machine.notes.iter().any(|note| note.contains("stands for")), "{:?}", machine.notes);
        }
        assert!(system("a3-ultragpu").is_none());
    }
}
