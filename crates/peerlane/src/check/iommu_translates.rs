//! An IOMMU that translates what devices access, and with it what GPUs and NICs send each other over PCIe.

use super::view::{Raised, View};
use super::{Certainty, Finding, FindingKind, Rule, Severity};
use crate::evidence::IommuDomain;
use crate::fabric::{NodeKind, PathClass};

pub(super) const RULE: Rule = Rule { id: "iommu-translates", breaks: false, run };

fn run(view: &View) -> Vec<Raised> {
    let kernels = view.kernels();
    // the log says what came of it; the command line only what was asked for
    let logged = kernels.iter().find_map(|(k, origin)| Some((k.iommu?, *origin)));
    let asked = || kernels.iter().find(|(k, _)| translates(&k.parameters)).map(|(k, o)| (asked_for(&k.parameters), *o));
    let (observed, origin) = match logged {
        Some((IommuDomain::Passthrough, _)) => return Vec::new(),
        Some((IommuDomain::Translated, origin)) => {
            ("the kernel's default domain is of type Translated".to_owned(), origin)
        }
        None => match asked() {
            Some((words, origin)) => (format!("the kernel was started with {words}, and no iommu=pt"), origin),
            None => return Vec::new(),
        },
    };
    let over_pcie = view.gpu_pairs().iter().any(|(a, b)| view.class(*a, *b).is_none_or(PathClass::is_pcie));
    let with_nics = view.of_kind(NodeKind::Gpu).iter().any(|_| !view.rdma_nics().is_empty());
    let matters = over_pcie || with_nics;
    let finding = Finding {
        summary: "An IOMMU translates what devices access: peer traffic over PCIe may be slow or hang".to_owned(),
        expected: "an IOMMU that is off or passes (iommu=pt), where GPUs and NICs are to reach each other over PCIe"
            .to_owned(),
        observed,
        evidence: view.cite([origin]),
        mend: "Boot with `iommu=pt` (and keep ACS redirection off); turn the IOMMU off in the BIOS where no virtual \
               machine needs it."
            .to_owned(),
        confirm: "`peerlane measure --tests pairs`: a tenth of what the path should give, or a hang, is its sign"
            .to_owned(),
        ..Finding::of(
            &RULE,
            FindingKind::Design,
            if matters { Severity::Warning } else { Severity::Info },
            if logged.is_some() { Certainty::Certain } else { Certainty::Likely },
            Vec::new(),
        )
    };
    vec![Raised::new(finding, 0.0)]
}

fn translates(parameters: &[String]) -> bool {
    let has = |words: &[&str]| parameters.iter().any(|p| words.contains(&p.as_str()));
    let on = parameters.iter().any(|p| p.starts_with("intel_iommu=on") || p.starts_with("amd_iommu=on"))
        || has(&["iommu=on", "iommu=force", "iommu.passthrough=0", "iommu=nopt"]);
    let passes = has(&["iommu=pt", "iommu=off", "iommu.passthrough=1", "intel_iommu=off", "amd_iommu=off"])
        || parameters.iter().any(|p| p.strip_prefix("iommu=").is_some_and(|v| v.split(',').any(|w| w == "pt")));
    on && !passes
}

fn asked_for(parameters: &[String]) -> String {
    let words: Vec<&str> = parameters.iter().map(String::as_str).filter(|p| p.contains("iommu")).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::testing::{boxes, captured, findings, state};
    use super::*;
    use crate::evidence::{Fact, KernelFacts};

    fn found(words: &str, iommu: Option<IommuDomain>) -> Vec<(Severity, Certainty)> {
        let mut machine = captured(boxes(&[2], true));
        let parameters = words.split_whitespace().map(str::to_owned).collect();
        state(&mut machine, "kernel log", Fact::Kernel(KernelFacts { parameters, iommu, ..KernelFacts::default() }));
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
