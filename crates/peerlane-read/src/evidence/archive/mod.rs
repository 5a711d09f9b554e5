//! What people attach is packed: `.gz`, `.xz`, `.bz2`, `.zst`, `.zip`, `.tar` of each. It is unpacked in memory only, and the
//! archives of gathered machines are packed here.
//!
//! An archive may come from anybody. Nothing of it is written to disk, no path or link leads out of it, and what it
//! unpacks to is bounded, whatever its headers claim.

mod zip;

use std::cell::Cell;
use std::io::{self, Cursor, ErrorKind, Read};
use std::rc::Rc;

use bzip2::read::MultiBzDecoder;
use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use tar::{Archive, Builder, EntryType, Header};

use super::text::is_binary;
use super::tree::{Files, Item};
use crate::input_file::Kind;

/// The most that is kept of what an archive unpacks to. A tar entry takes 512 bytes at least, which bounds their number, too.
pub(super) const MAX_KEPT: usize = 128 << 20;

/// What is kept of an archive whatever its size, and how many times its size of one that is larger: text of many machines packs
/// to a fiftieth, what is made to fill a memory to a thousandth.
const KEPT_ANYHOW: usize = 48 << 20;
const MOST_TIMES: usize = 256;

/// The most that an archive of inputs unpacks to, what is passed over included: it takes time, too.
const MAX_UNPACKED: u64 = 1 << 30;

/// The most of one file.
const MAX_FILE_BYTES: u64 = Kind::Source.limit();

/// Archives within archives: a log within the files of a host within those of a cluster.
const MAX_LAYERS: usize = 4;

/// How much of a file is examined to see what it is.
const HEAD_BYTES: u64 = 4096;

/// The most of a binary file that is kept: a function's configuration space has 4 KiB.
const MAX_BINARY_BYTES: usize = 64 << 10;

/// The memory that a decoder may take, in KiB: that of the highest level of `xz`.
const MAX_DECODER_KIB: u32 = 80 << 10;

/// Where a tar header has its magic number.
const TAR_AT: usize = 257;

/// How a file is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// gzip, RFC 1952.
    Gzip,
    /// Zstandard, RFC 8878.
    Zstd,
    /// The .xz format, version 1.2.
    Xz,
    /// bzip2.
    Bzip2,
    /// A zip archive.
    Zip,
    /// A tar archive, POSIX or GNU.
    Tar,
}

impl Packing {
    /// By a file's first bytes, of which a tar archive takes 262.
    pub fn of(head: &[u8]) -> Option<Self> {
        match head {
            [0x1f, 0x8b, 8, ..] => Some(Packing::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Packing::Zstd),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Packing::Xz),
            // a block's first bytes, or those of the end where there is none
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, ..]
            | [b'B', b'Z', b'h', b'1'..=b'9', 0x17, 0x72, 0x45, ..] => Some(Packing::Bzip2),
            [b'P', b'K', 3, 4, ..] => Some(Packing::Zip),
            _ => head.get(TAR_AT..).filter(|rest| rest.starts_with(b"ustar")).map(|_| Packing::Tar),
        }
    }

    /// What unpacks it; none for an archive.
    fn decoder(self, packed: &[u8]) -> Option<Box<dyn Read + '_>> {
        Some(match self {
            Packing::Gzip => Box::new(MultiGzDecoder::new(packed)),
            Packing::Zstd => Box::new(Frames { packed, frame: None }),
            Packing::Xz => Box::new(XzReader::new_mem_limit(packed, true, MAX_DECODER_KIB)),
            Packing::Bzip2 => Box::new(MultiBzDecoder::new(packed)),
            Packing::Zip | Packing::Tar => return None,
        })
    }
}

/// What Zstandard's frames hold, one after the other; those that are to be skipped are.
struct Frames<'a> {
    packed: &'a [u8],
    frame: Option<StreamingDecoder<Cursor<&'a [u8]>, FrameDecoder>>,
}

impl Read for Frames<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(frame) = &mut self.frame {
                let read = frame.read(into)?;
                if read > 0 || into.is_empty() {
                    return Ok(read);
                }
                if !intact(&frame.decoder) {
                    return Err(io::Error::new(ErrorKind::InvalidData, "its checksum is wrong"));
                }
                let used = frame.get_ref().position() as usize;
                self.packed = self.packed.get(used..).unwrap_or_default();
                self.frame = None;
            }
            if self.packed.is_empty() {
                return Ok(0);
            }
            match StreamingDecoder::new(Cursor::new(self.packed)) {
                Ok(frame) => self.frame = Some(frame),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    // its magic number and its length take four bytes each
                    self.packed = self.packed.get(8 + length as usize..).unwrap_or_default();
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
    }
}

fn intact(decoder: &FrameDecoder) -> bool {
    match (decoder.get_checksum_from_data(), decoder.get_calculated_checksum()) {
        (Some(stated), Some(calculated)) => stated == calculated,
        _ => true,
    }
}

/// A reader that ends with an error once too much was unpacked.
struct Metered<R> {
    inner: R,
    /// What all readers of an archive may still unpack, in bytes.
    left: Rc<Cell<u64>>,
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left.get()).unwrap_or(usize::MAX).min(into.len());
        if most == 0 && !into.is_empty() {
            return Err(too_much(MAX_UNPACKED));
        }
        let read = self.inner.read(into.get_mut(..most).unwrap_or_default())?;
        self.left.set(self.left.get() - read as u64);
        Ok(read)
    }
}

fn too_much(bytes: u64) -> io::Error {
    let small = bytes < MAX_KEPT as u64;
    let small =
        if small { format!(" (of what is small 48 MiB, or {MOST_TIMES} times its size)") } else { String::new() };
    let message = format!("it unpacks to more than {} MiB{small}; the rest is not read", bytes >> 20);
    io::Error::new(ErrorKind::FileTooLarge, message)
}

/// What a packed file holds.
pub struct Unpacked {
    /// The files of an archive, those of archives within it below their names; of a compressed file one without a name.
    pub files: Files,
    /// The content of a file that is compressed and no archive, or is not packed at all.
    pub single: Option<Vec<u8>>,
    /// What is damaged or too large, so that it is not read to its end.
    pub unread: Vec<String>,
    /// What is left out because nothing reads it.
    pub left_out: Vec<String>,
}

/// Unpacks a file, whatever it is packed with, layer by layer. What is cut gives what precedes the cut.
///
/// `keep` is the most that is kept, in bytes; less of what is small.
pub fn unpacked(bytes: Vec<u8>, keep: usize) -> Unpacked {
    let keep = keep.min(KEPT_ANYHOW.max(bytes.len().saturating_mul(MOST_TIMES)));
    let mut work = Work {
        files: Files::default(),
        unread: Vec::new(),
        limit: keep,
        left: keep,
        passed: Rc::new(Cell::new(MAX_UNPACKED)),
        refused: 0,
        binary: 0,
    };
    let single = work.open("", bytes, 0);
    let mut left_out = Vec::new();
    if work.refused > 0 {
        let refused = work.refused;
        left_out.push(format!("{refused} entries are neither files nor links within the archive, and are left out"));
    }
    if work.binary > 0 {
        left_out.push(format!("of binary files {} larger than 64 KiB are left out", work.binary));
    }
    Unpacked { files: work.files, single, unread: work.unread, left_out }
}

/// An archive while it is unpacked.
struct Work {
    files: Files,
    unread: Vec<String>,
    /// The most that is kept, and how much of it is left, in bytes.
    limit: usize,
    left: usize,
    /// How many more bytes may be unpacked.
    passed: Rc<Cell<u64>>,
    /// Entries that are neither files nor links within the archive.
    refused: usize,
    /// Files without text.
    binary: usize,
}

impl Work {
    /// Says what is wrong with the entry of that name.
    fn problem(&mut self, at: &str, what: &str) {
        self.unread.push(if at.is_empty() { what.to_owned() } else { format!("{at}: {what}") });
    }

    /// Says why something could not be read to its end.
    fn ended(&mut self, at: &str, read: io::Result<()>) {
        match read {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::FileTooLarge => self.problem(at, &error.to_string()),
            Err(error) => self.problem(at, &format!("it is cut or damaged: {error}")),
        }
    }

    /// The content where it is a single file's; the files of an archive are added below its name.
    fn open(&mut self, at: &str, bytes: Vec<u8>, layer: usize) -> Option<Vec<u8>> {
        let Some(packing) = Packing::of(&bytes) else { return Some(bytes) };
        if layer == MAX_LAYERS {
            self.problem(at, "packed more often than anything that is read");
            return None;
        }
        let Some(decoder) = packing.decoder(&bytes) else {
            let read = match packing {
                Packing::Zip => self.zip(at, &bytes, layer),
                _ => self.tar(at, &mut bytes.as_slice(), layer),
            };
            self.ended(at, read);
            return None;
        };
        let content = self.decompress(at, decoder, layer)?;
        drop(bytes);
        self.open(at, content, layer + 1)
    }

    /// What a decoder gives; a tar archive is read from it, and never held as a whole.
    fn decompress(&mut self, at: &str, decoder: Box<dyn Read + '_>, layer: usize) -> Option<Vec<u8>> {
        let mut decoder = Metered { inner: decoder, left: Rc::clone(&self.passed) };
        let mut content = Vec::new();
        let mut read = decoder.by_ref().take(HEAD_BYTES).read_to_end(&mut content);
        if read.is_ok() && Packing::of(&content) == Some(Packing::Tar) {
            let read = self.tar(at, &mut content.as_slice().chain(decoder), layer);
            self.ended(at, read);
            return None;
        }
        if read.is_ok() {
            let room = (self.left as u64 + 1).saturating_sub(content.len() as u64);
            read = decoder.take(room).read_to_end(&mut content);
        }
        if content.len() > self.left {
            content.truncate(self.left);
            read = Err(too_much(self.limit as u64));
        }
        self.ended(at, read.map(|_| ()));
        self.left -= content.len();
        Some(content)
    }

    fn tar(&mut self, at: &str, reader: &mut dyn Read, layer: usize) -> io::Result<()> {
        for entry in Archive::new(reader).entries()? {
            let mut entry = entry?;
            let path = below(at, &String::from_utf8_lossy(&entry.path_bytes()));
            match entry.header().entry_type() {
                EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                    self.file(&path, &mut entry, layer)?;
                }
                EntryType::Symlink => match entry.link_name_bytes() {
                    Some(to) => self.keep(&path, Item::Link(String::from_utf8_lossy(&to).into_owned())),
                    None => self.refused += 1,
                },
                EntryType::Directory | EntryType::XGlobalHeader => {}
                _ => self.refused += 1,
            }
        }
        Ok(())
    }

    fn zip(&mut self, at: &str, bytes: &[u8], layer: usize) -> io::Result<()> {
        for entry in zip::entries(bytes) {
            match entry {
                Err(what) => self.problem(at, &what),
                Ok((path, reader)) => {
                    let mut reader = Metered { inner: reader, left: Rc::clone(&self.passed) };
                    self.file(&below(at, &path), &mut reader, layer)?;
                }
            }
        }
        Ok(())
    }

    /// Keeps a file of an archive. An error where there is no room for more.
    fn file(&mut self, path: &str, reader: &mut dyn Read, layer: usize) -> io::Result<()> {
        let mut content = Vec::new();
        let mut read = reader.take(HEAD_BYTES).read_to_end(&mut content);
        let packed = Packing::of(&content).is_some();
        let binary = !packed && is_binary(&content);
        let most = if binary { MAX_BINARY_BYTES } else { self.left.min(MAX_FILE_BYTES as usize) };
        if read.is_ok() {
            let room = (most as u64 + 1).saturating_sub(content.len() as u64);
            read = reader.take(room).read_to_end(&mut content);
        }
        if binary && content.len() > MAX_BINARY_BYTES {
            self.binary += 1;
            return Ok(());
        }
        if content.len() > self.left {
            return Err(too_much(self.limit as u64));
        }
        if content.len() as u64 > MAX_FILE_BYTES {
            self.problem(path, "larger than what is read of one file");
            return Ok(());
        }
        self.ended(path, read.map(|_| ()));
        if packed {
            // what it unpacks to takes the room of it
            if let Some(inner) = self.open(path, content, layer + 1) {
                self.keep(path, Item::File(inner));
            }
        } else {
            self.left -= content.len();
            self.keep(path, Item::File(content));
        }
        Ok(())
    }

    fn keep(&mut self, path: &str, item: Item) {
        self.refused += usize::from(!self.files.insert(path, item));
    }
}

/// The path of an entry of an archive within another. A path that leads out stays one that does.
fn below(at: &str, path: &str) -> String {
    if at.is_empty() || path.starts_with('/') { path.to_owned() } else { format!("{at}/{path}") }
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
        let found = unpacked(tar, MAX_KEPT);
        (found.files, [found.unread, found.left_out].concat())
    }

    /// What a compressed file holds that is no archive.
    fn decompressed(packed: &[u8]) -> (Vec<u8>, Vec<String>) {
        let found = unpacked(packed.to_vec(), MAX_KEPT);
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
        let found = unpacked(nested, MAX_KEPT);
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
        assert!(
            files.size() <= MAX_KEPT && problems.iter().any(|p| p.contains("it unpacks to more than")),
            "{problems:?}"
        );
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
                unpacked(changed, MAX_KEPT);
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
        let device = unpacked(tar(&[("journal", vec![0; 70 << 10].as_slice())]), MAX_KEPT);
        assert_eq!((device.unread.len(), device.left_out.len()), (0, 1));
    }
}
