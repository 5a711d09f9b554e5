//! Libraries that lie: refusals of every call, success without a result, absurd counts, texts without an end.

use std::ffi::{c_char, c_int, c_uint};

use super::testing::Fake;
use super::*;
use crate::bindings::nvml::*;
use crate::library::{Table, fakes};

const OK: nvmlReturn_t = nvmlReturn_t::NVML_SUCCESS;

fn session(functions: Nvml) -> Session {
    Session::start(functions, None).unwrap()
}

fn nonsense<T: fmt::Debug>(told: Result<T, Problem>) -> String {
    match told {
        Err(problem @ Problem::Nonsense(..)) => problem.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_code_of_every_call_is_an_error() {
    for code in [1, 3, 15, 999, u32::MAX] {
        fakes::set(code);
        assert!(Session::start(Nvml::answering(), None).is_err());
        let functions = Nvml { nvmlInit_v2: Fake::table().nvmlInit_v2, ..Nvml::answering() };
        let session = session(functions);
        assert_eq!(session.count(), Err(Problem::Call(nvmlReturn_t(code), format!("NVML error {code}"))));
        assert!(session.device(0).is_err() && session.driver().is_err() && session.cuda().is_err());
        // a handle from elsewhere, as of a GPU that was lost since
        let device = Device::new(&session, 1 as nvmlDevice_t).unwrap();
        assert!(device.name().is_err() && device.address().is_err() && device.memory().is_err());
        assert!(device.processes().is_err() && device.fields(&[(1, 0)]).is_err() && device.cpus().is_err());
        assert!(device.fabric().is_err() && device.ancestor(device).is_err());
    }
    fakes::set(0);
}

#[test]
fn success_without_a_result_is_an_error_or_nothing() {
    fakes::set(0);
    let session = session(Nvml::answering());
    assert_eq!(session.count(), Ok(0));
    assert_eq!(nonsense(session.device(0)), "NVML's nvmlDeviceGetHandleByIndex_v2: success without a result (null)");
    assert!(nonsense(session.device_at("0000:01:00.0".parse().unwrap())).contains("null"));
    assert!(nonsense(session.cuda()).contains("it reports 0 as its version of CUDA"));
    assert_eq!(session.driver().as_deref(), Ok(""));
    let device = Device::new(&session, 1 as nvmlDevice_t).unwrap();
    assert_eq!((device.name().as_deref(), device.processes()), (Ok(""), Ok(Vec::new())));
    assert!(device.cpus().unwrap().is_empty());
}

#[test]
fn absurd_numbers_are_errors_that_name_them() {
    unsafe extern "C" fn many(count: *mut c_uint) -> nvmlReturn_t {
        // SAFETY: the code under test passes a place of this type.
        unsafe { count.write(1 << 31) };
        OK
    }
    let session = session(Nvml { nvmlDeviceGetCount_v2: Some(many), ..Fake::table() });
    let said = nonsense(session.count());
    assert_eq!(
        said,
        "NVML's nvmlDeviceGetCount_v2: it reports 2147483648 GPUs, where 0 to 255 are possible; not relied on"
    );

    unsafe extern "C" fn processes(_: nvmlDevice_t, count: *mut c_uint, _: *mut nvmlProcessInfo_t) -> nvmlReturn_t {
        // SAFETY: as above.
        unsafe { count.write(c_uint::MAX) };
        OK
    }
    unsafe extern "C" fn memory(_: nvmlDevice_t, memory: *mut nvmlMemory_t) -> nvmlReturn_t {
        // SAFETY: as above.
        unsafe { memory.write(nvmlMemory_t { total: 80 << 30, free: 0, used: u64::MAX }) };
        OK
    }
    unsafe extern "C" fn place(_: nvmlDevice_t, pci: *mut nvmlPciInfo_t) -> nvmlReturn_t {
        // SAFETY: as above.
        unsafe { pci.write(nvmlPciInfo_t { bus: 256, ..nvmlPciInfo_t::default() }) };
        OK
    }
    unsafe extern "C" fn capability(_: nvmlDevice_t, major: *mut c_int, minor: *mut c_int) -> nvmlReturn_t {
        // SAFETY: as above.
        unsafe { major.write(-9) };
        // SAFETY: as above.
        unsafe { minor.write(0) };
        OK
    }
    let functions = Nvml {
        nvmlDeviceGetComputeRunningProcesses_v3: Some(processes),
        nvmlDeviceGetMemoryInfo_v2: None,
        nvmlDeviceGetMemoryInfo: Some(memory),
        nvmlDeviceGetPciInfo_v3: Some(place),
        nvmlDeviceGetCudaComputeCapability: Some(capability),
        ..Fake::table()
    };
    let session = self::session(functions);
    let device = session.device(0).unwrap();
    assert!(nonsense(device.processes()).contains("4294967295 processes, where 0 to 32 are possible"));
    assert!(nonsense(device.memory()).contains("18446744073709551615 bytes in use"));
    assert!(nonsense(device.address()).contains("256 as a PCI bus"));
    assert!(nonsense(device.compute_capability()).contains("-9 as a part of its compute capability"));
}

#[test]
fn a_list_that_never_fits_is_given_up() {
    unsafe extern "C" fn more(_: nvmlDevice_t, count: *mut c_uint, _: *mut nvmlProcessInfo_t) -> nvmlReturn_t {
        fakes::log("asked");
        // SAFETY: the code under test passes a place of this type.
        unsafe { count.write(c_uint::MAX) };
        nvmlReturn_t::NVML_ERROR_INSUFFICIENT_SIZE
    }
    fakes::set(0);
    let session = session(Nvml { nvmlDeviceGetComputeRunningProcesses_v3: Some(more), ..Fake::table() });
    assert!(session.device(0).unwrap().processes().is_err());
    assert_eq!(fakes::called(), ["asked"; 2]);
}

#[test]
fn texts_without_an_end_and_what_lies_behind_them_are_not_relied_on() {
    unsafe extern "C" fn full(_: nvmlDevice_t, text: *mut c_char, length: c_uint) -> nvmlReturn_t {
        // SAFETY: the code under test passes a buffer of this length.
        unsafe { text.write_bytes(b'A', length as usize) };
        OK
    }
    unsafe extern "C" fn beyond(_: nvmlDevice_t, text: *mut c_char, length: c_uint) -> nvmlReturn_t {
        // SAFETY: wrong, as a newer library may be; the code under test has room behind the buffer.
        unsafe { text.write_bytes(b'A', length as usize + 100) };
        OK
    }
    let functions = Nvml { nvmlDeviceGetName: Some(full), nvmlDeviceGetUUID: Some(beyond), ..Fake::table() };
    let session = session(functions);
    let device = session.device(0).unwrap();
    assert_eq!(nonsense(device.name()), "NVML's nvmlDeviceGetName: a text without an end in 128 bytes");
    assert_eq!(device.uuid(), Err(Problem::Overran("nvmlDeviceGetUUID")));

    static ENDLESS: [u8; 4096] = [b'x'; 4096];
    extern "C" fn words(_: nvmlReturn_t) -> *const c_char {
        ENDLESS.as_ptr().cast()
    }
    let session = self::session(Nvml { nvmlErrorString: Some(words), ..Fake::table() });
    assert_eq!(session.device(2).unwrap_err().to_string(), "NVML error 15");
}

#[test]
fn fields_behind_the_last_are_noticed() {
    unsafe extern "C" fn beyond(_: nvmlDevice_t, count: c_int, values: *mut nvmlFieldValue_t) -> nvmlReturn_t {
        let value = nvmlFieldValue_t { fieldId: 7, ..nvmlFieldValue_t::default() };
        // SAFETY: wrong; the code under test has room behind the last.
        unsafe { values.wrapping_add(count as usize).write(value) };
        OK
    }
    let session = session(Nvml { nvmlDeviceGetFieldValues: Some(beyond), ..Fake::table() });
    let told = session.device(0).unwrap().fields(&[(NVML_FI_DEV_MEMORY_TEMP, 0)]);
    assert_eq!(told, Err(Problem::Overran("nvmlDeviceGetFieldValues")));
}
