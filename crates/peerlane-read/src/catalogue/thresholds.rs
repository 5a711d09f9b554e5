//! Floors that others publish for the rates of a product. They are never a floor of ours: a comparison, on request.

use std::sync::LazyLock;

use serde::Deserialize;

/// The lists of one publisher.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThresholdList {
    /// Its short name: `azure`.
    pub name: String,
    /// Its full name.
    pub title: String,
    /// Where it is published, with its version.
    pub source: String,
    /// Its floors.
    pub floors: Vec<Floors>,
}

/// The floors of one product, in GB/s.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Floors {
    /// The part of its GPUs.
    pub part: String,
    /// Its number of GPUs.
    pub gpus: usize,
    /// The file or entry of the source.
    pub file: String,
    /// A copy between host memory and a GPU, one way.
    #[serde(default)]
    pub host: Option<f64>,
    /// A copy between two GPUs, one way.
    #[serde(default)]
    pub pair: Option<f64>,
    /// Bus bandwidth of an all-reduce of large messages among all GPUs of one machine.
    #[serde(default)]
    pub all_reduce: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    list: Vec<ThresholdList>,
}

/// All lists.
pub fn threshold_lists() -> &'static [ThresholdList] {
    static LISTS: LazyLock<Vec<ThresholdList>> = LazyLock::new(|| {
        // a test reads the same text
        toml::from_str::<File>(include_str!("thresholds.toml")).map_or_else(|_| Vec::new(), |file| file.list)
    });
    &LISTS
}

#[cfg(test)]
mod tests {
    use super::super::Parts;
    use super::*;

    #[test]
    fn every_list_has_a_source_and_names_parts_of_the_catalogue() {
        let lists = threshold_lists();
        assert_eq!(lists.iter().map(|list| list.name.as_str()).collect::<Vec<_>>(), ["azure", "oci"]);
        for list in lists {
            assert!(list.source.starts_with("https://") && list.source.contains("commit "), "{}", list.name);
            for floors in &list.floors {
                assert!(Parts::embedded().get(&floors.part).is_some(), "{}", floors.part);
                let values = [floors.host, floors.pair, floors.all_reduce];
                assert!(values.iter().flatten().all(|gb| (1.0..2000.0).contains(gb)) && floors.gpus > 1);
                assert!(values.iter().any(Option::is_some), "{}", floors.file);
            }
        }
    }
}
