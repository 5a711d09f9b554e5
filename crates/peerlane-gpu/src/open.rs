//! Opens NVIDIA's libraries and that of RDMA adapters at run time, and reports in one line what is missing.
//!
//! ```no_run
//! use peerlane_gpu::library::{LibraryError, function};
//! use peerlane_gpu::open;
//!
//! # fn main() -> Result<(), LibraryError> {
//! let cuda = open::cuda()?;
//! let init = function!(cuda, cuInit)?;
//! // SAFETY: cuInit takes flags, of which there are none
//! let status = unsafe { init(0) };
//! # let _ = status;
//! # Ok(())
//! # }
//! ```

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::bindings::cuda::Cuda;
use crate::bindings::nccl::Nccl;
use crate::bindings::nvml::Nvml;
use crate::bindings::verbs::Verbs;
use crate::library::places::{self, Place, Places};
use crate::library::{Identity, Library, LibraryError, Opened};
use crate::search::{Folders, Rule};

pub(crate) const CUDA: Identity =
    Identity { product: "driver", name: "libcuda.so.1", probe: "cuInit", meaning: "no NVIDIA driver found" };
const NVML: Identity =
    Identity { product: "driver", name: "libnvidia-ml.so.1", probe: "nvmlInit_v2", meaning: "no NVIDIA driver found" };
pub(crate) const NCCL: Identity = Identity {
    product: "NCCL",
    name: "libnccl.so.2",
    probe: "ncclGetVersion",
    meaning: "no NCCL found (set PEERLANE_NCCL to its file)",
};
const VERBS: Identity = Identity {
    product: "libibverbs",
    name: "libibverbs.so.1",
    probe: "ibv_get_device_list",
    meaning: "no RDMA library found (packages libibverbs1 and ibverbs-providers, or rdma-core)",
};

/// Opens the CUDA driver.
///
/// # Errors
/// One line on why there is none.
pub fn cuda() -> Result<Opened<Cuda>, LibraryError> {
    // without its number the name may be a toolkit's stub, so it comes last
    let places = places::of_driver(&[CUDA.name, "libcuda.so"], &Folders::of_own("LD_LIBRARY_PATH"));
    Library::open(CUDA, &places).map(Opened::new)
}

/// Opens NVIDIA's management library, which comes with the driver.
///
/// # Errors
/// One line on why there is none.
pub fn nvml() -> Result<Opened<Nvml>, LibraryError> {
    Library::open(NVML, &places::of_driver(&[NVML.name], &Folders::of_own("LD_LIBRARY_PATH"))).map(Opened::new)
}

/// Opens the library of RDMA adapters, which opens that of each adapter's vendor by itself.
///
/// # Errors
/// One line on why there is none.
pub fn verbs() -> Result<Opened<Verbs>, LibraryError> {
    Library::open(VERBS, &places::of_system(VERBS.name, Folders::of_own("LD_LIBRARY_PATH"))).map(Opened::new)
}

/// Opens NCCL: the file that the environment variable `PEERLANE_NCCL` names, or else the first that is found
/// where the system and Python keep it.
///
/// # Errors
/// One line on why there is none.
pub fn nccl() -> Result<Opened<Nccl>, LibraryError> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    match variable("PEERLANE_NCCL") {
        Some(file) => open_named(NCCL, file, Rule::environment()),
        None => {
            let library_path = Folders::of_own("LD_LIBRARY_PATH");
            let places = places::of_nccl(NCCL.name, Path::new("/"), &variable, library_path, Rule::environment());
            Library::open(NCCL, &places)
        }
    }
    .map(Opened::new)
}

/// Opens what the user named, and nothing in its stead.
pub(crate) fn open_named(identity: Identity, file: OsString, rule: Rule) -> Result<Library, LibraryError> {
    let name = file.to_string_lossy().into_owned();
    let place = match rule.trusted(Path::new(&file)) {
        Ok(Some(_)) => Some(Place::File(PathBuf::from(file))),
        Ok(None) => None,
        Err(why) => return Err(LibraryError::Distrusted { file: name, why }),
    };
    let places = Places { all: place.into_iter().collect(), ignored: Vec::new() };
    Library::open(Identity { meaning: "set by PEERLANE_NCCL", ..identity }, &places).map_err(|error| match error {
        LibraryError::NotFound { meaning, ignored, .. } => LibraryError::NotFound { name, meaning, ignored },
        other => other,
    })
}
