//! What the machine reports about itself, read by a process of its own: a file of sysfs may hang as much as NVML.

use std::io::{BufWriter, Write};
use std::time::Duration;

use peerlane::evidence::{Found, Text, nvml::Snapshot, scan_text};
use peerlane::input_file::{attribute, names};
use peerlane::run::SourceText;
use peerlane_gpu::search;
use serde::{Deserialize, Serialize};

use crate::args::SurveyArgs;
use crate::live::{self, Look};
use crate::program::{Silent, ask};
use crate::{Failure, Outcome};

/// Limit of a survey in bytes.
const MOST: u64 = 64 << 20;

/// Time limit of `dmesg`, which asks the kernel alone.
const LOG_PATIENCE: Duration = Duration::from_secs(2);

/// The text of the kernel's log.
const LOG: &str = "dmesg.log";

/// How MPS's server and its control are called.
const MPS: &str = "nvidia-cuda-mps";

/// What the process writes.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Survey {
    texts: Vec<SourceText>,
    warnings: Vec<String>,
    /// Why no GPU was found.
    pub(super) none: Option<String>,
    /// NVML did not answer in time.
    pub(super) hung: bool,
    /// A server of MPS runs.
    pub(super) mps: bool,
    /// There is a GPU of NVIDIA's, as the PCI bus or a device file shows.
    pub(super) present: bool,
}

/// The hidden command: looks, and prints what it has seen.
pub(crate) fn survey(args: &SurveyArgs) -> Result<Outcome, Failure> {
    let mut out = BufWriter::new(peerlane_gpu::take_output()?);
    let log = std::thread::Builder::new().spawn(kernel_log);
    let (look, hung) = live::look_within(Duration::from_secs_f64(args.patience.seconds()));
    let mut survey = Survey { hung, mps: runs_mps(), present: live::has_nvidia_gpu(), ..Survey::default() };
    match look {
        Ok(look) => {
            let general = look.found.warnings.into_iter().filter(|warning| warning.origin.is_none());
            survey.warnings = general.map(|warning| warning.message).collect();
            survey.texts = look.texts;
        }
        Err(why) => survey.none = Some(why),
    }
    match log.map(std::thread::JoinHandle::join) {
        Ok(Ok(Ok(text))) => survey.texts.push(SourceText { name: LOG.to_owned(), text }),
        Ok(Ok(Err(why))) => survey.warnings.push(format!("the kernel's log: {why}")),
        _ => survey.warnings.push("the kernel's log could not be read".to_owned()),
    }
    serde_json::to_writer(&mut out, &survey).map_err(std::io::Error::from)?;
    out.flush()?;
    Ok(Outcome::default())
}

/// Lines of the kernel's log that concern GPUs and their links, with seconds since the boot.
fn kernel_log() -> Result<String, Silent> {
    let said = ask(search::command("dmesg")?.args(["--color=never"]), LOG_PATIENCE, MOST)?;
    if !said.status.success() {
        return Err(Silent::Failed(said.trouble));
    }
    Ok(about_devices(&String::from_utf8_lossy(&said.output)))
}

/// Words of the lines that matter, in small letters; a record should not hold more of a host's log.
const ABOUT: [&str; 9] = ["nvrm", "nvidia", "xid", "pcie", "aer", "iommu", "dmar", "bar ", "amd-vi"];

fn about_devices(log: &str) -> String {
    let matters = |line: &&str| {
        let line = line.to_lowercase();
        ABOUT.iter().any(|word| line.contains(word))
    };
    log.lines().filter(matters).flat_map(|line| [line, "\n"]).collect()
}

fn runs_mps() -> bool {
    let comm = |process: &String| attribute(format!("/proc/{process}/comm"));
    names("/proc").iter().filter_map(comm).any(|name| name.starts_with(MPS))
}

/// Why there is no survey.
pub(super) enum Unsurveyed {
    /// The process did not end in time.
    Hung(Duration),
    /// Anything else.
    Failed(String),
}

/// Share of a survey's time that NVML may take.
pub(super) const OF_NVML: f64 = 0.9;

/// Lets another process look for at most `patience`, of which NVML may take most. Kernel messages from before
/// `ignored_before` seconds after the boot are left out.
pub(super) fn take(patience: Duration) -> Result<Survey, Unsurveyed> {
    let failed = |why: String| Unsurveyed::Failed(why);
    let of_nvml = patience.mul_f64(OF_NVML);
    let mut own = search::own_command().map_err(|e| failed(format!("cannot find peerlane's own executable: {e}")))?;
    let own = own.arg("survey").arg(format!("--patience={}ms", of_nvml.as_millis()));
    let said = ask(own, patience, MOST).map_err(|silent| match silent {
        Silent::Hung(patience) => Unsurveyed::Hung(patience),
        other => failed(other.to_string()),
    })?;
    if !said.status.success() {
        return Err(failed(said.trouble));
    }
    serde_json::from_slice(&said.output).map_err(|error| failed(format!("the survey cannot be read: {error}")))
}

impl Survey {
    /// What it shows, as `check live` sees it. Kernel messages before `since`, in seconds after the boot, are left out.
    pub(super) fn look(self, since: Option<u64>) -> Look {
        let mut look = Look::default();
        for message in &self.warnings {
            look.found.warnings.push(peerlane::origin::Warning::general(message));
        }
        for SourceText { name, text } in self.texts {
            let text = if name == LOG { after(&text, since.unwrap_or_default()) } else { text };
            let found: Found = scan_text(&Text::new(&format!("live/{name}"), text.as_bytes()));
            look.found.append(found);
            if name == "nvml.json" {
                look.snapshot = serde_json::from_str::<Snapshot>(&text).ok();
            }
            look.texts.push(SourceText { name, text });
        }
        look
    }
}

/// The lines of a kernel's log from a moment on.
fn after(log: &str, since: u64) -> String {
    let time = |line: &str| -> Option<f64> { line.strip_prefix('[')?.split_once(']')?.0.trim().parse().ok() };
    let kept = log.lines().filter(|line| time(line).is_none_or(|at| at >= since as f64));
    kept.flat_map(|line| [line, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_log_only_lines_about_devices_are_kept() {
        let log = "[1.5] NVRM: Xid (PCI:0000:3b:00): 79\n[2.0] audit: user=ann\n[3.0] pcieport 0000:00:01.0: AER: Corrected\n";
        assert_eq!(about_devices(log).lines().count(), 2);
        assert!(!about_devices(log).contains("ann"));
    }

    #[test]
    fn messages_from_before_a_repair_are_left_out() {
        let log = "[    1.5] NVRM: Xid (PCI:0000:3b:00): 79\n[  200.25] NVRM: later\nno time\n";
        assert_eq!(after(log, 100), "[  200.25] NVRM: later\nno time\n");
        assert_eq!(after(log, 0), log);
    }
}
