//! Words of trouble, and what makes a line with such a word a program's report.

/// Words by which a line of a log reports a failure, in lower case.
fn is_strong(word: &str) -> bool {
    matches!(
        word,
        "fail"
            | "failed"
            | "fails"
            | "failure"
            | "failures"
            | "failing"
            | "error"
            | "errors"
            | "errored"
            | "fatal"
            | "warn"
            | "timeout"
            | "timedout"
            | "unable"
            | "cannot"
            | "refused"
            | "denied"
            | "corrupt"
            | "corrupted"
            | "corruption"
            | "hung"
            | "stuck"
            | "lost"
            | "abort"
            | "aborted"
            | "aborting"
            | "crashed"
            | "unreachable"
            | "mismatch"
            | "invalid"
            | "uncorrectable"
            | "unrecoverable"
            | "unhealthy"
            | "degraded"
            | "rejects"
            | "rejected"
            | "misconfigured"
            | "exhausted"
            | "exceeded"
            | "insufficient"
            | "broken"
            | "dead"
            | "missing"
            | "disconnected"
            | "throttled"
    )
}

/// The words of a line as far as they speak of trouble.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Words {
    /// Any word of trouble, or a part of one.
    pub(super) any_trouble: bool,
    /// Words by which logs report failures: `failed`, `timed out`, `not found`.
    pub(super) is_strong: bool,
    /// Whether the line says that there is none: `no errors`, `0 failed`, `errors: 0`.
    pub(super) is_denied: bool,
}

impl Words {
    pub(super) fn of(line: &str) -> Words {
        let mut all = Words::default();
        let mut lower = [0_u8; 16];
        let mut before = "";
        let mut words = line.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).peekable();
        while let Some(word) = words.next() {
            let next = words.peek().copied().unwrap_or_default();
            let short = word.len() <= lower.len();
            let word = if short {
                let lower = &mut lower[..word.len()];
                lower.copy_from_slice(word.as_bytes());
                lower.make_ascii_lowercase();
                std::str::from_utf8(lower).unwrap_or(word)
            } else {
                word
            };
            let two = matches!(
                (word, next),
                ("timed", "out")
                    | ("not", "found" | "set" | "ready" | "supported" | "working")
                    | ("could" | "can", "not")
                    | ("no", "space")
                    | ("kernel" | "Kernel", "panic")
            );
            let strong = is_strong(word)
                || matches!(
                    word,
                    "skipped"
                        | "panic"
                        | "panicked"
                        | "down"
                        | "retry"
                        | "err"
                        | "dropped"
                        | "drop"
                        | "discards"
                        | "crc"
                        | "replay"
                        | "downed"
                        | "discarded"
                        | "uncorrected"
                );
            all.any_trouble |= strong || two || is_named_so(word);
            if is_strong(word) || two {
                all.is_strong = true;
                let counted = matches!(
                    before,
                    "0" | "no" | "No" | "NO" | "without" | "zero" | "any" | "ignore" | "ignoring" | "non"
                );
                all.is_denied |= counted || next == "0" || matches!(next, "none" | "None" | "OK");
            }
            before = if short { literal(word) } else { "" };
        }
        all
    }
}

/// Whether a word ends as names of errors do: `RuntimeError`, `segfault`.
fn is_named_so(word: &str) -> bool {
    let ends = |end: &str| {
        word.len() >= end.len() && word.get(word.len() - end.len()..).is_some_and(|last| last.eq_ignore_ascii_case(end))
    };
    ["error", "errors", "exception", "fault", "traceback", "dumped", "assertion"].into_iter().any(ends)
}

/// The word before, as far as it matters.
fn literal(word: &str) -> &'static str {
    match word {
        "0" => "0",
        "no" => "no",
        "without" => "without",
        "zero" => "zero",
        "any" => "any",
        "non" => "non",
        "ignore" | "ignoring" => "ignore",
        _ => "",
    }
}

/// How programs begin a line about their own failure.
const STARTS: [&str; 22] = [
    "error:",
    "Error:",
    "fatal:",
    "FATAL:",
    "Traceback (most recent call last)",
    "Segmentation fault",
    "Bus error",
    "Aborted",
    "CUDA error",
    "CUDA failure",
    "Cuda failure",
    "HIP error",
    "hipError",
    "cudaError",
    "NCCL failure",
    "NCCL error",
    "FAILED",
    "panic:",
    "Assertion ",
    "terminate called",
    "Failed to ",
    "failed to ",
];

/// How lines report a failure anywhere in them.
const WITHIN: [&str; 12] = [
    " panicked at ",
    ": error: ",
    ": Error: ",
    ": fatal error",
    "CUDA error",
    "Cuda failure",
    "CUDA failure",
    "NCCL WARN",
    "HIP error",
    ": CUDA error",
    "(core dumped)",
    " failed with error ",
];

/// States that end a line.
const ENDS: [&str; 16] = [
    ": FAIL",
    ": FAILED",
    "= FAIL",
    "= FAILED",
    " FAILED",
    "... FAIL",
    "...FAILED",
    ": Failed",
    ": failed",
    "... failed",
    ": Fail",
    ": Error",
    ": ERR!",
    ": Unhealthy",
    ": Degraded",
    ": error",
];

/// Whether a line reports a failure as programs do, without a level or a time.
pub(super) fn is_failure(line: &str) -> bool {
    // a sentence, a row of a document's table, or a line of a program's source
    if is_source(line) || line.starts_with('|') {
        return false;
    }
    let sentence = line.ends_with(['.', ':', '?']) && line.split_whitespace().count() >= 9;
    let starts =
        STARTS.iter().any(|start| line.starts_with(start) && line.len() > start.len().max(8)) || exception(line);
    if starts && !(sentence && line.starts_with(|c: char| c.is_uppercase()) && !line.contains("rror:")) {
        return true;
    }
    if WITHIN.iter().any(|words| line.contains(words)) {
        return !sentence || line.contains("NCCL WARN");
    }
    // `-> GPU1: FAILED`, a short line
    line.split_whitespace().count() <= 12 && ENDS.iter().any(|end| line.ends_with(end))
}

/// The first line of a report whose last line is the exception.
pub(super) fn is_traceback(line: &str) -> bool {
    line.starts_with("Traceback (most recent call last)") || line.ends_with(": Traceback (most recent call last):")
}

/// `RuntimeError: …`, `torch.distributed.DistBackendError: …`.
pub(super) fn exception(line: &str) -> bool {
    let Some((name, rest)) = line.split_once(": ") else { return false };
    let named = name.ends_with("Error") || name.ends_with("Exception");
    named
        && name.len() > 5
        && !rest.is_empty()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.' || b == b'_')
}

/// Whether a line is of a printed configuration, which names what may happen: `'nccl_timeout': 600,`, `"truncation": "error",`,
/// `nccl_timeout: 600`, `Namespace(timeout=60)`. Counters and states are none.
pub(super) fn is_setting(line: &str) -> bool {
    // the kernel's own settings name what may happen, too
    if line.contains("Namespace(") || line.starts_with("Command line: ") || line.starts_with("Kernel command line: ") {
        return true;
    }
    let line = line.trim_end_matches(',');
    // what ends so is a result: `tests_failed: 3`
    let is_result = |name: &str| {
        let last = name.rsplit(['_', '-', '.']).next().unwrap_or_default();
        let of_state = matches!(last, "status" | "state" | "result" | "message" | "reason" | "exception" | "health");
        let counts =
            matches!(last, "failed" | "lost" | "dropped" | "aborted" | "corrupted" | "fatal" | "hung" | "dead");
        of_state || counts || matches!(last, "error" | "errors" | "failures" | "uncorrectable" | "uncorrected")
    };
    let is_name = |name: &str| {
        let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b));
        !name.is_empty() && name.len() <= 64 && plain && !is_result(&name.to_ascii_lowercase())
    };
    let quoted = |mark: char| {
        let (name, value) = line.strip_prefix(mark)?.split_once(mark)?;
        let value = value.strip_prefix(':')?.trim();
        Some((name, value))
    };
    if let Some((name, value)) = quoted('\'').or_else(|| quoted('"')) {
        return is_name(name) && value.split_whitespace().count() <= 4;
    }
    let plain = line.split_once(": ").or_else(|| line.split_once('='));
    plain.is_some_and(|(name, value)| {
        let value = value.trim();
        let is_value = matches!(value, "True" | "False" | "None" | "true" | "false" | "null")
            || !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        is_name(name.trim()) && is_value && !names_errors(name)
    })
}

/// Whether it is a line of a program's source, which only mentions errors.
fn is_source(line: &str) -> bool {
    line.ends_with([';', '{', '}', '\\', '('])
        || line.starts_with("//")
        || line.starts_with("/*")
        || line.starts_with("--")
}

/// `rx_crc_errors: 12`, `Recovery Errors: 505`, `symbol_error = 3`: a counter of failures that is not zero.
pub(super) fn is_counter(line: &str) -> bool {
    let Some(at) = line.rfind([':', '=', ' ', '\t']) else { return false };
    let (name, value) = (line.get(..at).unwrap_or_default(), line.get(at + 1..).unwrap_or_default());
    let counts = value.len() <= 20 && value.bytes().all(|b| b.is_ascii_digit()) && value.bytes().any(|b| b != b'0');
    let bare = name.trim_end_matches([':', '=', ' ', '\t', '.']);
    // a counter has a short name, and a sign or a gap before its value
    let parted = bare.len() < name.len() || line.get(at..=at).is_some_and(|c| c != " ");
    let is_name = bare.len() <= 48
        && bare.split_whitespace().count() <= 6
        && !bare.contains(['(', ',', ';', '|', '/', '"', '=', '[', '\'', '+']);
    counts && parted && is_name && names_errors(bare)
}

fn names_errors(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let mut words = lower.split(|c: char| !c.is_ascii_alphanumeric());
    let is_count_of = |word: &str| {
        matches!(
            word,
            "errors"
                | "error"
                | "err"
                | "errs"
                | "discards"
                | "drops"
                | "dropped"
                | "discarded"
                | "failures"
                | "downed"
                | "uncorrected"
                | "uncorrectable"
        )
    };
    // limits and settings have such words, too
    let setting =
        ["threshold", "max", "limit", "level", "code", "timeout", "rate", "mask", "id", "policy", "line", "injection"];
    words.clone().any(is_count_of) && !words.any(|word| setting.contains(&word))
}

/// Drivers and parts of the system whose lines are about other things than paths between GPUs, adapters and host memory, as lines
/// begin with them.
const OTHERS: [&str; 36] = [
    "ACPI",
    "acpi",
    "ahci",
    "ata",
    "ehci",
    "uhci",
    "ohci",
    "xhci_hcd",
    "usb",
    "usbcore",
    "hub",
    "hid",
    "input",
    "snd_",
    "sof",
    "mei",
    "i2c",
    "i801_smbus",
    "EXT4-fs",
    "XFS",
    "BTRFS",
    "systemd",
    "audit",
    "Bluetooth",
    "iwlwifi",
    "tpm",
    "rtc",
    "mmc",
    "sdhci",
    "thermal",
    "intel_pstate",
    "PM",
    "SELinux",
    "apparmor",
    "vboxdrv",
    "cfg80211",
];

/// Whether a line of the system begins with a driver or part of other things: `ehci-pci 0000:00:1a.7: …`.
pub(super) fn is_of_others(line: &str) -> bool {
    let first = line.split([' ', ':', '-', '[', '(']).next().unwrap_or_default();
    let is_it = |other: &&str| {
        let rest = first.strip_prefix(*other);
        rest.is_some_and(|rest| other.ends_with('_') || rest.bytes().all(|b| b.is_ascii_digit() || b == b'.'))
    };
    // a display that no longer answers is a GPU's trouble, what a panel or a cable says is not
    let is_hung = || line.contains("*ERROR*") && line.contains("timed out");
    let is_of_display = (line.contains("[drm") || line.contains("*ERROR*"))
        && DISPLAY.iter().any(|word| line.contains(word))
        && !is_hung();
    (OTHERS.iter().any(is_it) || is_of_display) && !line.contains("nvidia") && !line.contains("NVRM")
}

/// What the kernel's display code is about, which no path between devices is.
const DISPLAY: [&str; 20] = [
    "Panel",
    "lspcon",
    "LSPCON",
    "eDP",
    "HDR",
    "HDMI",
    "EDID",
    "backlight",
    "connector",
    "CONNECTOR",
    "CRTC",
    "PSR",
    "VBT",
    "DMC firmware",
    "vblank",
    "fbdev",
    "link training",
    "flip_done",
    "PLANE:",
    "underrun",
];

/// Drivers, buses and devices of paths between GPUs, adapters and host memory, in lines of the system.
const PARTS: [&str; 36] = [
    "NVRM",
    "NVIDIA(",
    "AMDGPU(",
    "NOUVEAU(",
    "RADEON(",
    "intel(",
    "modeset(",
    "nvidia",
    "nvswitch",
    "nvlink",
    "NVLink",
    "amdgpu",
    "kfd",
    "mlx5",
    "mlx4",
    "infiniband",
    "ib_",
    "rdma",
    "pcieport",
    "PCIe",
    "AER",
    "DPC",
    "DMAR",
    "AMD-Vi",
    "arm-smmu",
    "iommu",
    "bnxt_re",
    "irdma",
    "efa",
    "hfi1",
    "nouveau",
    "gdrdrv",
    "peermem",
    "fabricmanager",
    "i915",
    "xe 0000",
];

/// Further drivers of network adapters and of what PCI functions share, as their lines begin with them.
const DRIVERS: [&str; 22] = [
    "pci",
    "pci_bus",
    "vfio-pci",
    "radeon",
    "xe",
    "habanalabs",
    "ice",
    "i40e",
    "ixgbe",
    "igb",
    "igc",
    "e1000e",
    "tg3",
    "r8169",
    "bnxt_en",
    "qede",
    "cxgb4",
    "ena",
    "hns3",
    "hinic",
    "ionic",
    "sfc",
];

/// Whether a line names a part of the machine, its memory or links, or what its programs wait for: such trouble is not passed over.
pub(super) fn is_part_of_machine(line: &str) -> bool {
    const WORDS: [&str; 44] = [
        "gpu",
        "gpus",
        "cuda",
        "nccl",
        "rccl",
        "nvml",
        "nvlink",
        "nvswitch",
        "nvidia",
        "amdgpu",
        "rocm",
        "hip",
        "pcie",
        "pci",
        "iommu",
        "rdma",
        "infiniband",
        "ib",
        "roce",
        "nic",
        "mlx",
        "ecc",
        "xid",
        "memory",
        "oom",
        "dma",
        "link",
        "port",
        "device",
        "devices",
        "driver",
        "rank",
        "ranks",
        "worker",
        "peer",
        "collective",
        "timeout",
        "timed",
        "hang",
        "hung",
        "killed",
        "core",
        "fabric",
        "segmentation",
    ];
    let lower = line.to_ascii_lowercase();
    let mut words = lower
        .split(|c: char| !c.is_ascii_alphanumeric())
        .map(|word| word.trim_end_matches(|c: char| c.is_ascii_digit()));
    words.any(|word| WORDS.contains(&word)) || lower.starts_with("panic")
}

/// Whether a line of the system is about such a part. Where it begins with a driver and its device, as `DRIVER 0000:01:00.0: …`, the
/// driver decides.
///
/// How the kernel's display code marks errors, `[drm] *ERROR* …`, is a GPU's whatever drives it.
pub(super) fn names_part(line: &str) -> bool {
    if line.contains("*ERROR*") {
        return true;
    }
    let mut words = line.split([' ', ':']).filter(|word| !word.is_empty());
    let (driver, device) = (words.next().unwrap_or_default(), line.split(' ').nth(1).unwrap_or_default());
    let is_of_device = device.matches(':').count() >= 2 && device.contains('.') && driver.len() <= 24;
    // where a word begins: `efa` is no part of `default`
    let begins = |text: &str, at: usize| !text[..at].ends_with(|c: char| c.is_ascii_alphanumeric());
    let named = |text: &str| PARTS.iter().any(|part| text.match_indices(part).any(|(at, _)| begins(text, at)));
    match is_of_device {
        true => DRIVERS.contains(&driver) || named(driver),
        false => named(line),
    }
}
