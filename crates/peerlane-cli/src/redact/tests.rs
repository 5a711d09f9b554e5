//! What is replaced in texts, files and documents, and what stays.

use serde_json::Value;

use super::*;

#[path = "../../tests/suite/planted.rs"]
#[allow(dead_code, clippy::duplicate_mod)]
mod planted;
#[path = "../../tests/suite/planted_sites.rs"]
mod planted_sites;

/// The texts themselves, of which outputs show only a part.
#[test]
fn nothing_planted_is_left_in_a_text() {
    let secrets: Vec<_> = planted::SECRETS.iter().chain(planted_sites::SECRETS).collect();
    let sources: Vec<_> = planted::sources().into_iter().chain(planted_sites::sources()).collect();
    let mut redactor = Redactor::default();
    sources.iter().for_each(|(_, text)| redactor.learn(text));
    let mut found = Vec::new();
    for (name, text) in &sources {
        let planted = |text: &str, secret: &str| text.to_lowercase().contains(&secret.to_lowercase());
        // within a document too, as records hold what tools printed
        let packed = serde_json::json!({"schema": "x/1", "evidence": [{"name": "x", "text": text}]}).to_string();
        for done in [redactor.text(text), redactor.text(&packed), Redactor::default().text(text)] {
            for (kind, secret) in secrets.iter().filter(|(_, secret)| planted(&done, secret)) {
                let line = done.lines().find(|line| planted(line, secret)).unwrap_or_default();
                found.push(format!("{name}: {kind} {secret}: {}", &line[..line.len().min(200)]));
            }
        }
    }
    found.dedup();
    assert!(found.is_empty(), "{} leaks\n{}", found.len(), found.join("\n"));
    let all: String = sources.iter().map(|(_, text)| text.to_lowercase()).collect();
    let absent: Vec<_> = secrets.iter().filter(|(_, secret)| !all.contains(&secret.to_lowercase())).collect();
    assert!(absent.len() < 2, "planted nowhere: {absent:?}");
}

/// The row of a table in which NCCL's log goes on.
#[test]
fn a_host_behind_a_number_is_replaced() {
    let done = done("gpu-7:12:12 [0] NCCL INFO x\n   8   2   float   sum   -1gpu-7:12:12 [0] NCCL INFO y\n");
    assert_eq!(done, "host-1:1:1 [0] NCCL INFO x\n   8   2   float   sum   -1host-1:1:1 [0] NCCL INFO y\n");
}

/// A text after all of it was learned.
fn done(text: &str) -> String {
    let mut redactor = Redactor::default();
    redactor.learn(text);
    redactor.text(text)
}

#[test]
fn the_tables_are_sound() {
    rules::sound();
    lines::sound();
}

#[test]
fn forms_are_kept() {
    for (from, to) in [
        (
            "GPU 0: NVIDIA H200 (UUID: GPU-1a2b3c4d-1111-2222-3333-0123456789ab)",
            "GPU 0: NVIDIA H200 (UUID: GPU-00000000-0000-0000-0000-000000000001)",
        ),
        ("mac 00:1B:21:aa:bb:cc.", "mac 00:00:00:00:00:01."),
        ("946d:ae03:00f4:3f2c x", "0000:0000:0000:0001 x"),
        ("Device Serial Number 94-6d-ae-03-00-f4-3f-2c", "Device Serial Number 00-00-00-00-00-00-00-01"),
        ("class/net/enx001b21aabbcc/speed", "class/net/enx000000000001/speed"),
        ("rocex0c42a1ffabcd", "rocex000000000001"),
        ("inet 10.12.13.14/24 scope", "inet 192.0.2.1/24 scope"),
        ("inet6 fe80::e42:a1ff:feff:abcd/64", "inet6 2001:db8::1/64"),
        ("RIP: 0010:0xffffffffc0a1b2c3", "RIP: 0010:0x0000000000000001"),
        ("anna@node7:~/acme$ nvidia-smi topo -m", "user-1@host-1:~$ nvidia-smi topo -m"),
        ("mail anna.smith@acme.example now", "mail user-1@host-1 now"),
    ] {
        assert_eq!(done(from), to);
    }
    // PCI addresses, zeros, times, versions, numbers and words identify nothing
    for plain in [
        "00000000:C1:00.0",
        "0000:3b:00.1",
        "FFFFFFFF:FF:FF.0",
        "00000000-0000-0000-0000-000000000000",
        "04:07:39",
        "0x30f1ae37",
        "0-31,64-95",
        "dead:beef",
        "00000000,0000ffff",
        "a-b-c-d-e-f",
        "face-cafe",
        "VBIOS Version : 96.00.74.00.01",
        "std::vector<int> 0.0.0.0",
        "driver 535.129.03, CUDA 12.2, libnccl.so.2.18.5",
        "Region 0: Memory at 38bfe0000000 (64-bit, prefetchable) [size=64K]",
        "NCCL_DEBUG=INFO NCCL_P2P_LEVEL=SYS P2P=Enabled",
        "Intel(R) Xeon(R) Platinum 8480+ @ 2.00GHz",
        "GPU0\t X \tNV18\tSYS\t0-63\t0\t\tN/A",
        "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1 12.5 GB/s",
        "see https://docs.nvidia.com/cuda/ and https://github.com/NVIDIA/nccl-tests",
    ] {
        assert_eq!(done(plain), plain);
    }
}

#[test]
fn values_of_keys_are_replaced_everywhere() {
    let text = "    Serial Number      : 1650123456789\n    GPU PDI   : 0x2cafb0a593765b2a\n    Board ID : 0x600\n    \
                Serial Number : N/A\n   [SN] Serial number: MT2144X00123\n   [YB] Vendor specific: 31337ACME\n   [PN] Part number: \
                MCX75310AAS-NEAT\n   \"serial\": \"1650123456789\",\n  Name : /home/anna/train.py\nProduct Name : NVIDIA H200\n\
                bus 0x600 of 1650123456789x\n";
    let done = done(text);
    for secret in ["0x2cafb0a593765b2a", "MT2144X00123", "31337ACME", "anna", "1650123456789\n", "1650123456789\""] {
        assert!(!done.contains(secret), "{secret} in {done}");
    }
    assert!(
        done.contains("Serial Number      : redacted-1\n") && done.contains("\"serial\": \"redacted-1\","),
        "{done}"
    );
    assert!(done.contains("Serial Number : N/A") && done.contains("Part number: MCX75310AAS-NEAT"), "{done}");
    assert!(done.contains("Product Name : NVIDIA H200\nbus 0x600 of 1650123456789x"), "{done}");
}

#[test]
fn only_known_kinds_of_names_stay() {
    let text = "2: eth0: <UP> mtu 1500\n3: storage-acme@if7: <UP> mtu 9000\n4: br-3f2a1b4c5d6e: <UP>\n5: wg-berlin: <UP>\n\
                NIC0: mlx5_0\nNIC1: acme_ib\nto storage-acme over acme_ib";
    assert_eq!(
        done(text),
        "2: eth0: <UP> mtu 1500\n3: net-1@if7: <UP> mtu 9000\n4: net-2: <UP>\n5: net-3: <UP>\nNIC0: mlx5_0\nNIC1: net-4\n\
         to net-1 over net-4"
    );
    let log = "[    1.000000] EXT4-fs (acme-vg): mounted for anna\n[    2.000000] NVRM: Xid (PCI:0000:3b:00): 31, pid=4711, \
               name=train-acme, Ch 8\n[    0.000000] Command line: BOOT_IMAGE=/vmlinuz root=UUID=x ip=10.1.2.3 iommu=pt";
    assert_eq!(
        done(log),
        "[    1.000000] (removed)\n[    2.000000] NVRM: Xid (PCI:0000:3b:00): 31, pid=1, name=process-1, Ch 8\n\
         [    0.000000] Command line: iommu=pt"
    );
    let syslog = "Nov 22 15:00:00 n7-x sshd[12]: annabel\nNov 22 15:00:01 n7-x kernel: NVRM: Xid (PCI:0000:3b:00): 79\n\
                  2024-01-01T00:00:00Z GPU0 X NV18";
    assert_eq!(
        done(syslog),
        "Nov 22 15:00:00 host-1 (removed)\nNov 22 15:00:01 host-1 kernel: NVRM: Xid (PCI:0000:3b:00): 79\n\
         2024-01-01T00:00:00Z GPU0 X NV18"
    );
    assert_eq!(
        done("SLURM_JOB_NAME=acme-train HOME=/home/anna NCCL_DEBUG=INFO"),
        "SLURM_JOB_NAME=redacted-1 HOME=redacted-2 NCCL_DEBUG=INFO"
    );
    assert_eq!(done("reads /mnt/acme/data and /sys/bus/pci"), "reads /path-1 and /sys/bus/pci");
}

/// A text of so many lines, each with names that no other has.
fn of_names(lines: usize) -> String {
    let line = |i: usize| {
        format!(
            "# Rank {i} Group 0 Pid {i} on gpu-{i} device 0 [0x01] NVIDIA H200\ninet 10.{}.{}.{}/24 of u{i}x@gpu-{i}\n",
            i >> 16,
            (i >> 8) & 255,
            i & 255
        )
    };
    (0..lines).map(line).collect()
}

/// However many names there are, each is replaced wherever it stands, also before the place where it is named.
#[test]
fn many_names_are_all_replaced() {
    const NAMES: usize = 50_000;
    let other: String = (0..NAMES).map(|i| format!("link of gpu-{i} is up\n")).collect();
    let mut redactor = Redactor::default();
    let done = redactor.text(&(other + &of_names(NAMES)));
    assert!(!done.contains("gpu-"), "{}", done.lines().find(|line| line.contains("gpu-")).unwrap());
    assert!(done.starts_with("link of host-1 is up\nlink of host-2 is up\n"), "{}", &done[..80]);
    let addresses: BTreeSet<&str> = done.split("inet ").skip(1).filter_map(|rest| rest.split('/').next()).collect();
    assert_eq!(addresses.len(), NAMES, "each address is another one");
}

/// More names than there is room for: nothing is let through.
#[test]
fn too_many_names_let_nothing_through() {
    let mut redactor = Redactor::default();
    assert_eq!(redactor.text(&of_names(100_000)), "");
    assert_eq!(redactor.line("gpu-99999 gpu-1"), "");
}

/// Seconds that this thread had a processor, since others may want it too; where the system does not say, seconds.
fn processor() -> f64 {
    static START: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns: Option<f64> = stat.split(' ').next().and_then(|ns| ns.parse().ok()).filter(|ns| *ns > 0.0);
    ns.map_or_else(|| START.elapsed().as_secs_f64(), |ns| ns / 1e9)
}

/// Eight times the text takes about eight times the time, whatever is in it: with a quadratic step it would be up to 64 times.
#[test]
fn the_time_grows_with_the_text() {
    let kinds: [fn(usize) -> String; 6] = [
        of_names,
        |n| "GPU0\t X \tNV18\tSYS\t0-63\t0\t\tN/A\n".repeat(3 * n),
        |n| {
            format!(
                "{{\"hosts\":[{}{{}}]}}",
                (0..2 * n).map(|i| format!("{{\"host\":\"gpu-{i}\"}},")).collect::<String>()
            )
        },
        |n| (0..6 * n).map(|i| format!("a@b{i} ")).collect(),
        |n| "ab-".repeat(20 * n),
        |n| " /a".repeat(6 * n),
    ];
    for (i, of) in kinds.into_iter().enumerate() {
        let time = |text: &str| {
            let took = |_| {
                let (mut redactor, start) = (Redactor::default(), processor());
                assert!(!redactor.text(text).is_empty());
                processor() - start
            };
            (0..4).map(took).fold(f64::INFINITY, f64::min)
        };
        let (short, long) = (of(1000), of(8000));
        let ratio = time(&long) / time(&short);
        assert!(ratio <= 24.0, "text {i}: eight times the text takes {ratio:.2} times as long");
    }
}

#[test]
fn documents_are_read_by_their_fields() {
    let text = r#"{"host":"node7","gpus":[{"serial":"1650123456789","processes":[{"pid":4711,"name":"python acme"}]}],
        "evidence":[{"name":"q","text":"Serial Number : 1650123456789\nhostname: node7\n"}],"value":1.5}"#;
    let done: Value = serde_json::from_str(&done(text)).unwrap();
    assert_eq!(done["host"], "host-1");
    assert_eq!(done["gpus"][0]["serial"], "redacted-1");
    assert_eq!(done["gpus"][0]["processes"][0], serde_json::json!({"pid": 1, "name": "process-1"}));
    assert_eq!(done["evidence"][0]["text"], "Serial Number : redacted-1\nhostname: host-1\n");
    assert_eq!(done["value"], 1.5);
}

#[test]
fn files_paths_links_and_configuration_space() {
    let mut files = Files::default();
    let mut config = vec![0_u8; 512];
    config[0x100..0x104].copy_from_slice(&0x1501_0001_u32.to_le_bytes());
    config[0x150..0x154].copy_from_slice(&0x0001_0003_u32.to_le_bytes());
    config[0x154..0x15c].fill(0xab);
    files.insert("root/sys/bus/pci/devices/0000:01:00.0", Item::Link("../../../devices/x".into()));
    files.insert("root/sys/devices/x/config", Item::File(config.clone()));
    files.insert("root/sys/class/net/enx001b21aabbcc", Item::Link("../../devices/x/net/enx001b21aabbcc".into()));
    files.insert("root/sys/devices/x/net/storage-acme/operstate", Item::File(b"up\n".to_vec()));
    files.insert("root/proc/sys/kernel/hostname", Item::File(b"up-node\n".to_vec()));
    files
        .insert("acme-node7.txt", Item::File(b"GPU UUID : GPU-1a2b3c4d-1111-2222-3333-0123456789ab\nup-node".to_vec()));
    let mut redactor = Redactor::default();
    redactor.learn_files(&files);
    let done = redactor.files(&files);
    let paths: Vec<&str> = done.iter().map(|(path, _)| path).collect();
    assert_eq!(
        paths,
        [
            "root/proc/sys/kernel/hostname",
            "root/sys/bus/pci/devices/0000:01:00.0",
            "root/sys/class/net/enx000000000002",
            "root/sys/devices/x/config",
            "root/sys/devices/x/net/net-1/operstate",
            "source-1.txt"
        ]
    );
    let text = format!("{done:?}");
    assert!(!text.contains("1a2b3c4d") && !text.contains("up-node") && !text.contains("acme"));
    let Some((_, Item::File(after))) = done.iter().find(|(path, _)| path.ends_with("config")) else { panic!() };
    assert_eq!((after[0x154..0x15c].to_vec(), after.len()), (vec![0; 8], 512));
    assert_eq!(after[..0x154], config[..0x154]);
    assert_eq!(without_serial(&[0xff; 300]).len(), 300);
}
