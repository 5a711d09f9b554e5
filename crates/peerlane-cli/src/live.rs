//! This machine: what NVML reports in a worker process, and what sysfs shows; `nvidia-smi` as a fallback for NVML.
//!
//! NVML can hang forever on a GPU that has fallen off the bus. Another process queries it, and is abandoned if it does
//! not answer.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::thread;
use std::time::Duration;

use peerlane::evidence::nvml::Snapshot;
use peerlane::evidence::{self, Files, Found, Text};
use peerlane::fact::{Fact, PciDevice};
use peerlane::input_file::{attribute, names};
use peerlane::origin::Warning;
use peerlane::run::SourceText;
use peerlane_gpu::search;

use crate::program::{Silent, ask};
use crate::redact::Redactor;
use crate::{Failure, Outcome};

/// Where Linux lists its PCI devices.
const PCI_DEVICES: &str = "/sys/bus/pci/devices";

/// The `nvidia-smi` queries used where NVML fails. They change no state.
const QUESTIONS: [&[&str]; 5] =
    [&["topo", "-m"], &["topo", "-p2p", "r"], &["nvlink", "-s"], &["nvlink", "-R"], &["-q"]];

/// Time limit of NVML. Without persistence mode the driver first initialises all GPUs, which takes as long as for a
/// worker (NVIDIA, "Driver Persistence").
const NVML_PATIENCE: Duration = Duration::from_secs(60);

/// Time limit of other programs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The text of what NVML reports.
const NVML: &str = "nvml.json";

/// Limit of a program's output in bytes, far above that of any query.
pub(crate) const MOST_OUTPUT: u64 = 16 << 20;

/// Advice where no GPU is found on this machine.
const ELSEWHERE: &str = "give a TARGET, such as a file with the output of 'nvidia-smi topo -m'";

/// What this machine reports about itself.
#[derive(Debug, Default)]
pub(crate) struct Look {
    /// As evidence.
    pub(crate) found: Found,
    /// The texts that the evidence was read from.
    pub(crate) texts: Vec<SourceText>,
    /// What NVML reported, if it answered.
    pub(crate) snapshot: Option<Snapshot>,
}

/// What this machine reports about itself, as evidence.
pub(crate) fn read() -> Result<Found, String> {
    look().map(|look| look.found)
}

/// What this machine printed about itself, with or without a GPU.
pub(crate) fn texts() -> Vec<SourceText> {
    look().unwrap_or_else(|_| look_without_gpu()).texts
}

/// What this machine reports about itself. The error says why no GPU was found.
pub(crate) fn look() -> Result<Look, String> {
    look_within(NVML_PATIENCE).0
}

/// What a machine without an NVIDIA GPU reports about itself.
pub(crate) fn look_without_gpu() -> Look {
    let files = evidence::record_what_matters(Path::new("/")).unwrap_or_default();
    let texts = vec![SourceText { name: "files.json".to_owned(), text: files.to_json() }];
    Look { found: evidence::read_files("live", &files), texts, snapshot: None }
}

/// The same with another time limit of NVML, and whether NVML exceeded it.
pub(crate) fn look_within(patience: Duration) -> (Result<Look, String>, bool) {
    let asked = thread::Builder::new().spawn(move || nvml_within(patience));
    let files = evidence::record_what_matters(Path::new("/")).unwrap_or_default();
    let nvml = match asked.map(thread::JoinHandle::join) {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) | Err(_) => Err(Unanswered { why: "NVML could not be queried".to_owned(), hung: false }),
    };
    let shown = sysfs_shows_gpus(&files);
    let hung = nvml.as_ref().is_err_and(|unanswered| unanswered.hung);
    let ask_smi = || QUESTIONS.iter().map(|question| (question.join(" "), smi(question))).collect();
    (assembled(files, shown, nvml, ask_smi), hung)
}

/// Why NVML did not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unanswered {
    /// The reason, in one line.
    pub(crate) why: String,
    /// Whether it hangs, so that the driver should not be called again.
    pub(crate) hung: bool,
}

/// Combines what sysfs shows with what NVML reports, or `nvidia-smi` in its place.
fn assembled(
    files: Files,
    shown: bool,
    nvml: Result<String, Unanswered>,
    ask_smi: impl FnOnce() -> Vec<(String, Result<String, Silent>)>,
) -> Result<Look, String> {
    let mut look = Look::default();
    if !files.iter().any(|(path, _)| path.starts_with("sys/bus/pci/devices/")) {
        look.warn("/sys shows no PCI devices (masked by a container?): switches, NICs and root ports are unknown");
    }
    look.found.append(evidence::read_files("live", &files));
    look.texts.push(SourceText { name: "files.json".to_owned(), text: files.to_json() });
    let mut why = None;
    match nvml {
        Ok(text) => {
            look.snapshot = serde_json::from_str(&text).ok();
            look.take(NVML, text);
            if look.snapshot.as_ref().is_some_and(|s| s.gpus.is_empty()) {
                let none = "NVML reports no GPU: there is none, or this user or container has no access";
                why = Some(none.to_owned());
                look.warn(none);
            }
        }
        Err(Unanswered { why: reason, hung }) => {
            look.warn(&reason);
            if !hung {
                look.take_smi(ask_smi());
            }
            why = Some(reason);
        }
    }
    let told = look.found.evidence.iter().any(|e| matches!(&e.fact, Fact::Gpus(gpus) if !gpus.is_empty()));
    if told || shown {
        return Ok(look);
    }
    let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
    Err(format!("live: no GPU found on this machine{why}; {ELSEWHERE}"))
}

impl Look {
    /// Shows its texts to what will redact them.
    pub(crate) fn learn(&self, redactor: &mut Redactor) {
        self.texts.iter().for_each(|source| redactor.learn(&source.text));
    }

    /// The same, read again from redacted texts.
    pub(crate) fn redacted(self, redactor: &mut Redactor) -> Look {
        let mut look = Look { snapshot: None, ..Look::default() };
        for mut warning in self.found.warnings.into_iter().filter(|w| w.origin.is_none()) {
            warning.message = redactor.line(&warning.message);
            look.found.warnings.push(warning);
        }
        for SourceText { name, text } in self.texts {
            let text = redactor.text(&text);
            if name == NVML {
                look.snapshot = serde_json::from_str(&text).ok();
            }
            look.take(&name, text);
        }
        look
    }

    fn warn(&mut self, message: &str) {
        self.found.warnings.push(Warning::general(format!("live: {message}")));
    }

    fn take(&mut self, name: &str, text: String) {
        self.found.append(evidence::scan_text(&Text::new(&format!("live/{name}"), text.as_bytes())));
        self.texts.push(SourceText { name: name.to_owned(), text });
    }

    fn take_smi(&mut self, answers: Vec<(String, Result<String, Silent>)>) {
        let mut troubles: Vec<(String, Vec<String>)> = Vec::new();
        for (question, answer) in answers {
            match answer {
                Ok(text) => self.take(&format!("nvidia-smi {question}"), text),
                Err(problem) => {
                    let problem = problem.to_string();
                    match troubles.iter_mut().find(|(p, _)| *p == problem) {
                        Some((_, questions)) => questions.push(question),
                        None => troubles.push((problem, vec![question])),
                    }
                }
            }
        }
        for (problem, questions) in troubles {
            let all = questions.len() == QUESTIONS.len();
            let which = if all { String::new() } else { format!(" {}", questions.join(", ")) };
            self.warn(&format!("nvidia-smi{which}: {problem}"));
        }
    }
}

/// What NVML reports, as JSON, from a worker process.
pub(crate) fn nvml() -> Result<String, Unanswered> {
    nvml_within(NVML_PATIENCE)
}

fn nvml_within(patience: Duration) -> Result<String, Unanswered> {
    let problem = |why: String| Unanswered { why, hung: false };
    let own = search::own_command();
    let mut own = own.map_err(|e| problem(format!("NVML: cannot find peerlane's own executable: {e}")))?;
    let said = ask(own.arg("discover"), patience, MOST_OUTPUT).map_err(|silent| match silent {
        Silent::Hung(patience) => Unanswered {
            why: format!(
                "NVML did not answer within {} s: a GPU may have fallen off the bus (dmesg, Xid 79), or the driver is slow \
                 to initialise idle GPUs (enable persistence mode: nvidia-smi -pm 1)",
                patience.as_secs()
            ),
            hung: true,
        },
        other => problem(format!("NVML: {other}")),
    })?;
    if said.status.success() {
        return String::from_utf8(said.output).map_err(|_| problem("NVML: its answer is not UTF-8 text".to_owned()));
    }
    let trouble = said.trouble.strip_prefix("peerlane: ").unwrap_or(&said.trouble);
    Err(problem(if trouble.is_empty() {
        format!("NVML: the query ended with {}", said.status)
    } else {
        trouble.to_owned()
    }))
}

/// The worker: queries NVML and prints what it reports.
pub(crate) fn worker() -> Result<Outcome, Failure> {
    let mut out = BufWriter::new(peerlane_gpu::take_output()?);
    let snapshot = peerlane_gpu::discover::discover().map_err(Failure::Message)?;
    serde_json::to_writer_pretty(&mut out, &snapshot).map_err(std::io::Error::from)?;
    writeln!(out)?;
    out.flush()?;
    Ok(Outcome::default())
}

/// The output of one query, preceded by its command, since a table alone does not say what it is.
pub(crate) fn smi(question: &[&str]) -> Result<String, Silent> {
    let said = ask(search::command("nvidia-smi")?.args(question), PATIENCE, MOST_OUTPUT)?;
    let text = String::from_utf8_lossy(&said.output);
    if !said.status.success() {
        let words =
            if said.trouble.is_empty() { text.trim().lines().collect::<Vec<_>>().join(" ") } else { said.trouble };
        return Err(Silent::Failed(words));
    }
    Ok(format!("$ nvidia-smi {}\n{text}", question.join(" ")))
}

fn sysfs_shows_gpus(files: &Files) -> bool {
    let found = evidence::read_files("live", files);
    found.evidence.iter().any(|e| matches!(&e.fact, Fact::Pci(tree) if tree.devices.iter().any(PciDevice::is_gpu)))
}

/// Whether there is an NVIDIA GPU: on the PCI bus or, where that is masked, as a device file of the driver.
pub(crate) fn has_nvidia_gpu() -> bool {
    let says = |device: &Path, file: &str, start: &str| {
        attribute(device.join(file)).is_some_and(|text| text.starts_with(start))
    };
    // PCI: vendor 10de, a device of the display class (03)
    let mut devices = names(PCI_DEVICES).into_iter().map(|name| Path::new(PCI_DEVICES).join(name));
    devices.any(|d| says(&d, "vendor", "0x10de") && says(&d, "class", "0x03")) || has_device_file()
}

fn has_device_file() -> bool {
    names("/dev").iter().any(|name| {
        let number = name.strip_prefix("nvidia");
        number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    })
}

#[cfg(test)]
mod tests {
    use peerlane::assemble::assemble;
    use peerlane::evidence::Item;
    use peerlane::evidence::nvml::{Gpu, SCHEMA};

    use super::*;

    const TOPO: &str = "$ nvidia-smi topo -m\n\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPIX\t0-7\nGPU1\tPIX\t X \t0-7\n";

    fn snapshot(gpus: u32) -> String {
        let gpu = |index| Gpu { index, name: Some("NVIDIA H100".to_owned()), ..Gpu::default() };
        let snapshot =
            Snapshot { schema: SCHEMA.to_owned(), gpus: (0..gpus).map(gpu).collect(), ..Snapshot::default() };
        serde_json::to_string(&snapshot).unwrap()
    }

    fn bus() -> Files {
        let mut files = Files::default();
        for (file, text) in [("class", "0x030200"), ("vendor", "0x10de")] {
            files.insert(&format!("sys/bus/pci/devices/0000:06:00.0/{file}"), Item::File(text.into()));
        }
        files
    }

    fn unanswered(why: &str, hung: bool) -> Result<String, Unanswered> {
        Err(Unanswered { why: why.to_owned(), hung })
    }

    fn said(look: &Look) -> Vec<&str> {
        look.found.warnings.iter().map(|w| w.message.as_str()).collect()
    }

    fn never() -> Vec<(String, Result<String, Silent>)> {
        panic!("nvidia-smi must not be queried")
    }

    #[test]
    fn nvml_and_sysfs_give_the_machine_and_its_texts_reproduce_it() {
        let look = assembled(bus(), true, Ok(snapshot(1)), never).unwrap();
        assert_eq!(said(&look), [""; 0]);
        assert_eq!(look.snapshot.as_ref().unwrap().gpus.len(), 1);
        let names: Vec<&str> = look.texts.iter().map(|t| t.name.as_str()).collect();
        assert_eq!(names, ["files.json", "nvml.json"]);
        let mut again = Found::default();
        for text in &look.texts {
            again.append(evidence::scan_text(&Text::new(&text.name, text.text.as_bytes())));
        }
        let facts = |found: &Found| found.evidence.iter().map(|e| e.fact.clone()).collect::<Vec<_>>();
        assert_eq!(facts(&again), facts(&look.found));
        assert_eq!(assemble(look.found).len(), 1);
    }

    #[test]
    fn nvml_suffices_where_sysfs_is_masked_with_a_warning() {
        let look = assembled(Files::default(), false, Ok(snapshot(2)), never).unwrap();
        assert!(said(&look).len() == 1 && said(&look)[0].contains("/sys shows no PCI devices"), "{:?}", said(&look));
        assert_eq!(assemble(look.found).len(), 1);
    }

    #[test]
    fn nvidia_smi_is_the_fallback_unless_the_driver_hangs() {
        let why = "libnvidia-ml.so.1 not found: no NVIDIA driver found";
        let smi = || {
            let silent = || Err(Silent::Failed("no NVLink".to_owned()));
            vec![
                ("topo -m".to_owned(), Ok(TOPO.to_owned())),
                ("nvlink -s".to_owned(), silent()),
                ("nvlink -R".to_owned(), silent()),
            ]
        };
        let look = assembled(bus(), true, unanswered(why, false), smi).unwrap();
        assert_eq!(said(&look), [&format!("live: {why}"), "live: nvidia-smi nvlink -s, nvlink -R: no NVLink"]);
        assert!(look.found.evidence.iter().any(|e| matches!(e.fact, Fact::Classes(_))));
        let absent = || QUESTIONS.iter().map(|q| (q.join(" "), Err(Silent::Absent))).collect();
        let look = assembled(bus(), true, unanswered(why, false), absent).unwrap();
        assert_eq!(said(&look)[1], "live: nvidia-smi: not installed");
        let look = assembled(bus(), true, unanswered("NVML did not answer", true), never).unwrap();
        assert_eq!(said(&look), ["live: NVML did not answer"]);
    }

    #[test]
    fn no_gpu_is_one_line() {
        let none = assembled(Files::default(), false, unanswered("NVML: no permission", true), never).unwrap_err();
        assert!(none.starts_with("live: no GPU found on this machine (NVML: no permission); give a TARGET"), "{none}");
        let none = assembled(Files::default(), false, Ok(snapshot(0)), never).unwrap_err();
        assert!(none.contains("NVML reports no GPU"), "{none}");
        // on the bus, but unknown to the driver
        let look = assembled(bus(), true, Ok(snapshot(0)), never).unwrap();
        assert!(said(&look)[0].contains("NVML reports no GPU"));
    }
}
