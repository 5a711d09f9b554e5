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
    "apenet-i7-plx"
    "apenet-x56xx"
    "az-2x-m60"
    "az-4x-m60"
    "dgx-1"
    "dgx-1v"
    "exxact-devbox"
    "exxact-traditional"
    "exxact-txr414"
    "exxact-txr414-20"
    "exxact-txr430"
    "exxact-txr550"
    "h200x4-vm"
    "hgx-h200"
    "hpcac-phb"
    "hpcac-sys"
    "hpcac-tessa"
    "k20-cx3-snb"
    "k20-cx3-tylersburg"
    "microway-p100-pcie"
    "microway-s822lc"
    "quong-node"
    "s2075-quad"
);

/// Parts, sorted by name.
pub(super) const PARTS: &[(&str, &str)] = embed!("parts":
    "a10"
    "a100-pcie"
    "a100-pcie-40gb"
    "a100-sxm4"
    "a100-sxm4-40gb"
    "a10g"
    "a30"
    "a40"
    "apenet-plus"
    "apenet-plus-rx"
    "apenet-plus-v1"
    "apenet-plus-v2"
    "b200"
    "b300"
    "bcm57508"
    "bcm57608"
    "bluefield-2"
    "bluefield-3"
    "connectx-3"
    "connectx-4"
    "connectx-4-lx"
    "connectx-5"
    "connectx-5-ex"
    "connectx-6"
    "connectx-6-dx"
    "connectx-6-hdr100"
    "connectx-6-lx"
    "connectx-7"
    "connectx-8"
    "core-i7-x58"
    "e810-c"
    "efa"
    "efa-v3"
    "emerald-rapids"
    "emerald-rapids-h200x4-vm"
    "epyc-genoa"
    "epyc-milan"
    "epyc-naples"
    "epyc-rome"
    "epyc-turin"
    "fermi-c2075"
    "gb10"
    "gb200"
    "gb300"
    "gh200"
    "gh200-144gb"
    "grace"
    "granite-rapids"
    "gtx-1070"
    "gtx-1080"
    "gtx-1080-ti"
    "gtx-980-ti"
    "h100-nvl"
    "h100-pcie"
    "h100-sxm5"
    "h20"
    "h200"
    "h200-nvl"
    "h800"
    "ice-lake"
    "l4"
    "l40"
    "l40s"
    "mi100"
    "mi210"
    "mi250"
    "mi300x"
    "mi325x"
    "mi355x"
    "nvswitch"
    "pex8647"
    "pex8747"
    "pex8780"
    "pex8796"
    "pex88096"
    "pex880xx"
    "pex890xx"
    "pex89144"
    "pex9797"
    "power8"
    "power9"
    "qpi-broadwell"
    "qpi-haswell"
    "qpi-nehalem"
    "qpi-snb"
    "rtx-2080-ti"
    "rtx-3090"
    "rtx-3090-ti"
    "rtx-4080"
    "rtx-4090"
    "rtx-5090"
    "rtx-6000-ada"
    "rtx-a6000"
    "rtx-pro-6000"
    "sapphire-rapids"
    "tesla-k20"
    "tesla-k40"
    "tesla-k80"
    "tesla-m40"
    "tesla-m60"
    "tesla-p100-pcie"
    "tesla-p100-sxm2"
    "tesla-p40"
    "tesla-t4"
    "threadripper-pro"
    "threadripper-pro-7000"
    "titan-x-maxwell"
    "upi-emerald-rapids"
    "upi-granite-rapids"
    "upi-ice-lake"
    "upi-sapphire-rapids"
    "upi-skylake"
    "v100-pcie"
    "v100-sxm2"
    "v100-sxm3"
    "v100s-pcie"
    "xbus-power8"
    "xbus-power9"
    "xeon-e5-v1"
    "xeon-e5-v2"
    "xeon-e5-v3"
    "xeon-e5-v4"
    "xeon-scalable"
    "xeon-x56xx-tylersburg"
    "xgmi"
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
