//! A machine below a folder is gathered, read back, and is the same machine.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use peerlane::assemble::assemble;
use peerlane::evidence::Found;
use peerlane::fact::Fact;

use super::*;

const UUID: &str = "GPU-1a2b3c4d-1111-2222-3333-0123456789ab";
const SERIAL: &str = "1650123456789";
const HOST: &str = "node7.example";

/// A folder that goes when the test ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("peerlane-gather-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    fn write(&self, file: &str, content: impl AsRef<[u8]>) {
        let path = self.0.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn link(&self, path: &str, target: &str) {
        fs::create_dir_all(self.0.join(path).parent().unwrap()).unwrap();
        symlink(target, self.0.join(path)).unwrap();
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Two GPUs and a NIC below one port, as the kernel shows them; and what no reader reads.
fn machine(name: &str) -> Scratch {
    let root = Scratch::new(name);
    let port = "sys/devices/pci0000:00/0000:00:03.0";
    let functions = [
        ("", "0x060400", "0x8086"),
        ("/0000:02:00.0", "0x030200", "0x10de"),
        ("/0000:03:00.0", "0x030200", "0x10de"),
        ("/0000:04:00.0", "0x020700", "0x15b3"),
    ];
    for (folder, class, vendor) in functions {
        let folder = format!("{port}{folder}");
        let values = [("class", class), ("vendor", vendor), ("numa_node", "0"), ("current_link_width", "16")];
        for (file, value) in values {
            root.write(&format!("{folder}/{file}"), value);
        }
        root.write(&format!("{folder}/config"), [0; 64]);
        let address = folder.rsplit('/').next().unwrap();
        root.link(&format!("sys/bus/pci/devices/{address}"), &format!("../../../{}", &folder[4..]));
    }
    let interface = format!("{port}/0000:04:00.0/net/enx001b21aabbcc");
    root.write(&format!("{interface}/speed"), "100000\n");
    root.write(&format!("{interface}/address"), "00:1b:21:aa:bb:cc\n");
    root.link(&format!("{interface}/device"), "../../../0000:04:00.0");
    root.link("sys/class/net/enx001b21aabbcc", &format!("../../{}", &interface[4..]));
    root.write("sys/devices/system/node/node0/cpulist", "0-1\n");
    root.write(
        "proc/cpuinfo",
        "processor\t: 0\nmodel name\t: A CPU\nflags\t: fpu\n\nprocessor\t: 1\nmodel name\t: A CPU\nflags\t: fpu\n\n",
    );
    root.write("proc/modules", "nvidia 1 0 - Live 0x0 (O)\n");
    root.write("proc/sys/kernel/hostname", format!("{HOST}\n"));
    root.write("proc/sys/kernel/osrelease", "6.8.0\n");
    root.write(
        "proc/cmdline",
        "BOOT_IMAGE=/vmlinuz root=UUID=aabbccdd-1111-2222-3333-0123456789ab iommu=pt secret=x\n",
    );
    root.write("proc/driver/nvidia/gpus/0000:02:00.0/information", format!("Model: \t A GPU\nGPU UUID: \t {UUID}\n"));
    root.write("etc/os-release", "NAME=Linux\n");
    root.link("sys/class/dmi/id", "/etc");
    root
}

fn answers() -> Vec<Output> {
    let smi = format!(
        "$ nvidia-smi -q\n==============NVSMI LOG==============\n\nAttached GPUs : 2\nGPU 00000000:02:00.0\n    Product Name : NVIDIA H100\n    \
         Serial Number : {SERIAL}\n    GPU UUID : {UUID}\nGPU 00000000:03:00.0\n    Product Name : NVIDIA H100\n    Serial Number : 99887766554\n"
    );
    let answer = |path: &str, command: &str, said: Result<&str, &str>| Output {
        path: path.to_owned(),
        command: command.to_owned(),
        said: said.map(str::to_owned).map_err(str::to_owned),
    };
    let nvml = format!(
        "{{\"schema\": \"peerlane/nvml/1\", \"gpus\": [{{\"index\": 0, \"name\": \"NVIDIA H100\", \"uuid\": \"{UUID}\", \"serial\": \"{SERIAL}\", \
         \"address\": \"0000:02:00.0\"}}, {{\"index\": 1, \"name\": \"NVIDIA H100\", \"address\": \"0000:03:00.0\"}}]}}"
    );
    vec![
        answer("nvml.json", "NVML", Ok(&nvml)),
        answer("nvidia-smi-q.txt", "nvidia-smi -q", Ok(&smi)),
        answer("nvidia-smi-topo-m.txt", "nvidia-smi topo -m", Err("not installed")),
        answer("lspci-vvv.txt", "lspci -D -nn -vvv", Err("not installed")),
    ]
}

fn gathered(root: &Scratch, redacted: bool) -> (Files, Manifest) {
    let mut gathered = Gathered::default();
    gathered.machine(&root.0);
    gathered.programs(&answers());
    gathered.finish(7, redacted, None)
}

/// What is read of a machine, without what programs say of it.
fn of_kernel(found: &Found) -> Vec<Fact> {
    let facts = found.evidence.iter().filter(|e| e.origin.tool == "sysfs" || e.origin.tool.starts_with("/proc"));
    facts.map(|e| e.fact.clone()).collect()
}

#[test]
fn a_gathered_machine_reads_like_the_machine_itself() {
    let root = machine("same");
    let (files, _) = gathered(&root, false);
    let direct = of_kernel(&evidence::read_path(&root.0).unwrap());
    assert!(direct.len() >= 3, "{direct:?}");
    assert_eq!(of_kernel(&evidence::read_files("memory", &files)), direct);
    let folder = root.0.join("gathered");
    Target::Folder(&folder).write(&files, 7).unwrap();
    assert_eq!(of_kernel(&evidence::read_path(&folder).unwrap()), direct);
    let archive = root.0.join("gathered.tar.zst");
    Target::Archive(&archive).write(&files, 7).unwrap();
    let found = evidence::read_path(&archive).unwrap();
    assert_eq!(of_kernel(&found), direct);
    let machines = assemble(found);
    assert_eq!(machines.len(), 1, "{:?}", machines.iter().map(|m| &m.name).collect::<Vec<_>>());
    assert_eq!(machines[0].name, HOST);
}

#[test]
fn redaction_removes_originals_and_keeps_the_machine() {
    let root = machine("redacted");
    let (plain, _) = gathered(&root, false);
    let (files, manifest) = gathered(&root, true);
    assert!(manifest.redacted);
    let everything: String = files
        .iter()
        .map(|(path, item)| match item {
            Item::File(bytes) => format!("{path} {}\n", String::from_utf8_lossy(bytes)),
            Item::Link(target) => format!("{path} {target}\n"),
        })
        .collect();
    for secret in
        [UUID, &UUID[4..], SERIAL, "99887766554", HOST, "node7", "001b21aabbcc", "00:1b:21", "aabbccdd", "secret"]
    {
        assert!(!everything.contains(secret), "{secret}");
    }
    // the same GPU still is the same everywhere
    assert_eq!(everything.matches("GPU-00000000-0000-0000-0000-000000000001").count(), 3, "{everything}");
    let shape = |files: &Files| {
        let machine = assemble(evidence::read_files("x", files)).remove(0);
        machine.fabric.links().iter().map(|l| format!("{:?} {:?} {:?}", l.a, l.b, l.kind)).collect::<Vec<_>>()
    };
    assert_eq!(shape(&files), shape(&plain));
}

#[test]
fn the_manifest_lists_what_is_missing_and_nothing_else_is_saved() {
    let root = machine("manifest");
    let (files, manifest) = gathered(&root, false);
    let missing: Vec<String> = manifest.missing.iter().map(|m| format!("{}: {}", m.what, m.why)).collect();
    assert!(missing.iter().any(|m| m == "nvidia-smi topo -m, lspci -D -nn -vvv: not installed"), "{missing:?}");
    assert!(missing.iter().any(|m| m.starts_with("/proc/driver/nvidia/version: ")), "{missing:?}");
    assert!(missing.iter().any(|m| m.contains("only root")) || manifest.missing.len() >= 3);
    let text = |wanted: &str| {
        files.iter().find_map(|(path, item)| match item {
            Item::File(bytes) if path == wanted => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        })
    };
    assert_eq!(text("root/proc/cmdline").as_deref(), Some("iommu=pt\n"));
    assert_eq!(text("root/proc/cpuinfo").unwrap().matches("fpu").count(), 1);
    assert!(text("manifest.json").unwrap().contains("peerlane/gather/1"));
    // the interface's address is read by nobody, and a link out of the tree is not followed
    assert!(files.iter().all(|(path, _)| !path.ends_with("/address") && !path.contains("dmi")));
    assert_eq!(manifest.items + 1, files.len());
}

#[test]
fn the_total_size_is_limited() {
    let mut gathered = Gathered::default();
    let answer = |n: usize| Output { path: format!("{n}.txt"), command: n.to_string(), said: Ok("x".repeat(20 << 20)) };
    gathered.programs(&(0..4).map(answer).collect::<Vec<_>>());
    let (files, manifest) = gathered.finish(0, false, None);
    assert!(files.size() < MOST + 4096);
    assert_eq!((manifest.saved.len(), manifest.missing.len()), (3, 1));
    assert!(manifest.missing[0].why.contains("64 MiB"));
}

#[test]
fn an_unusable_output_is_rejected_before_any_query() {
    let root = Scratch::new("target");
    root.write("full/file", "x");
    let refused = |name: &str| match Target::named(&root.0.join(name)) {
        Err(Failure::Message(message)) => message,
        _ => panic!("{name} is accepted"),
    };
    assert!(refused("full").contains("not empty"));
    assert!(refused("x.tar.gz").contains(".tar.zst") && refused("x.zip").contains(".tar.zst"));
    assert!(refused("full/file").contains("file"), "no folder");
    assert!(matches!(Target::named(&root.0.join("new")), Ok(Target::Folder(_))));
    assert!(matches!(Target::named(&root.0.join("new.tar.zst")), Ok(Target::Archive(_))));
}

#[path = "../../../tests/suite/planted.rs"]
#[allow(dead_code, reason = "shared with the tests of the program")]
mod planted;

#[test]
fn a_redacted_archive_identifies_nothing() {
    let root = Scratch::new("planted");
    for (path, text) in planted::TREE {
        match text.strip_prefix("-> ") {
            Some(target) => {
                fs::create_dir_all(root.0.join(path).parent().unwrap()).unwrap();
                symlink(target, root.0.join(path)).unwrap();
            }
            None => root.write(path, text),
        }
    }
    let failed = Output {
        path: "x".to_owned(),
        command: "nvidia-smi topo -m".to_owned(),
        said: Err("/home/annabel/secret-project/nvidia-smi: not found on gpuhost-acme17".to_owned()),
    };
    let printed = planted::sources().into_iter().map(|(name, text)| Output {
        path: name.to_owned(),
        command: name.to_owned(),
        said: Ok(text),
    });
    let answers: Vec<Output> = printed.chain([failed]).collect();
    let leaks = |redacted: bool| -> Vec<String> {
        let mut gathered = Gathered::default();
        gathered.machine(&root.0);
        gathered.programs(&answers);
        let (files, _) = gathered.finish(7, redacted, None);
        let archive = root.0.join("machine.tar.zst");
        Target::Archive(&archive).write(&files, 7).unwrap();
        let unpacked = evidence::unpack("machine.tar.zst", fs::read(&archive).unwrap()).unwrap();
        assert_eq!(unpacked.len(), files.len());
        let mut found = Vec::new();
        for (path, item) in unpacked.iter() {
            let content = match item {
                Item::File(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                Item::Link(target) => target.clone(),
            };
            let text = format!("{path}\n{content}").to_lowercase();
            let there = planted::SECRETS.iter().filter(|(_, secret)| text.contains(&secret.to_lowercase()));
            found.extend(there.map(|(kind, secret)| format!("{path}: {kind} {secret}")));
        }
        found
    };
    let redacted = leaks(true);
    assert!(redacted.is_empty(), "{} leaks\n{}", redacted.len(), redacted.join("\n"));
    let plain = leaks(false);
    assert!(plain.len() > 100, "the test sees only {}: {}", plain.len(), plain.join("\n"));
}

#[test]
fn schema_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema/gather-1.json");
    let fresh = serde_json::to_string_pretty(&schemars::schema_for!(Manifest)).unwrap() + "\n";
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        fs::write(&path, &fresh).unwrap();
    }
    assert!(fs::read_to_string(&path).unwrap_or_default() == fresh, "stale: run UPDATE_SCHEMA=1 cargo test schema");
}
