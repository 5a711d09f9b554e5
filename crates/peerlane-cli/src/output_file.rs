//! The only place that writes files.
//!
//! Output often goes to folders that several people and jobs write to. So a file appears whole under its name or not at
//! all ([`write()`]), also when the disk is full or the process is killed; no symbolic link is followed; and a record that
//! grows for minutes belongs to one process ([`Lock`]).

pub(crate) mod shared;

use peerlane::one_line::shown;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use peerlane::evidence::{Files, Item};

use crate::Failure;
use crate::system::{self, Locking};

/// Folders whose links name this process's own streams, as `/dev/stdout` and a shell's `>(command)` do.
const STREAMS: [&str; 3] = ["/dev", "/dev/fd", "/proc/self/fd"];

/// The bit of a folder in which everyone may write, but replace only their own.
const STICKY: u32 = 0o1000;

/// How often a name is tried that another process may take at the same moment.
const TRIES: u32 = 16;

/// How much of a lock file is read.
const HOLDER_BYTES: usize = 256;

/// How long each wait is for the holder of a lock to write its name.
const WRITING: Duration = Duration::from_millis(10);

/// Writes a whole file, or sends the content to a pipe or device.
pub(crate) fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<(), Failure> {
    replace(path, content.as_ref()).map_err(|error| refused(path, &error))
}

/// Fails if [`write()`] would: to be called before long work. Creates and removes a file in the folder.
pub(crate) fn check(path: &Path) -> Result<(), Failure> {
    can_replace(path).map_err(|error| refused(path, &error))
}

fn refused(path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("cannot write {}: {error}", shown(path)))
}

/// What a path names.
enum Place {
    /// A file that exists with these permissions, or none.
    File(Option<fs::Permissions>),
    /// A pipe, a terminal or a device.
    Stream,
}

fn place(path: &Path) -> io::Result<Place> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let folder = folder_of(path);
            if path.file_name().is_none() {
                return Err(io::Error::other("the path names no file"));
            }
            if !folder.is_dir() {
                return Err(io::Error::other(format!("no such folder: {}", shown(folder))));
            }
            return Ok(Place::File(None));
        }
        Err(error) => return Err(error),
    };
    if found.is_symlink() {
        if path.parent().is_some_and(|folder| STREAMS.iter().any(|of| folder == Path::new(of))) {
            return Ok(Place::Stream);
        }
        let to = fs::read_link(path).unwrap_or_default();
        let why = format!("it is a symbolic link to {}, which is not followed; name the file itself", shown(&to));
        return Err(io::Error::other(why));
    }
    if found.is_dir() {
        return Err(io::Error::other("it is a folder"));
    }
    Ok(if found.is_file() { Place::File(Some(found.permissions())) } else { Place::Stream })
}

/// The folder that holds a file.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// `run.json.partial` for `run.json`.
pub(crate) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".");
    name.push(ending);
    name.into()
}

/// Options that follow no link in the last part of a path.
fn own_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    system::follow_no_link(&mut options);
    options
}

/// A new file next to another, which is removed unless it takes that one's place.
struct Fresh {
    file: File,
    path: PathBuf,
    kept: bool,
}

impl Fresh {
    fn beside(path: &Path) -> io::Result<Fresh> {
        let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
        for attempt in 0..TRIES {
            // the name only needs to be new; O_EXCL decides
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.subsec_nanos());
            let new = beside(path, &format!("{}-{:x}.new", std::process::id(), now ^ attempt));
            match own_file().write(true).create_new(true).open(&new) {
                Ok(file) => return Ok(Fresh { file, path: new, kept: false }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    /// Beside a locked file there is one writer, so a fixed name serves, and what a killed one left is removed.
    fn beside_locked(path: &Path) -> io::Result<Fresh> {
        let new = beside(path, "new");
        remove(&new)?;
        let file = own_file().write(true).create_new(true).open(&new)?;
        Ok(Fresh { file, path: new, kept: false })
    }

    /// In a folder like `/tmp` a file is replaced by its owner alone.
    fn may_replace(&self, path: &Path) -> io::Result<()> {
        let Ok(there) = fs::symlink_metadata(path) else { return Ok(()) };
        let [folder, own, there] = [&fs::metadata(folder_of(path))?, &self.file.metadata()?, &there].map(system::owner);
        if folder.mode & STICKY != 0 && ![0, there.user, folder.user].contains(&own.user) {
            return Err(io::Error::other("it belongs to another user, and the folder lets only its owner replace it"));
        }
        Ok(())
    }

    /// Writes the whole content, durably.
    fn fill(&mut self, content: &[u8]) -> io::Result<()> {
        self.file.write_all(content)?;
        self.file.sync_all()
    }

    /// Takes the first of these names that no file has, durably, and returns it. Never replaces a file.
    fn take(mut self, content: &[u8], names: impl Iterator<Item = PathBuf>) -> io::Result<PathBuf> {
        self.fill(content)?;
        for name in names {
            match fs::hard_link(&self.path, &name) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    // a server may answer a request that it received twice: then the link is there, and is ours
                    if !system::same(&self.file, &name) {
                        continue;
                    }
                }
                Err(error) if system::is_without_links(&error) => {
                    if fs::symlink_metadata(&name).is_ok() {
                        continue;
                    }
                    fs::rename(&self.path, &name)?;
                    self.kept = true;
                }
                Err(error) => return Err(error),
            }
            return sync_folder(&name).map(|()| name);
        }
        Err(io::Error::from(io::ErrorKind::AlreadyExists))
    }

    /// Takes the place of `path`, durably.
    fn replace(mut self, path: &Path, content: &[u8]) -> io::Result<()> {
        self.fill(content)?;
        fs::rename(&self.path, path)?;
        self.kept = true;
        sync_folder(path)
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        if !self.kept {
            // an incomplete file is useless, and may be what fills the disk
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    match place(path)? {
        Place::Stream => system::open_stream(path)?.write_all(content),
        Place::File(permissions) => {
            let fresh = Fresh::beside(path)?;
            if let Some(permissions) = permissions {
                // a file that only its owner may read stays so
                fresh.file.set_permissions(permissions)?;
            }
            fresh.replace(path, content)
        }
    }
}

fn can_replace(path: &Path) -> io::Result<()> {
    match place(path)? {
        Place::Stream => Ok(()),
        Place::File(_) => Fresh::beside(path)?.may_replace(path),
    }
}

/// Writes files and links into a new or empty folder, where they appear together; of those of a failed attempt nothing
/// stays.
pub(crate) fn write_folder(folder: &Path, files: &Files) -> Result<(), Failure> {
    fill(folder, files).map_err(|error| refused(folder, &error))
}

/// Fails if [`write_folder`] would: to be called before long work. Makes the folder.
pub(crate) fn check_folder(folder: &Path) -> Result<(), Failure> {
    let empty = || -> io::Result<()> {
        if fs::symlink_metadata(folder).is_ok_and(|found| found.is_symlink()) {
            return Err(io::Error::other("it is a symbolic link, which is not followed"));
        }
        fs::create_dir_all(folder)?;
        if fs::read_dir(folder)?.next().is_some() {
            return Err(io::Error::other("the folder is not empty; name a new one"));
        }
        Staging::inside(folder).map(drop)
    };
    empty().map_err(|error| refused(folder, &error))
}

/// Makes a folder, and those above it, if they are missing.
pub(crate) fn make_folder(folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(|error| refused(folder, &error))
}

/// A folder in which others are made ready, which goes with what is left in it.
struct Staging(PathBuf);

impl Staging {
    fn inside(folder: &Path) -> io::Result<Staging> {
        let path = folder.join(format!("{}.new", std::process::id()));
        fs::create_dir(&path)?;
        Ok(Staging(path))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn fill(folder: &Path, files: &Files) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let staging = Staging::inside(folder)?;
    // links last, so that none of them is followed
    for (path, item) in files.iter() {
        let path = staging.0.join(path);
        fs::create_dir_all(folder_of(&path))?;
        if let Item::File(bytes) = item {
            own_file().write(true).create_new(true).open(&path)?.write_all(bytes)?;
        }
    }
    for (path, item) in files.iter() {
        if let Item::Link(target) = item {
            system::symlink(target.as_ref(), &staging.0.join(path))?;
        }
    }
    // thousands of small files are made durable at once
    #[cfg(target_os = "linux")]
    rustix::fs::syncfs(File::open(&staging.0)?)?;
    for entry in fs::read_dir(&staging.0)? {
        let name = entry?.file_name();
        fs::rename(staging.0.join(&name), folder.join(&name))?;
    }
    drop(staging);
    system::sync_folder(folder)
}

/// Makes a rename durable.
fn sync_folder(path: &Path) -> io::Result<()> {
    system::sync_folder(folder_of(path))
}

/// Removes a file that may not exist.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The exclusive use of a file and of the files next to it that have its name and an ending: a lock on `FILE.lock`, which
/// the operating system ends with the process, however that ends.
#[derive(Debug)]
pub(crate) struct Lock {
    /// The file that is locked for.
    of: PathBuf,
    path: PathBuf,
    _file: File,
}

impl Lock {
    /// Takes the lock, or says who has it. Fails, too, if the folder or the disk takes no file.
    pub(crate) fn of(path: &Path) -> io::Result<Lock> {
        if let Place::Stream = place(path)? {
            return Err(io::Error::other("it is not a regular file"));
        }
        let at = beside(path, "lock");
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", shown(&at)));
        for _ in 0..TRIES {
            let file = match own_file().read(true).write(true).create(true).truncate(false).open(&at) {
                Err(error) if system::is_link(&error) => {
                    return Err(io::Error::other(format!("{} is a symbolic link; remove it", shown(&at))));
                }
                opened => opened.map_err(named)?,
            };
            match system::lock(&file).map_err(named)? {
                Locking::Locked => {}
                Locking::Busy => {
                    return Err(io::Error::other(format!("{} is writing it", holder(&file))));
                }
                Locking::Impossible => return Lock::without(path, at, file),
            }
            // whoever had it may have removed it meanwhile, and another made a new one
            if system::same(&file, &at) {
                let lock = Lock::taken(path, at, file)?;
                Fresh::beside_locked(path)?.may_replace(path)?;
                return Ok(lock);
            }
        }
        Err(io::Error::other(format!("{} is taken again and again", shown(&at))))
    }

    /// Where files cannot be locked, a lock file with content is a lock; who left it behind is for a person to judge.
    fn without(of: &Path, at: PathBuf, file: File) -> io::Result<Lock> {
        if file.metadata()?.len() > 0 {
            let (who, at) = (holder(&file), shown(&at));
            return Err(io::Error::other(format!(
                "{who} may be writing it, and this file system has no locks to find out; if not, remove {at}"
            )));
        }
        Lock::taken(of, at, file)
    }

    fn taken(of: &Path, at: PathBuf, mut file: File) -> io::Result<Lock> {
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let on = if host.trim().is_empty() { String::new() } else { format!(" on {}", host.trim()) };
        let text = format!("process {}{on}\n", std::process::id());
        let written = file.set_len(0).and_then(|()| file.write_all(text.as_bytes()));
        let lock = Lock { of: of.to_owned(), path: at, _file: file };
        written.map(|()| lock)
    }

    /// `FILE.ending`, for the holder of the lock alone.
    pub(crate) fn beside(&self, ending: &str) -> PathBuf {
        beside(&self.of, ending)
    }

    /// Writes the file itself, whole.
    pub(crate) fn write(&self, content: &str) -> io::Result<()> {
        self.put(&self.of, content)
    }

    /// Writes `FILE.ending` whole, and opens it to be appended to.
    pub(crate) fn grow(&self, ending: &str, content: &str) -> io::Result<Appended> {
        let path = self.beside(ending);
        self.put(&path, content)?;
        let file = own_file().append(true).open(&path)?;
        Ok(Appended { file, path, size: content.len() as u64, pending: Vec::new() })
    }

    /// Gives `FILE.ending` the name of the file itself, durably.
    pub(crate) fn keep(&self, ending: &str) -> io::Result<()> {
        fs::rename(self.beside(ending), &self.of)?;
        sync_folder(&self.of)
    }

    /// Removes `FILE.ending`.
    pub(crate) fn remove(&self, ending: &str) -> io::Result<()> {
        remove(&self.beside(ending))
    }

    fn put(&self, path: &Path, content: &str) -> io::Result<()> {
        let fresh = Fresh::beside_locked(path)?;
        if let Place::File(Some(permissions)) = place(path)? {
            fresh.file.set_permissions(permissions)?;
        }
        fresh.replace(path, content.as_bytes())
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // still locked: another process that has opened it sees that it is gone, and makes a new one
        let _ = fs::remove_file(&self.path);
    }
}

/// `process 4711 on node7`, as the lock's holder writes it right after it has taken the lock.
fn holder(file: &File) -> String {
    let mut text = [0; HOLDER_BYTES];
    for _ in 0..TRIES {
        let read = system::read_start(file, &mut text).unwrap_or(0);
        let text = String::from_utf8_lossy(&text[..read]);
        if let Some((line, _)) = text.split_once('\n') {
            return line.to_owned();
        }
        thread::sleep(WRITING);
    }
    "another process".to_owned()
}

/// A file that grows by whole records. One that cannot be written is kept in memory, and tried again with the next.
#[derive(Debug)]
pub(crate) struct Appended {
    file: File,
    path: PathBuf,
    /// How long the file is, without what a failed write has left.
    size: u64,
    pending: Vec<u8>,
}

impl Appended {
    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a record, and earlier ones that could not be added.
    pub(crate) fn append(&mut self, record: &str) -> io::Result<()> {
        self.pending.extend_from_slice(record.as_bytes());
        self.retry()
    }

    /// Adds what could not be added before.
    pub(crate) fn retry(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let written = self.file.write_all(&self.pending);
        if written.is_ok() {
            self.size += self.pending.len() as u64;
            self.pending.clear();
        } else {
            // no half record stays; a device cannot be cut, and keeps nothing
            let _ = self.file.set_len(self.size);
        }
        written
    }

    /// Whether everything was added.
    pub(crate) fn is_whole(&self) -> bool {
        self.pending.is_empty()
    }

    /// Makes what was added durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// A file that takes nothing, as on a full disk.
    #[cfg(test)]
    pub(crate) fn full() -> Appended {
        let file = OpenOptions::new().append(true).open("/dev/full").unwrap();
        Appended { file, path: "/dev/full".into(), size: 0, pending: Vec::new() }
    }
}
