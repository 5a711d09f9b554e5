//! An IOMMU that translates what devices access, and with it what GPUs and NICs send each other over PCIe.

use super::view::{Raised, View};
use super::{Certainty, Finding, FindingKind, Rule, Severity};
use peerlane_machine::fabric::{NodeKind, PathClass};
use peerlane_machine::fact::IommuDomain;
use peerlane_machine::machine::reading::Standing;
use peerlane_machine::origin::Origin;

pub(super) const RULE: Rule = Rule { id: "iommu-translates", breaks: false, run };

fn run(view: &View) -> Vec<Raised> {
    let Some(reading) = view.machine.iommu.as_ref().filter(|r| r.value == IommuDomain::Translated) else {
        return Vec::new();
    };
    let logged = reading.standing > Standing::Requested;
    let measured = match logged {
        true => "the kernel's default domain is of type Translated".to_owned(),
        false => format!("the kernel was started with {}, and no iommu=pt", asked_for(view, &reading.origin)),
    };
    let over_pcie = view.gpu_pairs().iter().any(|(a, b)| view.class(*a, *b).is_none_or(PathClass::is_pcie));
    let with_nics = view.of_kind(NodeKind::Gpu).iter().any(|_| !view.rdma_nics().is_empty());
    let matters = over_pcie || with_nics;
    let finding = Finding {
        summary: "An IOMMU translates what devices access: peer traffic over PCIe may be slow or hang".to_owned(),
        expected: "an IOMMU that is off or passes (iommu=pt), where GPUs and NICs are to reach each other over PCIe"
            .to_owned(),
        measured,
        evidence: view.cite([&reading.origin]),
        fix: "Boot with `iommu=pt` (and keep ACS redirection off); turn the IOMMU off in the BIOS where no virtual \
               machine needs it."
            .to_owned(),
        confirm: "`peerlane measure --tests pairs`: a tenth of what the path should give, or a hang, is its sign"
            .to_owned(),
        ..Finding::of(
            &RULE,
            FindingKind::Design,
            if matters { Severity::Warning } else { Severity::Info },
            if logged { Certainty::Certain } else { Certainty::Likely },
            Vec::new(),
        )
    };
    vec![Raised::new(finding, 0.0)]
}

/// The words of the command line there that speak of the IOMMU.
fn asked_for(view: &View, origin: &Origin) -> String {
    let kernels = view.kernels();
    let parameters = kernels.iter().filter(|(_, at)| *at == origin).flat_map(|(kernel, _)| &kernel.parameters);
    let words: Vec<&str> = parameters.map(String::as_str).filter(|p| p.contains("iommu")).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::testing::{boxes, captured, findings, state};
    use super::*;
    use peerlane_machine::fact::{Fact, KernelFacts};

    fn found(words: &str, iommu: Option<IommuDomain>) -> Vec<(Severity, Certainty)> {
        let mut machine = captured(boxes(&[2], true));
        let parameters = words.split_whitespace().map(str::to_owned).collect();
        state(&mut machine, "kernel log", Fact::Kernel(KernelFacts { parameters, iommu, ..KernelFacts::default() }));
        machine.iommu = peerlane_read::assemble::standing::iommu(&machine.evidence, None);
        findings(&machine, run).into_iter().map(|f| (f.severity, f.certainty)).collect()
    }

    #[test]
    fn on_without_passing() {
        assert_eq!(found("intel_iommu=on", None), [(Severity::Warning, Certainty::Likely)]);
        assert_eq!(found("", Some(IommuDomain::Translated)), [(Severity::Warning, Certainty::Certain)]);
        for passing in ["intel_iommu=on iommu=pt", "amd_iommu=on iommu.passthrough=1", "iommu=pt", "pci=realloc"] {
            assert_eq!(found(passing, None), [], "{passing}");
        }
        assert_eq!(found("intel_iommu=on", Some(IommuDomain::Passthrough)), []);
    }
}
