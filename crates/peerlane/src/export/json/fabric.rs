//! The document of `map`.

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

use peerlane_machine::machine::Machine;
use peerlane_machine::machine::description::MachineDescription;
use peerlane_machine::origin::Coverage;

/// What `map --json` writes: machines as far as they are known.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FabricDocument {
    /// Names this format.
    #[schemars(extend("const" = "peerlane/fabric/1"))]
    pub schema: &'static str,
    /// The machines, in the order of the evidence.
    pub machines: Vec<MachineDescription>,
    /// How much of each input was understood.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub coverage: Vec<Coverage>,
}

impl FabricDocument {
    /// Describes machines.
    pub fn new<'a>(machines: impl IntoIterator<Item = &'a Machine>) -> Self {
        let machines = machines.into_iter().map(MachineDescription::of).collect();
        FabricDocument { schema: "peerlane/fabric/1", machines, coverage: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane_machine::fabric::{FabricBuilder, Link, LinkKind, Node, NodeKind, PcieGeneration, PcieWidth};
    use peerlane_machine::machine::MachineKind;

    fn pair() -> Machine {
        let mut b = FabricBuilder::new();
        let rc = b.node(Node::new("rc0", NodeKind::RootComplex));
        for i in 0..2 {
            let gpu = b.node(Node::new(format!("GPU{i}"), NodeKind::Gpu));
            let mut link = Link::new(rc, gpu, LinkKind::pcie(PcieWidth::new(PcieGeneration::Gen3, 16)));
            link.assumed = i == 1;
            b.link(link);
        }
        Machine::new("pair", MachineKind::Design, b.build().unwrap())
    }

    #[test]
    fn a_fabric_keeps_what_is_known_and_nulls_what_is_not() {
        let json = serde_json::to_value(FabricDocument::new([&pair()])).unwrap();
        assert_eq!(json["schema"], "peerlane/fabric/1");
        let machine = &json["machines"][0];
        assert!(machine.get("title").is_none());
        assert_eq!(machine["nodes"][1]["kind"], "gpu");
        assert_eq!(machine["links"][0]["kind"], "pcie");
        assert_eq!(machine["links"][0]["running"], serde_json::json!({"generation": 3, "lanes": 16}));
        assert!(machine["links"][0]["allowed"].is_null());
        assert_eq!(machine["links"][1]["assumed"], true);
        assert_eq!(machine["classes"]["values"], serde_json::json!([["X", "PHB"], ["PHB", "X"]]));
    }
}
