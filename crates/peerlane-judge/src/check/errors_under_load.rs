//! Counters of errors that rose while something was measured.

use std::collections::{BTreeMap, BTreeSet};

use super::prelude::*;
use peerlane_machine::counter::ErrorCounter;
use peerlane_machine::names::natural;
use peerlane_measure::run::{Counted, Run};

pub(super) const RULE: Rule = Rule::new("errors-under-load", Many(run));

/// Errors in a run that are chance: one bit in 10¹² may be wrong (PCI Express Base Specification; InfiniBand has the same),
/// and a run moves some 10¹³. NVIDIA's DCGM fails an NVLink at its first replay; its links are no better by specification.
const FEW: u64 = 16;

/// Checksum errors a second below which NVLinks lose nothing: "CRC errors only matter at rates of 100+ per second"
/// (NVIDIA DCGM, `DCGM_LIMIT_MAX_NVLINK_CRC_ERROR`).
const CRC_A_SECOND: f64 = 100.0;

/// Where errors come from, by which they are fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Memory,
    Nvlink,
    Pcie,
    Port,
}

/// What rose of one part.
#[derive(Default)]
struct Risen {
    severity: Option<Severity>,
    by_counter: BTreeMap<(String, ErrorCounter), u64>,
    links: BTreeMap<String, BTreeSet<u8>>,
    tests: Vec<String>,
}

fn run(view: &View) -> Vec<Raised> {
    let Some(run) = view.case.run() else { return Vec::new() };
    let mut totals: BTreeMap<(&str, ErrorCounter), u64> = BTreeMap::new();
    for rise in run.counters.iter().flat_map(|counted| &counted.errors) {
        *totals.entry((&rise.of, rise.counter)).or_default() += rise.by;
    }
    let mut parts: BTreeMap<Part, Risen> = BTreeMap::new();
    for ((of, counter), by) in totals {
        let Some((part, severity)) = judge(run, counter, by) else { continue };
        let risen = parts.entry(part).or_default();
        risen.severity = risen.severity.max(Some(severity));
        risen.by_counter.insert((of.to_owned(), counter), by);
        for counted in &run.counters {
            let of_it = counted.errors.iter().filter(|rise| rise.of == of && rise.counter == counter);
            for rise in of_it {
                risen.links.entry(of.to_owned()).or_default().extend(rise.link);
                risen.tests.extend(tests_of(run, counted));
            }
        }
    }
    parts.into_iter().map(|(part, risen)| report(view, part, risen)).collect()
}

/// The families of the steps that ran meanwhile.
fn tests_of(run: &Run, counted: &Counted) -> BTreeSet<String> {
    let cells = run.cells.iter().filter(|cell| counted.steps.contains(&cell.step));
    cells.map(|cell| cell.test.to_string()).collect()
}

/// What so many errors of a counter mean; `None` where they are chance, or another rule's.
fn judge(run: &Run, counter: ErrorCounter, by: u64) -> Option<(Part, Severity)> {
    use ErrorCounter as C;
    let (part, severity, most) = match counter {
        // of pcie-replays
        C::PcieReplay => return None,
        C::EccUncorrected => (Part::Memory, Error, 0),
        C::EccCorrected => (Part::Memory, Info, FEW),
        C::NvlinkRecovery => (Part::Nvlink, Warning, 0),
        C::NvlinkReplay => (Part::Nvlink, Warning, FEW),
        C::NvlinkCrc => (Part::Nvlink, Warning, (CRC_A_SECOND * run.wall.seconds().max(1.0)) as u64),
        C::AerFatal => (Part::Pcie, Error, 0),
        C::AerNonfatal => (Part::Pcie, Warning, 0),
        C::AerCorrectable => (Part::Pcie, Warning, FEW),
        C::PortDowned | C::PortRecovery => (Part::Port, Warning, 0),
        C::PortReceive | C::PortIntegrity | C::PortSymbol => (Part::Port, Warning, FEW),
        C::PortRetransmission | C::PortOutOfSequence | C::PortSequenceNak | C::PortAckTimeout => {
            (Part::Port, Info, FEW)
        }
        C::PortDiscard => (Part::Port, Warning, FEW),
    };
    (by > most).then_some((part, severity))
}

fn report(view: &View, part: Part, risen: Risen) -> Raised {
    let mut names = distinct(risen.by_counter.keys().map(|(of, _)| of.clone()));
    names.sort_by(|a, b| natural(a).cmp(&natural(b)));
    let shown = list(&names);
    let counts = risen.by_counter.iter().map(|((of, counter), by)| {
        let links = risen.links.get(of).filter(|links| counter.is_nvlink() && !links.is_empty());
        let links = links.map(|links| {
            let links: Vec<String> = links.iter().map(u8::to_string).collect();
            format!(" (link {})", links.join(", "))
        });
        format!("{of} {counter} +{by}{}", links.unwrap_or_default())
    });
    let counts: Vec<String> = counts.collect();
    // the steps may be known and have no value
    let tests = match distinct(risen.tests).as_slice() {
        [] => String::new(),
        tests => format!(" in {}", list(tests)),
    };
    let (summary, expected, fix, confirm) = match part {
        Part::Memory => (
            format!("{shown} had errors of its memory during the run"),
            format!("no uncorrected error, and at most {FEW} corrected ones in a run"),
            "Drain the GPU and reset it, so that the rows are remapped; if uncorrected errors come back, run `dcgmi diag -r 3` and \
             replace it.",
            "`nvidia-smi -q -d ECC,ROW_REMAPPER`",
        ),
        Part::Nvlink => (
            format!("NVLinks of {shown} had errors under load"),
            format!(
                "no retraining, at most {FEW} replays in a run, and fewer than {CRC_A_SECOND} checksum errors a second"
            ),
            "Reset the GPU; if the errors come back, reseat it, its bridge or its baseboard. On an NVSwitch system, check the fabric \
             manager's log for the same link.",
            "`nvidia-smi nvlink -e` before and after `peerlane measure --tests pairs,pairs-both`",
        ),
        Part::Pcie => (
            format!("PCIe errors at {shown} rose under load"),
            format!("no uncorrectable error, and at most {FEW} correctable ones in a run"),
            "Reseat the card and its riser or cable. A riser or cable that is not rated for the generation makes errors; lower the \
             link speed in the BIOS to find out.",
            "`dmesg | grep AER`, and `lspci -vvv` before and after `peerlane measure --tests host`",
        ),
        Part::Port => (
            format!("Error counters of the port {shown} rose during the run"),
            format!("no retraining and at most {FEW} errors in a run"),
            "Clean or replace the cable and its transceiver, then try another port of the switch.",
            "`perfquery -x` or `mlxlink -d DEVICE -c` before and after traffic",
        ),
    };
    // of a bridge or a port: the node at that address, or of that adapter
    let node = |of: &String| {
        let by_address = || of.parse().ok().and_then(|address| view.at(address)).map(|id| view.name(id).to_owned());
        let adapter = of.split('/').next().unwrap_or(of);
        let named = [of.as_str(), adapter].into_iter().find(|name| view.fabric().find(name).is_some());
        named.map(str::to_owned).or_else(by_address)
    };
    let severity = risen.severity.unwrap_or(Warning);
    // what is corrected costs nothing yet: that the part is failing is only possible
    RULE.raise(Fault, severity, if severity == Error { Likely } else { Possible })
        .repaired_by_reset()
        .summary(summary)
        .expected(expected)
        .measured(format!("{}{tests}", counts.join("; ")))
        .evidence(view.cite_run())
        .fix(fix)
        .confirm(confirm)
        .about_nodes(names.iter().filter_map(node))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, measured, switched};
    use super::*;
    use peerlane_measure::run::Rise;

    /// What is found where these counters of GPU1 rose by so much, each in a family of its own.
    fn risen(errors: &[(ErrorCounter, u64)]) -> Vec<(Severity, String)> {
        let mut case = measured(switched(2), [(("GPU0", "GPU1"), Ok(12.0))]);
        let counters = errors.iter().map(|(counter, by)| {
            let link = counter.is_nvlink().then_some(3);
            let errors = vec![Rise { counter: *counter, of: "GPU1".to_owned(), link, by: *by }];
            let (moved, nvlinks, gpus, spent, reading) = Default::default();
            Counted { steps: vec![0], moved, nvlinks, read: ErrorCounter::ALL.to_vec(), errors, gpus, spent, reading }
        });
        case.run.as_mut().unwrap().run.counters = counters.collect();
        let found = findings(&case, run);
        assert!(found.iter().all(|f| f.subjects == Subject::nodes_of(["GPU1"])));
        found.into_iter().map(|f| (f.severity, f.measured)).collect()
    }

    #[test]
    fn errors_of_one_part_are_one_finding() {
        use ErrorCounter as C;
        let found =
            risen(&[(C::NvlinkReplay, 10), (C::NvlinkReplay, 7), (C::NvlinkRecovery, 1), (C::EccUncorrected, 2)]);
        let nvlink = "GPU1 nvlink-replay +17 (link 3); GPU1 nvlink-recovery +1 (link 3) in pairs";
        assert_eq!(found, [(Error, "GPU1 ecc-uncorrected +2 in pairs".to_owned()), (Warning, nvlink.to_owned())]);
    }

    #[test]
    fn what_is_chance_is_silent() {
        use ErrorCounter as C;
        let few = [(C::NvlinkReplay, 16), (C::NvlinkCrc, 100), (C::AerCorrectable, 3), (C::EccCorrected, 2)];
        assert_eq!(risen(&few), []);
        assert_eq!(risen(&[(C::PcieReplay, 1000)]), [], "pcie-replays reports it");
        assert_eq!((risen(&[(C::NvlinkCrc, 101)]).len(), risen(&[(C::AerNonfatal, 1)]).len()), (1, 1));
    }

    #[test]
    fn an_adapter_that_the_machine_does_not_have_is_no_subject() {
        let mut case = measured(switched(2), []);
        let errors = vec![Rise { counter: ErrorCounter::PortDowned, of: "mlx5_0/1".to_owned(), link: None, by: 1 }];
        let (moved, nvlinks, gpus, spent, reading) = Default::default();
        let counted = Counted { steps: vec![], moved, nvlinks, read: vec![], errors, gpus, spent, reading };
        case.run.as_mut().unwrap().run.counters = vec![counted];
        assert!(findings(&case, run)[0].subjects.is_empty());
    }
}
