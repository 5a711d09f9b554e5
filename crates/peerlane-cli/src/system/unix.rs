//! Linux and macOS.

use super::{Locking, Owner};
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use rustix::fs::{FlockOperation, OFlags, fcntl_getfl, fcntl_setfl, flock};
use rustix::io::Errno;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Signals that end a run in order.
pub(crate) const ENDING: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// How file systems refuse a second name for a file, if they have none.
const WITHOUT_LINKS: [Errno; 3] = [Errno::PERM, Errno::NOSYS, Errno::OPNOTSUPP];

/// Whose it is.
pub(crate) fn owner(meta: &Metadata) -> Owner {
    Owner { mode: meta.mode(), user: meta.uid() }
}

/// Lets a file be opened only if its name is no link.
pub(crate) fn follow_no_link(options: &mut OpenOptions) {
    options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
}

/// Whether a file was not opened because its name is a link.
pub(crate) fn is_link(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

/// Whether the file system has no second names for files.
pub(crate) fn is_without_links(error: &io::Error) -> bool {
    WITHOUT_LINKS.iter().any(|of| error.raw_os_error() == Some(of.raw_os_error()))
}

/// Locks a file for this process, without waiting.
pub(crate) fn lock(file: &File) -> io::Result<Locking> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Locking::Locked),
        Err(Errno::WOULDBLOCK) => Ok(Locking::Busy),
        // some network file systems have no locks
        Err(Errno::NOSYS | Errno::OPNOTSUPP | Errno::NOLCK) => Ok(Locking::Impossible),
        Err(error) => Err(error.into()),
    }
}

/// Whether an open file is still the one of that name.
pub(crate) fn same(file: &File, path: &Path) -> bool {
    let open = file.metadata().map(|m| (m.dev(), m.ino()));
    let named = std::fs::symlink_metadata(path).map(|m| (m.dev(), m.ino()));
    open.is_ok_and(|open| named.is_ok_and(|named| open == named))
}

/// Reads the start of a file, wherever it was read before.
pub(crate) fn read_start(file: &File, into: &mut [u8]) -> io::Result<usize> {
    file.read_at(into, 0)
}

/// Makes a symbolic link.
pub(crate) fn symlink(target: &Path, path: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, path)
}

/// Opens a pipe or device to write to it. A pipe that nobody reads is refused: a wait for a reader has no end.
pub(crate) fn open_stream(path: &Path) -> io::Result<File> {
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().append(true).custom_flags(nonblocking).open(path).map_err(|error| {
        let is_unread = error.raw_os_error() == Some(Errno::NXIO.raw_os_error());
        if is_unread { io::Error::other("it is a pipe that no program reads") } else { error }
    })?;
    fcntl_setfl(&file, fcntl_getfl(&file)?.difference(OFlags::NONBLOCK))?;
    Ok(file)
}

/// Makes names in a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// What is free where a folder is, if that is known.
pub(crate) fn free_bytes(folder: &Path) -> Option<u64> {
    let known = rustix::fs::statvfs(folder).ok().filter(|of| of.f_blocks > 0)?;
    Some(known.f_bavail.saturating_mul(known.f_frsize))
}

/// Makes a write beyond the limit of `ulimit -f` an error like that of a full disk, not the end of the process.
pub(crate) fn outlive_size_limit() {
    // without the handler the process ends as it did before
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
}

/// Keeps Ctrl-C from a process that is about to start.
pub(crate) fn own_group(command: &mut Command) {
    command.process_group(0);
}

/// Ends this process at once, without the clean-up of its libraries.
pub(crate) fn end_now(status: i32) -> ! {
    signal_hook::low_level::exit(status)
}
