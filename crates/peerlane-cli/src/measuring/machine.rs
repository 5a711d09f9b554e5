//! The machine that a command measures: this one, or a simulated one.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use peerlane::assemble::assemble;
use peerlane::builder::named;
use peerlane::catalogue;
use peerlane::fabric::{Node, NodeKind};
use peerlane::input_file::attribute;
use peerlane::machine::Machine;
use peerlane::run::{Conditions, Subject};
use peerlane::target::{TargetKind, design, unknown};

use peerlane_gpu::{GpuName, timeline};

use super::protocol::Device;
use crate::redact::Redactor;
use crate::{Failure, host, live};

/// The simulated machine suggested where there is no GPU.
const EXAMPLE: &str = "h200x4-vm";

/// A machine that can be measured.
pub(crate) struct Measured {
    pub(crate) machine: Machine,
    pub(crate) subject: Subject,
    pub(crate) device: Device,
    /// What is known about it before a worker has opened it.
    pub(crate) conditions: Conditions,
}

/// Time and host, as reported by the operating system.
pub(crate) fn here() -> Conditions {
    Conditions {
        began: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        host: host::system(),
        kernel: attribute("/proc/sys/kernel/osrelease"),
        ..Conditions::default()
    }
}

/// This machine and its GPUs, which it need not have where nothing is asked of them.
pub(crate) fn this_machine(
    command: &str,
    redactor: Option<&mut Redactor>,
    need_gpu: bool,
) -> Result<Measured, Failure> {
    let has_gpu = live::has_nvidia_gpu();
    if !has_gpu && need_gpu {
        return Err(Failure::new(format!(
            "no NVIDIA GPU found on this machine; try a simulated machine: peerlane {command} {EXAMPLE}"
        )));
    }
    let looking = timeline::begin("discovery");
    let mut look = if has_gpu { live::look().map_err(Failure::Message)? } else { live::look_without_gpu() };
    drop(looking);
    let mut conditions = here();
    if let Some(redactor) = redactor {
        redactor.learn_host(conditions.host.as_deref().unwrap_or_default());
        look.learn(redactor);
        look = look.redacted(redactor);
        redactor.serialised(&mut conditions);
    }
    of_look(look, conditions)
}

/// The machine that a look at this one shows, with its GPUs.
pub(crate) fn of_look(look: live::Look, conditions: Conditions) -> Result<Measured, Failure> {
    let driver = look.snapshot.as_ref().and_then(|snapshot| snapshot.driver.clone());
    let conditions = Conditions { driver, ..conditions };
    let Some(machine) = assemble(look.found).into_iter().next() else {
        return Err(Failure::new("live: no GPU and no NIC found on this machine"));
    };
    let place = |node: &Node| Some(GpuName { name: node.name.clone(), address: node.address? });
    let gpus = machine.fabric.of_kind(NodeKind::Gpu).filter_map(|id| place(machine.fabric.node(id))).collect();
    let subject = Subject { name: machine.name.clone(), target: "live".to_owned(), system: None, evidence: look.texts };
    Ok(Measured { machine, subject, device: Device::Live { gpus, nics: BTreeMap::new() }, conditions })
}

/// The machine that TARGET names, for a command that measures it.
pub(crate) fn resolve(target: Option<&OsStr>, command: &str) -> Result<Measured, Failure> {
    resolve_redacted(target, command, None, true)
}

/// The same, with what identifies the machine taken out of what describes it.
pub(crate) fn resolve_redacted(
    target: Option<&OsStr>,
    command: &str,
    redactor: Option<&mut Redactor>,
    need_gpu: bool,
) -> Result<Measured, Failure> {
    let Some(path) = target.filter(|t| *t != "live") else { return this_machine(command, redactor, need_gpu) };
    let mut name = path.to_string_lossy().into_owned();
    let text = match catalogue::system_text(&name) {
        Some(text) => text.to_owned(),
        None => {
            let text = described(Path::new(path), &name)?;
            match redactor {
                Some(redactor) => {
                    redactor.learn(&text);
                    name = redactor.source(&name);
                    redactor.text(&text)
                }
                None => text,
            }
        }
    };
    let name = name.as_str();
    let machine = catalogue::read_system(&text, name).map_err(|e| Failure::new(e.to_string()))?;
    let subject = Subject::of_system(&machine.name, name, &text);
    Ok(Measured {
        machine,
        subject,
        device: Device::Virtual { name: name.to_owned(), system: text },
        conditions: Conditions::default(),
    })
}

/// The text of a system file; an error for any other target.
fn described(path: &Path, name: &str) -> Result<String, Failure> {
    let what = match TargetKind::of(path.as_os_str()) {
        Ok(TargetKind::SystemFile | TargetKind::ClusterFile) => return Ok(design(path)?),
        Ok(TargetKind::PartsList) => {
            let machine = named(name).unwrap_or_else(|| Err(unknown(name, "no such system"))).map_err(Failure::new)?;
            return catalogue::write_system(&machine).map_err(|e| Failure::new(e.to_string()));
        }
        Ok(TargetKind::Run) => "is a recorded run",
        Ok(_) => "is captured text",
        Err(refused) if refused.is_absent() => {
            return Err(Failure::Message(unknown(name, "no such system or file")));
        }
        Err(refused) => return Err(refused.into()),
    };
    Err(Failure::new(format!(
        "{name} {what}: it can be checked, but not measured; give 'live', a system name or a system file"
    )))
}
