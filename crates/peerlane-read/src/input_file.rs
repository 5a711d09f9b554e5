//! Opens every file that is read. The program's writers are the only others that open files.
//!
//! * The type of a file is known before it is opened: a FIFO, a socket or a device never blocks or floods the reader.
//! * Each [`Kind`] has a limit of size, which counts what is read. The size that a file system reports is only used to
//!   refuse sooner: files of `/proc` and devices report 0.
//! * A [`Folder`] is read without leaving it, whatever its links say.
//! * Each step has a deadline, [`PATIENCE`]. A step that does not return is left behind with its thread: a network file
//!   system without its server never answers.

use std::cell::RefCell;
use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, Cursor, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Duration;

use peerlane_machine::one_line::shown;

/// How long one step may take: to open a file, or to read its next 256 KiB.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// How many bytes one step reads.
const PIECE: u64 = 256 << 10;

/// The most entries that are listed of one folder.
const MOST_ENTRIES: usize = 1 << 20;

/// The device without content, which stands for an empty file.
const EMPTY: &str = "/dev/null";

/// Where a process finds its open files, such as the pipes of `<(command)`.
const DESCRIPTORS: [&str; 2] = ["/dev/fd", "/proc/self/fd"];

/// What a file is read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Output of tools, a document or an archive.
    Source,
    /// The record of a run.
    Run,
    /// The record of a run between nodes.
    NodesRun,
    /// A system or cluster file.
    Design,
    /// A site's rules.
    Settings,
    /// A table of slots.
    SlotTable,
    /// A trace of a program's transfers.
    Trace,
    /// A secret that processes share.
    Secret,
    /// Where the first process listens.
    Rendezvous,
    /// What a gate counts.
    GateState,
    /// A configuration file of NCCL's.
    LibrarySettings,
    /// A file of `/sys`, or a short one of `/proc`.
    Attribute,
    /// A long file of `/proc`.
    Proc,
}

impl Kind {
    /// The most bytes of such a file.
    pub const fn limit(self) -> u64 {
        match self {
            Kind::Source | Kind::Run => 64 << 20,
            Kind::NodesRun | Kind::Trace => 512 << 20,
            Kind::Design => 4 << 20,
            Kind::Settings | Kind::SlotTable | Kind::GateState | Kind::LibrarySettings => 1 << 20,
            Kind::Secret | Kind::Rendezvous | Kind::Attribute => 64 << 10,
            Kind::Proc => 16 << 20,
        }
    }

    fn too_large(self) -> io::Error {
        let what = match self {
            Kind::Source => "; cut out the part that matters",
            Kind::Run => ": not a recorded run",
            Kind::NodesRun => ": not a record between nodes",
            Kind::Design => ": not a system file",
            Kind::Settings => ": not a settings file",
            Kind::SlotTable => ": not a slot table",
            Kind::Trace => ": not a trace",
            Kind::Secret => ": not a secret",
            Kind::Rendezvous => ": not a rendezvous file",
            Kind::GateState => ": not a state of the gate",
            Kind::LibrarySettings => ": not a configuration of NCCL",
            Kind::Attribute | Kind::Proc => "",
        };
        let limit = self.limit();
        let size = if limit < 1 << 20 { format!("{} KiB", limit >> 10) } else { format!("{} MiB", limit >> 20) };
        io::Error::new(ErrorKind::FileTooLarge, format!("larger than {size}{what}"))
    }
}

/// What a name stands for, once links are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A named or unnamed pipe.
    Pipe,
    /// A socket.
    Socket,
    /// A device, or what the operating system has no name for.
    Device,
}

impl What {
    fn of(found: FileType) -> Self {
        if found.is_file() {
            return What::File;
        }
        if found.is_dir() {
            return What::Folder;
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::FileTypeExt;
            if found.is_fifo() {
                return What::Pipe;
            }
            if found.is_socket() {
                return What::Socket;
            }
        }
        What::Device
    }

    /// Refuses what is no file, with what it is and what to do.
    fn require_file(self) -> io::Result<()> {
        let why = match self {
            What::File => return Ok(()),
            What::Folder => "is a folder, not a file: name a file in it",
            What::Pipe => "is a FIFO, not a file: write what it delivers to a file, and name that",
            What::Socket => "is a socket, not a file: name a file",
            What::Device => "is a device, not a file: name a file",
        };
        Err(io::Error::new(ErrorKind::InvalidInput, why))
    }
}

/// Why a file is not read.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {cause}")]
pub struct Refused {
    /// Its name, as it may be shown.
    pub file: String,
    /// The reason, and what to do where a person can do something.
    pub cause: io::Error,
}

impl Refused {
    fn of(path: &Path, cause: io::Error) -> Self {
        Refused { file: shown(path), cause }
    }

    /// Whether there is no such file.
    pub fn is_absent(&self) -> bool {
        self.cause.kind() == ErrorKind::NotFound
    }
}

impl From<Refused> for String {
    fn from(refused: Refused) -> String {
        refused.to_string()
    }
}

type Job = Box<dyn FnOnce() + Send>;

thread_local! {
    /// The thread that takes steps for this one, while the last one returned in time.
    static HELPER: RefCell<Option<Sender<Job>>> = const { RefCell::new(None) };
}

fn helper() -> Option<Sender<Job>> {
    let (send, receive) = mpsc::channel::<Job>();
    thread::Builder::new().spawn(move || receive.into_iter().for_each(|job| job())).ok()?;
    Some(send)
}

/// What a job returns; `None` where it does not within `patience`, and is left behind, or where no thread can be started.
pub fn within<T: Send + 'static>(patience: Duration, job: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (send, answer) = mpsc::sync_channel(1);
    let helper = HELPER.take().or_else(helper)?;
    // nobody receives the answer once patience has run out
    helper.send(Box::new(move || drop(send.send(job())))).ok()?;
    let answer = answer.recv_timeout(patience).ok()?;
    HELPER.set(Some(helper));
    Some(answer)
}

/// One step of the file system.
fn step<T: Send + 'static>(patience: Duration, job: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    within(patience, job).unwrap_or_else(|| {
        let why = format!(
            "no answer within {} s: its file system does not respond, or nobody writes to a pipe",
            patience.as_secs_f64()
        );
        Err(io::Error::new(ErrorKind::TimedOut, why))
    })
}

/// An open file or pipe. Reading has no limit of size: [`Input::all`] has.
pub struct Input {
    path: PathBuf,
    kind: Kind,
    /// Absent once a step has not returned.
    source: Option<Box<dyn Read + Send>>,
    /// What the file system reports; 0 for a pipe.
    size: u64,
    /// A pipe delivers when its writer does, so it has none.
    patience: Option<Duration>,
    piece: Cursor<Vec<u8>>,
    /// Who may do what, of a file on a system with such bits.
    mode: Option<u32>,
}

impl Input {
    /// All of it, within its kind's limit.
    ///
    /// # Errors
    /// Where it is larger, or cannot be read.
    pub fn all(mut self) -> Result<Vec<u8>, Refused> {
        self.content().map_err(|cause| Refused::of(&self.path, cause))
    }

    pub(crate) fn head(mut self, most: u64) -> Result<Vec<u8>, Refused> {
        let mut head = Vec::new();
        let read = self.by_ref().take(most).read_to_end(&mut head);
        read.map(|_| head).map_err(|cause| Refused::of(&self.path, cause))
    }

    fn content(&mut self) -> io::Result<Vec<u8>> {
        let (kind, limit) = (self.kind, self.kind.limit());
        if self.size > limit {
            return Err(kind.too_large());
        }
        let mut bytes = Vec::with_capacity(usize::try_from(self.size).unwrap_or_default());
        self.take(limit + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > limit { Err(kind.too_large()) } else { Ok(bytes) }
    }

    /// What the file system reports as its size, in bytes; 0 for a pipe and for files of `/proc`.
    pub fn size(&self) -> u64 {
        self.size
    }
}

impl Read for Input {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.piece.read(into)?;
        if read > 0 {
            return Ok(read);
        }
        let Some(mut source) = self.source.take() else { return Ok(0) };
        let Some(patience) = self.patience else {
            let read = source.read(into);
            self.source = Some(source);
            return read;
        };
        let (source, bytes) = step(patience, move || {
            let mut bytes = Vec::new();
            source.by_ref().take(PIECE).read_to_end(&mut bytes)?;
            Ok((source, bytes))
        })?;
        // a shorter piece is the last one
        self.source = (bytes.len() as u64 == PIECE).then_some(source);
        self.piece = Cursor::new(bytes);
        self.piece.read(into)
    }
}

/// Opens a file that was named. A pipe is opened where a source may be one, and where its name is an open descriptor's.
///
/// # Errors
/// Where it is absent, may not be read, is no file, or does not open within [`PATIENCE`].
pub fn open(path: &Path, kind: Kind) -> Result<Input, Refused> {
    let may_be_pipe =
        kind == Kind::Source || path.parent().is_some_and(|at| DESCRIPTORS.iter().any(|d| at == Path::new(d)));
    let at = path.to_owned();
    input(path, kind, move || opened(&at, may_be_pipe, true))
}

fn input(path: &Path, kind: Kind, open: impl FnOnce() -> io::Result<File> + Send + 'static) -> Result<Input, Refused> {
    let opened = step(PATIENCE, move || {
        let file = open()?;
        let found = file.metadata()?;
        Ok((file, found))
    });
    let (file, found) = opened.map_err(|cause| Refused::of(path, cause))?;
    let is_pipe = What::of(found.file_type()) == What::Pipe;
    Ok(Input {
        path: path.to_owned(),
        kind,
        source: Some(Box::new(file)),
        size: if is_pipe { 0 } else { found.len() },
        patience: (!is_pipe).then_some(PATIENCE),
        piece: Cursor::default(),
        mode: mode(&found).filter(|_| !is_pipe),
    })
}

#[cfg(unix)]
fn mode(found: &fs::Metadata) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt;
    Some(found.permissions().mode())
}

#[cfg(not(unix))]
fn mode(_: &fs::Metadata) -> Option<u32> {
    None
}

fn opened(path: &Path, may_be_pipe: bool, follow: bool) -> io::Result<File> {
    let allowed = |found: FileType| match What::of(found) {
        What::Pipe if may_be_pipe => Ok(()),
        What::Device if path == Path::new(EMPTY) => Ok(()),
        what => what.require_file(),
    };
    let found = if follow { fs::metadata(path)? } else { fs::symlink_metadata(path)? };
    allowed(found.file_type())?;
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt;
        let mut flags = OFlags::NOCTTY;
        // a FIFO may have taken its place
        flags.set(OFlags::NONBLOCK, What::of(found.file_type()) != What::Pipe);
        flags.set(OFlags::NOFOLLOW, !follow);
        options.custom_flags(flags.bits().cast_signed());
    }
    let file = options.open(path)?;
    allowed(file.metadata()?.file_type())?;
    Ok(file)
}

/// All that a file holds, within its kind's limit.
///
/// # Errors
/// As [`open`], and where it is larger.
pub fn read(path: &Path, kind: Kind) -> Result<Vec<u8>, Refused> {
    open(path, kind)?.all()
}

/// The same as UTF-8 text.
///
/// # Errors
/// The same, and where it is no such text.
pub fn text(path: &Path, kind: Kind) -> Result<String, Refused> {
    Ok(text_and_mode(path, kind)?.0)
}

/// The same with the bits that say who may read it, of the file that was read; `None` for a pipe, or where there are none.
///
/// # Errors
/// The same.
pub fn text_and_mode(path: &Path, kind: Kind) -> Result<(String, Option<u32>), Refused> {
    let not_text = |_| Refused::of(path, io::Error::new(ErrorKind::InvalidData, "not UTF-8 text"));
    let input = open(path, kind)?;
    let mode = input.mode;
    Ok((String::from_utf8(input.all()?).map_err(not_text)?, mode))
}

/// The first bytes of a file; those of a pipe could not be read again.
///
/// # Errors
/// As [`open`], and for a pipe.
pub fn head(path: &Path, most: u64) -> Result<Vec<u8>, Refused> {
    let at = path.to_owned();
    input(path, Kind::Source, move || opened(&at, false, true))?.head(most)
}

/// The text of a file of the kernel's, or a short one of the system's, without white space around it; `None` where it
/// cannot be read.
pub fn attribute(path: impl AsRef<Path>) -> Option<String> {
    text(path.as_ref(), Kind::Attribute).ok().map(|text| text.trim().to_owned())
}

/// Names in a folder, sorted; none where it cannot be listed. Names that are not UTF-8 are left out.
pub fn names(path: impl AsRef<Path>) -> Vec<String> {
    let at = path.as_ref().to_owned();
    step(PATIENCE, move || names_in(&at)).unwrap_or_default()
}

fn names_in(path: &Path) -> io::Result<Vec<String>> {
    let entries = fs::read_dir(path)?.take(MOST_ENTRIES).flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    Ok(names)
}

/// What a name stands for.
///
/// # Errors
/// Where there is nothing, or its folder may not be searched.
pub fn what(path: &Path) -> Result<What, Refused> {
    let at = path.to_owned();
    let found = step(PATIENCE, move || fs::metadata(at).map(|found| What::of(found.file_type())));
    found.map_err(|cause| Refused::of(path, cause))
}

/// An entry of a folder.
pub struct Entry {
    /// The folder's path with its name.
    pub path: PathBuf,
    /// Whether the name is a link's.
    pub is_link: bool,
    /// A file or a folder; an error for a link that leads out of the folder that was named, and for a FIFO, a socket or a
    /// device.
    pub what: Result<What, Refused>,
}

impl Entry {
    /// Whether its name begins with a dot.
    pub fn is_hidden(&self) -> bool {
        self.path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
    }
}

/// A folder, and all that is below it. No link leads out.
#[derive(Clone, Debug)]
pub struct Folder {
    /// As it was named.
    named: PathBuf,
    /// The same without links.
    root: PathBuf,
}

impl Folder {
    /// The folder of that name.
    ///
    /// # Errors
    /// Where there is none, or it may not be searched.
    pub fn of(path: &Path) -> Result<Self, Refused> {
        let at = path.to_owned();
        let root = step(PATIENCE, move || fs::canonicalize(at)).map_err(|cause| Refused::of(path, cause))?;
        Ok(Folder { named: path.to_owned(), root })
    }

    /// The entries of a folder of it, in the order of their names, at most 2^20. A dead link is none.
    ///
    /// # Errors
    /// Where it cannot be listed, or lies outside.
    pub fn entries(&self, path: &Path) -> Result<Vec<Entry>, Refused> {
        let (folder, at) = (self.clone(), path.to_owned());
        let listed = step(PATIENCE, move || {
            let entries = fs::read_dir(folder.inside(&at)?)?.take(MOST_ENTRIES);
            let names: Vec<(PathBuf, FileType)> = entries
                .map(|entry| entry.and_then(|e| Ok((at.join(e.file_name()), e.file_type()?))))
                .collect::<io::Result<_>>()?;
            let mut found: Vec<Entry> = names.into_iter().filter_map(|(path, of)| folder.entry(path, of)).collect();
            found.sort_by(|a, b| a.path.cmp(&b.path));
            Ok(found)
        });
        listed.map_err(|cause| Refused::of(path, cause))
    }

    /// As [`names`], of a folder of it.
    pub fn names(&self, path: &Path) -> Vec<String> {
        let (folder, at) = (self.clone(), path.to_owned());
        step(PATIENCE, move || names_in(&folder.inside(&at)?)).unwrap_or_default()
    }

    fn entry(&self, path: PathBuf, of: FileType) -> Option<Entry> {
        let is_link = of.is_symlink();
        let what = match is_link {
            true => self.inside(&path).and_then(|target| Ok(What::of(fs::symlink_metadata(target)?.file_type()))),
            false => Ok(What::of(of)),
        };
        let what =
            what.and_then(|what| if what == What::Folder { Ok(what) } else { what.require_file().map(|()| what) });
        if what.as_ref().is_err_and(|cause| cause.kind() == ErrorKind::NotFound) {
            return None;
        }
        Some(Entry { what: what.map_err(|cause| Refused::of(&path, cause)), is_link, path })
    }

    /// All that a file of it holds, within its kind's limit.
    ///
    /// # Errors
    /// As [`read`], and where a link leads out.
    pub fn read(&self, path: &Path, kind: Kind) -> Result<Vec<u8>, Refused> {
        self.open(path, kind)?.all()
    }

    /// The first bytes of a file of it.
    ///
    /// # Errors
    /// As [`Folder::open`].
    pub fn head(&self, path: &Path, most: u64) -> Result<Vec<u8>, Refused> {
        self.open(path, Kind::Source)?.head(most)
    }

    /// Opens a file of it.
    ///
    /// # Errors
    /// As [`open`], for a pipe, and where a link leads out.
    pub fn open(&self, path: &Path, kind: Kind) -> Result<Input, Refused> {
        let (folder, at) = (self.clone(), path.to_owned());
        input(path, kind, move || opened(&folder.inside(&at)?, false, false))
    }

    /// Whether a folder of that name is in it; links are followed.
    pub fn holds(&self, path: &Path) -> bool {
        let (folder, at) = (self.clone(), path.to_owned());
        step(PATIENCE, move || Ok(folder.inside(&at)?.is_dir())).is_ok_and(|is| is)
    }

    /// Where a link of it leads, without following it.
    pub fn link(&self, path: &Path) -> Option<PathBuf> {
        let (folder, at) = (self.clone(), path.to_owned());
        let (above, name) = (at.parent()?.to_owned(), at.file_name()?.to_owned());
        step(PATIENCE, move || fs::read_link(folder.inside(&above)?.join(name))).ok()
    }

    /// The path without links.
    fn inside(&self, path: &Path) -> io::Result<PathBuf> {
        let target = fs::canonicalize(path)?;
        if target.starts_with(&self.root) {
            return Ok(target);
        }
        let why = format!("its link leads out of {}; name the file itself to read it", shown(&self.named));
        Err(io::Error::new(ErrorKind::PermissionDenied, why))
    }
}

#[cfg(test)]
mod tests;
