//! Traces from files, folders and archives, packed or not.

use std::collections::{BTreeMap, VecDeque};
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use peerlane_machine::one_line::shown;

use super::{
    Format, Joined, Recording, TraceError, at_most, chakra_json, format_of, is_binary, join, logged, operations,
    planned, read, read_all,
};
use crate::evidence::{Files, Packing, Unpacked, unpacked};
use crate::input_file::{self, Folder, Kind, What as On};

/// The most that a packed trace unpacks to, in bytes.
const MOST_UNPACKED: u64 = 1 << 30;
/// What a packed trace may unpack to however small it is, and how many times its size else: profiles pack to a thirtieth, what
/// is made to fill a memory to a thousandth.
const KEPT_ANYHOW: u64 = 48 << 20;
const MOST_TIMES: u64 = 128;
/// The most files of one trace.
const MOST_FILES: usize = 4096;
/// The most folders within each other.
const MOST_DEPTH: usize = 8;

/// What a file holds that may be packed.
pub(super) enum Content {
    One(Vec<u8>),
    Archive(Files),
}

/// Unpacks a file; what is not packed stays.
///
/// # Errors
/// Where it is damaged, or unpacks to more than [`MOST_UNPACKED`], or more times its size than any trace does.
pub(super) fn content(file: &str, bytes: Vec<u8>) -> Result<Content, TraceError> {
    let small = KEPT_ANYHOW.max((bytes.len() as u64).saturating_mul(MOST_TIMES)).min(MOST_UNPACKED);
    // profiles are packed by gzip, and larger than what is kept of an archive's file
    let bytes = if Packing::of(&bytes) == Some(Packing::Gzip) { gunzipped(file, &bytes, small)? } else { bytes };
    if Packing::of(&bytes).is_none() {
        return Ok(Content::One(bytes));
    }
    let Unpacked { files, single, unread, .. } = unpacked(bytes, small as usize, is_binary);
    match unread.first() {
        Some(why) => Err(TraceError::new(format!("{file}: {why}; unpack it, or pack it again"))),
        None => Ok(single.map_or(Content::Archive(files), Content::One)),
    }
}

pub(super) fn gunzipped(file: &str, bytes: &[u8], most: u64) -> Result<Vec<u8>, TraceError> {
    let mut content = Vec::new();
    let read = MultiGzDecoder::new(bytes).take(most + 1).read_to_end(&mut content);
    if let Err(error) = read {
        return Err(TraceError::new(format!("{file}: damaged or cut off: {error}; copy it again")));
    }
    if content.len() as u64 > most {
        let most = most >> 20;
        return Err(TraceError::new(format!("{file}: unpacks to more than {most} MiB; record fewer steps")));
    }
    Ok(content)
}

/// Reads the traces in files and folders, at most 4096 of them, and joins them; in a folder, other files are left out. A plan is
/// played at `size`, and a trace alone on `gpus` GPUs where it does not say on how many.
///
/// # Errors
/// Where a file cannot be read or is no trace, where there is none, and where ranks do not match.
pub fn joined(paths: &[PathBuf], gpus: usize, size: u64) -> Result<Joined, TraceError> {
    match opened(paths)? {
        Opened::Plan(file, bytes) => planned(&file, &bytes, size),
        Opened::Recordings(found) => join(found, gpus),
    }
}

/// What files hold.
enum Opened {
    /// An execution plan that was given alone, by its file's name.
    Plan(String, Vec<u8>),
    Recordings(Vec<Recording>),
}

/// Reads the traces in files, folders and archives, at most 4096 of them; in a folder or archive, other files are left out.
///
/// # Errors
/// Where a file cannot be read or is no trace, and where there is none.
pub fn open(paths: &[PathBuf]) -> Result<Vec<Recording>, TraceError> {
    match opened(paths)? {
        Opened::Plan(file, bytes) => read_all(&file, &bytes),
        Opened::Recordings(found) => Ok(found),
    }
}

/// Bytes that may be a trace, and where they lie.
enum Place {
    At(PathBuf),
    /// Of an archive.
    Held(Vec<u8>),
}

impl Place {
    fn bytes(self) -> Result<Vec<u8>, TraceError> {
        match self {
            Place::At(path) => input_file::read(&path, Kind::Trace).map_err(refused),
            Place::Held(bytes) => Ok(bytes),
        }
    }
}

fn opened(paths: &[PathBuf]) -> Result<Opened, TraceError> {
    let mut found = Vec::new();
    let mut groups: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    let mut operations: Vec<operations::Operation> = Vec::new();
    let mut hosts = Vec::new();
    let mut records = 0;
    let mut left: VecDeque<(Place, String, bool)> = files(paths)?.into();
    while let Some((place, file, must)) = left.pop_front() {
        let at = if let Place::At(path) = &place { Some(path.clone()) } else { None };
        let bytes = place.bytes()?;
        if bytes.is_empty() && must {
            return Err(TraceError::new(format!("{file}: empty; record it again")));
        }
        let bytes = match content(&file, bytes) {
            Err(error) if must || file.ends_with(".json.gz") => return Err(error),
            Err(_) => continue,
            Ok(Content::Archive(files)) => {
                for (path, bytes) in files.into_contents().rev() {
                    left.push_front((Place::Held(bytes), format!("{file}/{path}"), false));
                }
                at_most_files(left.len())?;
                continue;
            }
            Ok(Content::One(bytes)) => bytes,
        };
        match format_of(&bytes) {
            Some(Format::Plan) if must && paths.len() == 1 => return Ok(Opened::Plan(file, bytes)),
            Some(Format::Groups) => groups.extend(chakra_json::groups(&bytes).unwrap_or_default()),
            // the recorder writes both, and the profile is enough
            Some(Format::Host) if !must => hosts.push((at.map_or(Place::Held(bytes), Place::At), file)),
            None if !must && !file.ends_with(".et") => {}
            // a process may write several files
            Some(format @ (Format::Inspector | Format::Events)) => {
                operations.extend(logged(format, &bytes).map_err(|why| TraceError::new(format!("{file}: {why}")))?);
                at_most(operations.len())?;
            }
            _ => {
                let recordings = read_all(&file, &bytes)?;
                records += recordings.iter().map(|recording| recording.records.len()).sum::<usize>();
                at_most(records)?;
                found.extend(recordings);
            }
        }
    }
    if found.is_empty() && operations.is_empty() {
        for (place, file) in hosts {
            let Content::One(bytes) = content(&file, place.bytes()?)? else { continue };
            found.push(read(&file, &bytes)?);
            records += found.last().map_or(0, |one| one.records.len());
            at_most(records)?;
        }
    }
    let names = || paths.iter().map(shown).collect::<Vec<String>>().join(", ");
    if !operations.is_empty() {
        if !found.is_empty() {
            return Err(TraceError::new(format!(
                "{}: logs of NCCL's operations among other traces: give one kind",
                names()
            )));
        }
        found = operations::recordings(operations, &names())
            .map_err(|why| TraceError::new(format!("{}: {why}", names())))?;
    }
    if found.is_empty() {
        return Err(TraceError::new(format!(
            "{}: no trace: files of Chakra (.et, .json), of PyTorch's profiler (.json, .json.gz), of Nsight Systems (--type jsonlines), of \
             NCCL's Inspector and plans of MSCCL++ are read",
            names()
        )));
    }
    found.iter_mut().for_each(|recording| recording.groups.extend(groups.clone()));
    Ok(Opened::Recordings(found))
}

fn refused(why: input_file::Refused) -> TraceError {
    TraceError::new(why.to_string())
}

/// Every file, its name, and whether it was named.
fn files(paths: &[PathBuf]) -> Result<Vec<(Place, String, bool)>, TraceError> {
    let mut files = Vec::new();
    for path in paths {
        if input_file::what(path).map_err(refused)? == On::Folder {
            below(&Folder::of(path).map_err(refused)?, path, 0, &mut files)?;
        } else {
            files.push((Place::At(path.clone()), shown(path), true));
        }
    }
    at_most_files(files.len())?;
    Ok(files)
}

/// The files of a folder and of those in it.
fn below(folder: &Folder, path: &Path, depth: usize, files: &mut Vec<(Place, String, bool)>) -> Result<(), TraceError> {
    let mut entries = folder.entries(path).map_err(refused)?;
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    for entry in entries.into_iter().filter(|entry| !entry.is_hidden()) {
        match entry.what {
            Ok(On::File) => files.push((Place::At(entry.path.clone()), shown(&entry.path), false)),
            Ok(On::Folder) if !entry.is_link && depth < MOST_DEPTH => below(folder, &entry.path, depth + 1, files)?,
            _ => {}
        }
        at_most_files(files.len())?;
    }
    Ok(())
}

fn at_most_files(files: usize) -> Result<(), TraceError> {
    if files <= MOST_FILES {
        return Ok(());
    }
    Err(TraceError::new(format!("{files} files are more than the {MOST_FILES} that are read")))
}
