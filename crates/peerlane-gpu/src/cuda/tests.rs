//! Drivers that lie: refusals of every call, success without a result, absurd counts, texts without an end.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;
use crate::bindings::cuda::*;
use crate::library::Table;
use crate::library::fakes::{self, called};

const OK: CUresult = CUresult::CUDA_SUCCESS;

/// The fakes that write a value through their first argument.
macro_rules! writes {
    (|$place:ident: $type:ty $(, $other:ty)*| $value:expr) => {{
        unsafe extern "C" fn call($place: *mut $type $(, _: $other)*) -> CUresult {
            // SAFETY: the code under test passes a place of this type.
            unsafe { $place.write($value) };
            OK
        }
        Some(call)
    }};
}

fn driver(api: Cuda) -> &'static Driver {
    fakes::keep(Driver::start(api, "libcuda.so.1".to_owned()).unwrap())
}

/// A driver that does no work, of which some functions are replaced.
fn idle() -> Cuda {
    fakes::set(0);
    Cuda::answering()
}

fn device(api: Cuda) -> Device {
    Device { driver: driver(api), handle: 0 }
}

/// A driver that gives handles and host memory, and logs what is called.
fn obliging() -> Cuda {
    /// Host memory of the fake: as long as any test wants.
    #[repr(align(4096))]
    struct Page {
        _words: [u64; 512],
    }

    unsafe extern "C" fn alloc(place: *mut *mut c_void, bytes: usize, _: c_uint) -> CUresult {
        assert!(bytes <= size_of::<Page>());
        let page = Box::into_raw(Box::new(Page { _words: [0; 512] }));
        // SAFETY: the code under test passes a place of this type.
        unsafe { place.write(page.cast()) };
        OK
    }
    unsafe extern "C" fn free(start: *mut c_void) -> CUresult {
        fakes::log("cuMemFreeHost");
        // SAFETY: made by `alloc`, and given back once.
        drop(unsafe { Box::from_raw(start.cast::<Page>()) });
        OK
    }
    Cuda {
        cuDevicePrimaryCtxRetain: writes!(|place: CUcontext, CUdevice| 0x10 as CUcontext),
        cuCtxGetCurrent: writes!(|place: CUcontext| 0x20 as CUcontext),
        cuStreamCreate: writes!(|place: CUstream, c_uint| 0x30 as CUstream),
        cuEventCreate: writes!(|place: CUevent, c_uint| 0x40 as CUevent),
        cuMemAlloc_v2: writes!(|place: CUdeviceptr, usize| 0x1000),
        cuMemHostAlloc: Some(alloc),
        cuMemFreeHost: Some(free),
        ..idle()
    }
}

#[test]
fn every_code_of_every_call_is_an_error_that_names_the_call() {
    for code in [1, 2, 100, 700, 801, 999, u32::MAX] {
        fakes::set(code);
        let refused = Driver::start(Cuda::answering(), String::new()).err().unwrap();
        assert!(refused.contains(&code.to_string()), "{refused}");
        let device = device(idle());
        fakes::set(code);
        for error in [Device::all(device.driver).err(), device.address().err(), Context::retain(device).err()] {
            let error = error.unwrap();
            assert_eq!(error.code(), Some(code));
            assert!(
                error.to_string().starts_with(error.call) && error.to_string().contains("unknown error"),
                "{error}"
            );
        }
        assert_eq!((device.l2_bytes(), device.can_access(&device), device.driver.version()), (None, false, None));
        let device = self::device(obliging());
        let context = Context::retain(device).unwrap();
        let stream = Stream::new(&context).unwrap();
        fakes::set(code);
        let errors = [
            context.enter().err(),
            context.memory().err(),
            context.synchronize().err(),
            Stream::new(&context).err(),
            Event::new(&stream).err(),
            DeviceBuffer::new(&context, 8).err(),
            ManagedBuffer::new(&context, 8).err(),
            Module::load(&context, "").err(),
            stream.synchronize().err(),
        ];
        assert!(errors.iter().all(|e| e.as_ref().is_some_and(|e| e.code() == Some(code))), "{errors:?}");
        fakes::set(0);
    }
}

#[test]
fn success_without_a_result_is_an_error() {
    let context = |api| Context::retain(device(api));
    let null = |error: CudaError| assert!(error.to_string().ends_with("success without a result (null)"), "{error}");
    null(context(idle()).unwrap_err());
    let some = Cuda { cuStreamCreate: idle().cuStreamCreate, ..obliging() };
    null(Stream::new(&context(some).unwrap()).unwrap_err());
    let some = Cuda { cuEventCreate: idle().cuEventCreate, ..obliging() };
    null(Event::new(&Stream::new(&context(some).unwrap()).unwrap()).unwrap_err());
    let some = Cuda { cuMemAlloc_v2: idle().cuMemAlloc_v2, cuMemHostAlloc: idle().cuMemHostAlloc, ..obliging() };
    let context = context(some).unwrap();
    null(DeviceBuffer::new(&context, 8).unwrap_err());
    null(PinnedBuffer::new(&context, 8).unwrap_err());
    null(ManagedBuffer::new(&context, 8).unwrap_err());
    null(Module::load(&context, "").unwrap_err());
    assert!(called().iter().all(|call| !call.contains("Free")), "what was not allocated is not freed");
}

#[test]
fn absurd_counts_and_addresses_are_errors_that_name_the_value() {
    let all = |api| Device::all(driver(api)).unwrap_err().to_string();
    let many = all(Cuda { cuDeviceGetCount: writes!(|place: c_int| c_int::MAX), ..idle() });
    assert_eq!(many, "CUDA's cuDeviceGetCount: it reports 2147483647 GPUs, where 0 to 255 are possible; not relied on");
    assert!(all(Cuda { cuDeviceGetCount: writes!(|place: c_int| -1), ..idle() }).contains("-1 GPUs"));

    let wide =
        Cuda { cuDeviceGetAttribute: writes!(|place: c_int, CUdevice_attribute, CUdevice| c_int::MAX), ..idle() };
    assert!(device(wide).multiprocessors().unwrap_err().to_string().contains("2147483647 multiprocessors"));

    unsafe extern "C" fn memory(free: *mut usize, total: *mut usize) -> CUresult {
        // SAFETY: the code under test passes two sizes.
        unsafe { free.write(9) };
        // SAFETY: as above.
        unsafe { total.write(8) };
        OK
    }
    let context = Context::retain(device(Cuda { cuMemGetInfo_v2: Some(memory), ..obliging() })).unwrap();
    assert!(context.memory().unwrap_err().to_string().contains("9 bytes free, where 0 to 8 are possible"));

    let end = Cuda { cuMemAlloc_v2: writes!(|place: CUdeviceptr, usize| u64::MAX - 7), ..obliging() };
    let context = Context::retain(device(end)).unwrap();
    assert!(DeviceBuffer::new(&context, 8).unwrap_err().to_string().contains("beyond the end of all addresses"));
    let odd = Cuda { cuMemHostAlloc: writes!(|place: *mut c_void, usize, c_uint| 0x1001 as *mut c_void), ..obliging() };
    let context = Context::retain(device(odd)).unwrap();
    assert!(PinnedBuffer::new(&context, 8).unwrap_err().to_string().contains("not begin at a multiple of 64"));
    let versions = [-1, 0, c_int::MAX].map(|version| {
        fakes::set(0);
        (version, driver(Cuda { cuDriverGetVersion: writes!(|place: c_int| VERSION.get()), ..idle() }))
    });
    for (version, driver) in versions {
        VERSION.set(version);
        assert_eq!(driver.version(), None, "{version}");
    }
}

thread_local! {
    static VERSION: std::cell::Cell<c_int> = const { std::cell::Cell::new(0) };
}

#[test]
fn texts_without_an_end_are_errors() {
    unsafe extern "C" fn address(text: *mut c_char, length: c_int, _: CUdevice) -> CUresult {
        // SAFETY: the code under test passes a buffer of this length.
        unsafe { text.write_bytes(b'0', length as usize) };
        OK
    }
    let error = device(Cuda { cuDeviceGetPCIBusId: Some(address), ..idle() }).address().unwrap_err();
    assert_eq!(error.to_string(), "CUDA's cuDeviceGetPCIBusId: a text without an end in 32 bytes");

    static ENDLESS: [u8; 4096] = [b'x'; 4096];
    let words = Cuda {
        cuGetErrorString: {
            unsafe extern "C" fn words(_: CUresult, place: *mut *const c_char) -> CUresult {
                // SAFETY: the code under test passes a place of this type.
                unsafe { place.write(ENDLESS.as_ptr().cast()) };
                OK
            }
            Some(words)
        },
        ..idle()
    };
    let device = device(words);
    fakes::set(700);
    assert_eq!(Context::retain(device).unwrap_err().reason, Reason::Refused(700, "unknown error".to_owned()));
}

#[test]
fn a_context_goes_after_all_that_was_made_in_it() {
    let context = Context::retain(device(obliging())).unwrap();
    let stream = Stream::new(&context).unwrap();
    let event = Event::new(&stream).unwrap();
    let (pinned, own) = (PinnedBuffer::new(&context, 4096).unwrap(), DeviceBuffer::new(&context, 64).unwrap());
    called();
    // the worst order: what others rely on first
    drop((context, stream, own, pinned));
    drop(event);
    let log = called();
    let at = |call: &str| log.iter().position(|c| *c == call).unwrap_or_else(|| panic!("{call}: {log:?}"));
    assert_eq!(at("cuDevicePrimaryCtxRelease_v2"), log.len() - 1, "{log:?}");
    assert_eq!(at("cuEventDestroy_v2"), log.len() - 2, "{log:?}");
    // memory waits for whatever may still use it
    for free in ["cuMemFree_v2", "cuMemFreeHost"] {
        let before = &log[..at(free)];
        let synchronized = before.iter().rposition(|c| *c == "cuCtxSynchronize").unwrap();
        assert!(before[synchronized..].iter().all(|c| ["cuCtxSynchronize", "cuCtxSetCurrent"].contains(c)), "{log:?}");
    }
}

#[test]
fn a_panic_gives_all_back_in_order() {
    let device = device(obliging());
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let context = Context::retain(device).unwrap();
        let _pinned = PinnedBuffer::new(&context, 64).unwrap();
        let _stream = Stream::new(&context).unwrap();
        called();
        panic!("half-way");
    }));
    assert!(panicked.is_err());
    let log: Vec<_> = called().into_iter().filter(|c| !c.starts_with("cuCtx")).collect();
    assert_eq!(log, ["cuStreamDestroy_v2", "cuMemFreeHost", "cuDevicePrimaryCtxRelease_v2"]);
}

#[test]
fn a_launch_gives_the_driver_one_word_for_each_parameter() {
    thread_local! {
        static SEEN: std::cell::RefCell<Vec<u64>> = const { std::cell::RefCell::new(Vec::new()) };
    }
    unsafe extern "C" fn launch(
        _: CUfunction,
        _: c_uint,
        _: c_uint,
        _: c_uint,
        _: c_uint,
        _: c_uint,
        _: c_uint,
        _: c_uint,
        _: CUstream,
        parameters: *mut *mut c_void,
        _: *mut *mut c_void,
    ) -> CUresult {
        for i in 0..4 {
            // SAFETY: `fill` has four parameters.
            let word = unsafe { parameters.wrapping_add(i).read() };
            // SAFETY: none of them is longer than a word.
            SEEN.with_borrow_mut(|seen| seen.push(unsafe { word.cast::<u64>().read() }));
        }
        OK
    }
    let api = Cuda {
        cuModuleLoadDataEx: writes!(|place: CUmodule, *const c_void, c_uint, *mut CUjit_option, *mut *mut c_void| {
            0x50 as CUmodule
        }),
        cuModuleGetFunction: writes!(|place: CUfunction, CUmodule, *const c_char| 0x60 as CUfunction),
        cuLaunchKernel: Some(launch),
        ..obliging()
    };
    let context = Context::retain(device(api)).unwrap();
    let (stream, buffer) = (Stream::new(&context).unwrap(), DeviceBuffer::new(&context, 64).unwrap());
    let kernel = Module::load(&context, crate::kernels::FILL.module.ptx).unwrap().kernel("fill").unwrap();
    let shape = Launch { blocks: 1, threads: 32, shared: 0 };
    let memory = |bytes| Argument::Memory(buffer.part(0, 64), bytes);
    let (word, half) = (Argument::Word(16), Argument::Half(7));
    kernel.launch(&stream, shape, &[memory(64), word, half, half]).unwrap();
    assert_eq!(SEEN.take(), [0x1000, 16, 7, 7]);
    let short = kernel.launch(&stream, shape, &[memory(65), word, half, half]).unwrap_err();
    assert!(short.to_string().ends_with("fill uses 65 bytes of a buffer that has 64"), "{short}");
    assert!(kernel.launch(&stream, shape, &[memory(64), half, half, half]).is_err());
    assert!(SEEN.take().is_empty(), "nothing that does not fit reaches the driver");
}

#[test]
fn words_of_a_buffer_are_read_within_it() {
    let context = Context::retain(device(obliging())).unwrap();
    let buffer = PinnedBuffer::new(&context, 64).unwrap();
    buffer.write(7, 42);
    buffer.write(8, 43);
    assert_eq!((buffer.read(7), buffer.read(8), buffer.read(usize::MAX)), (42, 0, 0));
    let part = buffer.part(60, 8);
    assert_eq!((part.bytes(), part.within(2, 100).bytes(), buffer.part(100, 1).bytes()), (4, 2, 0));
    buffer.flush_caches();
}
