//! The files of `systems/` and `parts/`, each named once.

/// `(name, text)` of each named file of a folder at the workspace's root.
macro_rules! embed {
    ($folder:literal: $($name:literal)*) => {
        &[$(($name, include_str!(concat!("../../../../", $folder, "/", $name, ".toml")))),*]
    };
}

/// Systems, sorted by name.
pub(super) const SYSTEMS: &[(&str, &str)] = embed!("systems":
    "7gforce"
    "exxact-devbox"
    "exxact-traditional"
    "exxact-txr414"
    "exxact-txr414-20"
    "exxact-txr430"
    "exxact-txr550"
);

/// Parts, sorted by name.
pub(super) const PARTS: &[(&str, &str)] = embed!("parts":
    "gtx-1070"
    "gtx-1080"
    "pex8747"
    "pex8780"
    "pex8796"
    "qpi-haswell"
    "titan-x-maxwell"
    "xeon-e5-v2"
    "xeon-e5-v3"
    "xeon-e5-v4"
);

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of the TOML files in a folder at the workspace's root, sorted.
    fn files(folder: &str) -> Vec<String> {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
        let mut names: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .filter_map(|e| e.unwrap().file_name().to_str()?.strip_suffix(".toml").map(str::to_owned))
            .collect();
        names.sort();
        names
    }

    #[test]
    fn every_file_is_embedded() {
        let names = |list: &[(&str, &str)]| list.iter().map(|(n, _)| (*n).to_owned()).collect::<Vec<_>>();
        assert_eq!(names(SYSTEMS), files("systems"));
        assert_eq!(names(PARTS), files("parts"));
    }
}
