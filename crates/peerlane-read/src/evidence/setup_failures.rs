//! Messages of NCCL, CUDA, `nvidia-smi` and PyTorch that show a host, a container or a job that is set up wrongly.
//!
//! NCCL's are those of its source from 2.7 to 2.30 (`shmutils.cc`, `socket.cc`, `bootstrap.cc`, `net_ib`, `init.cc`, `mnnvl.cc`).

use super::text::Span;
use super::{Fact, Found, SetupFailure, SetupFailureKind as Kind, Text};

const TOOL: &str = "error messages";

/// The most of a message that is kept, in characters.
const MAX_MESSAGE: usize = 200;

/// More different failures than any log has.
const MAX_FAILURES: usize = 64;

/// What a text holds if any of its lines reports a failure. PyTorch repeats some of NCCL's without its mark.
const HALLMARKS: [&str; 11] = [
    "CCL WARN",
    "NVIDIA-SMI has failed",
    "Failed to initialize NVML",
    "version is insufficient",
    "not yet initialized",
    "operation not permitted",
    "shared memory",
    "/dev/shm/",
    "Duplicate GPU",
    "Mismatched NCCL",
    "ncclSystemError: ",
];

/// What a line holds that reports a failure: all the words of one row.
const MESSAGES: [(Kind, &[&str]); 25] = [
    (Kind::NoDriver, &["NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver"]),
    (Kind::DriverMismatch, &["Driver/library version mismatch"]),
    (Kind::DriverTooOld, &["CUDA driver version is insufficient for CUDA runtime version"]),
    (Kind::DeviceFiles, &["Failed to initialize NVML: Unknown Error"]),
    (Kind::FabricManager, &["system not yet initialized"]),
    (Kind::ImexChannel, &["MNNVL (cliqueSize", "not working on this system"]),
    (Kind::ImexChannel, &["Cuda failure 800", "operation not permitted"]),
    (Kind::ImexChannel, &["cuMemCreate", "operation not permitted"]),
    (Kind::SharedMemory, &["failed to extend /dev/shm/"]),
    (Kind::SharedMemory, &["Error while creating shared memory segment"]),
    (Kind::SharedMemory, &["posix_fallocate failed", "No space left on device"]),
    (Kind::SharedMemory, &["insufficient shared memory (shm)"]),
    (Kind::SharedMemory, &["workers are out of shared memory"]),
    (Kind::SharedMemoryRemoved, &["CCL WARN", "unlink shared memory", "No such file or directory"]),
    (Kind::SharedGpu, &["Duplicate GPU detected : rank "]),
    (Kind::NcclMismatch, &["Mismatched NCCL version detected"]),
    (Kind::NcclMismatch, &["NCCL version mismatch with remote peer"]),
    (Kind::NoInterface, &["CCL WARN", "no socket interface found"]),
    (Kind::NoInterface, &["CCL WARN", "NET/Socket : no interface found"]),
    (Kind::NoInterface, &["CCL WARN", "o interface found in the same subnet"]),
    (Kind::OpenDevice, &["CCL WARN", "NET/IB : Unable to open device"]),
    (Kind::PortDown, &["CCL WARN", "async event", "port error"]),
    (Kind::PeerMemory, &["ibv_reg_mr", "Bad address"]),
    (Kind::Connect, &["CCL WARN", "exceeded error retry count"]),
    (Kind::SystemCall, &["ncclSystemError: System call"]),
];

/// Answers of the system to `connect` that need no more than a look at addresses and firewalls.
const UNREACHED: [&str; 4] =
    ["Connection refused", "No route to host", "Network is unreachable", "Connection timed out"];

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&HALLMARKS) {
        return;
    }
    let mut lines = Span::default();
    let mut failures: Vec<SetupFailure> = Vec::new();
    for (i, line) in text.iter() {
        let Some(kind) = kind(line) else { continue };
        lines.add(i);
        let one = failure(kind, line);
        let room = failures.len() < MAX_FAILURES;
        match failures.iter_mut().find(|known| (known.kind, &known.subject) == (kind, &one.subject)) {
            Some(known) => known.count = known.count.saturating_add(1),
            None if room => failures.push(one),
            None => {}
        }
    }
    if let Some(lines) = lines.numbers(text) {
        found.push(text, TOOL, lines, Fact::SetupFailures(failures));
    }
}

fn kind(line: &str) -> Option<Kind> {
    let fits = |(_, words): &&(Kind, &[&str])| words.iter().all(|word| line.contains(word));
    let listed = MESSAGES.iter().find(fits).map(|(kind, _)| *kind);
    // `Call to connect to 10.0.0.1<41> failed : …`, `socketStartConnect: Connect to …`
    let connect = || line.contains("CCL WARN") && line.contains("onnect") && UNREACHED.iter().any(|w| line.contains(w));
    // that of queue pairs is the network's
    listed.or_else(|| (connect() && !line.contains("ibv_")).then_some(Kind::Connect))
}

fn failure(kind: Kind, line: &str) -> SetupFailure {
    // what stands before it is the process, its time and the place in the source
    let message = line.split_once("CCL WARN ").map_or(line, |(_, rest)| rest).trim();
    let subject = match kind {
        Kind::Connect => after(message, "onnect to "),
        Kind::PortDown => after(message, "NET/IB : ").filter(|word| word.contains(':')),
        Kind::OpenDevice => after(message, "Unable to open device "),
        _ => None,
    };
    SetupFailure { kind, subject, message: message.chars().take(MAX_MESSAGE).collect(), count: 1 }
}

/// The word after some others.
fn after(message: &str, words: &str) -> Option<String> {
    let word = message.split_once(words)?.1.split_whitespace().next()?;
    Some(word.trim_end_matches([',', '.', ';']).to_owned()).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;

    fn failures(text: &str) -> Vec<SetupFailure> {
        let mut all = scanned(scan, text).evidence.into_iter();
        let Some(Fact::SetupFailures(failures)) = all.next().map(|e| e.fact) else { return Vec::new() };
        assert_eq!(all.next(), None);
        failures
    }

    #[test]
    fn messages_by_cause() {
        for (line, kind) in [
            (
                "n1:7:8 [0] misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-a1 to 9637892 bytes",
                Kind::SharedMemory,
            ),
            (
                "n1:7:8 [0] include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device",
                Kind::SharedMemory,
            ),
            (
                "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).",
                Kind::SharedMemory,
            ),
            (
                "n1:7:8 [0] NCCL WARN unlink shared memory /dev/shm/nccl-d5 failed, error: No such file or directory",
                Kind::SharedMemoryRemoved,
            ),
            ("n1:7:8 [0] transport/p2p.cc:275 NCCL WARN Cuda failure 800 'operation not permitted'", Kind::ImexChannel),
            (
                "n1:7:8 [0] mnnvl.cc:74 NCCL WARN MNNVL (cliqueSize 8) is available but not working on this system. Check",
                Kind::ImexChannel,
            ),
            (
                "CuError: (800, 'Call to cuMemCreate(&h, n, &prop, 0) failed. (Cu failure: operation not permitted)')",
                Kind::ImexChannel,
            ),
            ("n1:7:8 [0] init.cc:300 NCCL WARN Cuda failure 'system not yet initialized'", Kind::FabricManager),
            (
                "n1:7:8 [0] init.cc:795 NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1b000",
                Kind::SharedGpu,
            ),
            (
                "n1:7:8 [0] init.cc:9 NCCL WARN Mismatched NCCL version detected : rank 0 version 22005 rank 1 version 21903",
                Kind::NcclMismatch,
            ),
            ("n1:7:8 [0] NCCL WARN Bootstrap : no socket interface found", Kind::NoInterface),
            ("n1:7:8 [0] NCCL WARN Call to ibv_reg_mr_iova2 failed with error Bad address", Kind::PeerMemory),
            ("Failed to initialize NVML: Driver/library version mismatch", Kind::DriverMismatch),
            (
                "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.",
                Kind::SystemCall,
            ),
            ("Failed to initialize NVML: Unknown Error", Kind::DeviceFiles),
        ] {
            let all = failures(&format!("{line}\n{line}\n"));
            assert_eq!(all.iter().map(|f| (f.kind, f.count)).collect::<Vec<_>>(), [(kind, 2)], "{line}");
        }
    }

    #[test]
    fn what_a_message_names_is_kept() {
        let of = |line: &str| failures(line).remove(0).subject;
        assert_eq!(
            of(
                "n1:7:8 [0] misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to 10.0.0.2<41023> failed : No route to host"
            ),
            Some("10.0.0.2<41023>".to_owned())
        );
        assert_eq!(
            of("n1:7:8 [0] net_ib.cc:101 NCCL WARN NET/IB : mlx5_3:1 Got async event : port error"),
            Some("mlx5_3:1".to_owned())
        );
        assert_eq!(of("n1:7:8 [0] net_ib.cc:95 NCCL WARN NET/IB : Got async event : port error"), None);
    }

    #[test]
    fn what_is_no_failure_of_the_setup() {
        for text in [
            "n1:7:8 [0] NCCL INFO socketStartConnect: connect to 10.0.0.2<4> returned Connection refused, retrying (1/34)\n",
            "curl: (7) Failed to connect to host port 80: Connection refused\n",
            "n1:7:8 [0] NCCL WARN Call to ibv_modify_qp failed with error Connection timed out\n",
            "n1:7:8 [0] NCCL INFO MNNVL 0 cliqueId 0 cliqueSize 4\n",
            "n1:7:8 [0] NCCL INFO unlink shared memory /dev/shm/nccl-d5 failed, error: No such file or directory\n",
            "increase /dev/shm\n",
        ] {
            assert_eq!(failures(text), [], "{text}");
        }
    }
}
