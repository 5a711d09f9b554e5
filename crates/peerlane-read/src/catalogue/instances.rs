//! Names of clouds and makers for machines of the catalogue.

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
    /// Who says so.
    pub source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Instances {
    instance: Vec<Instance>,
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
    use crate::catalogue::{system, system_names};

    #[test]
    fn each_name_means_one_system_of_the_catalogue() {
        let known: Vec<&str> = system_names().collect();
        let mut names: Vec<String> = Vec::new();
        assert!(instances().len() > 5);
        for instance in instances() {
            assert!(known.contains(&instance.system.as_str()), "{instance:?}");
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
        ] {
            let machine = system(name).unwrap().unwrap();
            assert_eq!(machine.name, key);
            assert!(machine.notes.iter().any(|note| note.contains("stands for")), "{:?}", machine.notes);
        }
        assert!(system("a3-ultragpu").is_none());
    }
}
