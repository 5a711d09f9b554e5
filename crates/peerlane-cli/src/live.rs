//! This machine: what sysfs shows, and what `nvidia-smi`, which comes with the driver, prints.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use peerlane::evidence::{self, Fact, Found, PciDevice, Warning};

/// Where Linux lists its PCI devices.
const PCI_DEVICES: &str = "/sys/bus/pci/devices";

/// What `nvidia-smi` is asked, all at once. It reads state and changes none.
const QUESTIONS: [&[&str]; 5] =
    [&["topo", "-m"], &["topo", "-p2p", "r"], &["nvlink", "-s"], &["nvlink", "-R"], &["-q"]];

/// A driver that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(20);

/// Far above what any of the questions gets for an answer.
const MOST_OUTPUT: u64 = 16 << 20;

/// What this machine says of itself.
pub(crate) fn read() -> Result<Found, String> {
    if !Path::new(PCI_DEVICES).is_dir() {
        return Err(format!(
            "live: {PCI_DEVICES} is not there; name a TARGET instead, such as a file with what 'nvidia-smi topo -m' prints"
        ));
    }
    let mut found = evidence::read_path(Path::new("/")).map_err(|e| format!("live: {e}"))?;
    let shows_gpu = |fact: &Fact| matches!(fact, Fact::Pci(tree) if tree.devices.iter().any(PciDevice::is_gpu));
    if !found.evidence.iter().any(|e| shows_gpu(&e.fact)) {
        return Err(
            "live: no GPU found on this machine's PCIe buses; name a TARGET instead, such as a file with what \
             'nvidia-smi topo -m' prints"
                .to_owned(),
        );
    }
    let answers: Vec<_> = QUESTIONS.iter().map(|question| thread::spawn(move || ask(question))).collect();
    for (question, answer) in QUESTIONS.iter().zip(answers) {
        match answer.join().unwrap_or_else(|_| Err("its reader failed".to_owned())) {
            Ok(said) => found.append(said),
            Err(problem) => found
                .warnings
                .push(Warning { origin: None, message: format!("live: nvidia-smi {}: {problem}", question.join(" ")) }),
        }
    }
    Ok(found)
}

/// One question's answer, read as any capture.
fn ask(question: &[&str]) -> Result<Found, String> {
    let mut child = Command::new("nvidia-smi")
        .args(question)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| e.to_string())?;
    let stdout = child.stdout.take().ok_or("no output")?;
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = stdout.take(MOST_OUTPUT).read_to_end(&mut bytes).map(|_| bytes);
        // nobody listens any more once patience has run out
        let _ = send.send(read);
    });
    let answer = receive.recv_timeout(PATIENCE);
    let _ = child.kill();
    let _ = child.wait();
    let bytes = answer.map_err(|_| format!("no answer within {} s", PATIENCE.as_secs()))?.map_err(|e| e.to_string())?;
    evidence::read_stream("live", bytes.as_slice()).map_err(|e| e.to_string())
}

/// Whether a PCI device of NVIDIA's (vendor 10de) of the display class (03) is here.
pub(crate) fn has_nvidia_gpu() -> bool {
    let Ok(devices) = fs::read_dir(PCI_DEVICES) else { return false };
    let says = |device: &Path, file: &str, start: &str| {
        fs::read_to_string(device.join(file)).is_ok_and(|text| text.starts_with(start))
    };
    devices.flatten().any(|d| says(&d.path(), "vendor", "0x10de") && says(&d.path(), "class", "0x03"))
}
