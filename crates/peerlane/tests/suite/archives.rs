//! Archives as targets: what a folder gives, its archive gives, and hostile ones are refused.

use std::path::Path;

use peerlane::assemble::assemble;
use peerlane::evidence::{Files, Found, Item, pack, read_files, read_path, read_stream};
use peerlane::fact::Fact;

/// A machine's sysfs with a GPU below a port, as the kernel links it.
fn machine() -> Files {
    let mut files = Files::default();
    let port = "sys/devices/pci0000:00/0000:00:03.0";
    for (folder, class, vendor) in
        [(port, "0x060400", "0x8086"), (&format!("{port}/0000:02:00.0"), "0x030200", "0x10de")]
    {
        for (name, value) in [("class", class), ("vendor", vendor), ("numa_node", "0"), ("current_link_width", "8")] {
            files.insert(&format!("{folder}/{name}"), Item::File(value.as_bytes().to_vec()));
        }
        let link = format!("../../../{}", folder.trim_start_matches("sys/"));
        files.insert(&format!("sys/bus/pci/devices/{}", folder.rsplit('/').next().unwrap()), Item::Link(link));
    }
    let topo = "\tGPU0\tCPU Affinity\nGPU0\t X \t0-7\n";
    files.insert("proc/sys/kernel/hostname", Item::File(b"node7\n".to_vec()));
    let mut all = Files::default();
    all.append("a machine/root", files);
    all.insert("a machine/topo.txt", Item::File(topo.as_bytes().to_vec()));
    all
}

fn facts(found: Found) -> Vec<Fact> {
    found.evidence.into_iter().map(|e| e.fact).collect()
}

#[cfg(unix)]
#[test]
fn an_archive_says_what_its_folder_says() {
    let folder = std::env::temp_dir().join(format!("peerlane-archives-{}", std::process::id()));
    for (path, item) in machine().iter() {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        match item {
            Item::File(bytes) => std::fs::write(path, bytes).unwrap(),
            Item::Link(target) => std::os::unix::fs::symlink(target, path).unwrap(),
        }
    }
    let packed = pack(&machine(), 0).unwrap();
    std::fs::write(folder.join("gathered.tar.zst"), &packed).unwrap();
    let of_folder = read_path(&folder.join("a machine")).unwrap();
    let of_file = read_path(&folder.join("gathered.tar.zst")).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!((of_folder.warnings.len(), of_file.warnings.len()), (0, 0));
    let of_folder = facts(of_folder);
    assert!(matches!(&of_folder[..], [Fact::Pci(_), Fact::Host(_), Fact::Classes(_)]), "{of_folder:?}");
    assert_eq!(facts(of_file), of_folder);
    assert_eq!(facts(read_stream("-", packed.as_slice()).unwrap()), of_folder);
    assert_eq!(facts(read_files("x", &machine())), of_folder);
}

#[test]
fn the_machine_is_whole() {
    let packed = pack(&machine(), 0).unwrap();
    let machines = assemble(read_stream("x.tar.zst", packed.as_slice()).unwrap());
    let [machine] = &machines[..] else { panic!("{} machines", machines.len()) };
    assert_eq!(machine.name, "node7");
    let gpu = machine.fabric.find("GPU0").unwrap();
    assert_eq!(machine.fabric.node(gpu).address.unwrap().to_string(), "0000:02:00.0");
}

#[test]
fn archives_within_archives_are_entered_and_cuts_are_said() {
    let mut files = Files::default();
    let topo =
        std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures/h200x2-vm/nvidia-smi-topo-m.txt"));
    files.insert("topo", Item::File(topo.unwrap()));
    let tar = pack(&files, 0).unwrap();
    // the archive of a host within that of many
    let mut outer = Files::default();
    outer.insert("inner.tar.zst", Item::File(tar.clone()));
    let found = read_stream("x", pack(&outer, 0).unwrap().as_slice()).unwrap();
    assert_eq!((found.evidence.len(), found.warnings.len()), (1, 0));
    assert_eq!(facts(read_stream("x", tar.as_slice()).unwrap()).len(), 1);
    let cut = read_stream("x", &tar[..tar.len() - 9]).map(|found| found.warnings.len() + found.unread.len());
    assert!(cut.is_err() || cut.is_ok_and(|said| said > 0), "what is missing is said");
}

#[test]
fn a_bundle_of_two_hosts_gives_two_machines() {
    let lspci = |width: u32| {
        format!(
            "0000:17:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 PCIe] [10de:2331] (rev a1)\n\
             \tLnkCap:\tPort #0, Speed 32GT/s, Width x16\n\tLnkSta:\tSpeed 32GT/s, Width x{width}\n"
        )
    };
    let messages = "Nov  2 03:10:04 h postfix[1]: fatal: unable to open lock file\nError: 3 problems were found\n";
    let mut bundle = Files::default();
    for (host, width) in [("node1", 16), ("node2", 4)] {
        let mut files = Files::default();
        for (path, text) in [("sos_commands/pci/lspci", lspci(width)), ("var/log/messages", messages.to_owned())] {
            files.insert(&format!("{host}/{path}"), Item::File(text.into_bytes()));
        }
        bundle.insert(&format!("{host}.tar.zst"), Item::File(pack(&files, 0).unwrap()));
    }
    let found = read_stream("bundle", pack(&bundle, 0).unwrap().as_slice()).unwrap();
    // the logs of a system are about anything
    assert!(!found.evidence.iter().any(|e| matches!(e.fact, Fact::OpenLine(_))), "{:?}", found.evidence);
    let machines = assemble(found);
    let shown: Vec<(&str, bool)> = machines
        .iter()
        .map(|machine| {
            (machine.name.as_str(), machine.evidence.iter().any(|e| format!("{:?}", e.fact).contains("lanes: Some(4)")))
        })
        .collect();
    assert_eq!(shown, [("node1", false), ("node2", true)]);
}
