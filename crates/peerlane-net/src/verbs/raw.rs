//! libibverbs in safe terms: each object gives itself back, and holds what it was made in.
//!
//! Posting and polling are inline functions of the header, which call through the operations of the opened adapter; so they are
//! here. Everything returns at once: nothing in this file waits for a network.

use std::ffi::{CStr, c_int};
use std::io;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::{Arc, OnceLock};

use peerlane_gpu::bindings::verbs::*;
use peerlane_gpu::library::{LibraryError, Opened, function};
use peerlane_gpu::open;

/// The library, opened once; it stays open.
fn library() -> Result<&'static Opened<Verbs>, LibraryError> {
    static LIBRARY: OnceLock<Result<Opened<Verbs>, LibraryError>> = OnceLock::new();
    LIBRARY.get_or_init(open::verbs).as_ref().map_err(Clone::clone)
}

/// A function of the library, or the line that says why there is none.
macro_rules! verb {
    ($name:ident) => {
        library().and_then(|library| function!(library, $name)).map_err(|e| e.to_string())
    };
}

/// What a function that returns a pointer refused.
fn refused(what: &str) -> String {
    format!("{what}: {}", io::Error::last_os_error())
}

/// What a function that returns a number refused: the number is that of an error.
fn outcome(what: &str, code: c_int) -> Result<(), String> {
    match code {
        0 => Ok(()),
        1.. => Err(format!("{what}: {}", io::Error::from_raw_os_error(code))),
        _ => Err(refused(what)),
    }
}

/// Gives an object of the library back; nothing can be done where that is refused.
macro_rules! give_back {
    ($name:ident, $object:expr) => {
        if let Ok(give_back) = verb!($name) {
            // SAFETY: the object is this value's own, was made by the library, and nothing uses it any more.
            unsafe { give_back($object.as_ptr()) };
        }
    };
}

mod region;
pub(super) use region::Region;

/// The adapters of this host, while they are listed.
struct DeviceList {
    first: NonNull<*mut ibv_device>,
    count: usize,
}

impl DeviceList {
    fn get() -> Result<Self, String> {
        let get = verb!(ibv_get_device_list)?;
        let mut count = 0;
        // SAFETY: the function writes the number of entries to the address that it is given.
        let first = unsafe { get(&raw mut count) };
        let first = NonNull::new(first).ok_or_else(|| {
            let why = refused("ibv_get_device_list");
            // what the library says where the kernel has nothing for it
            let none = why.contains("not implemented");
            if none { format!("{why}: no RDMA driver is loaded (ib_uverbs)") } else { why }
        })?;
        Ok(DeviceList { first, count: usize::try_from(count).unwrap_or(0) })
    }

    fn devices(&self) -> &[*mut ibv_device] {
        // SAFETY: the library made a list of so many entries, which lives as long as this value.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.count) }
    }
}

impl Drop for DeviceList {
    fn drop(&mut self) {
        give_back!(ibv_free_device_list, self.first);
    }
}

fn name_of(device: *mut ibv_device) -> Result<String, String> {
    let name = verb!(ibv_get_device_name)?;
    // SAFETY: the device is an entry of a list that still exists.
    let name = unsafe { name(device) };
    // SAFETY: the name is part of the device, and ends within it.
    let name = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) });
    Ok(name.map_or_else(String::new, |name| name.to_string_lossy().into_owned()))
}

/// Names of the adapters that libibverbs can open, as `mlx5_0`.
pub(super) fn device_names() -> Result<Vec<String>, String> {
    let list = DeviceList::get()?;
    list.devices().iter().map(|device| name_of(*device)).collect()
}

/// An opened adapter.
pub(super) struct Context(NonNull<ibv_context>);

// SAFETY: libibverbs may be called from any thread.
unsafe impl Send for Context {}
// SAFETY: libibverbs locks what threads share.
unsafe impl Sync for Context {}

impl Context {
    pub(super) fn open(name: &str) -> Result<Self, String> {
        let list = DeviceList::get()?;
        let device = list.devices().iter().find(|device| name_of(**device).is_ok_and(|n| n == name));
        let device = *device.ok_or_else(|| format!("libibverbs knows no adapter {name}"))?;
        let open = verb!(ibv_open_device)?;
        // SAFETY: the device is an entry of a list that still exists.
        let context = NonNull::new(unsafe { open(device) }).ok_or_else(|| refused("ibv_open_device"))?;
        let context = Context(context);
        context.do_not_wait_for_events()?;
        Ok(context)
    }

    /// Without this, asking for an event waits until there is one.
    #[cfg(unix)]
    fn do_not_wait_for_events(&self) -> Result<(), String> {
        // SAFETY: the context is open, and its fields do not change.
        let descriptor = unsafe { (*self.0.as_ptr()).async_fd };
        // SAFETY: the call takes numbers.
        let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFL) };
        // SAFETY: as before.
        let set = unsafe { libc::fcntl(descriptor, libc::F_SETFL, flags | libc::O_NONBLOCK) };
        if flags < 0 || set < 0 { Err(refused("fcntl of the adapter's events")) } else { Ok(()) }
    }

    #[cfg(not(unix))]
    fn do_not_wait_for_events(&self) -> Result<(), String> {
        Err("verbs need Linux".to_owned())
    }

    pub(super) fn port(&self, number: u8) -> Result<ibv_port_attr, String> {
        let query = verb!(ibv_query_port)?;
        let mut port = ibv_port_attr::default();
        // SAFETY: the function fills the first fields of the structure, and leaves the later ones zero.
        let code = unsafe { query(self.0.as_ptr(), number, (&raw mut port).cast()) };
        outcome("ibv_query_port", code).map(|()| port)
    }

    pub(super) fn limits(&self) -> Result<ibv_device_attr, String> {
        let query = verb!(ibv_query_device)?;
        let mut limits = ibv_device_attr::default();
        // SAFETY: the structure is the one that the function fills.
        let code = unsafe { query(self.0.as_ptr(), &raw mut limits) };
        outcome("ibv_query_device", code).map(|()| limits)
    }

    /// What the adapter reported by itself since it was last asked, in the library's words: `port error`.
    pub(super) fn events(&self) -> Vec<String> {
        let (Ok(get), Ok(acknowledge)) = (verb!(ibv_get_async_event), verb!(ibv_ack_async_event)) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        let mut event = MaybeUninit::<ibv_async_event>::zeroed();
        // as many as one would read: an adapter that reports without an end must not keep this thread
        // SAFETY: the structure is the one that the function fills; it does not wait.
        while found.len() < 16 && unsafe { get(self.0.as_ptr(), event.as_mut_ptr()) } == 0 {
            // SAFETY: the call succeeded, so the structure is filled; and zeros are a value of it too.
            let mut event = unsafe { event.assume_init() };
            found.push(words(verb!(ibv_event_type_str).ok().map(|words| {
                // SAFETY: the function takes any number, and returns a text that lives as long as the library.
                unsafe { words(event.event_type) }
            })));
            // SAFETY: the event was got just now, and is acknowledged once.
            unsafe { acknowledge(&raw mut event) };
        }
        found
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        give_back!(ibv_close_device, self.0);
    }
}

/// A text of the library's own.
fn words(text: Option<*const std::ffi::c_char>) -> String {
    match text {
        // SAFETY: the library's texts are constants, which end.
        Some(text) if !text.is_null() => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
        _ => "unknown".to_owned(),
    }
}

/// A completion's status, in the library's words: `transport retry counter exceeded`.
pub(super) fn status_words(status: ibv_wc_status) -> String {
    words(verb!(ibv_wc_status_str).ok().map(|words| {
        // SAFETY: the function takes any number, and returns a text that lives as long as the library.
        unsafe { words(status) }
    }))
}

/// What may use each other.
pub(super) struct Domain {
    raw: NonNull<ibv_pd>,
    context: Arc<Context>,
}

// SAFETY: libibverbs may be called from any thread.
unsafe impl Send for Domain {}
// SAFETY: libibverbs locks what threads share.
unsafe impl Sync for Domain {}

impl Domain {
    pub(super) fn new(context: &Arc<Context>) -> Result<Self, String> {
        let make = verb!(ibv_alloc_pd)?;
        // SAFETY: the context is open, and this value keeps it so.
        let raw = NonNull::new(unsafe { make(context.0.as_ptr()) }).ok_or_else(|| refused("ibv_alloc_pd"))?;
        Ok(Domain { raw, context: Arc::clone(context) })
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        give_back!(ibv_dealloc_pd, self.raw);
    }
}

/// Where finished work is reported.
pub(super) struct Completions {
    raw: NonNull<ibv_cq>,
    context: Arc<Context>,
}

// SAFETY: libibverbs may be called from any thread.
unsafe impl Send for Completions {}
// SAFETY: libibverbs locks what threads share.
unsafe impl Sync for Completions {}

impl Completions {
    pub(super) fn new(context: &Arc<Context>, most: u32) -> Result<Self, String> {
        let make = verb!(ibv_create_cq)?;
        let most = c_int::try_from(most).unwrap_or(c_int::MAX);
        // SAFETY: the context is open, and this value keeps it so; there is no channel, which means that it is polled.
        let raw = unsafe { make(context.0.as_ptr(), most, ptr::null_mut(), ptr::null_mut(), 0) };
        let raw = NonNull::new(raw).ok_or_else(|| refused("ibv_create_cq"))?;
        Ok(Completions { raw, context: Arc::clone(context) })
    }

    /// What has finished, as far as `finished` has room.
    pub(super) fn poll<'a>(&self, finished: &'a mut [ibv_wc]) -> Result<&'a [ibv_wc], String> {
        // SAFETY: the context is open, and its operations are set before it is returned.
        let poll = unsafe { (*self.context.0.as_ptr()).ops.poll_cq }.ok_or("the adapter has no poll_cq")?;
        let room = c_int::try_from(finished.len()).unwrap_or(c_int::MAX);
        // SAFETY: the queue is this value's, and the function fills at most so many entries.
        let count = unsafe { poll(self.raw.as_ptr(), room, finished.as_mut_ptr()) };
        let count = usize::try_from(count).map_err(|_| "ibv_poll_cq failed".to_owned())?;
        finished
            .get(..count)
            .ok_or_else(|| format!("ibv_poll_cq reports {count} completions, and was asked for {room}"))
    }
}

impl Drop for Completions {
    fn drop(&mut self) {
        give_back!(ibv_destroy_cq, self.raw);
    }
}

/// What a work request does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    /// Writes to this address of the other side's.
    Write { to: u64, key: u32 },
    /// Reads from this address of the other side's.
    Read { from: u64, key: u32 },
    /// Sends what the other side receives.
    Send,
}

/// One side of a reliable connection.
pub(super) struct QueuePair {
    raw: NonNull<ibv_qp>,
    /// Messages up to this size are sent from within the request.
    inline: u32,
    region: Arc<Region>,
    _completions: Arc<Completions>,
    domain: Arc<Domain>,
}

// SAFETY: libibverbs may be called from any thread.
unsafe impl Send for QueuePair {}
// SAFETY: libibverbs locks what threads share.
unsafe impl Sync for QueuePair {}

impl QueuePair {
    /// A queue pair for so many requests of either kind, all on the region's memory.
    pub(super) fn new(
        domain: &Arc<Domain>,
        completions: &Arc<Completions>,
        region: &Arc<Region>,
        (sends, receives): (u32, u32),
        inline: u32,
    ) -> Result<Self, String> {
        let make = verb!(ibv_create_qp)?;
        let wanted = |inline| ibv_qp_init_attr {
            send_cq: completions.raw.as_ptr(),
            recv_cq: completions.raw.as_ptr(),
            qp_type: ibv_qp_type::IBV_QPT_RC,
            cap: ibv_qp_cap {
                max_send_wr: sends,
                max_recv_wr: receives,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: inline,
            },
            ..ibv_qp_init_attr::default()
        };
        // an adapter that has less room within requests refuses the whole
        for room in [inline, 0] {
            let mut wanted = wanted(room);
            // SAFETY: domain and queue belong to one context and are kept by this value.
            if let Some(raw) = NonNull::new(unsafe { make(domain.raw.as_ptr(), &raw mut wanted) }) {
                let inline = wanted.cap.max_inline_data.min(room);
                let (_completions, region, domain) = (completions.clone(), region.clone(), domain.clone());
                return Ok(QueuePair { raw, inline, region, _completions, domain });
            }
        }
        Err(refused("ibv_create_qp"))
    }

    /// Its number, which the other side needs.
    pub(super) fn number(&self) -> u32 {
        // SAFETY: the queue pair exists, and its number does not change.
        unsafe { (*self.raw.as_ptr()).qp_num }
    }

    /// Changes the state and the fields that are named.
    pub(super) fn modify(&self, what: &str, mut to: ibv_qp_attr, fields: &[ibv_qp_attr_mask]) -> Result<(), String> {
        let modify = verb!(ibv_modify_qp)?;
        let mask = fields.iter().fold(ibv_qp_attr_mask::IBV_QP_STATE.0, |mask, field| mask | field.0);
        // SAFETY: the queue pair exists, and the structure is the one that the function reads.
        let code = unsafe { modify(self.raw.as_ptr(), &raw mut to, mask as c_int) };
        outcome(&format!("ibv_modify_qp to {what}"), code)
    }

    /// The part of the region as a request names it; the kernel and the adapter find an address outside by themselves.
    fn part(&self, offset: usize, bytes: u32) -> ibv_sge {
        ibv_sge { addr: self.region.at(offset, bytes as usize), length: bytes, lkey: self.region.local_key() }
    }

    /// Posts a request on a part of the region; `signaled`: its completion is to be reported, as `id`.
    pub(super) fn post(&self, work: Work, offset: usize, bytes: u32, id: u64, signaled: bool) -> Result<(), String> {
        // SAFETY: the context is open, and its operations are set before it is returned.
        let post = unsafe { (*self.domain.context.0.as_ptr()).ops.post_send };
        let post = post.ok_or("the adapter has no post_send")?;
        let mut part = self.part(offset, bytes);
        let mut request = ibv_send_wr { wr_id: id, sg_list: &raw mut part, num_sge: 1, ..ibv_send_wr::default() };
        let rdma = |remote_addr, rkey| ibv_send_wr__bindgen_ty_2 {
            rdma: ibv_send_wr__bindgen_ty_2__bindgen_ty_1 { remote_addr, rkey },
        };
        let mut is_read = false;
        match work {
            Work::Write { to, key } => {
                (request.opcode, request.wr) = (ibv_wr_opcode::IBV_WR_RDMA_WRITE, rdma(to, key));
            }
            Work::Read { from, key } => {
                (request.opcode, request.wr) = (ibv_wr_opcode::IBV_WR_RDMA_READ, rdma(from, key));
                is_read = true;
            }
            Work::Send => request.opcode = ibv_wr_opcode::IBV_WR_SEND,
        }
        if signaled {
            request.send_flags |= ibv_send_flags::IBV_SEND_SIGNALED.0;
        }
        if bytes <= self.inline && !is_read {
            request.send_flags |= ibv_send_flags::IBV_SEND_INLINE.0;
        }
        let mut bad = ptr::null_mut();
        // SAFETY: the request and its part are read before the call returns; the memory is the region's, which this value keeps.
        let code = unsafe { post(self.raw.as_ptr(), &raw mut request, &raw mut bad) };
        outcome("ibv_post_send", code)
    }

    /// Posts room for a message, which may be overwritten from then on.
    pub(super) fn post_receive(&self, offset: usize, bytes: u32, id: u64) -> Result<(), String> {
        // SAFETY: as for sends.
        let post = unsafe { (*self.domain.context.0.as_ptr()).ops.post_recv };
        let post = post.ok_or("the adapter has no post_recv")?;
        let mut part = self.part(offset, bytes);
        let mut request = ibv_recv_wr { wr_id: id, sg_list: &raw mut part, num_sge: 1, ..ibv_recv_wr::default() };
        let mut bad = ptr::null_mut();
        // SAFETY: as for sends.
        let code = unsafe { post(self.raw.as_ptr(), &raw mut request, &raw mut bad) };
        outcome("ibv_post_recv", code)
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        give_back!(ibv_destroy_qp, self.raw);
    }
}
