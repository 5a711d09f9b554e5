//! Kernels: PTX that the driver compiles for its device, and launches.

use std::ffi::{CString, c_void};
use std::ptr;

use super::driver::{CudaError, call, present};
use super::{Context, Part, Stream};
use crate::bindings::cuda::{CUfunction, CUfunction_attribute, CUmodule};
use crate::kernels;

/// A compiled module, loaded into one context until that goes.
#[derive(Debug)]
pub(crate) struct Module {
    context: Context,
    text: &'static str,
    handle: CUmodule,
}

// SAFETY: a module may be used from any thread whose context is the module's.
unsafe impl Send for Module {}

impl Module {
    /// Compiles PTX for the context's device. The driver keeps what it compiled, so that the next time is fast.
    pub(crate) fn load(context: &Context, text: &'static str) -> Result<Self, CudaError> {
        context.enter()?;
        let ptx = CString::new(text).unwrap_or_default();
        let mut handle = ptr::null_mut();
        let (image, none) = (ptx.as_ptr().cast::<c_void>(), ptr::null_mut());
        // SAFETY: the place is one handle, and the text ends with a zero; both outlive the call. There are no options, so
        // that their two arrays may be null.
        unsafe { call!(context.driver(), cuModuleLoadDataEx(&mut handle, image, 0, none, ptr::null_mut())) }?;
        Ok(Module { context: context.clone(), text, handle: present("cuModuleLoadDataEx", handle)? })
    }

    /// A kernel by name, with the signature that the module's text declares.
    pub(crate) fn kernel(&self, name: &'static str) -> Result<Kernel, CudaError> {
        let signature = kernels::signature(self.text, name)
            .ok_or_else(|| CudaError::nonsense("cuModuleGetFunction", format!("the module declares no {name}")))?;
        let text = CString::new(name).unwrap_or_default();
        let mut handle = ptr::null_mut();
        // SAFETY: the place is one handle, and the name ends with a zero; both outlive the call. The module is loaded.
        unsafe { call!(self.context.driver(), cuModuleGetFunction(&mut handle, self.handle, text.as_ptr())) }?;
        let handle = present("cuModuleGetFunction", handle)?;
        Ok(Kernel { context: self.context.clone(), name, signature, handle })
    }
}

/// A kernel of a module, which lives as long as the context.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    context: Context,
    name: &'static str,
    /// Bytes of each parameter.
    signature: Vec<u32>,
    handle: CUfunction,
}

// SAFETY: as for the module.
unsafe impl Send for Kernel {}

/// One argument of a kernel, as its signature has it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Argument<'b> {
    /// The address of memory, of which at least so many bytes are used.
    Memory(Part<'b>, usize),
    /// A 64-bit number.
    Word(u64),
    /// A 32-bit number.
    Half(u32),
}

impl Argument<'_> {
    /// Bytes of the parameter that it is for.
    fn width(&self) -> u32 {
        match self {
            Argument::Memory(..) | Argument::Word(_) => 8,
            Argument::Half(_) => 4,
        }
    }

    /// As the driver copies it: a 32-bit one from the start of its word, since all hosts of NVIDIA's GPUs are little-endian.
    fn word(&self) -> u64 {
        match *self {
            Argument::Memory(part, _) => part.address(),
            Argument::Word(word) => word,
            Argument::Half(half) => u64::from(half),
        }
    }
}

/// Why a kernel cannot have these arguments.
fn unfit(name: &str, signature: &[u32], arguments: &[Argument]) -> Option<String> {
    let widths: Vec<u32> = arguments.iter().map(Argument::width).collect();
    if widths != signature {
        return Some(format!("{name} has parameters of {signature:?} bytes, not {widths:?}"));
    }
    arguments.iter().find_map(|argument| match argument {
        Argument::Memory(part, least) if part.bytes() < *least => {
            Some(format!("{name} uses {least} bytes of a buffer that has {}", part.bytes()))
        }
        _ => None,
    })
}

/// The shape of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Launch {
    /// Blocks.
    pub(crate) blocks: u32,
    /// Threads a block.
    pub(crate) threads: u32,
    /// Dynamic shared memory a block, in bytes.
    pub(crate) shared: u32,
}

impl Kernel {
    /// Allows more dynamic shared memory a block than the usual 48 KiB.
    pub(crate) fn allow_shared(&self, bytes: u32) -> Result<(), CudaError> {
        let which = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        // SAFETY: the function's module is loaded while its context lives; the driver refuses sizes that are too large.
        unsafe { call!(self.context.driver(), cuFuncSetAttribute(self.handle, which, bytes)) }
    }

    /// Puts a launch into a stream whose context is current.
    ///
    /// The arguments are compared with the signature, and memory with the bytes that are used of it. Memory outlives the
    /// work, since it waits for it before it goes. An address that the stream's device does not reach ends the context's work
    /// with an error, and touches nothing else.
    pub(crate) fn launch(&self, stream: &Stream, shape: Launch, arguments: &[Argument]) -> Result<(), CudaError> {
        if let Some(why) = unfit(self.name, &self.signature, arguments) {
            return Err(CudaError::nonsense("cuLaunchKernel", why));
        }
        let mut words: Vec<u64> = arguments.iter().map(Argument::word).collect();
        let mut pointers: Vec<*mut c_void> = words.iter_mut().map(|word| ptr::from_mut(word).cast()).collect();
        let Launch { blocks, threads, shared } = shape;
        let (none, parameters) = (ptr::null_mut(), pointers.as_mut_ptr());
        // SAFETY: there is one pointer for each parameter of the signature, each to a word that is no shorter than it; the driver
        // copies all of them before it returns. Function and stream are alive. The driver refuses shapes that it cannot do.
        unsafe {
            call!(
                self.context.driver(),
                cuLaunchKernel(self.handle, blocks, 1, 1, threads, 1, 1, shared, stream.handle(), parameters, none)
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{FILL, KERNELS};

    #[test]
    fn arguments_that_do_not_fit_the_signature_are_refused() {
        let signature = kernels::signature(FILL.module.ptx, "fill").unwrap();
        let (word, half) = (Argument::Word(7), Argument::Half(7));
        assert_eq!(unfit("fill", &signature, &[word, word, half, half]), None);
        let refused = unfit("fill", &signature, &[word, half, half, half]).unwrap();
        assert_eq!(refused, "fill has parameters of [8, 8, 4, 4] bytes, not [8, 4, 4, 4]");
        assert!(unfit("fill", &signature, &[word, word, half]).is_some());
        assert!(KERNELS.iter().all(|kernel| kernels::signature(kernel.module.ptx, kernel.name).is_some()));
        assert_eq!(kernels::signature(FILL.module.ptx, "fil"), None);
    }
}
