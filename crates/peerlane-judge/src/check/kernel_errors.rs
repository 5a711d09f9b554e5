//! What the kernel logged about GPUs, NVSwitches and PCIe links: Xid and SXid errors, advanced error reports, accesses that
//! the IOMMU refused, and memory windows without address space.

mod pcie;
mod xids;

use std::collections::{BTreeMap, BTreeSet};

use super::gpu_setting::gpus_with;
use super::prelude::*;
use peerlane_machine::fabric::PciAddress;
use peerlane_machine::fact::{GpuFacts, KernelFacts, Logged, PcieErrorKind, SwitchXid, Unassigned};
use peerlane_machine::units::Bytes;
use peerlane_read::knowledge::Weight;
use xids::{About, FELL_OFF, LINK_EVENT, fix, meaning, sxid};

pub(super) const RULE: Rule = Rule::new("kernel-errors", Many(run));

/// Corrected errors up to this many are chance: one bit in 10¹² may be wrong (PCI Express Base Specification).
const FEW: u32 = 16;

/// Devices with how often each had an error.
type Counts = BTreeMap<PciAddress, u32>;

fn run(view: &View) -> Vec<Raised> {
    let logs: Vec<&KernelFacts> = view.kernels().into_iter().map(|(log, _)| log).collect();
    let log = Log::of(&logs);
    let mut raised = xid_findings(view, &log);
    if raised.iter().all(|r| r.finding.severity < Error) {
        raised.extend(asked_for(view));
    }
    raised.extend(switch_errors(view, &logs));
    raised.extend(pcie::errors(view, &log, &logs));
    raised.extend(refused_accesses(view, &logs));
    raised.extend(no_address_space(view, &logs));
    raised.extend(hardware_errors_of_amd(view, &logs));
    raised
}

/// All logs together.
struct Log {
    /// By code.
    xids: BTreeMap<u32, Counts>,
    /// Devices and codes whose errors were none of them fatal, as the driver states.
    harmless: BTreeSet<(PciAddress, u32)>,
    /// What the driver asks for, by GPU.
    recovery: BTreeMap<PciAddress, String>,
    /// GPUs that are gone.
    lost: Counts,
    pcie: BTreeMap<PcieErrorKind, Counts>,
}

impl Log {
    fn of(logs: &[&KernelFacts]) -> Self {
        let mut all = Log {
            xids: BTreeMap::new(),
            harmless: BTreeSet::new(),
            recovery: BTreeMap::new(),
            lost: Counts::new(),
            pcie: BTreeMap::new(),
        };
        for log in logs {
            for xid in &log.xids {
                *all.xids.entry(xid.code).or_default().entry(xid.address).or_default() += xid.count;
                if xid.fatal == Some(false) {
                    all.harmless.insert((xid.address, xid.code));
                }
            }
            for error in &log.pcie_errors {
                *all.pcie.entry(error.kind).or_default().entry(error.address).or_default() += error.count;
            }
            for address in &log.lost {
                *all.lost.entry(*address).or_default() += 1;
            }
            all.recovery.extend(log.recovery.iter().map(|r| (r.address, r.action.clone())));
        }
        if let Some(known) = all.xids.get(&FELL_OFF) {
            for (address, count) in known {
                all.lost.retain(|lost, _| !lost.same_device(*address));
                all.lost.insert(*address, *count);
            }
        }
        all
    }

    /// Whether an error is news: what a GPU logs after it is gone follows from that, and so do errors of programs on a GPU
    /// with an error of its own.
    fn counts(&self, code: u32, address: PciAddress) -> bool {
        let about = meaning(code).0;
        let same = |other: &PciAddress| other.same_device(address);
        let is_hardware = |code: u32| !matches!(meaning(code).0, About::Program | About::Unknown);
        match about {
            About::Lost => false,
            About::Program | About::Unknown => {
                let failed = |(code, gpus): (&u32, &Counts)| is_hardware(*code) && gpus.keys().any(same);
                !self.lost.keys().any(same) && !self.recovery.keys().any(same) && !self.xids.iter().any(failed)
            }
            About::Memory => true,
            _ => !self.lost.keys().any(same),
        }
    }
}

/// One finding for each kind of error.
fn xid_findings(view: &View, log: &Log) -> Vec<Raised> {
    let mut raised = Vec::new();
    let mut asked: BTreeSet<PciAddress> = log.recovery.keys().copied().collect();
    if !log.lost.is_empty() {
        asked.retain(|address| !log.lost.keys().any(|lost| lost.same_device(*address)));
        raised.push(lost(view, log));
    }
    let mut kinds: BTreeMap<About, Vec<(u32, Counts)>> = BTreeMap::new();
    for (code, devices) in &log.xids {
        let devices: Counts = devices.iter().filter(|(at, _)| log.counts(*code, **at)).map(|(a, n)| (*a, *n)).collect();
        if !devices.is_empty() {
            kinds.entry(meaning(*code).0).or_default().push((*code, devices));
        }
    }
    for (about, codes) in kinds {
        let hardware = !matches!(about, About::Program | About::Unknown);
        if hardware {
            asked.retain(|address| !codes.iter().any(|(_, devices)| devices.contains_key(address)));
        }
        raised.push(of_kind(view, log, about, &codes));
    }
    if !asked.is_empty() {
        raised.push(recovery(view, log, &asked));
    }
    raised
}

fn lost(view: &View, log: &Log) -> Raised {
    let by_xid = log.xids.contains_key(&FELL_OFF);
    let how = if by_xid { format!("(Xid {FELL_OFF})") } else { ", as the driver reports".to_owned() };
    let summary = |names| format!("{names}: fell off the bus{}{how}", if by_xid { " " } else { "" });
    let mut measured = match by_xid {
        true => format!("Xid {FELL_OFF}: {}", counts(view, &log.lost)),
        false => "\"fallen off the bus\" in the kernel log".to_owned(),
    };
    if let Some(port) = port_of_lost(view, log) {
        measured
            .push_str(&format!("; before it, fatal PCIe errors of {}, probably the port above it", name(view, port)));
    }
    report(view, Error, &log.lost, summary)
        .expected("a GPU that responds to the driver")
        .measured(measured)
        .fix(with_recovery(log, log.lost.keys(), fix(About::Lost, &[])))
        .confirm("`dmesg | grep -i NVRM`; `lspci -d 10de:` shows a lost GPU as (rev ff)")
}

/// The one device with fatal PCIe errors where one GPU fell off and its place is not known to be elsewhere.
fn port_of_lost(view: &View, log: &Log) -> Option<PciAddress> {
    let fatal = log.pcie.get(&PcieErrorKind::Fatal)?;
    let (port, gpu) = (fatal.keys().next()?, log.lost.keys().next()?);
    let known_elsewhere = || view.at(*gpu).is_some_and(|id| view.fabric().upstream(id).is_some());
    (fatal.len() == 1 && log.lost.len() == 1 && !port.same_device(*gpu) && !known_elsewhere()).then_some(*port)
}

/// Errors of one kind.
fn of_kind(view: &View, log: &Log, about: About, codes: &[(u32, Counts)]) -> Raised {
    let all: Counts = codes.iter().flat_map(|(_, devices)| devices).map(|(at, n)| (*at, *n)).collect();
    let severity = |(code, devices): &(u32, Counts)| match meaning(*code).1 {
        _ if devices.keys().all(|at| log.harmless.contains(&(*at, *code))) => Info,
        severity => severity,
    };
    let worst = codes.iter().map(severity).max().unwrap_or(Info);
    let numbers: Vec<String> = codes.iter().map(|(code, _)| code.to_string()).collect();
    let numbers = numbers.join(", ");
    let of_codes: Vec<String> =
        codes.iter().map(|(code, devices)| format!("Xid {code}: {}", counts(view, devices))).collect();
    let alone: Vec<u32> = codes.iter().map(|(code, _)| *code).collect();
    let what = distinct(codes.iter().map(|(code, _)| meaning(*code).2)).join("; ");
    let first = codes.iter().find(|(code, devices)| *code == LINK_EVENT && devices.len() < all.len());
    let summary = |names: String| match (about, first) {
        // the GPU whose link failed, and those that lost their partner
        (About::Nvlink, Some((code, devices))) => {
            let others = all.keys().filter(|at| !devices.contains_key(at));
            let others: Vec<String> = others.map(|at| shown(view, *at)).collect();
            let failed: Vec<String> = devices.keys().map(|at| shown(view, *at)).collect();
            let follow = verb(&others, "follows", "follow");
            let theirs = codes.iter().filter(|(known, _)| known != code).map(|(known, _)| known.to_string());
            let theirs = theirs.collect::<Vec<_>>().join(", ");
            format!("{}: NVLink failed (Xid {code}); {} {follow} (Xid {theirs})", list(&failed), list(&others))
        }
        (About::Nvlink, None) => format!("{names}: NVLink errors (Xid {numbers})"),
        (About::Program, _) => format!("{names}: errors of programs, not of the machine (Xid {numbers})"),
        (About::Unknown, _) if worst > Info => format!("{names}: Xid {numbers}, which is not known here"),
        (About::Unknown, _) => format!("{names}: Xid {numbers} in the kernel's log"),
        _ => format!("{names}: {what} (Xid {numbers})"),
    };
    let kind = if matches!(about, About::Program | About::Unknown) { Measurement } else { Fault };
    let mut of_xid = report(view, worst, &all, summary)
        .expected("no hardware Xid errors")
        .measured(of_codes.join("; "))
        .fix(with_recovery(log, all.keys(), fix(about, &alone)))
        .confirm("`dmesg | grep -i xid`");
    of_xid.finding.kind = kind;
    of_xid
}

/// GPUs for which the driver asks for an action, and no error says why.
fn recovery(view: &View, log: &Log, asked: &BTreeSet<PciAddress>) -> Raised {
    let devices: Counts = asked.iter().map(|address| (*address, 1)).collect();
    let actions = actions(log, asked.iter());
    report(view, Error, &devices, |names| format!("{names}: the driver asks for an action: {actions} (Xid 154)"))
        .expected("no recovery action")
        .measured(format!("Xid 154: {actions}"))
        .fix(
            "Stop the jobs on it and do what the driver asks for. If other Xid errors came before it in the log, they name \
             the cause.",
        )
        .confirm("`dmesg | grep -i xid`; `nvidia-smi -q | grep -i 'recovery action'`")
}

/// GPUs for which `nvidia-smi -q` shows that the driver asks for an action.
fn asked_for(view: &View) -> Option<Raised> {
    let gpus = gpus_with(view, |gpu| gpu.recovery.clone())?;
    let actions = distinct(gpus.values).join(", ");
    let raised = RULE
        .raise(Fault, Error, Certain)
        .summary(format!("{}: the driver asks for an action to recover: {actions}", list(&gpus.names)))
        .expected("GPU recovery action None")
        .measured(format!("GPU recovery action {actions}"))
        .evidence(view.cite(gpus.origins))
        .fix("Stop the jobs on it and do what the driver asks for. The kernel log names the error that came before (Xid).")
        .confirm("`nvidia-smi -q | grep -i 'recovery action'`; `dmesg | grep -i xid`")
        .about_nodes(gpus.names);
    Some(raised)
}

/// Advice that begins with what the driver asks for, where it does.
fn with_recovery<'a>(log: &Log, gpus: impl Iterator<Item = &'a PciAddress>, fix: &str) -> String {
    match actions(log, gpus) {
        none if none.is_empty() => fix.to_owned(),
        actions => format!("The driver asks for: {actions} (Xid 154). {fix}"),
    }
}

fn actions<'a>(log: &Log, gpus: impl Iterator<Item = &'a PciAddress>) -> String {
    distinct(gpus.filter_map(|gpu| log.recovery.get(gpu).cloned())).join(", ")
}

/// Fatal errors of NVSwitches, and, as a note, others.
fn switch_errors(view: &View, logs: &[&KernelFacts]) -> Vec<Raised> {
    let weight = |x: &SwitchXid| sxid(x.code).map_or(Weight::Note, |entry| entry.weight);
    let stalls = |x: &SwitchXid| !x.fatal && matches!(weight(x), Weight::Certain | Weight::Likely);
    let costs = |x: &SwitchXid| !x.fatal && matches!(weight(x), Weight::Possible | Weight::Limit);
    let of_class = |severity, class: &str, advice: &str, is_one: &dyn Fn(&SwitchXid) -> bool| {
        let errors: Vec<_> = logs.iter().flat_map(|log| &log.switch_xids).filter(|x| is_one(x)).collect();
        let mut devices = Counts::new();
        errors.iter().for_each(|x| *devices.entry(x.address).or_default() += x.count);
        let codes: BTreeSet<u32> = errors.iter().map(|x| x.code).collect();
        let fix = match codes.iter().map(|code| sxid(*code)).collect::<Option<Vec<_>>>().as_deref() {
            Some([entry]) if !entry.fix.is_empty() => entry.fix,
            _ => advice,
        };
        let codes: Vec<String> = codes.iter().map(u32::to_string).collect();
        let links: BTreeSet<u32> = errors.iter().flat_map(|x| &x.links).copied().collect();
        let links: Vec<String> = links.iter().take(8).map(u32::to_string).collect();
        let at = if links.is_empty() { String::new() } else { format!(", link {}", links.join(", ")) };
        let words = errors.iter().map(|x| {
            let what = sxid(x.code).map_or(x.what.as_str(), |entry| entry.summary);
            format!("SXid {} {}: {what}", x.code, name(view, x.address))
        });
        let measured = distinct(words).into_iter().take(6).collect::<Vec<_>>().join("; ");
        let summary = |names| format!("NVSwitch {names}: {class} (SXid {}{at})", codes.join(", "));
        (!devices.is_empty()).then(|| {
            report(view, severity, &devices, summary)
                .expected("no fatal NVSwitch errors")
                .measured(measured)
                .fix(fix)
                .confirm("`dmesg | grep -i sxid`; the fabric manager's log (`/var/log/fabricmanager.log`)")
        })
    };
    let restart = "Stop all jobs, then reset the GPUs and NVSwitches together by the fabric manager's guide, or restart the machine; in a \
                   virtual machine, the host must do this. If it recurs on the same link, have the baseboard serviced.";
    let watch = "If they occurred at start or at a reset, do nothing. If they recur while jobs run, read the fabric manager's log and \
                 the links' error counters (`nvidia-smi nvlink -e`).";
    let all = [
        of_class(Error, "fatal errors", restart, &|x| x.fatal),
        of_class(Error, "errors after which the traffic of a GPU stops", restart, &stalls),
        of_class(Warning, "errors that cost rate", watch, &costs),
        of_class(Info, "errors that are not fatal", watch, &|x| !x.fatal && !stalls(x) && !costs(x)),
    ];
    all.into_iter().flatten().collect()
}

/// Accesses of GPUs and adapters that the IOMMU refused.
fn refused_accesses(view: &View, logs: &[&KernelFacts]) -> Option<Raised> {
    let faults = || logs.iter().flat_map(|log| &log.iommu_faults);
    let mut devices = counted(view, faults());
    // an excerpt alone does not show what stands at an address
    let is_listed = view.fabric().nodes().iter().any(|node| node.address.is_some());
    let severity = if devices.is_empty() && !is_listed { Warning } else { Error };
    if severity == Warning {
        faults().for_each(|one| *devices.entry(one.address).or_default() += one.count);
    }
    let raised = report(view, severity, &devices, |names| format!("The IOMMU refuses accesses of {names} to memory"));
    let raised = raised
        .expected("no page faults of the IOMMU")
        .measured(format!("page faults in the kernel's log: {}", counts(view, &devices)))
        .fix(
            "Boot with `iommu=pt`, or turn the IOMMU off in the BIOS if no virtual machines need it. Until then, peer \
             copies may hang or corrupt data; NCCL_P2P_DISABLE=1 avoids them. If it recurs with `iommu=pt`, update the \
             driver.",
        )
        .confirm("`dmesg | grep -iE 'iommu|amd-vi|dmar'`; `cat /proc/cmdline`");
    (!devices.is_empty()).then_some(raised)
}

/// GPUs whose memory windows got no address space.
fn no_address_space(view: &View, logs: &[&KernelFacts]) -> Option<Raised> {
    let is_used = |w: &&Unassigned| w.gpu || is_large(w.size) || is_gpu(view, w.address);
    let windows = logs.iter().flat_map(|log| &log.unassigned).filter(is_used);
    let windows: Vec<_> = windows.collect();
    let devices: Counts = windows.iter().map(|w| (w.address, 1)).collect();
    let words = windows.iter().map(|w| {
        let size = w.size.map_or_else(String::new, |size| format!(" of {} MiB", size.0 >> 20));
        format!("{}: BAR {}{size}", name(view, w.address), w.bar)
    });
    let measured = distinct(words).join("; ");
    let summary = |names| format!("The board has no address space for the memory windows (BARs) of {names}");
    let raised = report(view, Error, &devices, summary)
        .expected("all BARs assigned: the driver cannot use the device otherwise")
        .measured(format!("failed to assign {measured}"))
        .fix(
            "Turn on \"Above 4G Decoding\" in the BIOS, if it has it, and boot with `pci=realloc`. If that does not \
             help, the board cannot use this device.",
        )
        .confirm("`dmesg | grep BAR`; `lspci -vv -s DEVICE | grep Region`");
    (!devices.is_empty()).then_some(raised)
}

/// Uncorrectable errors that AMD's driver reports.
fn hardware_errors_of_amd(view: &View, logs: &[&KernelFacts]) -> Option<Raised> {
    let devices = counted(view, logs.iter().flat_map(|log| &log.uncorrectable));
    let raised = report(view, Error, &devices, |names| format!("{names}: uncorrectable hardware errors"))
        .expected("no uncorrectable hardware errors")
        .measured(format!("errors that amdgpu logged: {}", counts(view, &devices)))
        .fix(
            "Stop the jobs on it, and reset the GPU (`amd-smi reset --gpureset`) or restart the machine. If it recurs, \
             update firmware and driver; if it then recurs on the same GPU, have it serviced.",
        )
        .confirm("`dmesg | grep -i 'hardware error'`; `amd-smi metric --ecc`");
    (!devices.is_empty()).then_some(raised)
}

/// How often each GPU or adapter was logged.
fn counted<'a>(view: &View, logged: impl Iterator<Item = &'a Logged>) -> Counts {
    let mut devices = Counts::new();
    for one in logged.filter(|one| one.gpu || view.at(one.address).is_some()) {
        *devices.entry(one.address).or_default() += one.count;
    }
    devices
}

/// Whether only GPUs, accelerators and adapters have windows of this size.
fn is_large(size: Option<Bytes>) -> bool {
    size.is_some_and(|size| size >= Bytes::from_mib(16))
}

fn is_gpu(view: &View, address: PciAddress) -> bool {
    view.at(address).is_some_and(|id| view.fabric().node(id).kind == NodeKind::Gpu)
}

/// A finding on devices, by their names.
fn report(view: &View, severity: Severity, devices: &Counts, summary: impl FnOnce(String) -> String) -> Raised {
    let names: Vec<String> = devices.keys().map(|address| name(view, *address)).collect();
    let shown: Vec<String> = devices.keys().map(|address| shown(view, *address)).collect();
    // that a part fails which recovered by itself is only possible
    RULE.raise(Fault, severity, if severity == Error { Certain } else { Possible })
        .summary(summary(list(&shown)))
        .evidence(view.cite(view.kernels().into_iter().map(|(_, origin)| origin)))
        .about_nodes(names)
}

/// The name of a device; its address where it is no node.
fn name(view: &View, address: PciAddress) -> String {
    view.at(address).map_or_else(|| address.to_string(), |id| view.name(id).to_owned())
}

/// The same, with the address of a GPU whose number no list of GPUs states: a log that begins late names some of them, and the numbers
/// that these have here are no other program's.
fn shown(view: &View, address: PciAddress) -> String {
    let states = |gpu: &GpuFacts| gpu.index.is_some() && gpu.address.is_some_and(|at| at.same_device(address));
    let stated = view.machine.evidence.iter().any(|e| matches!(&e.fact, Fact::Gpus(gpus) if gpus.iter().any(states)));
    let name = name(view, address);
    if stated || !is_gpu(view, address) { name } else { format!("{name} ({address})") }
}

fn counts(view: &View, devices: &Counts) -> String {
    list(&devices.iter().map(|(address, n)| format!("{n} of {}", shown(view, *address))).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests;
