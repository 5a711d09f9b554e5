//! Captures of one machine in every form that peerlane reads, with things in them that identify the machine, its site and
//! its users, where such captures have them.

/// What identifies, by kind.
pub(crate) const SECRETS: &[(&str, &str)] = &[
    ("host name", "gpuhost-acme17"),
    ("domain name", "hpc.acme-labs.com"),
    ("user name", "annabel"),
    ("home folder", "secret-project"),
    ("mounted path", "lustre-acme"),
    ("e-mail address", "annabel.smith@acme-labs.com"),
    ("IPv4 address", "10.47.113.29"),
    ("IPv6 address", "fd42:beef:1234::77a1"),
    ("MAC address", "0c:42:a1:7e:55:d3"),
    ("MAC address in the name of an interface", "0c42a17e55d3"),
    ("GUID in the name of a device", "0c42a1fffe7e55d3"),
    ("node GUID", "0c42a103007e55d3"),
    ("port GUID with colons", "0c42:a103:007e:55d4"),
    ("GPU UUID", "7c3f9a12-58d4-4be1-9c07-a1b2c3d4e5f6"),
    ("MIG UUID", "9d1e2f3a-4b5c-5d6e-8f70-1a2b3c4d5e6f"),
    ("disk UUID", "5e0f1a2b-3c4d-4e5f-a6b7-c8d9e0f1a2b3"),
    ("serial number", "1651922047713"),
    ("serial number of a device", "0c-42-a1-03-00-7e-55-d3"),
    ("serial number in product data", "MT2239X07731"),
    ("vendor's field in product data", "ACMEVPD99321"),
    ("other vendor's field in product data", "YB-31337-77"),
    ("asset tag", "ACME-ASSET-4471"),
    ("board id", "0x9c00a1"),
    ("PDI", "0x3dbfc1a69487ac3b"),
    ("kernel address", "ffff9a3c4d5e6f70"),
    ("address in a process", "0x7f3c9a8b7d10"),
    ("process number", "918273"),
    ("process name", "train_acme_llm"),
    ("access token", "hf_aBcDeFgHiJkLmNoPqRsTuV123456"),
    ("password", "hunter2-correct"),
    ("job name", "acme-llm-job"),
    ("container id", "3f2a9b7c1d4e5f60718293a4b5c6d7e8f901a2b3c4d5e6f708192a3b4c5d6e7f"),
    ("bridge", "br-7d1e9f3a2b4c"),
    ("virtual interface", "veth9f3a1b2"),
    ("tunnel", "wg-berlin"),
    ("interface named by a person", "storage-acme"),
    ("RDMA device named by a person", "fabric_acme_a"),
    ("cloud instance", "i-0a1b2c3d4e5f67890"),
    ("LID", "31281"),
    ("internal page", "grafana.acme-labs.com"),
    ("the site, wherever", "acme"),
];

/// What a person has in the terminal around a tool's output.
const SESSION: &str = "\
annabel@gpuhost-acme17:~/secret-project$ echo $SLURM_JOB_NAME; env
Linux gpuhost-acme17 5.15.0-91-generic #101-Ubuntu SMP x86_64 GNU/Linux
SLURM_JOB_NAME=acme-llm-job
HF_TOKEN=hf_aBcDeFgHiJkLmNoPqRsTuV123456
HOME=/home/annabel
DB_PASSWORD=hunter2-correct
NCCL_DEBUG=INFO
Hostname: gpuhost-acme17.hpc.acme-labs.com
questions to annabel.smith@acme-labs.com, data in /mnt/lustre-acme/scratch and /home/annabel/secret-project, see
https://grafana.acme-labs.com/d/9f3?host=gpuhost-acme17 on gpuhost-acme17 (10.47.113.29, fd42:beef:1234::77a1)
instance i-0a1b2c3d4e5f67890, docker/3f2a9b7c1d4e5f60718293a4b5c6d7e8f901a2b3c4d5e6f708192a3b4c5d6e7f
UUID=5e0f1a2b-3c4d-4e5f-a6b7-c8d9e0f1a2b3 / ext4, pid 918273, --password hunter2-correct
annabel@gpuhost-acme17:~/secret-project$ ";

const SMI_Q: &str = "\
==============NVSMI LOG==============

Driver Version                            : 535.129.03
CUDA Version                              : 12.2

Attached GPUs                             : 2
GPU 00000000:02:00.0
    Product Name                          : NVIDIA H100 PCIe
    Serial Number                         : 1651922047713
    GPU UUID                              : GPU-7c3f9a12-58d4-4be1-9c07-a1b2c3d4e5f6
    GPU PDI                               : 0x3dbfc1a69487ac3b
    VBIOS Version                         : 96.00.74.00.01
    Board ID                              : 0x9c00a1
    Asset Tag                             : ACME-ASSET-4471
    PCI
        Bus Id                            : 00000000:02:00.0
        GPU Link Info
            PCIe Generation
                Max                       : 5
                Current                   : 5
            Link Width
                Max                       : 16x
                Current                   : 8x
    Processes
        GPU instance ID                   : N/A
        Process ID                        : 918273
            Type                          : C
            Name                          : /home/annabel/secret-project/train_acme_llm
            Used GPU Memory               : 512 MiB
GPU 00000000:03:00.0
    Product Name                          : NVIDIA H100 PCIe
    Serial Number                         : 1651922047713
    GPU UUID                              : MIG-9d1e2f3a-4b5c-5d6e-8f70-1a2b3c4d5e6f
";

const SMI: &str = "\
+---------------------------------------------------------------------------------------+
| NVIDIA-SMI 535.129.03             Driver Version: 535.129.03   CUDA Version: 12.2     |
|-----------------------------------------+----------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id        Disp.A | Volatile Uncorr. ECC |
|=========================================+======================+======================|
|   0  NVIDIA H100 PCIe               On  | 00000000:02:00.0 Off |                    0 |
| N/A   33C    P0              49W / 350W |    512MiB / 81559MiB |      0%      Default |
+-----------------------------------------+----------------------+----------------------+
+---------------------------------------------------------------------------------------+
| Processes:                                                                            |
|  GPU   GI   CI        PID   Type   Process name                            GPU Memory |
|=======================================================================================|
|    0   N/A  N/A    918273      C   train_acme_llm                              512MiB |
+---------------------------------------------------------------------------------------+
";

const TOPO: &str = "\
\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity
GPU0\t X \tPIX\tPIX\tSYS\t0-15\t0
GPU1\tPIX\t X \tPIX\tSYS\t0-15\t0
NIC0\tPIX\tPIX\t X \tSYS
NIC1\tSYS\tSYS\tSYS\t X 

NIC Legend:

  NIC0: rocex0c42a1fffe7e55d3
  NIC1: fabric_acme_a
";

const LSPCI: &str = "\
0000:02:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 PCIe] [10de:2331] (rev a1)
\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM not supported
\tLnkSta:\tSpeed 32GT/s, Width x8 (downgraded)
\tCapabilities: [2a8] Device Serial Number 0c-42-a1-03-00-7e-55-d3
0000:04:00.0 Infiniband controller [0207]: Mellanox Technologies MT2910 Family [ConnectX-7] [15b3:1021]
\tCapabilities: [48] Vital Product Data
\t\tProduct Name: NVIDIA ConnectX-7 HHHL adapter Card
\t\tRead-only fields:
\t\t\t[PN] Part number: MCX75310AAS-NEAT
\t\t\t[SN] Serial number: MT2239X07731
\t\t\t[V0] Vendor specific: ACMEVPD99321
\t\t\t[YB] Vendor specific: YB-31337-77
";

const DMESG: &str = "\
[    0.000000] Command line: BOOT_IMAGE=/boot/vmlinuz root=UUID=5e0f1a2b-3c4d-4e5f-a6b7-c8d9e0f1a2b3 ip=10.47.113.29 iommu=pt
[    0.500000] iommu: Default domain type: Passthrough (set via kernel command line)
[    1.000000] EXT4-fs (nvme0n1p2): mounted filesystem 5e0f1a2b-3c4d-4e5f-a6b7-c8d9e0f1a2b3 for acme
[    2.000000] mlx5_core 0000:04:00.0 enx0c42a17e55d3: renamed from eth3
[    2.500000] mlx5_core 0000:04:00.0 storage-acme: Link up
[    3.000000] device veth9f3a1b2 entered promiscuous mode on br-7d1e9f3a2b4c
[ 9001.500000] NVRM: Xid (PCI:0000:02:00): 31, pid=918273, name=train_acme_llm, Ch 00000008
[ 9002.000000] nvidia: RIP: 0010:ffff9a3c4d5e6f70 Comm: train_acme_llm Pid: 918273
Nov 22 15:00:00 gpuhost-acme17 kernel: NVRM: Xid (PCI:0000:02:00): 63, pid=918273, name=train_acme_llm
Nov 22 15:00:01 gpuhost-acme17 sshd[918273]: Accepted publickey for annabel from 10.47.113.29
";

const IBSTAT: &str = "\
CA 'fabric_acme_a'
\tCA type: MT4129
\tNumber of ports: 1
\tNode GUID: 0x0c42a103007e55d3
\tSystem image GUID: 0x0c42a103007e55d3
\tPort 1:
\t\tState: Active
\t\tPhysical state: LinkUp
\t\tRate: 400
\t\tBase lid: 31281
\t\tSM lid: 31281
\t\tPort GUID: 0x0c42a103007e55d3
\t\tLink layer: InfiniBand
hca_id:\trocex0c42a1fffe7e55d3
\tnode_guid:\t\t\t0c42:a103:007e:55d4
\tboard_id:\t\t\tMT_0000000838
\t\tport:\t1
\t\t\tstate:\t\t\tPORT_ACTIVE (4)
\t\t\tport_lid:\t\t31281
\t\t\tGID[  0]:\t\tfe80:0000:0000:0000:0c42:a103:007e:55d4
\t\t\tlink_layer:\t\tInfiniBand
";

const IP_LINK: &str = "\
1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536
2: eth0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500
    link/ether 0c:42:a1:7e:55:d3 brd ff:ff:ff:ff:ff:ff
    inet 10.47.113.29/24 brd 10.47.113.255 scope global eth0
    inet6 fd42:beef:1234::77a1/64 scope global
3: storage-acme: <BROADCAST,UP> mtu 9000 master br-7d1e9f3a2b4c
    altname enx0c42a17e55d3
4: br-7d1e9f3a2b4c: <BROADCAST,UP> mtu 1500
5: veth9f3a1b2@if4: <BROADCAST,UP> mtu 1500 master br-7d1e9f3a2b4c
6: wg-berlin: <POINTOPOINT,UP> mtu 1420
";

const LSTOPO: &str = r#"<?xml version="1.0"?>
<topology version="2.0">
 <object type="Machine" os_index="0" cpuset="0x000000ff" nodeset="0x00000001" gp_index="1">
  <info name="DMIProductName" value="G482"/>
  <info name="DMIProductSerial" value="1651922047713"/>
  <info name="DMIProductUUID" value="5e0f1a2b-3c4d-4e5f-a6b7-c8d9e0f1a2b3"/>
  <info name="DMIChassisAssetTag" value="ACME-ASSET-4471"/>
  <info name="HostName" value="gpuhost-acme17"/>
  <info name="ProcessName" value="train_acme_llm"/>
  <object type="Package" os_index="0" cpuset="0x000000ff" nodeset="0x00000001" gp_index="3">
   <info name="CPUModel" value="AMD EPYC 7543"/>
   <object type="NUMANode" os_index="0" cpuset="0x000000ff" nodeset="0x00000001" gp_index="9" local_memory="1024"/>
   <object type="Bridge" gp_index="20" bridge_type="0-1" bridge_pci="0000:[00-0f]">
    <object type="PCIDev" gp_index="22" pci_busid="0000:02:00.0" pci_type="0302 [10de:2331] [10de:118f] a1" pci_link_speed="0.000000">
     <object type="OSDev" gp_index="30" name="nvml0" osdev_type="1"><info name="NVIDIAUUID" value="GPU-7c3f9a12-58d4-4be1-9c07-a1b2c3d4e5f6"/><info name="NVIDIASerial" value="1651922047713"/></object>
    </object>
    <object type="PCIDev" gp_index="23" pci_busid="0000:04:00.0" pci_type="0207 [15b3:1017] [15b3:0003] 00">
     <object type="OSDev" gp_index="31" name="storage-acme" osdev_type="2"><info name="Address" value="0c:42:a1:7e:55:d3"/></object>
     <object type="OSDev" gp_index="32" name="fabric_acme_a" osdev_type="3"><info name="NodeGUID" value="0c42:a103:007e:55d4"/></object>
    </object>
   </object>
  </object>
 </object>
</topology>
"#;

const NCCL_XML: &str = r#"<system version="1">
  <cpu host_hash="0x0c42a103007e55d3" numaid="0" affinity="000000ff" arch="x86_64" vendor="AuthenticAMD" familyid="175" modelid="1">
    <pci busid="0000:02:00.0" class="0x030200" vendor="0x10de" device="0x2331" subsystem_vendor="0x10de" subsystem_device="0x18bf" link_speed="32.0 GT/s PCIe" link_width="16">
      <gpu dev="0" sm="90" rank="0" gdr="1"/>
    </pci>
    <pci busid="0000:03:00.0" class="0x030200" vendor="0x10de" device="0x2331" subsystem_vendor="0x10de" subsystem_device="0x18bf" link_speed="32.0 GT/s PCIe" link_width="16">
      <gpu dev="1" sm="90" rank="1" gdr="1"/>
    </pci>
    <pci busid="0000:04:00.0" class="0x020700" vendor="0x15b3" device="0x1021" subsystem_vendor="0x15b3" subsystem_device="0x0051" link_speed="32.0 GT/s PCIe" link_width="16">
      <nic>
        <net name="fabric_acme_a" dev="0" speed="400000" port="1" latency="0" guid="0x0c42a103007e55d3" maxconn="131072" gdr="1"/>
      </nic>
    </pci>
  </cpu>
</system>
"#;

const NCCL_LOG: &str = "\
gpuhost-acme17:918273:918273 [0] NCCL INFO Bootstrap : Using storage-acme:10.47.113.29<0>
gpuhost-acme17:918273:918273 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to storage-acme
gpuhost-acme17:918273:918273 [0] NCCL INFO NCCL_TOPO_FILE set by environment to /mnt/lustre-acme/topo.xml
NCCL version 2.18.5+cuda12.2
gpuhost-acme17:918273:918290 [0] NCCL INFO NET/IB : Using [0]fabric_acme_a:1/IB [RO]; OOB storage-acme:10.47.113.29<0>
gpuhost-acme17:918273:918290 [0] NCCL INFO comm 0x7f3c9a8b7d10 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 2000 commId 0x3dbfc1a69487ac3b - Init START
gpuhost-acme17:918273:918290 [0] NCCL INFO Channel 00/02 :    0   1
gpuhost-acme17:918273:918290 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read
# Rank  0 Group  0 Pid 918273 on gpuhost-acme17 device  0 [0x02] NVIDIA H100 PCIe
";

const PERFTEST: &str = "\
annabel@gpuhost-acme17:~$ ib_write_bw -d fabric_acme_a gpuhost-acme17
---------------------------------------------------------------------------------------
                    RDMA_Write BW Test
 Dual-port       : OFF\t\tDevice         : fabric_acme_a
 Number of qps   : 1\t\tTransport type : IB
 Mtu             : 4096[B]
 Link type       : IB
---------------------------------------------------------------------------------------
 local address: LID 31281 QPN 0x0b33 PSN 0x4a2f1c RKey 0x1800 VAddr 0x7f3c9a8b7d10
 GID: 00:00:00:00:00:00:00:00:00:00:255:255:10:47:113:29
 remote address: LID 31281 QPN 0x0b34 PSN 0x4a2f1d RKey 0x1801 VAddr 0x7f3c9a8b7d10
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 65536      5000             46000.10            45900.20               0.7343
---------------------------------------------------------------------------------------
";

const SYSTEM: &str = r#"# gpuhost-acme17 of annabel, serial 1651922047713
name = "gpuhost-acme17"
title = "The machine of annabel at acme"
source = "annabel.smith@acme-labs.com, 10.47.113.29"
notes = ["Data is in /mnt/lustre-acme/scratch.", "Its page is https://grafana.acme-labs.com/d/9f3."]
[nodes]
cpu0 = { part = "emerald-rapids-h200x4-vm", cpus = "0-63", numa = 0, note = "asked annabel on gpuhost-acme17" } # 10.47.113.29
GPU0 = { part = "h200", product = "NVIDIA H200", address = "0000:00:06.0" }
GPU1 = { part = "h200", product = "NVIDIA H200", address = "0000:00:07.0" }
[[links]]
between = ["cpu0", "GPU0"]
pcie = "5.0 x16"
[[links]]
between = ["cpu0", "GPU1"]
pcie = "5.0 x8"
"#;

/// The files of a tree of sysfs and `/proc`, by path; one that begins with `->` is a link.
pub(crate) const TREE: &[(&str, &str)] = &[
    ("sys/bus/pci/devices/0000:02:00.0", "-> ../../../devices/pci0000:00/0000:02:00.0"),
    ("sys/bus/pci/devices/0000:04:00.0", "-> ../../../devices/pci0000:00/0000:04:00.0"),
    ("sys/class/net/storage-acme", "-> ../../devices/pci0000:00/0000:04:00.0/net/storage-acme"),
    ("sys/class/net/enx0c42a17e55d3", "-> ../../devices/pci0000:00/0000:04:00.0/net/enx0c42a17e55d3"),
    ("sys/class/infiniband/fabric_acme_a", "-> ../../devices/pci0000:00/0000:04:00.0/infiniband/fabric_acme_a"),
    ("sys/devices/pci0000:00/0000:02:00.0/class", "0x030200\n"),
    ("sys/devices/pci0000:00/0000:02:00.0/vendor", "0x10de\n"),
    ("sys/devices/pci0000:00/0000:02:00.0/device", "0x2331\n"),
    ("sys/devices/pci0000:00/0000:04:00.0/class", "0x020700\n"),
    ("sys/devices/pci0000:00/0000:04:00.0/vendor", "0x15b3\n"),
    ("sys/devices/pci0000:00/0000:04:00.0/device", "0x1021\n"),
    ("sys/devices/pci0000:00/0000:04:00.0/net/storage-acme/operstate", "up\n"),
    ("sys/devices/pci0000:00/0000:04:00.0/net/storage-acme/address", "0c:42:a1:7e:55:d3\n"),
    ("sys/devices/pci0000:00/0000:04:00.0/net/enx0c42a17e55d3/operstate", "up\n"),
    ("sys/devices/pci0000:00/0000:04:00.0/infiniband/fabric_acme_a/node_guid", "0c42:a103:007e:55d4\n"),
    ("sys/devices/pci0000:00/0000:04:00.0/infiniband/fabric_acme_a/ports/1/state", "4: ACTIVE\n"),
    ("sys/devices/pci0000:00/0000:04:00.0/infiniband/fabric_acme_a/ports/1/rate", "400 Gb/sec (4X NDR)\n"),
    ("proc/sys/kernel/hostname", "gpuhost-acme17\n"),
    ("proc/cmdline", "BOOT_IMAGE=/vmlinuz root=UUID=5e0f1a2b-3c4d-4e5f-a6b7-c8d9e0f1a2b3 ip=10.47.113.29 iommu=pt\n"),
    (
        "proc/modules",
        "nvidia 56668160 12 - Live 0xffff9a3c4d5e6f70 (POE)\nnvidia_peermem 16384 0 - Live 0xffff9a3c4d5e6f70\n",
    ),
];

/// The name of a file says something too.
pub(crate) const NAMES: &str = "gpuhost-acme17-annabel";

/// The ending of the file and the text of each source.
pub(crate) fn sources() -> Vec<(&'static str, String)> {
    let printed = [
        ("q.txt", SMI_Q),
        ("smi.txt", SMI),
        ("topo.txt", TOPO),
        ("lspci.txt", LSPCI),
        ("dmesg.txt", DMESG),
        ("ibstat.txt", IBSTAT),
        ("ip.txt", IP_LINK),
        ("nccl.log", NCCL_LOG),
        ("perftest.txt", PERFTEST),
    ];
    let mut all: Vec<(&str, String)> =
        printed.into_iter().map(|(name, text)| (name, format!("{SESSION}\n{text}{SESSION}\n"))).collect();
    // what a person has pasted from a terminal may stand around a document too
    all.push(("lstopo.xml", LSTOPO.to_owned()));
    all.push(("nccl.xml", NCCL_XML.to_owned()));
    all.push(("system.toml", SYSTEM.to_owned()));
    all
}
