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
    /// The part of its GPUs; `None` where the floor is of any product.
    #[serde(default)]
    pub part: Option<String>,
    /// Its number of GPUs; `None` where the floor is of any number.
    #[serde(default)]
    pub gpus: Option<usize>,
    /// What must join its GPUs, where the floor is not of a product.
    #[serde(default)]
    pub links: Option<JoinedBy>,
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

/// What joins the GPUs of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JoinedBy {
    /// NVLink, every two of them.
    Nvlink,
    /// PCIe alone.
    Pcie,
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
        assert_eq!(lists.iter().map(|list| list.name.as_str()).collect::<Vec<_>>(), ["azure", "oci", "nvsentinel"]);
        for list in lists {
            assert!(
                list.source.starts_with("https://")
                    && ["commit ", "/pull/"].iter().any(|version| list.source.contains(version)),
                "{}",
                list.name
            );
            for floors in &list.floors {
                let known = |part: &String| Parts::embedded().get(part).is_some();
                assert!(floors.part.as_ref().is_none_or(known), "{:?}", floors.part);
                // of a product or of what joins its GPUs, and not of both
                assert_ne!(floors.part.is_some(), floors.links.is_some(), "{}", floors.file);
                let values = [floors.host, floors.pair, floors.all_reduce];
                assert!(values.iter().flatten().all(|gb| (1.0..2000.0).contains(gb)) && floors.gpus != Some(1));
                assert!(values.iter().any(Option::is_some), "{}", floors.file);
            }
        }
    }
}
