//! Texts of any size in every format that a reader knows: one output that grows, and many small ones.
//!
//! The tests count the work of reading them; `cargo bench -p peerlane-cli --bench readers` measures its time and memory.

use std::fmt::Write;

/// How a format's text grows.
#[derive(Clone, Copy)]
enum Shape {
    /// A head, a row that is repeated, an end. In each, `{i}` is the row's number, `{x}` and `{d}` are that number as the bus and
    /// the domain of a PCI address.
    Rows(&'static str, &'static str, &'static str),
    /// A title, and a square matrix: the corner, the column's and the row's name before its number, and two cells, of the
    /// diagonal and of all others.
    Matrix { title: &'static str, corner: &'static str, names: [&'static str; 2], cells: [&'static str; 2] },
    /// No format: a pattern again and again.
    Pattern(&'static str),
    /// Letters and digits without order, in lines of 76.
    Noise,
}

/// A format with its text.
pub(crate) struct Format {
    /// The tool or shape.
    pub(crate) name: &'static str,
    shape: Shape,
}

/// Rows of each small output of [`Format::many`], and rows and columns of its matrices.
const SMALL: usize = 4;

impl Format {
    /// One output of about so many bytes, and not more.
    pub(crate) fn one(&self, bytes: usize) -> String {
        let mut text = match self.shape {
            Shape::Rows(head, row, end) => {
                let mut text = filled(head, 0);
                let mut i = 0;
                while text.len() + end.len() + 2 * row.len() < bytes {
                    text.push_str(&filled(row, i));
                    i += 1;
                }
                text.push_str(end);
                text
            }
            Shape::Matrix { names, cells, .. } => {
                let row = |n: usize| names[0].len() + names[1].len() + 10 + n * (cells[1].len() + 1);
                let n = (1..).take_while(|n| (n + 2) * row(*n) < bytes).last().unwrap_or(1);
                self.matrix(n)
            }
            Shape::Pattern(pattern) => pattern.repeat(bytes / pattern.len()),
            Shape::Noise => noise(bytes),
        };
        cut(&mut text, bytes);
        text
    }

    /// Small outputs one after another, of about so many bytes together, each with other numbers.
    pub(crate) fn many(&self, bytes: usize) -> String {
        let mut text = String::with_capacity(bytes);
        let mut i = 0;
        while text.len() < bytes {
            match self.shape {
                Shape::Rows(head, row, end) => {
                    text.push_str(&filled(head, i));
                    (0..SMALL).for_each(|k| text.push_str(&filled(row, k + i % 3)));
                    text.push_str(end);
                }
                Shape::Matrix { .. } => text.push_str(&self.matrix(2 + i % SMALL)),
                Shape::Pattern(_) | Shape::Noise => return self.one(bytes),
            }
            text.push('\n');
            i += 1;
        }
        cut(&mut text, bytes);
        text
    }

    /// A matrix of `n` devices.
    pub(crate) fn matrix(&self, n: usize) -> String {
        let Shape::Matrix { title, corner, names, cells } = self.shape else { return String::new() };
        let mut text = format!("{title}{corner}");
        for j in 0..n {
            let _ = write!(text, "\t{}{j}", names[0]);
        }
        text.push('\n');
        for i in 0..n {
            let _ = write!(text, "{}{i}", names[1]);
            for j in 0..n {
                let _ = write!(text, "\t{}", cells[usize::from(i != j)]);
            }
            text.push('\n');
        }
        text
    }
}

fn filled(template: &str, i: usize) -> String {
    if !template.contains('{') {
        return template.to_owned();
    }
    let (bus, domain) = (format!("{:02x}", i % 256), format!("{:04x}", i / 256));
    template.replace("{i}", &i.to_string()).replace("{x}", &bus).replace("{d}", &domain)
}

fn noise(bytes: usize) -> String {
    let mut state = 1_u64;
    let mut text = String::with_capacity(bytes + 1);
    while text.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let letter = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[(state >> 58) as usize];
        text.push(if text.len() % 77 == 76 { '\n' } else { letter as char });
    }
    text
}

const fn rows(name: &'static str, head: &'static str, row: &'static str, end: &'static str) -> Format {
    Format { name, shape: Shape::Rows(head, row, end) }
}

const fn matrix(
    name: &'static str,
    title: &'static str,
    corner: &'static str,
    names: [&'static str; 2],
    cells: [&'static str; 2],
) -> Format {
    Format { name, shape: Shape::Matrix { title, corner, names, cells } }
}

const fn pattern(name: &'static str, pattern: &'static str) -> Format {
    Format { name, shape: Shape::Pattern(pattern) }
}

const GPU: [&str; 2] = ["GPU", "GPU"];

/// Every format that a reader knows, and shapes that are none.
pub(crate) const FORMATS: &[Format] = &[
    matrix("nvidia-smi topo -m", "", "", GPU, [" X ", "PIX"]),
    matrix("nvidia-smi topo -m, NVLink", "", "", GPU, [" X ", "NV12"]),
    matrix("nvidia-smi topo -p2p", "$ nvidia-smi topo -p2p r\n", " ", GPU, ["X", "OK"]),
    rows("topo -m, two columns", "\tGPU0\tGPU1\n", "GPU{i}\tX\tSYS\n", ""),
    rows("nvidia-smi -L", "", "GPU {i}: NVIDIA H100 (UUID: GPU-{i})\n", ""),
    rows(
        "nvidia-smi nvlink -s",
        "",
        "GPU {i}: NVIDIA H100 (UUID: GPU-{i})\n\t Link 0: 26.562 GB/s\n\t Link 1: 26.562 GB/s\n\t Link 2: 26.562 GB/s\n",
        "",
    ),
    rows(
        "nvidia-smi nvlink -R",
        "",
        "GPU {i}: NVIDIA H100 (UUID: GPU-{i})\n\t Link 0: Remote Device {d}:{x}:00.0: Link 13\n",
        "",
    ),
    rows(
        "nvidia-smi -q",
        "==============NVSMI LOG==============\n\nDriver Version                            : 580.1\nAttached GPUs                             : 2\n",
        "GPU 0000{d}:{x}:00.0\n    Product Name                          : NVIDIA H100\n    PCI\n        Bus                               : 0x{x}\n        GPU Link Info\n            PCIe Generation\n                Max                       : 4\n                Current                   : 1\n",
        "",
    ),
    rows(
        "nvidia-smi",
        "| NVIDIA-SMI 580.10              Driver Version: 580.10         CUDA Version: 13.0     |\n",
        "|   {i}  NVIDIA H100 80GB HBM3          On  |   0000{d}:{x}:00.0 Off |                    0 |\n| N/A   37C    P0             71W /  700W |       4MiB /  81559MiB |      0%      Default |\n|                                         |                        |             Disabled |\n",
        "",
    ),
    rows(
        "dcgmi nvlink",
        "+----------------------+\n|  NvLink Link Status  |\n+----------------------+\nGPUs:\n",
        "    gpuId {i}:\n        U U D X _\n",
        "NvSwitches:\n    physicalId 8:\n        U U U U\n\nKey: Up=U\n",
    ),
    rows(
        "peerlane/nvml/1",
        "{\n\"schema\": \"peerlane/nvml/1\", \"gpus\": [\n",
        "{\"index\": {i}, \"name\": \"NVIDIA H100\", \"address\": \"{d}:{x}:00.0\"},\n",
        "{}]}\n",
    ),
    rows(
        "peerlane/files/1",
        "{\"schema\": \"peerlane/files/1\", \"text\": {\n",
        "\"sys/bus/pci/devices/{d}:{x}:00.0/class\": \"0x030200\\n\", \"sys/bus/pci/devices/{d}:{x}:00.0/vendor\": \"0x10de\\n\",\n",
        "\"proc/modules\": \"\"}}\n",
    ),
    matrix("p2pBandwidthLatencyTest", "P2P=Enabled Latency Matrix (us)\n", "   GPU", ["", "     "], ["1.00", "12.00"]),
    rows(
        "p2pBandwidthLatencyTest, devices",
        "[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]\n",
        "Device: {i}, Card, pciBusID: {x}, pciDeviceID: 0, pciDomainID:{d}\n",
        "P2P=Disabled Latency Matrix (us)\n   GPU     0      1 \n     0   1.00   2.00 \n     1   3.00   1.00 \n",
    ),
    rows(
        "p2pBandwidthLatencyTest, access",
        "[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]\n",
        "Device={i} CAN Access Peer Device=1\n",
        "",
    ),
    rows(
        "bandwidthTest",
        "[CUDA Bandwidth Test] - Starting...\nRunning on...\n\n Device 1: Some Card\n Range Mode\n\nHost to Device Bandwidth, 1 Device(s)\n PINNED Memory Transfers\n   Transfer Size (Bytes)\tBandwidth(MB/s)\n",
        "   {i}000\t\t\t1000.0\n",
        "\nResult = PASS\n",
    ),
    rows(
        "deviceQuery",
        "Detected 2 CUDA Capable device(s)\n\n",
        "Device {i}: \"Card\"\n  CUDA Capability Major/Minor version number:    6.1\n  Total amount of global memory:                 8192 MBytes (8589934592 bytes)\n  Device PCI Domain ID / Bus ID / location ID:   10 / 25 / 3\n",
        "",
    ),
    rows("deviceQuery, access", "", "> Peer access from Card (GPU{i}) -> Card (GPU1) : No\n", ""),
    rows(
        "simpleP2P",
        "[./simpleP2P] - Starting...\n",
        "cudaMemcpyPeer / cudaMemcpy between GPU{i} and GPU1: 21.50GB/s\nVerification error @ element {i}: val = nan, ref = 4.000000\n",
        "Test failed!\n",
    ),
    matrix(
        "nvbandwidth",
        "nvbandwidth Version: v0.8\n\nRunning device_to_device_memcpy_write_ce.\nmemcpy CE GPU(row) <- GPU(column) bandwidth (GB/s)\n",
        "",
        ["", " "],
        ["N/A", "276.10"],
    ),
    rows(
        "nvbandwidth -j",
        "{\n\"nvbandwidth\" : { \"GPU Device list\" : [ \"0: Card (00000000:C1:00)\" ], \"testcases\" : [\n",
        "{ \"name\" : \"host_to_device_memcpy_ce\", \"status\" : \"Passed\", \"bandwidth_description\" : \"memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)\", \"bandwidth_matrix\" : [ [ \"{i}.5\", \"N/A\" ] ] },\n",
        "{ \"name\" : \"one_to_all_write_ce\", \"status\" : \"Waived\" } ] } }\n",
    ),
    matrix("path matrix", "", "", ["NPU", "NPU"], ["X", "HCCS"]),
    matrix("p2pmark", "=== Sequential P2P bandwidth (GB/s) ===\n\n", " Dst->", ["GPU", "GPU "], ["-", "56.10"]),
    rows(
        "nccl-tests",
        "# nThread 1 nGpus 8 minBytes 8 maxBytes 8\n#  Rank  0 Group  0 Pid     10 on       host device  0 [0000:c1:00] Card A\n#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong\n#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)\n",
        "          {i}             2     float    none      -1    20.0    1.00    2.00       0    21.0    3.00    4.00     N/A\n",
        "# Out of bounds values : 0 OK\n",
    ),
    rows(
        "nccl-tests, ranks",
        "# nThread 1 nGpus 8 minBytes 8 maxBytes 8\n",
        "#  Rank  {i} Group  0 Pid     10 on       host device  {i} [{d}:{x}:00] Card A\n",
        "",
    ),
    rows(
        "OSU",
        "# OSU MPI-CUDA Bandwidth Test v5.9\n# Size      Bandwidth (MB/s)\n",
        "{i}                       0.50\n",
        "\n",
    ),
    rows(
        "perftest",
        "$ ./ib_write_bw -a -d mlx5_9\n---------------------------------------------------------------------------------------\n                    RDMA_Write Bidirectional BW Test\n Dual-port       : OFF\t\tDevice         : mlx5_9\n---------------------------------------------------------------------------------------\n #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n",
        " {i}      5000           11000.00           10900.00           0.174400\n",
        "---------------------------------------------------------------------------------------\n",
    ),
    rows(
        "NCCL topology",
        "<system version=\"1\">\n <cpu numaid=\"0\" affinity=\"ffff\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"85\">\n",
        "  <pci busid=\"{d}:{x}:00.0\" class=\"0x030200\" link_speed=\"16 GT/s\" link_width=\"16\"><gpu dev=\"{i}\" sm=\"90\" rank=\"{i}\" gdr=\"1\"><nvlink target=\"ffff:ff:ff\" count=\"18\" tclass=\"0x068000\"/></gpu></pci>\n",
        " </cpu>\n</system>\n",
    ),
    rows(
        "NCCL graph",
        "<graphs version=\"1\">\n <graph id=\"1\" pattern=\"4\" nchannels=\"2\" speedintra=\"20.5\" speedinter=\"12\" typeintra=\"NVL\" typeinter=\"PIX\">\n",
        "  <channel>\n   <net dev=\"3\"/>\n   <gpu dev=\"{i}\"/>\n   <gpu dev=\"2\"/>\n  </channel>\n",
        " </graph>\n</graphs>\n",
    ),
    rows(
        "NCCL_DEBUG=INFO",
        "NCCL version 2.27.3+cuda12.9\n",
        "n1:10:11 [0] NCCL INFO ncclCommInitRank comm 0x55 rank {i} nranks 2 cudaDev 0 nvmlDev 0 busId {x}000 commId 0x1 - Init START\nn1:10:11 [0] NCCL INFO Channel 00/0 : {i}[0] -> 1[1] via P2P/CUMEM/read\nn1:10:12 [1] NCCL WARN Call {i} to connect failed\n",
        "",
    ),
    rows("NCCL_DEBUG=INFO, hosts", "", "n{i}:10:11 [0] NCCL INFO Channel 00/02 :    0   1\n", ""),
    rows(
        "NCCL_DEBUG=INFO, topology",
        "=== System : maxBw 24.0 totalBw 240.0 ===\nCPU/0 (1/2/-1)\n",
        "+ PCI[24.0] - PCI/{i} (1000c0101000a096)\n              + PCI[24.0] - GPU/{x}000 ({i})\n                            + NVL[240.0] - NVS/0\n",
        "==========================================\n",
    ),
    rows(
        "NCCL_DEBUG=INFO, communicators",
        "",
        "n1:{i}:1 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 busId {x}000 commId 0x{i} - Init START\nn1:{i}:1 [0] NCCL INFO Channel 00/02 : 0 1\nn1:{i}:1 [0] NCCL INFO Pattern 4, crossNic 0, nChannels {i}, bw 20.0/20.0, type NVL/PIX, sameChannels 1\nn1:{i}:1 [0] NCCL INFO  0 : GPU/0 GPU/1\n",
        "",
    ),
    rows(
        "NCCL Inspector",
        "",
        "{\"header\":{\"id\":\"0x1\",\"rank\":0,\"n_ranks\":8,\"nnodes\":1},\"coll_perf\":{\"coll\":\"AllReduce\",\"coll_msg_size_bytes\":{i}024,\"coll_exec_time_us\":9,\"coll_algobw_gbs\":1.5,\"coll_busbw_gbs\":2.5}}\n",
        "",
    ),
    rows(
        "NCCL Inspector, Prometheus",
        "",
        "nccl_bus_bandwidth_gbs{node=\"n{i}\",gpu=\"GPU0\",nranks=\"4\",collective=\"AllReduce\",message_size=\"4-5GB\",algo_proto=\"Ring_ll\"} 678.2\n",
        "",
    ),
    rows(
        "nccl-tests -J",
        "{\"version\":1,\"args\":[\"all_reduce_perf\"],\"nccl_version\":22809,\"results\":[\n",
        "{\"size\":{i}024,\"out_of_place\":{\"time\":20.5,\"alg_bw\":51.1,\"bus_bw\":89.5,\"nwrong\":0},\"in_place\":null},\n",
        "{\"size\":8}]}\n",
    ),
    rows(
        "lstopo XML",
        "<?xml version=\"1.0\"?>\n<topology version=\"2.0\">\n <object type=\"Machine\" os_index=\"0\" cpuset=\"0x000000ff\" nodeset=\"0x00000003\" gp_index=\"1\">\n  <object type=\"Bridge\" gp_index=\"20\" bridge_type=\"0-1\" bridge_pci=\"0000:[00-ff]\">\n",
        "   <object type=\"PCIDev\" gp_index=\"{i}\" pci_busid=\"{d}:{x}:00.0\" pci_type=\"0302 [10de:15f9] [10de:118f] a1\" pci_link_speed=\"0.000000\"><object type=\"OSDev\" gp_index=\"30\" name=\"cuda{i}\" osdev_type=\"5\"/></object>\n",
        "  </object>\n </object>\n</topology>\n",
    ),
    rows(
        "lstopo",
        "Machine (126GB total)\n  Package L#0\n    NUMANode L#0 (P#0 63GB)\n    HostBridge\n",
        "      PCIBridge\n        PCI {d}:{x}:00.0 (3D)\n          CoProc(CUDA) \"cuda{i}\"\n",
        "\n",
    ),
    rows(
        "lspci -tv",
        "-[0000:00]-+-00.0  Intel Corporation Device 0d57\n",
        "           +-{x}.1-[{x}]----00.0  NVIDIA Corporation GA100 [A100 PCIe 40GB]\n",
        "           \\-1f.1  Intel Corporation Device 0d58\n",
    ),
    rows(
        "lspci -vvv",
        "00:00.0 Host bridge: Intel Corporation Device 0d57\n\n",
        "{d}:{x}:00.0 3D controller: NVIDIA Corporation GA100 (rev a1)\n\tNUMA node: 1\n\tCapabilities: [78] Express (v2) Endpoint, MSI 00\n\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM L1\n\t\tLnkSta:\tSpeed 16GT/s, Width x8 (downgraded)\n\n",
        "",
    ),
    rows("lspci", "", "{d}:{x}:00.0 3D controller: NVIDIA Corporation GA100 (rev a1)\n", ""),
    rows(
        "sysfs listing",
        "0000:00:00.0 class=0x060000 ven=0x8086 dev=0x0d57 numa=-1 spd= w= max=/ path=/sys/devices/pci0000:00/0000:00:00.0\n",
        "{d}:{x}:06.0 class=0x030200 ven=0x10de dev=0x2335 numa=1 spd=32.0 GT/s PCIe w=16 max=64.0 GT/s PCIe/16 path=/sys/devices/pci0000:00/{d}:{x}:06.0\n",
        "",
    ),
    rows(
        "lscpu",
        "Architecture:             x86_64\nCPU(s):                   64\n",
        "NUMA node{i} CPU(s):      {i}\n",
        "",
    ),
    rows(
        "/proc/cpuinfo",
        "",
        "processor\t: {i}\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: Some EPYC\nphysical id\t: {i}\nflags\t\t: fpu vme hypervisor\n\n",
        "",
    ),
    rows(
        "numactl -H",
        "available: 3 nodes (0-2)\n",
        "node {i} cpus: 0 1 2 3\nnode {i} size: 4096 MB\nnode {i} free: 12 MB\n",
        "node distances:\nnode   0   8\n  0:  10  40\n  8:  40  10\n",
    ),
    rows(
        "sensors",
        "",
        "nct6779-isa-0290\nAdapter: ISA adapter\ntemp{i}:       +30.0°C  (high =  +0.0°C, hyst =  +0.0°C)  ALARM\n\n",
        "",
    ),
    rows("/proc/modules", "", "nvidia_{i} 16384 0 - Live 0x0000000000000000 (OE)\n", ""),
    rows(
        "lsmod",
        "Module                  Size  Used by\n",
        "ib_core{i}               450560  3 rdma_cm,ib_uverbs,mlx5_ib\n",
        "",
    ),
    rows(
        "dmesg",
        "[    0.000000] Command line: BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro intel_iommu=on quiet\n",
        "[ 7521.1] nvidia {d}:{x}:00.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Transmitter ID)\n[ 9001.5] NVRM: Xid (PCI:{d}:{x}:00): 79, pid='<unknown>', GPU has fallen off the bus.\n",
        "",
    ),
    rows(
        "ibstat",
        "",
        "CA 'mlx5_{i}'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\n\t\tRate: 400\n\t\tLink layer: InfiniBand\n",
        "",
    ),
    rows(
        "ibv_devinfo",
        "",
        "hca_id:\tmlx5_{i}\n\tvendor_part_id:\t\t4123\n\t\tport:\t1\n\t\t\tstate:\t\t\tPORT_DOWN (1)\n\t\t\tlink_layer:\tInfiniBand\n",
        "",
    ),
    matrix("rocm-smi --showtopo", "======== Link Type between two GPUs ========\n", "     ", GPU, ["0", "XGMI"]),
    rows(
        "rocm-smi, NUMA",
        "======== Numa Nodes ========\n",
        "GPU[{i}]\t\t: (Topology) Numa Node: 0\nGPU[{i}]\t\t: (Topology) Numa Affinity: 0\n",
        "======== End of ROCm SMI Log ========\n",
    ),
    matrix(
        "rocm-bandwidth-test",
        "          RocmBandwidthTest Version: 2.5.1\n\n          Device: 0,  Card A,  GPU-0123,  0d:0.0\n          Device: 1,  Card A,  GPU-4567,  10:0.0\n\n          Unidirectional copy peak bandwidth GB/s\n\n",
        "          D/D",
        ["", "          "],
        ["N/A", "48.90"],
    ),
    matrix(
        "TransferBench",
        "Unidirectional copy peak bandwidth GB/s [Local read / Remote write] (GPU-Executor: GFX)\n",
        "SRC+EXE\\DST",
        ["GPU ", " GPU "],
        ["->\t900.0", "40.1"],
    ),
    matrix("amd-smi topology", "LINK TYPE TABLE:\n", "            ", ["0000:05:00.", "0000:05:00."], ["SELF", "XGMI"]),
    matrix(
        "matrix of rates in a document",
        "### All pairs, unidirectional writes (GB/s)\n\n",
        " Dst→",
        GPU,
        ["—", "53.9"],
    ),
    rows("table of rates in a document", "\tBW\tMethod\n", "Host {i} read\t2.7 GB/s\tBAR\n", "\n"),
    rows("lines of several hosts", "", "n{i}: GPU0\n", ""),
    rows("lines of one host", "", "node7: GPU{i}\tX\tSYS\n", ""),
    pattern("brackets", "["),
    pattern("closing brackets", "]"),
    pattern("quotes", "\""),
    pattern("quotes in lines", "\"\n"),
    pattern("backslashes", "\\"),
    pattern("nested JSON", "{\"nvbandwidth\":\n"),
    pattern("nested JSON lists", "{\"nvbandwidth\":[[[[\n"),
    pattern("nested XML", "<system version=\"1\"><cpu>\n"),
    pattern("tags of XML", "<system version=\"1\">\n<"),
    pattern("comments of XML", "<!-- \n"),
    pattern("one line of words", "GPU0 X SYS "),
    pattern("one line of spaces", " "),
    pattern("empty lines of spaces", "              \n"),
    pattern("rows without a head", "GPU0\tX\tSYS\n"),
    pattern("heads without rows", "\tGPU0\tGPU1\n"),
    pattern("heads of tables", "P2P=Enabled Latency Matrix (us)\n   GPU 0 1\n"),
    pattern("running tests", "Running device_to_device_memcpy_write_ce.\n"),
    pattern("escapes", "\u{1b}[31mGPU0\u{1b}]0;x"),
    pattern("HTML", "<td class=\"x\">GPU0</td>&amp;"),
    pattern("deeper and deeper", "GPU 0:\n Link 0:\n  a: b\n"),
    pattern("letters", "ä€😀"),
    Format { name: "base64", shape: Shape::Noise },
];

/// Shortens a text to so many bytes, or to the whole character before.
fn cut(text: &mut String, bytes: usize) {
    let at = (0..=bytes.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    text.truncate(at.unwrap_or_default());
}
