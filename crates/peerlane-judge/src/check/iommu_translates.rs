//! An IOMMU that translates device accesses, and so slows PCIe traffic between GPUs and NICs.

use super::prelude::*;
use peerlane_machine::fact::IommuDomain;
use peerlane_machine::machine::reading::Standing;

pub(super) const RULE: Rule = Rule::new("iommu-translates", One(run));

fn run(view: &View) -> Option<Raised> {
    // accesses that it refuses are worse than slow ones, and reported by kernel-errors
    if view.kernels().iter().any(|(log, _)| log.iommu_faults.iter().any(|f| f.gpu || view.at(f.address).is_some())) {
        return None;
    }
    let reading = view.machine.iommu.as_ref().filter(|r| r.value == IommuDomain::Translated)?;
    let logged = reading.standing > Standing::Requested;
    let measured = match logged {
        true => "the kernel's default domain type is Translated".to_owned(),
        false => format!("the kernel was booted with {}, without iommu=pt", requested(view, &reading.origin)),
    };
    let over_pcie = view.gpu_pairs().iter().any(|(a, b)| view.class(*a, *b).is_none_or(PathClass::is_pcie));
    let with_nics = !view.of_kind(NodeKind::Gpu).is_empty() && !view.rdma_nics().is_empty();
    let severity = if over_pcie || with_nics { Warning } else { Info };
    let raised = RULE
        .raise(Design, severity, if logged { Certain } else { Likely })
        .summary("The IOMMU translates device accesses: peer traffic over PCIe may be slow or hang")
        .expected("an IOMMU that is off or in passthrough mode (iommu=pt), for PCIe traffic between GPUs and NICs")
        .measured(measured)
        .evidence(view.cite([&reading.origin]))
        .fix(
            "Boot with `iommu=pt`, and keep ACS redirection off. If no virtual machines need the IOMMU, disable it in the \
             BIOS.",
        )
        .confirm("`peerlane measure --tests pairs`: a tenth of the expected rate, or a hang, confirms it");
    Some(raised)
}

/// The parameters of the command line there that concern the IOMMU.
fn requested(view: &View, origin: &Origin) -> String {
    let kernels = view.kernels();
    let parameters = kernels.iter().filter(|(_, at)| *at == origin).flat_map(|(kernel, _)| &kernel.parameters);
    parameters.map(String::as_str).filter(|p| p.contains("iommu")).collect::<Vec<_>>().join(" ")
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
        assert_eq!(found("intel_iommu=on", None), [(Warning, Likely)]);
        assert_eq!(found("", Some(IommuDomain::Translated)), [(Warning, Certain)]);
        for passing in ["intel_iommu=on iommu=pt", "amd_iommu=on iommu.passthrough=1", "iommu=pt", "pci=realloc"] {
            assert_eq!(found(passing, None), [], "{passing}");
        }
        assert_eq!(found("intel_iommu=on", Some(IommuDomain::Passthrough)), []);
    }
}
