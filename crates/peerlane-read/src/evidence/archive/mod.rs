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
/// `keep` is the most that is kept, in bytes; less of what is small. Of large files without text those are kept whose first bytes are
/// `known`.
pub fn unpacked(bytes: Vec<u8>, keep: usize, known: fn(&[u8]) -> bool) -> Unpacked {
    let keep = keep.min(KEPT_ANYHOW.max(bytes.len().saturating_mul(MOST_TIMES)));
    let mut work = Work {
        files: Files::default(),
        unread: Vec::new(),
        limit: keep,
        left: keep,
        passed: Rc::new(Cell::new(MAX_UNPACKED)),
        refused: 0,
        binary: 0,
        known,
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
    /// Files without text that are left out.
    binary: usize,
    /// Whether the first bytes are those of a file that is read without being text.
    known: fn(&[u8]) -> bool,
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
        let binary = !packed && is_binary(&content) && !(self.known)(&content);
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
mod tests;
