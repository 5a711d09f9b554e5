//! Who makes a CPU.

use crate::schema::JsonSchema;
use serde::{Deserialize, Serialize};

/// The maker of a CPU, which decides how its root complexes and its socket links treat peer-to-peer traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CpuVendor {
    /// Intel.
    Intel,
    /// AMD.
    Amd,
    /// IBM, of POWER.
    Ibm,
    /// NVIDIA, of Grace.
    Nvidia,
    /// Any other maker of ARM CPUs.
    Arm,
}

impl CpuVendor {
    /// The vendor that `vendor_id` of `/proc/cpuinfo` or an architecture (`aarch64`, `ppc64le`) names.
    pub fn of_id(id: &str) -> Option<Self> {
        match id {
            "GenuineIntel" => Some(Self::Intel),
            "AuthenticAMD" => Some(Self::Amd),
            "ARM" | "aarch64" | "arm64" => Some(Self::Arm),
            "IBM" => Some(Self::Ibm),
            _ if id.starts_with("ppc64") => Some(Self::Ibm),
            _ => None,
        }
    }

    /// The vendor that the words of a product name indicate.
    pub fn of_product(product: &str) -> Option<Self> {
        let product = product.to_lowercase();
        let mut words = product.split(|c: char| !c.is_ascii_alphanumeric());
        words.find_map(|word| match word {
            "intel" | "xeon" => Some(Self::Intel),
            "amd" | "epyc" | "ryzen" | "threadripper" | "opteron" => Some(Self::Amd),
            "grace" => Some(Self::Nvidia),
            "arm" | "aarch64" | "neoverse" | "altra" | "graviton" => Some(Self::Arm),
            _ if word.starts_with("power") && word[5..].starts_with(|c: char| c.is_ascii_digit()) => Some(Self::Ibm),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::CpuVendor::{self, *};

    #[test]
    fn vendors_by_what_tools_print() {
        let product = |text, vendor| assert_eq!(CpuVendor::of_product(text), vendor, "{text}");
        product("INTEL(R) XEON(R) PLATINUM 8568Y+", Some(Intel));
        product("AMD EPYC 9575F 64-Core Processor", Some(Amd));
        product("Ryzen Threadripper PRO 7965WX", Some(Amd));
        product("POWER8NVL, altivec supported", Some(Ibm));
        product("NVIDIA Grace", Some(Nvidia));
        product("Neoverse-V2", Some(Arm));
        product("power management unit of an alarm", None);
        product("", None);
        let id = |text, vendor| assert_eq!(CpuVendor::of_id(text), vendor, "{text}");
        id("GenuineIntel", Some(Intel));
        id("ppc64le", Some(Ibm));
        id("x86_64", None);
    }
}
