//! What tools report of the health of parts: states, counters of errors, and results of tests that are not as they should be.

use std::collections::BTreeMap;

use super::prelude::*;
use peerlane_machine::fact::{Area, Grade, HealthReport, Trouble};

pub(super) const RULE: Rule = Rule::new("reported-health", Many(run));

/// Parts or values that are named; the others are counted.
const SHOWN: usize = 6;

/// How much less a failing pod or test is weighed than a message that says why.
const SYMPTOM: f64 = 0.85;

/// The reports of health, with where they stand.
fn reports<'a>(view: &View<'a>) -> impl Iterator<Item = (&'a HealthReport, &'a Origin)> {
    view.facts(|fact| if let Fact::Health(report) = fact { Some(report) } else { None })
}

/// What reports of health are about, in the words of what was checked. What can be used and how it is set are no states.
pub(super) fn areas(view: &View) -> Vec<&'static str> {
    // the start of a program, and pods that have just begun, show no state yet
    let begins = |report: &HealthReport| {
        let notes = report.troubles.iter().all(|trouble| trouble.grade == Grade::Note);
        matches!(report.area, Area::Program | Area::Pod) && report.sound == 0 && notes
    };
    let states =
        reports(view).filter(|(report, _)| !matches!(report.area, Area::Transport | Area::Setting) && !begins(report));
    distinct(states.map(|(report, _)| of_area(report.area).checked))
}

fn run(view: &View) -> Vec<Raised> {
    let mut groups: BTreeMap<(Area, Grade), Vec<(&Trouble, &Origin)>> = BTreeMap::new();
    for (report, origin) in reports(view) {
        for trouble in &report.troubles {
            groups.entry((report.area, trouble.grade)).or_default().push((trouble, origin));
        }
    }
    groups.into_iter().map(|((area, grade), of)| report(view, area, grade, &of)).collect()
}

/// The texts of an area.
struct Words {
    checked: &'static str,
    summary: &'static str,
    expected: &'static str,
    fix: &'static str,
    confirm: &'static str,
}

fn report(view: &View, area: Area, grade: Grade, of: &[(&Trouble, &Origin)]) -> Raised {
    let words = of_area(area);
    let (kind, severity, certainty) = match grade {
        Grade::Note => (Measurement, Info, Certain),
        Grade::Limit => (Design, Warning, Likely),
        Grade::Suspect => (Fault, Warning, Possible),
        Grade::Fault => (Fault, Error, Likely),
    };
    let state = |one: &Trouble| format!("{} {}", one.what, one.value).trim().to_owned();
    let named = |one: &Trouble| one.part.as_ref().map_or_else(|| state(one), |part| format!("{part}: {}", state(one)));
    let mut all: Vec<String> = distinct(of.iter().map(|(one, _)| named(one)));
    // what a program reached comes before what it is
    if (area, grade) == (Area::Program, Grade::Note) {
        all.sort_by_key(|words| !words.contains("at best "));
    }
    let more = all.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    let shown = all.iter().take(SHOWN).cloned().collect::<Vec<_>>().join("; ") + &more;
    let summary = match (area, grade) {
        (Area::Driver, Grade::Note) => "Devices have other drivers than their makers'",
        (Area::Test, Grade::Limit) => "A test shows what limits the machine",
        (Area::Test, Grade::Note) => "What tests measured or say",
        (Area::NetworkLink, Grade::Note) => "How links of network ports run",
        (Area::Program, Grade::Note) => "What a program reports about itself",
        (Area::Pod, Grade::Note) => "Pods are not ready yet, or were started again",
        _ => words.summary,
    };
    let raised = RULE
        .raise(kind, severity, certainty)
        .summary(format!("{summary}: {shown}"))
        .expected(words.expected)
        .measured(shown)
        .evidence(view.cite(of.iter().map(|(_, origin)| *origin)))
        .fix(match (area, grade) {
            (Area::Test, Grade::Limit) => "Nothing is broken: what is named sets the rate. To go beyond it, replace that part or use several at once.",
            (Area::Program | Area::Test, Grade::Note) => "Nothing by itself: compare the figures with those of a run that is known to be good.",
            _ => words.fix,
        })
        .confirm(words.confirm)
        .about_nodes(distinct(of.iter().filter_map(|(one, _)| one.part.clone())));
    // a pod or a test that fails is what a cause, which a program's own message names, leads to
    if matches!(area, Area::Pod | Area::Test) { raised.losing(SYMPTOM) } else { raised }
}

fn of_area(area: Area) -> Words {
    match area {
        Area::Pcie => Words {
            checked: "PCIe errors",
            summary: "PCIe links have logged errors, or run below what they can",
            expected: "status bits and counters of errors that are clear, and links at full width",
            fix: "Bits and counters stay set until they are cleared: clear them, put load on the link and read them again. If \
                  they come back, reseat the card, replace its riser or cable, or try another slot; a link that fell back in width \
                  or speed as well has a bad contact or riser.",
            confirm: "`dmesg | grep -i aer`; `lspci -vvv -s DEVICE | grep -E 'LnkSta|UESta|CESta'` under load",
        },
        Area::Driver => Words {
            checked: "drivers",
            summary: "Devices do not have the driver that programs need",
            expected: "the vendor's driver",
            fix: "Load the vendor's driver, and keep others from taking the device (a file in /etc/modprobe.d). A device of vfio-pci \
                  belongs to a virtual machine.",
            confirm: "`lspci -k -s DEVICE`; `dmesg | grep -i nvidia`",
        },
        Area::NetworkLink => Words {
            checked: "links of network ports",
            summary: "Links of network ports are down, slower than they can be, or have counted errors",
            expected: "a link that is up at full speed, without errors",
            fix: "Clear the counters and read them again under load: those that stand still are history. If they rise, clean or \
                  replace the cable and its transceivers, then try another port of the switch. A port that is not used may stay down.",
            confirm: "`mlxlink -d DEVICE -c -e`; `ethtool -S INTERFACE`; `perfquery`",
        },
        Area::Congestion => Words {
            checked: "losses of network ports",
            summary: "Network ports have dropped packets, sent them again, or were asked to wait",
            expected: "no losses",
            fix: "Compare the counters before and after a job. If they rise, make MTU, PFC and ECN the same on both ends and on all \
                  switches between them, and look for a receiver that its PCIe link or its host memory slows down.",
            confirm: "`ethtool -S INTERFACE | grep -E 'discard|pause|out_of'` and `rdma statistic` before and after a job",
        },
        Area::Gpu => Words {
            checked: "errors of GPUs",
            summary: "GPUs failed a test, or have counted errors",
            expected: "every test passes, and no errors that could not be corrected",
            fix: "Read the kernel log for Xid errors of that GPU, reset it, and run a failing test alone while nothing else uses it. If \
                  errors come back, have it serviced.",
            confirm: "`dcgmi diag -r 3 -i GPU`; `nvidia-smi -q`; `dmesg | grep -i xid`",
        },
        Area::Domain => Words {
            checked: "NVLink domain",
            summary: "Hosts of the NVLink domain are not connected",
            expected: "every host READY, and the domain UP",
            fix: "Start nvidia-imex on the hosts that are named, with the same list of addresses on all, and let its port (50000) pass. \
                  GPUs of different hosts share no memory until all are connected.",
            confirm: "`nvidia-imex-ctl -N` on every host",
        },
        Area::Transport => Words {
            checked: "transports",
            summary: "A communication library lacks transports",
            expected: "transports for RDMA and for GPU memory, where the machine has both",
            fix: "Install the library with support for the network and the GPUs (UCX with CUDA or ROCm and gdrcopy; libfabric with its \
                  provider for the network), and load their kernel modules.",
            confirm: "`ucx_info -d`; `fi_info`",
        },
        Area::Setting => Words {
            checked: "settings",
            summary: "The build or a setting may cost rate",
            expected: "slots with as many lanes as their connectors, flow control for RoCE, and packets as large as the port allows",
            fix: "Put a card that needs more lanes into a wider slot. Where RoCE runs without loss control of its own, turn on PFC for its \
                  priority, the same on adapters and switches. A small active_mtu follows from the interface's MTU: raise it \
                  (`ip link set INTERFACE mtu 9000`), on the switches and the other end too.",
            confirm: "`lspci -vvv -s DEVICE | grep LnkSta`; `mlnx_qos -i INTERFACE`; `ibv_devinfo | grep active_mtu`",
        },
        Area::Node => Words {
            checked: "scheduler's checks",
            summary: "Nodes are out of service, or held back by the scheduler's checks",
            expected: "no failed check",
            fix: "Find the part that is named, and read its own state. Slurm's reasons: `sinfo -R`, `scontrol show node NODE`; Kubernetes': \
                  `kubectl describe node NODE`. A node that offers no GPU: its device plugin does not run there, or found no healthy \
                  device (its log says which). The node stays out of service until it is repaired and resumed.",
            confirm: "`sinfo -R` or `kubectl describe node NODE`; the check by hand on that node",
        },
        Area::Pod => Words {
            checked: "pods",
            summary: "Pods of the cluster do not run",
            expected: "pods that run, or that have completed",
            fix: "`kubectl describe pod POD` (Events, at its end) says why one waits or is not created, `kubectl logs POD --previous` what a container \
                  said before it ended. A pod of the GPU operator or of a device plugin that does not run leaves its node without GPUs for all others.",
            confirm: "`kubectl get events --sort-by=.lastTimestamp`; `kubectl logs POD --previous`",
        },
        Area::Test => Words {
            checked: "results of tests",
            summary: "A test program reports failures",
            expected: "no failures and no errors",
            fix: "Read the program's own output above its result, and run the failing part alone. Drivers and libraries must fit each \
                  other: reload kernel modules that were built for another driver.",
            confirm: "the same test again",
        },
        Area::Job => Words {
            checked: "state of collectives",
            summary: "Collectives of the job do not complete on all ranks",
            expected: "all ranks at the same operation",
            fix: "Look at the ranks that are behind or missing first: a process that ended, a host that hangs, or a rank that called \
                  another collective. The others only wait for them.",
            confirm: "the stack of the ranks that are behind (`py-spy dump`); `dmesg` on their hosts",
        },
        Area::Program => Words {
            checked: "work of the program",
            summary: "A program's own work fails or has to wait",
            expected: "requests that are answered at once, and steps with losses that are numbers",
            fix: "Where requests wait for room in the KV cache, give it more of the GPU's memory: a smaller or quantized model, a quantized \
                  cache, a shorter context, fewer requests at once, more GPUs. A loss that is no number means that the training diverged, \
                  or that a GPU computes wrongly where it is always the same one. A failed request has its traceback above it.",
            confirm: "the same numbers of the log over time; `nvidia-smi -q` while it runs",
        },
        Area::Overlap => Words {
            checked: "overlap of communication",
            summary: "GPUs wait in a profiled job",
            expected: "communication beside computing, and kernels all the time",
            fix: "Hide communication: smaller or earlier gradient buckets, prefetched parameters, collectives on a stream of their own. Where \
                  it cannot be hidden, make it shorter: `peerlane predict --collectives` says what the machine should reach, and the shortest \
                  time of a size, which -v shows, what it reached at least; `peerlane simulate SYSTEM -w FILE --helps` plays the profile and says what a faster link would give. Where no kernel runs, the host is slow to launch: larger batches, CUDA graphs.",
            confirm: "a profile of later steps without record_shapes and with_stack, which slow the host down",
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, state, switched};
    use super::*;
    use crate::verdict::Verdict;

    fn found(grade: Option<Grade>) -> Vec<crate::finding::Finding> {
        let mut machine = switched(1);
        let trouble = |grade| Trouble {
            part: Some("mlx5_0/1".to_owned()),
            what: "symbol_error".to_owned(),
            value: "12".to_owned(),
            grade,
        };
        let report =
            HealthReport { area: Area::NetworkLink, sound: 3, troubles: grade.map(trouble).into_iter().collect() };
        state(&mut machine, "perfquery", Fact::Health(report));
        findings(&machine, run)
    }

    #[test]
    fn grades_decide_the_verdict() {
        for (grade, verdict) in [
            (Grade::Note, None),
            (Grade::Limit, Some(Verdict::Limited)),
            (Grade::Suspect, Some(Verdict::Unexplained)),
            (Grade::Fault, Some(Verdict::Fault)),
        ] {
            let all = found(Some(grade));
            assert_eq!((all.len(), all[0].contributes()), (1, verdict), "{grade:?}");
            assert!(all[0].summary.ends_with("mlx5_0/1: symbol_error 12"), "{}", all[0].summary);
        }
        assert_eq!(found(None), []);
    }
}
