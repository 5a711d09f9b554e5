//! A library that is opened at run time, with what it lacks in one line for the user. [`open`](crate::open) opens each.
//!
//! A library gives a table of functions, each of which may be missing: an old driver has fewer than a
//! new one, and most of the work needs only a few.

pub(crate) mod places;

use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use libloading::Library as Handle;

use crate::search::{self, Distrust};
use crate::system;

use peerlane_machine::one_line::shown;
use peerlane_read::input_file::{Kind, text};
use places::{Place, Places};

/// Why a library, or a function of one, is unavailable. Each is one line for the user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LibraryError {
    /// No such file in any of the places.
    #[error("{name} not found: {meaning}{}", ignored_words(ignored))]
    NotFound {
        /// The name that was looked for first.
        name: String,
        /// What that means for this machine.
        meaning: &'static str,
        /// What the environment names and is not searched; empty where that is nothing.
        ignored: String,
    },
    /// The file that the user named may be anybody's.
    #[error("{file} is not used: {why}")]
    Distrusted {
        /// The file.
        file: String,
        /// Why.
        why: Distrust,
    },
    /// There is a file, but it does not open.
    #[error("{file} cannot be opened: {reason}")]
    Broken {
        /// The name or path that was tried.
        file: String,
        /// What the system's loader said of it.
        reason: String,
    },
    /// The file opened, but is another library.
    #[error("{file} is not {wanted}: it has no {symbol}")]
    Other {
        /// The file.
        file: String,
        /// What it should have been.
        wanted: &'static str,
        /// The function that it would have.
        symbol: &'static str,
    },
    /// A toolkit's stand-in for the driver, good for linking only.
    #[error("{file} is a stub to link against, not a driver: no NVIDIA driver found")]
    Stub {
        /// The file.
        file: String,
    },
    /// A program that is linked statically has no loader.
    #[error("this build of peerlane is linked statically and cannot open {name}: use the one for glibc")]
    Static {
        /// The name of the library.
        name: String,
    },
    /// The library is there, and lacks a function.
    #[error("{library} lacks {symbol}{}", needs.as_ref().map(|needs| format!(": needs {needs}")).unwrap_or_default())]
    Lacks {
        /// The library and its version, as in "driver 470.82.01".
        library: String,
        /// The function.
        symbol: &'static str,
        /// The oldest version that has it, as in "driver 535", where that explains the lack.
        needs: Option<String>,
    },
}

fn ignored_words(ignored: &str) -> String {
    if ignored.is_empty() { String::new() } else { format!(" (not searched: {ignored})") }
}

/// What tells one of the libraries from others, and where it is looked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Identity {
    /// What a version is a version of: `driver`, `NCCL`.
    pub(crate) product: &'static str,
    /// The name it is known by, looked for first.
    pub(crate) name: &'static str,
    /// A function that all of its versions have.
    pub(crate) probe: &'static str,
    /// What its absence means.
    pub(crate) meaning: &'static str,
}

/// A library that was opened. It stays open until the process ends: functions taken from it are then
/// always good to call, and NVIDIA's libraries keep threads of their own, which closing would pull the code from under.
#[derive(Debug)]
pub struct Library {
    handle: ManuallyDrop<Handle>,
    identity: Identity,
    file: PathBuf,
}

impl Library {
    /// Opens the first of `places` that serves.
    pub(crate) fn open(identity: Identity, places: &Places) -> Result<Self, LibraryError> {
        if cfg!(all(target_env = "musl", target_feature = "crt-static")) {
            return Err(LibraryError::Static { name: identity.name.to_owned() });
        }
        // the first file that is there but does not serve explains more than the absence of the others
        let mut failure = None;
        for place in &places.all {
            match Self::open_one(identity, place) {
                Ok(Some(library)) => return Ok(library),
                Ok(None) => {}
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        Err(failure.unwrap_or_else(|| LibraryError::NotFound {
            name: identity.name.to_owned(),
            meaning: identity.meaning,
            ignored: search::left_out(&places.ignored),
        }))
    }

    /// `None` where there is no such file.
    fn open_one(identity: Identity, place: &Place) -> Result<Option<Self>, LibraryError> {
        let place = match place {
            Place::Loader(name) => Path::new(name),
            Place::File(file) => file,
        };
        let name = place.to_string_lossy();
        // SAFETY: runs the initialisers of a library that the machine's administrator or the user installed, as any program
        // linked to it does; `places` holds no file that anybody else could have put there.
        let handle = match unsafe { system::open(place) } {
            Ok(handle) => handle,
            Err(error) => {
                let reason = std::error::Error::source(&error).unwrap_or(&error).to_string();
                // a loader that misses a library which this one needs names that other one instead
                if reason.contains(&*name) && reason.contains("No such file") {
                    return Ok(None);
                }
                let reason = reason.strip_prefix(&format!("{name}: ")).map(str::to_owned).unwrap_or(reason);
                return Err(LibraryError::Broken { file: name.into_owned(), reason });
            }
        };
        // SAFETY: any symbol may be read as an address, which is only compared here and never followed.
        let address =
            unsafe { handle.get::<*const ()>(identity.probe.as_bytes()) }.map_or(0, |symbol| *symbol as usize);
        if address == 0 {
            let file = name.into_owned();
            return Err(LibraryError::Other { file, wanted: identity.name, symbol: identity.probe });
        }
        let file = text(Path::new("/proc/self/maps"), Kind::Proc).ok().and_then(|maps| file_at(&maps, address));
        let file = file.unwrap_or_else(|| PathBuf::from(place));
        if file.components().any(|part| part.as_os_str() == "stubs") {
            return Err(LibraryError::Stub { file: shown(&file) });
        }
        Ok(Some(Self { handle: ManuallyDrop::new(handle), identity, file }))
    }

    /// The file that was loaded, links resolved.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The version, as far as the file's name tells it: `libcuda.so.535.104.05` is driver 535.104.05.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        version_in_name(&self.file, self.identity.product)
    }

    /// The function of that name, if the library has it.
    ///
    /// # Safety
    /// `T` must be the type of a pointer to that function, `unsafe extern "C" fn(…) -> …`.
    #[must_use]
    pub unsafe fn symbol<T: Copy>(&self, name: &str) -> Option<T> {
        // SAFETY: by the caller's promise the symbol is a `T` or, where the library defines it as zero, null, which is the
        // `None` of an optional function pointer. The library is never closed, so the pointer stays valid.
        unsafe { self.handle.get::<Option<T>>(name.as_bytes()) }.ok().and_then(|symbol| *symbol)
    }

    /// The error that tells the user that a function is missing, and which version has it.
    fn lacks(&self, symbol: &'static str, since: &str) -> LibraryError {
        let product = self.identity.product;
        let file_name = self.file.file_name().unwrap_or(self.file.as_os_str()).to_string_lossy();
        let library = self.version().map_or_else(|| file_name.into_owned(), |version| format!("{product} {version}"));
        // a version that should have it is not the reason
        let explains = self.version().is_none_or(|version| numbers(version) < numbers(since));
        LibraryError::Lacks { library, symbol, needs: explains.then(|| format!("{product} {since}")) }
    }
}

/// The file that is mapped at an address, by the text of `/proc/self/maps`.
fn file_at(maps: &str, address: usize) -> Option<PathBuf> {
    maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
        // permissions, offset, device, inode, then the path, which may hold blanks
        let path = &rest[rest.find('/')?..];
        // a driver that was replaced while this ran; the name still tells its version
        let path = path.strip_suffix(" (deleted)").unwrap_or(path);
        (start..end).contains(&address).then(|| PathBuf::from(path))
    })
}

/// `535.104.05` of `libcuda.so.535.104.05`; nothing of `libnccl.so.2`, which names an interface.
fn version_in_name<'a>(file: &'a Path, product: &str) -> Option<&'a str> {
    let (_, version) = file.file_name()?.to_str()?.split_once(".so.")?;
    let parts = numbers(version);
    // WSL's libcuda.so.1.1 is an interface too
    let plausible = if product == "driver" { parts.first()? >= &100 } else { parts.len() > 1 };
    plausible.then_some(version)
}

/// The numbers of a dotted version.
fn numbers(version: &str) -> Vec<u32> {
    version.split('.').map_while(|part| part.parse().ok()).collect()
}

/// The functions of one library, each of which may be absent. Made by the macro `table!`.
pub trait Table: Sized {
    /// A table without a single function.
    const NONE: Self;
    /// Every function, and the version of the library since which it exists.
    const SINCE: &'static [(&'static str, &'static str)];

    /// Looks every function up.
    fn load(library: &Library) -> Self;

    /// The functions that are missing.
    fn absent(&self) -> Vec<&'static str>;

    /// Every function, of a library that does nothing but give the answer that a test has set: see `fakes`.
    #[cfg(test)]
    fn answering() -> Self;
}

/// A library and its functions.
#[derive(Debug)]
pub struct Opened<T> {
    library: Library,
    functions: T,
}

impl<T: Table> Opened<T> {
    pub(crate) fn new(library: Library) -> Self {
        Self { functions: T::load(&library), library }
    }

    /// The library.
    #[must_use]
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// The functions that it lacks.
    #[must_use]
    pub fn absent(&self) -> Vec<&'static str> {
        self.functions.absent()
    }

    /// The function, or the line that tells the user that `symbol` is missing. See [`function!`].
    ///
    /// # Errors
    /// [`LibraryError::Lacks`]
    pub fn require<F>(&self, function: Option<F>, symbol: &'static str) -> Result<F, LibraryError> {
        function.ok_or_else(|| {
            let since = T::SINCE.iter().find(|(name, _)| *name == symbol).map_or("", |(_, since)| since);
            self.library.lacks(symbol, since)
        })
    }
}

impl<T> Deref for Opened<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.functions
    }
}

/// `function!(cuda, cuInit)`: that function of an [`Opened`] library, or the [`LibraryError`] that says
/// that it is missing.
#[macro_export]
macro_rules! function {
    ($library:expr, $name:ident) => {
        $library.require($library.$name, stringify!($name))
    };
}
pub use function;

/// Makes a [`Table`] of the functions that a header declares.
macro_rules! table {
    (
        $(#[$about:meta])*
        pub struct $table:ident {
            $(since $since:literal: $(fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty;)*)*
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy)]
        pub struct $table {
            $($(pub $name: Option<unsafe extern "C" fn($($argument: $type),*) -> $result>,)*)*
        }

        impl $crate::library::Table for $table {
            const NONE: Self = Self { $($($name: None,)*)* };
            const SINCE: &'static [(&'static str, &'static str)] = &[$($((stringify!($name), $since),)*)*];

            fn load(library: &$crate::library::Library) -> Self {
                Self {
                    // SAFETY: the type is the one that the header declares for this name
                    $($($name: unsafe { library.symbol(stringify!($name)) },)*)*
                }
            }

            #[cfg(test)]
            fn answering() -> Self {
                Self {
                    $($($name: {
                        unsafe extern "C" fn $name($($argument: $type),*) -> $result {
                            $(let _ = $argument;)*
                            $crate::library::fakes::Answer::answer(stringify!($name))
                        }
                        Some($name)
                    },)*)*
                }
            }

            fn absent(&self) -> Vec<&'static str> {
                let all = [$($((stringify!($name), self.$name.is_none()),)*)*];
                all.into_iter().filter_map(|(name, absent)| absent.then_some(name)).collect()
            }
        }
    };
}
pub(crate) use table;

#[cfg(test)]
pub(crate) mod fakes;
#[cfg(test)]
mod tests;
