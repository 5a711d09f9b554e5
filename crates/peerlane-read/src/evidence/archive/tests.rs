//! Archives, sound and hostile.

use std::io::Write;

use super::*;

fn files() -> Files {
    let mut files = Files::default();
    let long = format!("sys/devices/{}/class", "pci0000:00/".repeat(20));
    let text = "0x030200\n".repeat(5000);
    for (path, text) in [(long.as_str(), text.as_str()), ("nvml.json", "{}"), ("empty", "")] {
        files.insert(path, Item::File(text.as_bytes().to_vec()));
    }
    files.insert("sys/bus/one", Item::Link(format!("../{}", "devices/".repeat(30))));
    files
}

/// What an archive of such entries gives: kind, path, link or content.
fn untarred(entries: &[(EntryType, &str, &str)]) -> (Files, Vec<String>) {
    let mut builder = Builder::new(Vec::new());
    for (kind, path, content) in entries {
        let mut header = Header::new_gnu();
        header.set_entry_type(*kind);
        // unlike the builder, the format takes any path
        let name = &mut header.as_old_mut().name;
        name[..path.len()].copy_from_slice(path.as_bytes());
        let file = matches!(*kind, EntryType::Regular);
        if !file {
            let link = &mut header.as_old_mut().linkname;
            link[..content.len()].copy_from_slice(content.as_bytes());
        }
        let content = if file { content.as_bytes() } else { &[] };
        header.set_size(content.len() as u64);
        header.set_cksum();
        builder.append(&header, content).unwrap();
    }
    untar(builder.into_inner().unwrap())
}

fn untar(tar: Vec<u8>) -> (Files, Vec<String>) {
    let found = unpacked(tar, MAX_KEPT, |_| false);
    (found.files, [found.unread, found.left_out].concat())
}

/// What a compressed file holds that is no archive.
fn decompressed(packed: &[u8]) -> (Vec<u8>, Vec<String>) {
    let found = unpacked(packed.to_vec(), MAX_KEPT, |_| false);
    (found.single.unwrap_or_default(), [found.unread, found.left_out].concat())
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// `text\n` by `xz --check=crc32`.
const XZ: &[u8] = include_bytes!("text.xz");

fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (path, content) in files {
        let mut header = Header::new_gnu();
        // unlike the builder, the format takes any path
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_size(content.len() as u64);
        header.set_cksum();
        builder.append(&header, *content).unwrap();
    }
    builder.into_inner().unwrap()
}

#[test]
fn what_is_packed_comes_back() {
    let packed = pack(&files(), 1).unwrap();
    assert!(Packing::of(&packed) == Some(Packing::Zstd) && packed.len() < 5000, "{} bytes", packed.len());
    assert_eq!(untar(packed), (files(), Vec::new()));
    // as pzstd writes them: several frames, and one that is to be skipped
    let skipped = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 9, 9, 9];
    let several = [zstd(b"one "), skipped.to_vec(), zstd(b"two")].concat();
    assert_eq!(decompressed(&several), (b"one two".to_vec(), Vec::new()));
}

#[test]
fn every_packing_of_a_text_and_of_files() {
    let text = b"some text\n".as_slice();
    let archive = tar(&[("a/b.txt", text)]);
    for (packing, pack) in
        [(Packing::Gzip, gzip as fn(&[u8]) -> Vec<u8>), (Packing::Bzip2, bzip2), (Packing::Zstd, zstd)]
    {
        let packed = pack(text);
        assert_eq!(Packing::of(&packed), Some(packing));
        assert_eq!(decompressed(&packed), (text.to_vec(), Vec::new()), "{packing:?}");
        assert_eq!(untar(pack(&archive)), untar(archive.clone()), "{packing:?}");
        let (cut, problems) = decompressed(&packed[..packed.len() - 1]);
        assert!(problems.len() == 1 && text.starts_with(&cut), "{packing:?} {problems:?}");
    }
    assert_eq!(decompressed(XZ), (b"text\n".to_vec(), Vec::new()));
    assert_eq!(decompressed(&XZ[..40]).1.len(), 1);
    // text that begins like a packing
    assert_eq!(Packing::of(b"BZh9 is a name"), None);
}

#[test]
fn archives_within_archives_keep_their_names() {
    let node = gzip(&tar(&[("dmesg.gz", &gzip(b"one")), ("log", b"two")]));
    let both = tar(&[("node1.tgz", &node), ("../out.tgz", &node), ("x.xz", XZ)]);
    let (files, problems) = untar(both);
    let paths: Vec<&str> = files.iter().map(|(path, _)| path).collect();
    assert_eq!(paths, ["node1.tgz/dmesg.gz", "node1.tgz/log", "x.xz"]);
    assert!(problems.len() == 1 && problems[0].starts_with("2 entries"), "{problems:?}");
    // without end
    let mut nested = b"x".to_vec();
    for _ in 0..9 {
        nested = gzip(&nested);
    }
    let found = unpacked(nested, MAX_KEPT, |_| false);
    assert!(found.single.is_none() && found.unread.len() == 1, "{:?}", found.unread);
}

#[test]
fn large_binary_files_are_passed_over() {
    let config = [&[0x86, 0x80, 0, 0][..], &[0; 4092]].concat();
    let journal = [&b"LPKSHHRH\0"[..], &[0; MAX_BINARY_BYTES]].concat();
    let (files, problems) = untar(tar(&[("config", &config), ("system.journal", &journal), ("log", b"text")]));
    let paths: Vec<&str> = files.iter().map(|(path, _)| path).collect();
    assert_eq!(paths, ["config", "log"]);
    assert_eq!(problems, ["of binary files 1 larger than 64 KiB are left out"]);
}

#[test]
fn what_leads_out_or_is_no_file_is_left_out() {
    let (files, problems) = untarred(&[
        (EntryType::Regular, "/etc/passwd", "x"),
        (EntryType::Regular, "../../etc/passwd", "x"),
        (EntryType::Regular, "a/../../b", "x"),
        (EntryType::Regular, "good", "text"),
        (EntryType::Symlink, "link", "../../../etc/shadow"),
        (EntryType::Link, "hard", "/etc/shadow"),
        (EntryType::Char, "null", ""),
        (EntryType::Block, "disk", ""),
        (EntryType::Fifo, "pipe", ""),
        (EntryType::new(b'?'), "odd", ""),
        (EntryType::Directory, "folder", ""),
    ]);
    let paths: Vec<&str> = files.iter().map(|(path, _)| path).collect();
    assert_eq!(paths, ["good", "link"]);
    assert!(problems.len() == 1 && problems[0].starts_with("8 entries"), "{problems:?}");
    use super::super::tree::Tree;
    assert_eq!(Tree::bytes(&files, "link", 9), None, "nothing is there");
}

#[test]
fn bombs_end_at_the_limit() {
    let bomb = compress_to_vec(io::repeat(b'a').take(MAX_KEPT as u64 + (1 << 20)), CompressionLevel::Fastest);
    assert!(bomb.len() < 1 << 20, "{} bytes", bomb.len());
    let (all, problems) = decompressed(&bomb);
    // of what is small less is kept
    assert_eq!(all.len(), KEPT_ANYHOW.max(bomb.len() * MOST_TIMES));
    assert!(bomb.len() * MOST_TIMES < MAX_KEPT && problems[0].contains("it unpacks to more than"), "{problems:?}");
    assert!(problems[0].contains("256 times its size"), "{problems:?}");
    // many small files that unpack to little each
    let part = zstd(&vec![b'a'; 1 << 20]);
    let parts: Vec<String> = (0..140).map(|i| format!("{i:03}.zst")).collect();
    let many: Vec<(&str, &[u8])> = parts.iter().map(|name| (name.as_str(), part.as_slice())).collect();
    let (files, problems) = untar(tar(&many));
    assert!(files.size() <= MAX_KEPT && problems.iter().any(|p| p.contains("it unpacks to more than")), "{problems:?}");
    // a file that claims a terabyte, and one whose size is no number
    let mut header = Header::new_gnu();
    header.as_old_mut().name[..1].copy_from_slice(b"a");
    header.set_size(1 << 40);
    header.set_cksum();
    let (files, problems) = untar([header.as_bytes().as_slice(), &[b'x'; 2048]].concat());
    assert!(files.size() <= 2048 && !problems.is_empty(), "{problems:?}");
    header.as_old_mut().size = [b'z'; 12];
    header.set_cksum();
    assert_eq!(untar(header.as_bytes().to_vec()).1.len(), 1);
}

#[test]
fn sparse_files_end_at_the_limit() {
    let mut header = Header::new_gnu();
    header.as_old_mut().name[..1].copy_from_slice(b"a");
    header.set_entry_type(EntryType::GNUSparse);
    header.set_size(0);
    let gnu = header.as_gnu_mut().unwrap();
    gnu.realsize.copy_from_slice(b"77777777777\0");
    gnu.sparse[0].offset.copy_from_slice(b"77777777777\0");
    gnu.sparse[0].numbytes.copy_from_slice(b"00000000000\0");
    header.set_cksum();
    let (files, problems) = untar([header.as_bytes().as_slice(), &[0; 1024]].concat());
    assert!(files.size() <= MAX_KEPT && problems.len() == 1, "{problems:?}");
}

#[test]
fn damage_is_said_and_never_a_panic() {
    let packed = pack(&files(), 1).unwrap();
    for cut in [1, 4, 9, packed.len() / 2, packed.len() - 1] {
        assert!(!untar(packed[..cut].to_vec()).1.is_empty() || cut < 4, "{cut}");
    }
    let tar = tar(&[("a", b"text"), ("b", &gzip(b"text"))]);
    let mut state = 1_u32;
    let mut random = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state as usize >> 8
    };
    for _ in 0..300 {
        for whole in [&packed, &tar, &gzip(&tar), &bzip2(&tar), &XZ.to_vec()] {
            let mut changed = whole.clone();
            for _ in 0..3 {
                let at = random() % changed.len();
                changed[at] = random() as u8;
            }
            unpacked(changed, MAX_KEPT, |_| false);
        }
    }
}

#[test]
fn what_was_cut_is_unread_and_what_nothing_reads_is_not() {
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gz.write_all(b"GPU 0: NVIDIA H200 (UUID: GPU-0)\nGPU 1: NVIDIA H200 (UUID: GPU-1)\n").unwrap();
    let gz = gz.finish().unwrap();
    let unread = |bytes: &[u8]| super::super::read_stream("t.gz", bytes).unwrap().unread.len();
    assert_eq!((unread(&gz), unread(&gz[..gz.len() - 4])), (0, 1));
    let device = unpacked(tar(&[("journal", vec![0; 70 << 10].as_slice())]), MAX_KEPT, |_| false);
    assert_eq!((device.unread.len(), device.left_out.len()), (0, 1));
}
