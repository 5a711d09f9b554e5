//! Reading sources within limits, and running every scanner over them.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::archive::{self, MAX_KEPT, Packing, Unpacked};
use super::coverage;
use super::headings::headings;
use super::host_headings::HostHeadings;
use super::streams::streams;
use super::sysfs;
use super::traces;
use super::tree::{Below, Files, Item};
use super::{Evidence, Found, Text, Warning, checks, messages, open_lines, prose, repair, tables, text::is_binary};
use crate::input_file::{self, Entry, Folder, Input, Kind, Refused, What};
use peerlane_machine::one_line::shown;

/// The most that is read of one source: 64 MiB, far above any real capture.
pub const MAX_SOURCE_BYTES: u64 = Kind::Source.limit();

/// The most lines of one source; captures of that length in bytes have a tenth of them.
const MAX_LINES: usize = 4 << 20;

/// The most text that is read of one folder; a thousand machines' captures are less.
const MAX_FOLDER_BYTES: usize = 128 << 20;

/// How much of a source is examined to see whether it is text.
const HEAD_BYTES: u64 = 4096;

/// The most files that are read of one folder, its subfolders included.
pub const MAX_FILES: usize = 4096;

/// The most entries of a folder that are looked at, other than files too.
const MAX_ENTRIES: usize = 16 * MAX_FILES;

/// The most levels of subfolders that are entered.
const MAX_DEPTH: usize = 8;

/// Why a source could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A file cannot be read: which, and why.
    #[error(transparent)]
    File(#[from] Refused),
    /// It is larger than [`MAX_SOURCE_BYTES`].
    #[error("{0}: larger than {mib} MiB; cut out the part that matters", mib = MAX_SOURCE_BYTES >> 20)]
    TooLarge(String),
    /// It has more lines than any capture.
    #[error("{0}: more than {millions} million lines; cut out the part that matters", millions = MAX_LINES >> 20)]
    TooManyLines(String),
    /// It holds no text.
    #[error("{0}: binary data, no text that a machine printed")]
    Binary(String),
    /// It is a recorded step of training: which file, and what it holds.
    #[error("{0}: {1}")]
    Trace(String, String),
    /// A folder holds more than [`MAX_FILES`].
    #[error("{0}: more than {MAX_FILES} files; name the ones that matter")]
    TooManyFiles(String),
}

/// What a reader is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sees {
    /// A whole source, since it knows what stands before lines itself: ranks of one job are one log.
    Source,
    /// The lines that have one label, as they are.
    Lines,
    /// The same with tables in plain columns and their headers repaired.
    Columns,
}

/// A reader of one format: it looks through a whole text for that format alone.
#[derive(Clone, Copy)]
pub struct Reader {
    /// Its name, which is that of its source file.
    pub name: &'static str,
    /// What it is shown of a text.
    pub(super) sees: Sees,
    pub(super) scan: fn(&Text, &mut Found),
}

impl Reader {
    /// What this reader alone finds in a text, within a budget of work.
    pub fn read(&self, text: &Text) -> Found {
        let mut found = Found::default();
        text.begin();
        (self.scan)(text, &mut found);
        found.steps = text.steps();
        if let Some(at) = text.stopped_at() {
            let message = "reading stopped here: it would take far more work than any capture does; what precedes is used; cut \
                           out the part that matters";
            found.warn(text, self.name, text.numbers(at, at), message);
        }
        found
    }
}

macro_rules! readers {
    ($($sees:ident: $($name:ident),*;)*) => {
        &[$($(Reader { name: stringify!($name), sees: Sees::$sees, scan: super::$name::scan }),*),*]
    };
}

/// Every reader of texts, in the order in which they run.
pub const READERS: &[Reader] = readers![
    Source: nccl_log, nccl_topology;
    Columns:
    path_matrix,
    nvidia_smi_topo,
    nvidia_smi_topo_p2p,
    p2p_test,
    bandwidth_test,
    amd_smi,
    nvbandwidth,
    nccl_tests,
    nccl_averages,
    osu,
    perftest,
    rocm_smi,
    rocm_bandwidth_test,
    labelled_matrix,
    rate_table;
    Lines:
    nvidia_smi_nvlink,
    dcgmi_nvlink,
    dcgmi_diag,
    dcgm_metrics,
    nvidia_smi_q,
    nvidia_smi_q_lines,
    nvidia_smi_csv,
    accelerator_table,
    nvidia_smi_table,
    nvml,
    files_json,
    simple_p2p,
    p2pmark,
    device_query,
    gpu_list,
    container_info,
    rdma_ports,
    counters,
    ethtool,
    mlxlink,
    iblinkinfo,
    imex,
    job_state,
    gdrcopy,
    gpu_burn,
    gpu_rows,
    ip_link,
    transports,
    ucx_perftest,
    slots,
    node_state,
    kubernetes,
    slurm,
    slurm_jobs,
    ibnetdiscover,
    ib_routes,
    retired_pages,
    mlperf,
    nccl_tests_checks,
    ibdev2netdev,
    show_gids,
    mst_status,
    rdma_topo,
    fabric_manager,
    nvbandwidth_json,
    nvloom,
    nccl_tests_json,
    nccl_inspector,
    torch_profile,
    nccl_xml,
    nccl_graph,
    lstopo_xml,
    lstopo_text,
    lspci,
    lspci_lines,
    lshw,
    lscpu,
    cpuinfo,
    numactl,
    sensors,
    modules,
    kernel,
    rocminfo,
    transferbench,
    rvs,
    sysfs_listing,
    rig_report,
    progress,
    xorg,
    inxi,
    installers,
    applications,
    servers,
    services,
    gaudi,
    deepep,
    program_gpus,
    storage,
    tensorflow;
];

/// Runs every scanner over one text. At most [`MAX_STATEMENTS`](super::MAX_STATEMENTS) statements are kept, the first ones.
pub fn scan_text(text: &Text) -> Found {
    let mut found = Found::default();
    let mut evidence = Vec::new();
    scan_with(Sees::Source, text, &mut found, &mut evidence);
    text.begin();
    let hosts = HostHeadings::of(text);
    text.begin();
    match streams(text, &hosts) {
        None => scan_stream(text, &mut found, &mut evidence),
        Some(streams) => {
            for stream in streams {
                let before = evidence.len();
                scan_stream(&stream.text, &mut found, &mut evidence);
                if evidence.len() > before {
                    let mut host = Found::default();
                    stream.push_host(&mut host);
                    evidence.append(&mut host.evidence);
                }
            }
        }
    }
    evidence.sort_by_key(|e| e.origin.lines);
    for one in evidence {
        found.keep(one);
    }
    text.begin();
    let understood = messages::scan(text, &hosts, &mut found);
    text.begin();
    checks::scan(text, &open_lines::known(text, &understood, &found, true), &hosts, &mut found);
    text.begin();
    open_lines::scan(text, &understood, &hosts, &mut found);
    text.begin();
    found.headings = headings(text, &found.evidence);
    // prose is about machines that a tool shows
    if !found.evidence.is_empty() {
        text.begin();
        let printed: Vec<(u32, u32)> = found.evidence.iter().filter_map(|e| e.origin.lines).collect();
        prose::scan(text, &printed, &mut found);
    }
    text.begin();
    found.coverage = vec![coverage::of(text, &found)];
    found.evidence.sort_by_key(|e| e.origin.lines);
    found
}

/// Runs scanners over lines of one label.
fn scan_stream(text: &Text, found: &mut Found, evidence: &mut Vec<Evidence>) {
    scan_with(Sees::Lines, text, found, evidence);
    text.begin();
    let columns = tables::in_columns(text, found);
    let columns = columns.as_ref().unwrap_or(text);
    columns.begin();
    let repaired = repair::repaired(columns, found);
    scan_with(Sees::Columns, repaired.as_ref().unwrap_or(columns), found, evidence);
}

/// Runs scanners; each gets the whole room for statements, so that none crowds out the others.
fn scan_with(sees: Sees, text: &Text, found: &mut Found, evidence: &mut Vec<Evidence>) {
    for reader in READERS.iter().filter(|reader| reader.sees == sees) {
        let mut one = reader.read(text);
        evidence.append(&mut one.evidence);
        found.append(one);
    }
}

/// Reads a pipe or standard input to its end, within [`MAX_SOURCE_BYTES`].
pub fn read_stream(name: &str, stream: impl Read) -> Result<Found, ReadError> {
    scan_bytes(name, read_bytes(name, stream)?)
}

fn read_bytes(name: &str, stream: impl Read) -> Result<Vec<u8>, ReadError> {
    let io = |cause| Refused { file: name.to_owned(), cause };
    let mut bytes = Vec::new();
    let mut stream = stream.take(MAX_SOURCE_BYTES + 1);
    stream.by_ref().take(HEAD_BYTES).read_to_end(&mut bytes).map_err(io)?;
    let is_trace = traces::format_of(&bytes) == Some(traces::Format::Chakra);
    if is_binary(&bytes) && Packing::of(&bytes).is_none() && !is_trace {
        return Err(ReadError::Binary(name.to_owned()));
    }
    stream.read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > MAX_SOURCE_BYTES {
        return Err(ReadError::TooLarge(name.to_owned()));
    }
    refuse_trace(name, name, &bytes)?;
    Ok(bytes)
}

/// Says of a recorded step what it is, and that the file or archive `from` can be played: it describes no machine. Profiles of PyTorch do.
fn refuse_trace(name: &str, from: &str, bytes: &[u8]) -> Result<(), ReadError> {
    match traces::described(name, from, bytes, bytes.len() as u64 > MAX_SOURCE_BYTES) {
        Some(what) => Err(ReadError::Trace(name.to_owned(), what)),
        None => Ok(()),
    }
}

fn scan_bytes(name: &str, bytes: Vec<u8>) -> Result<Found, ReadError> {
    if Packing::of(&bytes).is_none() {
        return scan_single(name, bytes);
    }
    let Unpacked { files, single, unread, left_out } = archive::unpacked(bytes, MAX_KEPT, traces::is_binary);
    let mut found = match single {
        Some(content) => {
            refuse_trace(name, name, &content)?;
            if is_binary(&content) {
                return Err(ReadError::Binary(name.to_owned()));
            }
            scan_single(name, content)?
        }
        None => read_files(name, &files),
    };
    found.unread.extend(unread.into_iter().map(|what| format!("{name}: {what}")));
    found.warnings.extend(left_out.into_iter().map(|what| Warning::general(format!("{name}: {what}"))));
    Ok(found)
}

/// Refuses what is longer than any text: an archive unpacks to more than a file may have.
fn refuse_long(name: &str, bytes: &[u8]) -> Result<(), ReadError> {
    if bytes.len() as u64 > MAX_SOURCE_BYTES {
        return Err(ReadError::TooLarge(name.to_owned()));
    }
    match Text::count_lines(bytes) > MAX_LINES {
        true => Err(ReadError::TooManyLines(name.to_owned())),
        false => Ok(()),
    }
}

/// Reads what is not packed.
fn scan_single(name: &str, bytes: Vec<u8>) -> Result<Found, ReadError> {
    // a text takes several times its bytes, so look before it is built
    refuse_long(name, &bytes)?;
    let text = Text::new(name, &bytes);
    drop(bytes);
    Ok(scan_text(&text))
}

/// Reads a file, packed or not, an archive, a pipe, a folder of files, or a tree that has `sys/bus/pci/devices` (or
/// `bus/pci/devices`) below it, which is read as sysfs.
///
/// In a folder, a file that cannot be read is listed in [`Found::unread`] and no error.
pub fn read_path(path: &Path) -> Result<Found, ReadError> {
    if input_file::what(path)? != What::Folder {
        return scan_bytes(&shown(path), file_bytes(path)?);
    }
    let listing = list_all(path)?;
    let mut found = Found::default();
    found.unread.extend(listing.refused.iter().map(ToString::to_string));
    if listing.deep > 0 {
        let message = format!("{}: not read are {} folders more than {MAX_DEPTH} deep", shown(path), listing.deep);
        found.warnings.push(Warning::general(message));
    }
    let mut room = MAX_FOLDER_BYTES;
    for (file, what) in listing.files {
        // only a tree of sysfs is a folder here
        if what == What::Folder {
            found.append(sysfs::read(&file)?);
            continue;
        }
        let bytes = bytes_of(&file, listing.folder.open(&file, Kind::Source));
        let size = bytes.as_ref().map_or(0, Vec::len);
        if size > room {
            let (name, last) = (shown(path), shown(&file));
            let message =
                format!("{name}: more than {} MiB; {last} and the files after it are not read", MAX_FOLDER_BYTES >> 20);
            found.unread.push(message);
            break;
        }
        room -= size;
        match bytes.and_then(|bytes| scan_bytes(&shown(&file), bytes)) {
            Ok(one) => found.append(of_bundle(&file.strip_prefix(path).unwrap_or(&file).to_string_lossy(), one)),
            Err(error @ ReadError::Trace(..)) => found.traces.push(error.to_string()),
            // pictures and programs lie among what people save
            Err(error @ ReadError::Binary(_)) => found.warnings.push(Warning::general(error.to_string())),
            Err(error) => found.unread.push(error.to_string()),
        }
    }
    Ok(found)
}

/// Reads files and trees of sysfs that are held in memory, as [`read_path`] reads a folder.
pub fn read_files(name: &str, files: &Files) -> Found {
    let roots: BTreeSet<String> = files.iter().filter_map(|(path, _)| sysfs::root_of(path)).collect();
    let mut found = Found::default();
    for folder in roots.iter().take(MAX_FILES) {
        let place = if folder.is_empty() { name.to_owned() } else { format!("{name}/{folder}") };
        found.append(sysfs::read_tree(&place, &Below { tree: files, folder }));
    }
    // a tree's own files are no texts
    let of_root = |path: &str| {
        let starts = std::iter::once(0).chain(path.match_indices('/').map(|(at, _)| at + 1));
        starts.into_iter().any(|at| {
            let (above, below) = path.split_at(at);
            let first = below.split('/').next().unwrap_or_default();
            sysfs::OWN.contains(&first) && roots.contains(above.trim_end_matches('/'))
        })
    };
    let hidden = |path: &str| path.split('/').any(|part| part.starts_with('.'));
    let mut read = 0;
    for (path, item) in files.iter().filter(|(path, _)| !hidden(path) && !of_root(path)) {
        let Item::File(bytes) = item else { continue };
        if read == MAX_FILES {
            found.unread.push(ReadError::TooManyFiles(name.to_owned()).to_string());
            break;
        }
        read += 1;
        let place = format!("{name}/{path}");
        let text = !is_binary(bytes) && Packing::of(bytes).is_none();
        let one = refuse_trace(&place, name, bytes).and_then(|()| match text {
            true => scan_single(&place, bytes.clone()),
            false => Err(ReadError::Binary(place)),
        });
        match one {
            Ok(one) => found.append(of_bundle(path, one)),
            Err(error @ ReadError::Trace(..)) => found.traces.push(error.to_string()),
            Err(error) => found.warnings.push(Warning::general(error.to_string())),
        }
    }
    found
}

/// What was found in a file of a folder or an archive.
fn of_bundle(path: &str, mut found: Found) -> Found {
    /// Folders of a report on a whole system.
    const SYSTEM: [&str; 9] = ["etc", "var", "proc", "sys", "usr", "run", "sos_commands", "sos_logs", "sos_reports"];
    if path.split('/').rev().skip(1).any(|folder| SYSTEM.contains(&folder)) {
        open_lines::keep_those_of_parts(&mut found);
    }
    found
}

/// The files that [`read_path`] would read of a folder or an archive, unread, so that they can be changed first. A file that
/// is no archive is the only one, by its own name.
pub fn collect(path: &Path) -> Result<Files, ReadError> {
    if input_file::what(path)? != What::Folder {
        let name = path.file_name().map_or_else(|| "file".to_owned(), |n| n.to_string_lossy().into_owned());
        return unpack(&name, file_bytes(path)?);
    }
    let listing = list_all(path)?;
    let mut files = Files::default();
    for (file, what) in listing.files {
        let below = file.strip_prefix(path).unwrap_or(&file).to_string_lossy().into_owned();
        if what == What::Folder {
            files.append(if below.is_empty() { "." } else { &below }, sysfs::record(&file)?);
        } else if let Ok(bytes) = bytes_of(&file, listing.folder.open(&file, Kind::Source)) {
            if files.size() + bytes.len() > MAX_FOLDER_BYTES {
                break;
            }
            // what cannot be read is said when the folder is read
            let Ok(one) = unpack(&below, bytes) else { continue };
            let whole = one.len() == 1 && one.iter().all(|(path, _)| path == below);
            files.append(if whole { "." } else { &below }, one);
        }
    }
    Ok(files)
}

/// The same for what a pipe or a file holds.
pub fn unpack(name: &str, bytes: Vec<u8>) -> Result<Files, ReadError> {
    let Unpacked { mut files, single, .. } = archive::unpacked(bytes, MAX_KEPT, |_| false);
    let Some(content) = single else { return Ok(files) };
    if is_binary(&content) {
        return Err(ReadError::Binary(name.to_owned()));
    }
    refuse_long(name, &content)?;
    files.insert(name, Item::File(content));
    Ok(files)
}

/// What a file or pipe holds, if it is text or an archive.
fn file_bytes(path: &Path) -> Result<Vec<u8>, ReadError> {
    bytes_of(path, input_file::open(path, Kind::Source))
}

fn bytes_of(path: &Path, opened: Result<Input, Refused>) -> Result<Vec<u8>, ReadError> {
    let input = opened?;
    // its size is known before 64 MiB of it are read
    if input.size() > MAX_SOURCE_BYTES {
        let head = input.head(HEAD_BYTES)?;
        if traces::format_of(&head).is_some() {
            refuse_trace(&shown(path), &shown(path), &input_file::read(path, Kind::Trace)?)?;
        }
        return Err(ReadError::TooLarge(shown(path)));
    }
    read_bytes(&shown(path), input)
}

/// What is in a folder.
struct Listing {
    folder: Folder,
    /// Files that may be read, and trees of sysfs.
    files: Vec<(PathBuf, What)>,
    /// Subfolders, links and files that may not.
    refused: Vec<Refused>,
    /// How many more entries are looked at.
    left: usize,
    /// Folders that lie too deep.
    deep: usize,
}

/// The files of a folder that end in `.json`, at every depth that [`read_path`] reads: records may be among them.
///
/// # Errors
/// Where the folder, or one below it, cannot be listed.
pub fn json_files(folder: &Path) -> Result<Vec<PathBuf>, ReadError> {
    let is_json = |(path, what): &(PathBuf, What)| {
        *what == What::File && path.extension().is_some_and(|end| end.eq_ignore_ascii_case("json"))
    };
    Ok(list_all(folder)?.files.into_iter().filter(is_json).map(|(path, _)| path).collect())
}

fn list_all(path: &Path) -> Result<Listing, ReadError> {
    let mut listing =
        Listing { folder: Folder::of(path)?, files: Vec::new(), refused: Vec::new(), left: MAX_ENTRIES, deep: 0 };
    list(path, 0, &mut listing)?;
    listing.files.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(listing)
}

fn list(path: &Path, depth: usize, listing: &mut Listing) -> Result<(), ReadError> {
    let of_tree = match sysfs::is_root(path) {
        true => {
            listing.files.push((path.to_owned(), What::Folder));
            // a running system is no capture: nothing but its tree is read
            if sysfs::is_sys(path) || path.parent().is_none() {
                return Ok(());
            }
            sysfs::OWN.as_slice()
        }
        false => &[],
    };
    for entry in listing.folder.entries(path)? {
        listing.left -= 1;
        if listing.files.len() >= MAX_FILES || listing.left == 0 {
            return Err(ReadError::TooManyFiles(shown(path)));
        }
        if entry.is_hidden() || entry.path.file_name().is_some_and(|name| of_tree.iter().any(|own| name == *own)) {
            continue;
        }
        let Entry { path, is_link, what } = entry;
        match what {
            Err(refused) => listing.refused.push(refused),
            Ok(What::Folder) if is_link => {}
            Ok(What::Folder) if depth == MAX_DEPTH => listing.deep += 1,
            Ok(What::Folder) => match list(&path, depth + 1, listing) {
                Err(ReadError::File(refused)) => listing.refused.push(refused),
                done => done?,
            },
            Ok(what) => listing.files.push((path, what)),
        }
    }
    Ok(())
}
