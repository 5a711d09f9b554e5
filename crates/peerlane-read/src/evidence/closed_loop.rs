//! The closed loop: what a finding tells its reader to run has output that is read.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::{Text, scan_text};

/// Commands by how they begin, with output as they print it. The first that fits counts.
const OUTPUTS: &[(&str, &str)] = &[
    ("kubectl describe node", "Capacity:\n  nvidia.com/gpu:     8\nAllocatable:\n  nvidia.com/gpu:     7\n"),
    (
        "kubectl describe pod",
        "Name:  a\n    State:          Waiting\n      Reason:       CrashLoopBackOff\n    Restart Count:  3\n",
    ),
    (
        "kubectl get events",
        "2m   Warning   FailedScheduling   pod/a   0/3 nodes are available: 3 Insufficient nvidia.com/gpu.\n",
    ),
    (
        "scontrol show node",
        "NodeName=gpu7 Arch=x86_64\n   State=IDLE+DRAIN ThreadsPerCore=2\n   Reason=GPU 3 lost [root@2026-01-01]\n",
    ),
    (
        "sinfo -R",
        "REASON               USER      TIMESTAMP           NODELIST\nGPU 3 lost           root      2026-01-01T10:00:00 gpu7\n",
    ),
    ("nvidia-smi topo -m", "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPIX\t0-31\nGPU1\tPIX\t X \t0-31\n"),
    ("nvidia-smi topo -p2p", " \tGPU0\tGPU1\n GPU0\tX\tOK\n GPU1\tOK\tX\n"),
    ("nvidia-smi nvlink -s", "GPU 0: NVIDIA A100 (UUID: GPU-1)\n\t Link 0: 25 GB/s\n"),
    ("nvidia-smi nvlink -e", "GPU 0: NVIDIA A100 (UUID: GPU-1)\n\t Link 0: Replay Errors: 0\n"),
    ("nvidia-smi -L", "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-3b0c0ea1-9d4b-0d6c-2f5a-111111111111)\n"),
    (
        "nvidia-smi -q | grep -A4 Fabric",
        "    Fabric\n        State                             : Completed\n        Status                            : Success\n",
    ),
    (
        "nvidia-smi -q",
        "GPU 00000000:41:00.0\n    Product Name                          : NVIDIA H100\n    PCI\n        Replays Since Reset               : 7\n",
    ),
    ("nvidia-smi --query-gpu=index,clocks.mem,pstate", "index, clocks.current.memory [MHz], pstate\n0, 2619 MHz, P0\n"),
    ("nvidia-smi --query-gpu=index,mig", "index, mig.mode.current\n0, Enabled\n"),
    ("nvidia-smi --query-gpu=", "index, pcie.link.gen.current, pcie.link.width.current\n0, 5, 16\n"),
    ("nvidia-smi", ""),
    (
        "lspci -tv",
        "-[0000:00]-+-00.0  Advanced Micro Devices, Inc. [AMD] Device 1480\n           \\-01.1-[01]----00.0  NVIDIA Corporation GA100\n",
    ),
    ("lspci -d", "41:00.0 3D controller: NVIDIA Corporation GA100 [A100 PCIe 40GB] (rev a1)\n"),
    (
        "lspci -vvv | grep ACSCtl",
        "\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-\n",
    ),
    (
        "lspci -vvv | grep -e Switch",
        "\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-\n",
    ),
    ("lspci -vvv | grep -e MaxPayload", "\t\t\tMaxPayload 256 bytes, MaxReadReq 512 bytes\n"),
    ("lspci", "\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16\n\t\tLnkSta:\tSpeed 16GT/s, Width x8 (downgraded)\n"),
    (
        "lscpu",
        "NUMA node(s):                       2\nSocket(s):                          2\nNUMA node0 CPU(s):                  0-63\nNUMA node1 CPU(s):                  64-127\n",
    ),
    (
        "lsmod",
        "nvidia_peermem         16384  0\nib_core               450560  9 rdma_cm,ib_ipoib,nvidia_peermem,iw_cm\n",
    ),
    ("numactl", "available: 1 nodes (0)\nnode 0 cpus: 0 1 2 3\nnode 0 size: 4096 MB\n"),
    ("sensors", "coretemp-isa-0000\nAdapter: ISA adapter\nPackage id 0:  +45.0°C  (high = +80.0°C, crit = +100.0°C)\n"),
    ("dmesg", "[ 9001.5] NVRM: Xid (PCI:0000:65:00): 79, pid=1, GPU has fallen off the bus.\n"),
    ("journalctl", "[ 9001.5] NVRM: Xid (PCI:0000:65:00): 79, pid=1, GPU has fallen off the bus.\n"),
    ("cat /proc/cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/sda1 iommu=pt\n"),
    (
        "systemctl status nvidia-fabricmanager",
        "● nvidia-fabricmanager.service - NVIDIA fabric manager service\n     Active: active (running) since Mon 2025-01-06\n",
    ),
    ("ibstat", "CA 'mlx5_0'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: Active\n\t\tRate: 400\n"),
    (
        "ibv_devinfo",
        "hca_id:\tmlx5_2\n\t\tport:\t1\n\t\t\tstate:\t\t\tPORT_ACTIVE (4)\n\t\t\tlink_layer:\tInfiniBand\n",
    ),
    ("ethtool -S", "NIC statistics:\n     rx_discards_phy: 0\n"),
    ("perfquery", "SymbolErrorCounter:..............0\n"),
    ("rdma statistic", "link mlx5_0/1 out_of_sequence 0\n"),
    ("rdma link", "link mlx5_0/1 state ACTIVE physical_state LINK_UP\n"),
    ("mlnx_qos", "PFC configuration:\n\tenabled     0   0   0   1\n"),
    ("ucx_info", "#      Transport: rc_mlx5\n"),
    ("fi_info", "provider: efa\n"),
    ("mlxlink", "Physical state                     : LinkUp\n"),
    ("dcgmi diag", "| PCIe                      | Pass - All                                     |\n"),
    ("nvidia-imex-ctl", "Node #0   * 10.0.0.1 *      - READY                - Version: 570.00\n"),
    (
        "show_gids",
        "DEV     PORT    INDEX   GID                                     IPv4            VER     DEV\nmlx5_0  1       3       0000:0000:0000:0000:0000:ffff:c0a8:0a01 192.168.10.1    v2      ens1\n",
    ),
    (
        "ib_write_bw",
        " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n 65536      5000             392.10             391.90             0.747\n",
    ),
    (
        "ib_read_bw",
        " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n 65536      5000             392.10             391.90             0.747\n",
    ),
    (
        "nvbandwidth",
        "Running device_to_device_memcpy_read_ce.\nmemcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)\n           0         1\n 0       N/A     26.1\n 1      26.2      N/A\n",
    ),
    (
        "rocm-smi --showtopo",
        "========= Link Type between two GPUs =========\n       GPU0 GPU1\nGPU0   0    XGMI\nGPU1   XGMI 0\n",
    ),
];

/// Commands whose output is for the person who runs them: settings of a job, lists of libraries, counters without a reader.
const WITHOUT_OUTPUT: &[&str] = &[
    "peerlane",
    "kubectl logs",
    "amd-smi metric",
    "ldd",
    "env",
    "gdsio",
    "nvidia-smi nvlink -gt",
    "systemd-detect-virt",
    "rocm-smi --showtopoaccess",
    "NCCL_",
    "ls -l /dev",
    "ls /dev",
    "ulimit",
    "ping",
    "ip ",
    "rping",
    "py-spy",
];

/// The commands in back quotes of all texts that `confirm` is given, in a source file of the rules.
fn commands(source: &str, all: &mut BTreeSet<String>) {
    // rules only; tests quote commands too
    let source = source.split("#[cfg(test)]").next().unwrap_or_default();
    for (at, _) in source.match_indices("confirm") {
        let rest = &source[at..];
        // to the end of the statement
        let end = rest.find(";\n").map_or(rest.len(), |end| end.min(600)).min(rest.len());
        let end = (0..=end).rev().find(|end| rest.is_char_boundary(*end)).unwrap_or(0);
        // up to the next call of a chain
        let text = rest[..end].split("\n        .").next().unwrap_or_default();
        let plain = text.replace("\\\n", " ");
        for quoted in plain.split('`').skip(1).step_by(2) {
            let command = quoted.split_whitespace().collect::<Vec<_>>().join(" ");
            let named = command.starts_with(|c: char| c.is_ascii_lowercase());
            if named && command.contains([' ', '_']) || OUTPUTS.iter().any(|(name, _)| *name == command) {
                all.insert(command);
            }
        }
    }
}

fn sources(folder: &Path, all: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("the rules are there").flatten() {
        let path = entry.path();
        // what rules between nodes say to run is for those nodes
        if path.is_dir() && !path.ends_with("nodes") {
            sources(&path, all);
        } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("tests.rs") {
            commands(&fs::read_to_string(&path).expect("a source file is text"), all);
        }
    }
}

#[test]
fn what_findings_tell_to_run_is_read() {
    let mut all = BTreeSet::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../peerlane-judge/src/check"), &mut all);
    assert!(all.len() > 20, "{all:?}");
    let mut unread = Vec::new();
    for command in &all {
        if WITHOUT_OUTPUT.iter().any(|name| command.starts_with(name)) {
            continue;
        }
        match OUTPUTS.iter().find(|(name, _)| command.trim_start_matches("sudo ").starts_with(name)) {
            Some((_, output)) if !scan_text(&Text::new("t", output.as_bytes())).evidence.is_empty() => {}
            _ => unread.push(command),
        }
    }
    assert!(unread.is_empty(), "no reader for the output of {unread:#?}");
}
