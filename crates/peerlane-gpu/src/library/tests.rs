//! What a user reads where a library or a function is missing. No test needs a GPU or a driver.

use super::places::Place;
use super::*;
use crate::bindings::cuda::Cuda;
use crate::bindings::nccl::Nccl;
use crate::bindings::nvml::Nvml;
use crate::open::{CUDA, NCCL, cuda, nccl, nvml, open_named};
use crate::search::Rule;

fn at(all: &[Place]) -> Places {
    Places { all: all.to_vec(), ignored: Vec::new() }
}

/// The C library, which every machine that runs these tests has.
fn c_library() -> Library {
    let identity = Identity { product: "driver", name: "libc.so.6", probe: "malloc", meaning: "" };
    Library::open(identity, &at(&[Place::Loader("libc.so.6")])).unwrap()
}

/// A folder of a test's own, removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("peerlane-library-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Folder(std::fs::canonicalize(folder).unwrap())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn with_file(file: &str, product: &'static str) -> Library {
    let mut library = c_library();
    library.identity.product = product;
    library.file = PathBuf::from(file);
    library
}

#[test]
fn an_absent_library_is_one_line() {
    let identity = Identity { name: "libcuda-absent.so.1", ..CUDA };
    let elsewhere = Place::File("/nowhere/libcuda-absent.so.1".into());
    let places = at(&[Place::Loader("libcuda-absent.so.1"), elsewhere, Place::Loader("libcuda-absent.so")]);
    let error = Library::open(identity, &places).unwrap_err();
    assert_eq!(error.to_string(), "libcuda-absent.so.1 not found: no NVIDIA driver found");
}

#[test]
fn a_file_that_is_no_library_is_named_with_the_reason() {
    let folder = Folder::new("broken");
    let file = folder.0.join("peerlane-no-library.so");
    std::fs::write(&file, "not a library").unwrap();
    let line = open_named(NCCL, file.clone().into_os_string(), Rule::SYSTEM).unwrap_err().to_string();
    let reason = line.strip_prefix(&format!("{} cannot be opened: ", file.to_string_lossy())).unwrap();
    assert!(!reason.contains('\n') && !reason.contains("peerlane-no-library"), "{line}");
    assert!(!reason.is_empty());
}

#[test]
fn a_file_that_the_user_named_is_not_replaced_by_another() {
    let error = open_named(NCCL, "/nowhere/libnccl.so.2".into(), Rule::SYSTEM).unwrap_err();
    assert_eq!(error.to_string(), "/nowhere/libnccl.so.2 not found: set by PEERLANE_NCCL");
}

#[test]
fn a_file_that_the_user_named_must_not_be_anybodys() {
    let named = |file: &Path| open_named(NCCL, file.as_os_str().to_owned(), Rule::SYSTEM).unwrap_err().to_string();
    assert_eq!(named(Path::new("libnccl.so.2")), "libnccl.so.2 is not used: not an absolute path");
    assert_eq!(named(Path::new("./libnccl.so.2")), "./libnccl.so.2 is not used: not an absolute path");
    let folder = Folder::new("anybodys");
    let file = folder.0.join("libnccl.so.2");
    std::fs::copy(library_without_dependencies(&c_library()), &file).unwrap();
    std::fs::set_permissions(&folder.0, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    assert_eq!(
        named(&file),
        format!("{} is not used: everybody can write {}", file.to_string_lossy(), folder.0.to_string_lossy())
    );
}

#[test]
fn another_library_is_told_from_the_wanted_one() {
    let file = c_library().file().to_owned();
    let error = open_named(NCCL, file.clone().into_os_string(), Rule::SYSTEM).unwrap_err();
    assert_eq!(error.to_string(), format!("{} is not libnccl.so.2: it has no ncclGetVersion", file.to_string_lossy()));
}

#[test]
fn a_stub_is_not_a_driver() {
    let library = c_library();
    let folder = Folder::new("stub");
    let stubs = folder.0.join("stubs");
    std::fs::create_dir_all(&stubs).unwrap();
    let stub = stubs.join("libcuda.so");
    // a copy, not a link: what is mapped must be the file in the folder
    std::fs::copy(library_without_dependencies(&library), &stub).unwrap();
    let identity = Identity { probe: "cos", ..CUDA };
    let error = Library::open(identity, &at(&[Place::File(stub.clone())])).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("{} is a stub to link against, not a driver: no NVIDIA driver found", stub.to_string_lossy())
    );
}

/// A copy of the C library itself would upset the process; the mathematical one beside it does not.
fn library_without_dependencies(c_library: &Library) -> PathBuf {
    c_library.file().with_file_name("libm.so.6")
}

#[test]
fn the_loaded_file_is_known() {
    let library = c_library();
    assert!(library.file().is_absolute() && library.file().is_file(), "{:?}", library.file());
}

#[test]
fn maps_give_the_file_at_an_address() {
    let maps = "\
7f0000000000-7f0000010000 r-xp 00000000 08:01 1  /usr/lib/libother.so
7f0000010000-7f0000020000 rw-p 00000000 00:00 0
7f0000020000-7f0000030000 r-xp 00001000 08:01 2                          /opt/my libs/libcuda.so.535.104.05 (deleted)
7ffc00000000-7ffc00010000 rw-p 00000000 00:00 0                          [stack]
";
    assert_eq!(file_at(maps, 0x7f00_0002_0010), Some(PathBuf::from("/opt/my libs/libcuda.so.535.104.05")));
    assert_eq!(file_at(maps, 0x7f00_0001_0010), None);
    assert_eq!(file_at(maps, 0x7f00_0003_0000), None);
    assert_eq!(file_at("nonsense\n/-\n", 1), None);
}

#[test]
fn the_file_name_tells_the_version() {
    let version = |file: &str, product| version_in_name(Path::new(file), product).map(str::to_owned);
    assert_eq!(version("/usr/lib/libcuda.so.535.104.05", "driver").as_deref(), Some("535.104.05"));
    assert_eq!(version("/usr/lib/wsl/lib/libcuda.so.1.1", "driver"), None);
    assert_eq!(version("/usr/lib/libnccl.so.2.21.5", "NCCL").as_deref(), Some("2.21.5"));
    assert_eq!(version("/venv/nvidia/nccl/lib/libnccl.so.2", "NCCL"), None);
}

#[test]
fn a_missing_function_names_the_version_that_has_it() {
    let old = with_file("/usr/lib/libcuda.so.470.82.01", "driver");
    let line = old.lacks("cuMemPrefetchAsync_v2", "535").to_string();
    assert_eq!(line, "driver 470.82.01 lacks cuMemPrefetchAsync_v2: needs driver 535");
    let unknown = with_file("/venv/libnccl.so.2", "NCCL");
    assert_eq!(unknown.lacks("ncclMemAlloc", "2.19").to_string(), "libnccl.so.2 lacks ncclMemAlloc: needs NCCL 2.19");
    // where the version should do, it is not blamed
    let new = with_file("/usr/lib/libcuda.so.580.159.04", "driver");
    assert_eq!(new.lacks("cuInit", "535").to_string(), "driver 580.159.04 lacks cuInit");
}

#[test]
fn a_library_without_any_function_of_the_table_still_gives_a_table() {
    let opened: Opened<Cuda> = Opened::new(with_file("/usr/lib/libcuda.so.470.82.01", "driver"));
    assert_eq!(opened.absent().len(), Cuda::SINCE.len());
    let error = function!(opened, cuInit).unwrap_err();
    assert_eq!(error.to_string(), "driver 470.82.01 lacks cuInit: needs driver 535");
    assert_eq!(opened.absent(), Cuda::NONE.absent());
}

#[test]
fn a_function_that_is_there_is_found_and_works() {
    let library = c_library();
    // SAFETY: C declares abs as a function from int to int
    let abs = unsafe { library.symbol::<unsafe extern "C" fn(std::ffi::c_int) -> std::ffi::c_int>("abs") }.unwrap();
    // SAFETY: abs has no requirement but that -7 has a positive counterpart
    assert_eq!(unsafe { abs(-7) }, 7);
}

#[test]
fn every_function_of_the_tables_says_since_when_it_exists() {
    for (name, since) in [Cuda::SINCE, Nvml::SINCE, Nccl::SINCE].concat() {
        assert!(!numbers(since).is_empty(), "{name} {since}");
    }
    assert!(Cuda::SINCE.contains(&("cuMemAlloc_v2", "535")), "the name must be the one in the library");
    assert!(Nvml::SINCE.contains(&("nvmlDeviceGetAddressingMode", "580")));
}

/// Whatever this machine has, the answer is a table or one line.
#[test]
fn this_machine_gives_a_table_or_one_line() {
    let answers = [
        cuda().map(|cuda| cuda.library().file().to_owned()),
        nvml().map(|nvml| nvml.library().file().to_owned()),
        nccl().map(|nccl| nccl.library().file().to_owned()),
    ];
    for answer in answers {
        match answer {
            Ok(file) => assert!(file.is_absolute(), "{file:?}"),
            Err(error) => assert_eq!(error.to_string().lines().count(), 1, "{error}"),
        }
    }
}
