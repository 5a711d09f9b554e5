//! Windows: what protects shared folders on Unix is left out.

use super::{Locking, Owner};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::process::Command;

/// Signals that end a run in order.
pub(crate) const ENDING: [i32; 1] = [signal_hook::consts::SIGINT];

/// Whose it is.
pub(crate) fn owner(_meta: &Metadata) -> Owner {
    Owner { mode: 0o755, user: 0 }
}

/// Lets a file be opened only if its name is no link.
pub(crate) fn follow_no_link(_options: &mut OpenOptions) {}

/// Whether a file was not opened because its name is a link.
pub(crate) fn is_link(_error: &io::Error) -> bool {
    false
}

/// Whether the file system has no second names for files.
pub(crate) fn is_without_links(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Unsupported
}

/// Locks a file for this process, without waiting.
pub(crate) fn lock(_file: &File) -> io::Result<Locking> {
    Ok(Locking::Impossible)
}

/// Whether an open file is still the one of that name.
pub(crate) fn same(_file: &File, path: &Path) -> bool {
    path.exists()
}

/// Reads the start of a file, wherever it was read before.
pub(crate) fn read_start(mut file: &File, into: &mut [u8]) -> io::Result<usize> {
    file.seek(SeekFrom::Start(0))?;
    file.read(into)
}

/// Makes a symbolic link.
pub(crate) fn symlink(_target: &Path, _path: &Path) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "links of a Linux machine cannot be written here; write an archive"))
}

/// Opens a pipe or device to write to it.
pub(crate) fn open_stream(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).open(path)
}

/// Makes names in a folder durable.
pub(crate) fn sync_folder(_folder: &Path) -> io::Result<()> {
    Ok(())
}

/// What is free where a folder is, if that is known.
pub(crate) fn free_bytes(_folder: &Path) -> Option<u64> {
    None
}

/// Makes a write beyond the limit of `ulimit -f` an error like that of a full disk, not the end of the process.
pub(crate) fn outlive_size_limit() {}

/// Keeps Ctrl-C from a process that is about to start.
pub(crate) fn own_group(_command: &mut Command) {}

/// Ends this process at once, without the clean-up of its libraries.
pub(crate) fn end_now(status: i32) -> ! {
    std::process::exit(status)
}
