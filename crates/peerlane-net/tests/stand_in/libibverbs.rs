//! A stand-in for `libibverbs.so.1`: adapters that exist within one process, and fail as their names say.
//!
//! `rustc` alone builds it, so that tests need no RDMA library, no C compiler and no further crate: `tests/stand_in/mod.rs` has
//! the command. Types are those that peerlane itself is built with.
//!
//! | adapter | what it does |
//! | --- | --- |
//! | `sound0`, `sound1` | all that is asked |
//! | `lost0` | falls off the bus in mid-transfer: an event, and everything under way is flushed |
//! | `error0` | reports a completion with an error in mid-transfer |
//! | `wrong0` | changes one byte of each message |
//! | `refuses0` | registers no memory |
//! | `silent0` | takes requests, and reports none of them |
//! | `stuck0` | never returns from a request in mid-transfer |
//! | `absurd0` | reports more completions than it was asked for |
//! | `plain0` | takes no dmabuf, and GPU memory by its address, as nvidia-peermem lets adapters do |
//! | `hostonly0` | takes no GPU memory by either |
//!
//! GPU memory is a mapping of a file in memory whose name holds `stand-in-gpu`; all others take it as a dmabuf alone.

#![allow(non_upper_case_globals, unsafe_op_in_unsafe_fn)]

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fs::File;
use std::os::fd::IntoRawFd;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use verbs::*;

/// What the generated bindings expect of their crate; the table of functions is not wanted here.
mod library {
    macro_rules! table {
        ($($any:tt)*) => {};
    }
    pub(crate) use table;
}

#[path = "../../../peerlane-gpu/src/bindings/verbs.rs"]
#[allow(dead_code, unused_imports)]
mod verbs;

const ADAPTERS: [&CStr; 11] = [
    c"sound0", c"sound1", c"lost0", c"error0", c"wrong0", c"refuses0", c"silent0", c"stuck0", c"absurd0", c"plain0",
    c"hostonly0",
];

/// What the names of files that are GPU memory hold.
const GPU: &str = "stand-in-gpu";

/// Requests of a queue pair before it fails.
const SOUND_REQUESTS: usize = 24;

const ENODEV: c_int = 19;
const ENOMEM: c_int = 12;
const EAGAIN: c_int = 11;
const EFAULT: c_int = 14;
const EINVAL: c_int = 22;
const EOPNOTSUPP: c_int = 95;

unsafe extern "C" {
    fn __errno_location() -> *mut c_int;
}

/// An opened adapter; what the caller sees comes first.
#[repr(C)]
struct Context {
    seen: ibv_context,
    name: &'static str,
    lost: AtomicUsize,
}

/// A completion queue.
#[repr(C)]
struct Queue {
    seen: ibv_cq,
    finished: Mutex<VecDeque<ibv_wc>>,
}

/// One side of a connection, as the other one reaches it. Addresses, since they cross threads.
struct Pair {
    peer: u32,
    completions: usize,
    receives: VecDeque<(u64, usize, usize)>,
    /// Messages that came before there was room for them.
    waiting: VecDeque<Vec<u8>>,
    posted: usize,
}

/// Memory that is registered: sizes by addresses. One adapter's write into what the other side has given back is refused, as real
/// ones do. Locked after [`PAIRS`], and for as long as memory is touched.
static REGIONS: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

fn regions() -> MutexGuard<'static, BTreeMap<usize, usize>> {
    REGIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_registered(regions: &BTreeMap<usize, usize>, start: usize, length: usize) -> bool {
    let before = regions.range(..=start).next_back();
    before.is_some_and(|(from, size)| start + length <= from + size)
}

static PAIRS: LazyLock<Mutex<HashMap<u32, Pair>>> = LazyLock::new(Mutex::default);
static NUMBERS: AtomicU32 = AtomicU32::new(1);

fn pairs() -> MutexGuard<'static, HashMap<u32, Pair>> {
    PAIRS.lock().unwrap_or_else(PoisonError::into_inner)
}

unsafe fn refuse<T>(code: c_int) -> *mut T {
    *__errno_location() = code;
    ptr::null_mut()
}

unsafe fn name_of(context: *mut ibv_context) -> &'static str {
    (*context.cast::<Context>()).name
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_get_device_list(count: *mut c_int) -> *mut *mut ibv_device {
    static DEVICES: LazyLock<Vec<usize>> = LazyLock::new(|| {
        let one = |name: &CStr| {
            let mut device = ibv_device::default();
            for (to, from) in device.name.iter_mut().zip(name.to_bytes_with_nul()) {
                *to = *from as c_char;
            }
            Box::into_raw(Box::new(device)) as usize
        };
        ADAPTERS.map(one).to_vec()
    });
    *count = DEVICES.len() as c_int;
    DEVICES.as_ptr().cast_mut().cast()
}

#[unsafe(no_mangle)]
extern "C" fn ibv_free_device_list(_: *mut *mut ibv_device) {}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_get_device_name(device: *mut ibv_device) -> *const c_char {
    (&raw const (*device).name).cast()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    let name = CStr::from_ptr(ibv_get_device_name(device)).to_str().unwrap_or_default();
    let Ok(events) = File::open("/dev/null") else { return refuse(ENODEV) };
    let seen = ibv_context {
        device,
        async_fd: events.into_raw_fd(),
        ops: ibv_context_ops {
            poll_cq: Some(poll_cq),
            post_send: Some(post_send),
            post_recv: Some(post_recv),
            ..ibv_context_ops::default()
        },
        ..ibv_context::default()
    };
    Box::into_raw(Box::new(Context { seen, name, lost: AtomicUsize::new(0) })).cast()
}

/// Contexts stay, since threads may hang in them.
#[unsafe(no_mangle)]
extern "C" fn ibv_close_device(_: *mut ibv_context) -> c_int {
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_device(_: *mut ibv_context, limits: *mut ibv_device_attr) -> c_int {
    limits.write(ibv_device_attr {
        phys_port_cnt: 1,
        max_qp_wr: 1024,
        max_qp_rd_atom: 16,
        ..ibv_device_attr::default()
    });
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_port(_: *mut ibv_context, _: u8, port: *mut _compat_ibv_port_attr) -> c_int {
    let port: *mut ibv_port_attr = port.cast();
    (*port).state = ibv_port_state::IBV_PORT_ACTIVE;
    (*port).active_mtu = ibv_mtu(5);
    (*port).lid = 1;
    (*port).link_layer = IBV_LINK_LAYER_INFINIBAND.0 as u8;
    0
}

#[unsafe(no_mangle)]
extern "C" fn ibv_query_gid(_: *mut ibv_context, _: u8, _: c_int, _: *mut ibv_gid) -> c_int {
    -1
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_get_async_event(context: *mut ibv_context, event: *mut ibv_async_event) -> c_int {
    let context = &*context.cast::<Context>();
    if context.lost.compare_exchange(1, 2, Ordering::SeqCst, Ordering::SeqCst).is_err() {
        *__errno_location() = EAGAIN;
        return -1;
    }
    (*event).event_type = ibv_event_type::IBV_EVENT_DEVICE_FATAL;
    0
}

#[unsafe(no_mangle)]
extern "C" fn ibv_ack_async_event(_: *mut ibv_async_event) {}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    Box::into_raw(Box::new(ibv_pd { context, ..ibv_pd::default() }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_dealloc_pd(domain: *mut ibv_pd) -> c_int {
    drop(Box::from_raw(domain));
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_reg_mr(domain: *mut ibv_pd, addr: *mut c_void, length: usize, _: c_int) -> *mut ibv_mr {
    let name = name_of((*domain).context);
    if name == "refuses0" {
        return refuse(ENOMEM);
    }
    if name != "plain0" && is_gpu(addr as usize) {
        return refuse(EFAULT);
    }
    registered(domain, addr, length)
}

/// Whether an address is in GPU memory, here or of a real GPU, and so not for the CPU: what the kernel shows of this process's
/// mappings says so.
fn is_gpu(address: usize) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let number = |text: &str| usize::from_str_radix(text, 16).unwrap_or_default();
    let held = maps.lines().find(|line| {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        range.is_some_and(|(from, to)| (number(from)..number(to)).contains(&address))
    });
    held.is_none_or(|line| line.contains(GPU) || line.contains("/dev/nvidia") || !line.contains(" rw"))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_reg_dmabuf_mr(
    domain: *mut ibv_pd,
    _: u64,
    length: usize,
    iova: u64,
    descriptor: c_int,
    _: c_int,
) -> *mut ibv_mr {
    if matches!(name_of((*domain).context), "plain0" | "hostonly0") {
        return refuse(EOPNOTSUPP);
    }
    let file = std::fs::read_link(format!("/proc/self/fd/{descriptor}"));
    if !file.is_ok_and(|file| file.to_string_lossy().contains(GPU)) {
        return refuse(EINVAL);
    }
    registered(domain, iova as *mut c_void, length)
}

unsafe fn registered(domain: *mut ibv_pd, addr: *mut c_void, length: usize) -> *mut ibv_mr {
    regions().insert(addr as usize, length);
    Box::into_raw(Box::new(ibv_mr { pd: domain, addr, length, lkey: 7, rkey: 7, ..ibv_mr::default() }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_reg_mr_iova2(
    domain: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    _: u64,
    access: c_uint,
) -> *mut ibv_mr {
    ibv_reg_mr(domain, addr, length, access as c_int)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_dereg_mr(region: *mut ibv_mr) -> c_int {
    let region = Box::from_raw(region);
    regions().remove(&(region.addr as usize));
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_create_cq(
    context: *mut ibv_context,
    cqe: c_int,
    _: *mut c_void,
    _: *mut ibv_comp_channel,
    _: c_int,
) -> *mut ibv_cq {
    let seen = ibv_cq { context, cqe, ..ibv_cq::default() };
    Box::into_raw(Box::new(Queue { seen, finished: Mutex::default() })).cast()
}

/// Queues stay, since the other side's thread may be about to report to them.
#[unsafe(no_mangle)]
extern "C" fn ibv_destroy_cq(_: *mut ibv_cq) -> c_int {
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_create_qp(domain: *mut ibv_pd, wanted: *mut ibv_qp_init_attr) -> *mut ibv_qp {
    let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
    let completions = (*wanted).send_cq as usize;
    let (receives, waiting) = (VecDeque::new(), VecDeque::new());
    pairs().insert(number, Pair { peer: 0, completions, receives, waiting, posted: 0 });
    let (context, send_cq) = ((*domain).context, (*wanted).send_cq);
    Box::into_raw(Box::new(ibv_qp { context, pd: domain, send_cq, qp_num: number, ..ibv_qp::default() }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_modify_qp(pair: *mut ibv_qp, to: *mut ibv_qp_attr, fields: c_int) -> c_int {
    if fields as u32 & ibv_qp_attr_mask::IBV_QP_DEST_QPN.0 != 0 {
        if let Some(own) = pairs().get_mut(&(*pair).qp_num) {
            own.peer = (*to).dest_qp_num;
        }
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_destroy_qp(pair: *mut ibv_qp) -> c_int {
    pairs().remove(&(*pair).qp_num);
    drop(Box::from_raw(pair));
    0
}

#[unsafe(no_mangle)]
extern "C" fn ibv_wc_status_str(status: ibv_wc_status) -> *const c_char {
    let text = match status {
        ibv_wc_status::IBV_WC_RETRY_EXC_ERR => c"transport retry counter exceeded",
        ibv_wc_status::IBV_WC_WR_FLUSH_ERR => c"Work Request Flushed Error",
        _ => c"another status",
    };
    text.as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn ibv_event_type_str(_: ibv_event_type) -> *const c_char {
    c"local catastrophic error".as_ptr()
}

unsafe fn report(queue: usize, id: u64, status: ibv_wc_status) {
    let queue = &*(queue as *const Queue);
    let finished = ibv_wc { wr_id: id, status, ..ibv_wc::default() };
    queue.finished.lock().unwrap_or_else(PoisonError::into_inner).push_back(finished);
}

unsafe extern "C" fn poll_cq(queue: *mut ibv_cq, room: c_int, to: *mut ibv_wc) -> c_int {
    let queue = &*queue.cast::<Queue>();
    let mut finished = queue.finished.lock().unwrap_or_else(PoisonError::into_inner);
    if name_of(queue.seen.context) == "absurd0" && !finished.is_empty() {
        return room + 1;
    }
    let count = finished.len().min(room as usize);
    for (at, completion) in finished.drain(..count).enumerate() {
        to.add(at).write(completion);
    }
    count as c_int
}

unsafe extern "C" fn post_send(
    pair: *mut ibv_qp,
    request: *mut ibv_send_wr,
    _: *mut *mut ibv_send_wr,
) -> c_int {
    let (pair, request) = (&*pair, &*request);
    let context = &*pair.context.cast::<Context>();
    let mut pairs = pairs();
    let Some(own) = pairs.get_mut(&pair.qp_num) else { return ENODEV };
    own.posted += 1;
    let late = own.posted > SOUND_REQUESTS;
    let (peer, completions) = (own.peer, own.completions);
    let signaled = request.send_flags & ibv_send_flags::IBV_SEND_SIGNALED.0 != 0;
    match context.name {
        "lost0" if late => {
            let _ = context.lost.compare_exchange(0, 1, Ordering::SeqCst, Ordering::SeqCst);
            report(completions, request.wr_id, ibv_wc_status::IBV_WC_WR_FLUSH_ERR);
            return 0;
        }
        "error0" if late => {
            report(completions, request.wr_id, ibv_wc_status::IBV_WC_RETRY_EXC_ERR);
            return 0;
        }
        "silent0" => return 0,
        "stuck0" if late => {
            drop(pairs);
            loop {
                thread::sleep(Duration::from_secs(3600));
            }
        }
        _ => {}
    }
    let part = &*request.sg_list;
    let (local, length) = (part.addr as *mut u8, part.length as usize);
    let regions = regions();
    let is_send = request.opcode == ibv_wr_opcode::IBV_WR_SEND;
    if !is_send && !is_registered(&regions, request.wr.rdma.remote_addr as usize, length) {
        report(completions, request.wr_id, ibv_wc_status::IBV_WC_REM_ACCESS_ERR);
        return 0;
    }
    match request.opcode {
        ibv_wr_opcode::IBV_WR_RDMA_WRITE => {
            let remote = request.wr.rdma.remote_addr as *mut u8;
            // of a real adapter, too, the last byte comes last
            ptr::copy(local, remote, length - 1);
            if context.name == "wrong0" && length > 8 {
                *remote.add(length / 2) ^= 1;
            }
            remote.add(length - 1).write_volatile(local.add(length - 1).read_volatile());
        }
        ibv_wr_opcode::IBV_WR_RDMA_READ => ptr::copy(request.wr.rdma.remote_addr as *const u8, local, length),
        _ => {
            if let Some(other) = pairs.get_mut(&peer) {
                match other.receives.pop_front() {
                    Some((id, to, room)) => {
                        ptr::copy(local, to as *mut u8, length.min(room));
                        if context.name == "wrong0" && length.min(room) > 8 {
                            *(to as *mut u8).add(length.min(room) / 2) ^= 1;
                        }
                        report(other.completions, id, ibv_wc_status::IBV_WC_SUCCESS);
                    }
                    None => other.waiting.push_back(std::slice::from_raw_parts(local, length).to_vec()),
                }
            }
        }
    }
    if signaled {
        report(completions, request.wr_id, ibv_wc_status::IBV_WC_SUCCESS);
    }
    0
}

unsafe extern "C" fn post_recv(pair: *mut ibv_qp, request: *mut ibv_recv_wr, _: *mut *mut ibv_recv_wr) -> c_int {
    let (pair, request) = (&*pair, &*request);
    let part = &*request.sg_list;
    let mut pairs = pairs();
    let Some(own) = pairs.get_mut(&pair.qp_num) else { return ENODEV };
    match own.waiting.pop_front() {
        Some(message) => {
            ptr::copy(message.as_ptr(), part.addr as *mut u8, message.len().min(part.length as usize));
            report(own.completions, request.wr_id, ibv_wc_status::IBV_WC_SUCCESS);
        }
        None => own.receives.push_back((request.wr_id, part.addr as usize, part.length as usize)),
    }
    0
}
