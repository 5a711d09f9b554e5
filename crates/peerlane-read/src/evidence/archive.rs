//! Archives of gathered machines, `.tar.zst`: packed, and unpacked in memory only.
//!
//! An archive may come from anybody. Nothing of it is written to disk, no path or link leads out of it, and what it
//! unpacks to is bounded, whatever its headers claim.

use std::io::{self, Read};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use tar::{Archive, Builder, EntryType, Header};

use super::tree::{Files, Item};

/// The most that an archive unpacks to. A tar entry takes 512 bytes at least, which bounds their number, too.
pub(super) const MAX_UNPACKED: usize = 128 << 20;

/// First bytes of a frame of Zstandard.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Where a tar header has its magic number.
const TAR_AT: usize = 257;
const TAR: &[u8] = b"ustar";

/// Whether it is compressed by Zstandard.
pub(super) fn is_zstd(bytes: &[u8]) -> bool {
    bytes.starts_with(&ZSTD)
}

/// Whether it is a tar archive.
pub(super) fn is_tar(bytes: &[u8]) -> bool {
    bytes.get(TAR_AT..).is_some_and(|rest| rest.starts_with(TAR))
}

/// What Zstandard's frames hold, and what is wrong with them. An archive that is cut gives what precedes the cut.
pub(super) fn decompress(mut packed: &[u8]) -> (Vec<u8>, Option<String>) {
    let mut all = Vec::new();
    while !packed.is_empty() {
        let mut decoder = match StreamingDecoder::new(&mut packed) {
            Ok(decoder) => decoder,
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                packed = packed.get(length as usize..).unwrap_or_default();
                continue;
            }
            Err(error) => return (all, Some(format!("it is damaged: {error}"))),
        };
        let room = (MAX_UNPACKED - all.len()) as u64;
        let read = decoder.by_ref().take(room).read_to_end(&mut all);
        if let Err(error) = read {
            return (all, Some(format!("it is cut or damaged: {error}")));
        }
        if all.len() >= MAX_UNPACKED {
            return (all, Some(format!("it unpacks to more than {} MiB; the rest is not read", MAX_UNPACKED >> 20)));
        }
        if !intact(&decoder.decoder) {
            return (all, Some("its checksum is wrong: it is damaged".to_owned()));
        }
    }
    (all, None)
}

fn intact(decoder: &FrameDecoder) -> bool {
    match (decoder.get_checksum_from_data(), decoder.get_calculated_checksum()) {
        (Some(stated), Some(calculated)) => stated == calculated,
        _ => true,
    }
}

/// Files and links of a tar archive, and what of it is left out.
pub(super) fn untar(bytes: &[u8]) -> (Files, Vec<String>) {
    let mut files = Files::default();
    let mut problems = Vec::new();
    let (mut left, mut refused) = (MAX_UNPACKED, 0_usize);
    let mut archive = Archive::new(bytes);
    let entries = match archive.entries() {
        Ok(entries) => entries,
        Err(error) => return (files, vec![format!("it cannot be read: {error}")]),
    };
    for entry in entries {
        let mut entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                problems.push(format!("it is cut or damaged: {error}"));
                break;
            }
        };
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let item = match entry.header().entry_type() {
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                let mut content = Vec::new();
                // a sparse file claims more than the archive holds
                match entry.by_ref().take(left as u64 + 1).read_to_end(&mut content) {
                    Ok(_) if content.len() > left => {
                        problems
                            .push(format!("it unpacks to more than {} MiB; the rest is not read", MAX_UNPACKED >> 20));
                        break;
                    }
                    Ok(_) => {}
                    Err(error) => problems.push(format!("{path}: {error}")),
                }
                left = left.saturating_sub(content.len());
                Some(Item::File(content))
            }
            EntryType::Symlink => {
                entry.link_name_bytes().map(|to| Item::Link(String::from_utf8_lossy(&to).into_owned()))
            }
            EntryType::Directory | EntryType::XGlobalHeader => continue,
            _ => None,
        };
        if !item.is_some_and(|item| files.insert(&path, item)) {
            refused += 1;
        }
    }
    if refused > 0 {
        problems.push(format!("{refused} entries are neither files nor links within the archive, and are left out"));
    }
    (files, problems)
}

/// Packs files and links into a `.tar.zst`; `time` is what their modification times are set to, in seconds since 1970.
pub fn pack(files: &Files, time: u64) -> io::Result<Vec<u8>> {
    let mut builder = Builder::new(Vec::new());
    for (path, item) in files.iter() {
        let mut header = Header::new_gnu();
        header.set_mode(0o644);
        header.set_mtime(time);
        match item {
            Item::File(bytes) => {
                header.set_size(bytes.len() as u64);
                builder.append_data(&mut header, path, bytes.as_slice())?;
            }
            Item::Link(target) => {
                header.set_entry_type(EntryType::Symlink);
                header.set_size(0);
                builder.append_link(&mut header, path, target)?;
            }
        }
    }
    let tar = builder.into_inner()?;
    Ok(compress_to_vec(tar.as_slice(), CompressionLevel::Fastest))
}

#[cfg(test)]
mod tests {
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
        untar(&builder.into_inner().unwrap())
    }

    #[test]
    fn what_is_packed_comes_back() {
        let packed = pack(&files(), 1).unwrap();
        assert!(is_zstd(&packed) && packed.len() < 5000, "{} bytes", packed.len());
        let (tar, trouble) = decompress(&packed);
        assert!(is_tar(&tar));
        assert_eq!((trouble, untar(&tar)), (None, (files(), Vec::new())));
        // as pzstd writes them: several frames, and one that is to be skipped
        let skipped = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 9, 9, 9];
        let several = [compress_to_vec(&b"one "[..], CompressionLevel::Fastest), skipped.to_vec(), packed].concat();
        let (all, trouble) = decompress(&several);
        assert_eq!((&all[..4], all.len(), trouble), (&b"one "[..], tar.len() + 4, None));
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
        let bomb = compress_to_vec(io::repeat(0).take(MAX_UNPACKED as u64 + (1 << 20)), CompressionLevel::Fastest);
        assert!(bomb.len() < 1 << 20, "{} bytes", bomb.len());
        let (all, trouble) = decompress(&bomb);
        assert_eq!(all.len(), MAX_UNPACKED);
        assert!(trouble.unwrap().contains("128 MiB"));
        // a file that claims a terabyte, and one whose size is no number
        let mut header = Header::new_gnu();
        header.as_old_mut().name[..1].copy_from_slice(b"a");
        header.set_size(1 << 40);
        header.set_cksum();
        let (files, problems) = untar(&[header.as_bytes().as_slice(), &[b'x'; 2048]].concat());
        assert!(files.size() <= 2048 && !problems.is_empty(), "{problems:?}");
        header.as_old_mut().size = [b'z'; 12];
        header.set_cksum();
        assert_eq!(untar(header.as_bytes()).1.len(), 1);
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
        let (files, problems) = untar(&[header.as_bytes().as_slice(), &[0; 1024]].concat());
        assert!(files.size() <= MAX_UNPACKED && problems.len() == 1, "{problems:?}");
    }

    #[test]
    fn damage_is_said_and_never_a_panic() {
        let packed = pack(&files(), 1).unwrap();
        for cut in [1, 4, 9, packed.len() / 2, packed.len() - 1] {
            let (tar, trouble) = decompress(&packed[..cut]);
            assert!(trouble.is_some(), "{cut}");
            untar(&tar);
        }
        let (tar, _) = decompress(&packed);
        let mut state = 1_u32;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state as usize >> 8
        };
        for _ in 0..300 {
            let (mut packed, mut tar) = (packed.clone(), tar.clone());
            for _ in 0..3 {
                let (i, j) = (random() % packed.len(), random() % tar.len());
                packed[i] = random() as u8;
                tar[j] = random() as u8;
            }
            untar(&decompress(&packed).0);
            untar(&tar);
        }
    }
}
