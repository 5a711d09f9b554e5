//! The files of `systems/` and `parts/`, as the build script lists them.

/// Systems, `(name, text)`, sorted by name.
pub(super) const SYSTEMS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/systems.rs"));

/// Parts, sorted by name.
pub(super) const PARTS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/parts.rs"));

/// How far measured numbers lie from predictions, as `peerlane-fit --write` found it.
pub(super) const SPREADS: &str = include_str!("spreads.toml");

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
