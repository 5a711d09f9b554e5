//! The library as a WebAssembly module without imports: a request is written into its memory, and an answer read from there.
//!
//! [`request`] makes room, the page writes, [`answer`] works and returns how long the answer is, and [`result`] where it begins.
//! A panic traps, and leaves its words: [`failed`] bytes from [`words`] on.

mod answers;
mod protocol;
mod session;

use std::cell::RefCell;

use session::Session;

/// What lies in memory between calls.
#[derive(Default)]
struct Desk {
    request: Vec<u8>,
    answer: Vec<u8>,
    session: Session,
}

thread_local! {
    static DESK: RefCell<Desk> = RefCell::default();
    /// The words of a panic, which may come while the desk is taken.
    static LAST: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Makes room for a request, and returns where it begins.
#[unsafe(no_mangle)]
pub extern "C" fn request(bytes: usize) -> *mut u8 {
    std::panic::set_hook(Box::new(|info| {
        LAST.with_borrow_mut(|last| *last = info.to_string().into_bytes());
    }));
    DESK.with_borrow_mut(|desk| {
        desk.request = vec![0; bytes];
        desk.request.as_mut_ptr()
    })
}

/// Answers the request, and returns how long the answer is.
#[unsafe(no_mangle)]
pub extern "C" fn answer() -> usize {
    DESK.with_borrow_mut(|desk| {
        let request = std::mem::take(&mut desk.request);
        desk.answer = protocol::answer(&mut desk.session, &request);
        desk.answer.len()
    })
}

/// Where the answer begins.
#[unsafe(no_mangle)]
pub extern "C" fn result() -> *const u8 {
    DESK.with_borrow(|desk| desk.answer.as_ptr())
}

/// How long the words of a panic are; 0 where there was none.
#[unsafe(no_mangle)]
pub extern "C" fn failed() -> usize {
    LAST.with_borrow(Vec::len)
}

/// Where the words of a panic begin.
#[unsafe(no_mangle)]
pub extern "C" fn words() -> *const u8 {
    LAST.with_borrow(|last| last.as_ptr())
}
