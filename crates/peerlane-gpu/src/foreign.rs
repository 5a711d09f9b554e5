//! What comes back from a foreign library, as values that can be relied on: texts that end, pointers that are not null, and
//! counts that can be.

use std::ffi::{CStr, c_char};
use std::fmt::Display;

/// The longest text of a library that is read, in bytes: no message of CUDA's, NVML's or NCCL's is near it.
const LONGEST: usize = 1024;

/// The most GPUs that a library may report: the kernel's module for NVIDIA's GPUs has 255 device numbers.
pub(crate) const MOST_GPUS: u32 = 255;

/// The most multiprocessors of a GPU: some 200 are usual.
pub(crate) const MOST_MULTIPROCESSORS: u32 = 1 << 14;

/// The text that a call wrote into a buffer; `None` where it has no end.
pub(crate) fn text_in(buffer: &[c_char]) -> Option<String> {
    let bytes: Vec<u8> = buffer.iter().map(|c| *c as u8).collect();
    let text = CStr::from_bytes_until_nul(&bytes).ok()?;
    Some(text.to_string_lossy().trim().to_owned())
}

/// A library's own text; `None` where the address is null, or no end is in sight.
///
/// # Safety
/// Where it is not null, `start` must be readable up to and with the first zero byte, or for [`LONGEST`] bytes.
pub(crate) unsafe fn text_at(start: *const c_char) -> Option<String> {
    if start.is_null() {
        return None;
    }
    let mut bytes = Vec::new();
    for offset in 0..LONGEST {
        // SAFETY: no byte before this one is zero, so by the caller's promise it is readable.
        let byte = unsafe { start.wrapping_add(offset).read() };
        if byte == 0 {
            return Some(String::from_utf8_lossy(&bytes).into_owned());
        }
        bytes.push(byte as u8);
    }
    None
}

/// What a library reported, if it is within what can be; else a sentence that names the value.
pub(crate) fn bounded<T: PartialOrd + Display + Copy>(what: &str, value: T, least: T, most: T) -> Result<T, String> {
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    Err(format!("it reports {value} {what}, where {least} to {most} are possible; not relied on"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_ends_within_its_buffer_or_is_none() {
        let buffer = |bytes: &[u8]| bytes.iter().map(|b| *b as c_char).collect::<Vec<_>>();
        assert_eq!(text_in(&buffer(b"H100 \0rest")).as_deref(), Some("H100"));
        assert_eq!(text_in(&buffer(b"\0")).as_deref(), Some(""));
        assert_eq!(text_in(&buffer(b"\xff\0")).as_deref(), Some("\u{fffd}"));
        assert_eq!(text_in(&buffer(b"no end")), None);
        assert_eq!(text_in(&[]), None);
    }

    #[test]
    fn a_librarys_own_text_is_not_read_for_ever() {
        let read = |bytes: &[u8]| {
            assert!(bytes.contains(&0) || bytes.len() >= LONGEST);
            // SAFETY: a slice with a zero in it, or of the greatest length that is read.
            unsafe { text_at(bytes.as_ptr().cast()) }
        };
        assert_eq!(read(b"unknown error\0").as_deref(), Some("unknown error"));
        assert_eq!(read(&[b'x'; LONGEST]), None);
        // SAFETY: null is allowed.
        assert_eq!(unsafe { text_at(std::ptr::null()) }, None);
    }

    #[test]
    fn counts_are_bounded_with_their_value_named() {
        assert_eq!(bounded("GPUs", 8, 0, MOST_GPUS), Ok(8));
        let absurd = bounded("GPUs", i64::from(i32::MIN), 0, i64::from(MOST_GPUS)).unwrap_err();
        assert_eq!(absurd, "it reports -2147483648 GPUs, where 0 to 255 are possible; not relied on");
        assert!(bounded("bytes", f64::NAN, 0.0, 1.0).is_err());
    }
}
