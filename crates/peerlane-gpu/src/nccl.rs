//! NCCL, where its library is here.

use std::cell::RefCell;
use std::ptr;
use std::sync::OnceLock;

use crate::bindings::nccl::{Nccl, ncclComm_t, ncclDataType_t, ncclRedOp_t, ncclResult_t, ncclUniqueId};
use crate::cuda::{Part, Stream};
use crate::failure::Problem;
use crate::foreign;
use crate::open;
use peerlane_machine::one_line::shown;

/// The library, opened.
pub(crate) struct Loaded {
    /// Its functions. Its library is never closed.
    api: Nccl,
    /// Which file.
    pub(crate) file: String,
}

const FLOAT: ncclDataType_t = ncclDataType_t::ncclFloat32;
const SUM: ncclRedOp_t = ncclRedOp_t::ncclSum;

/// What a rank does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    AllReduce,
    AllGather,
    ReduceScatter,
    /// From rank 0.
    Broadcast,
    /// To a rank.
    Send(usize),
    /// From a rank.
    Receive(usize),
}

impl Operation {
    /// Elements that a rank's buffers must hold, of those sent and of those received, for NCCL's `count`.
    fn elements(self, count: usize, ranks: usize) -> (usize, usize) {
        let of_all = count.saturating_mul(ranks);
        match self {
            Operation::AllReduce | Operation::Broadcast => (count, count),
            Operation::AllGather => (count, of_all),
            Operation::ReduceScatter => (of_all, count),
            Operation::Send(_) => (count, 0),
            Operation::Receive(_) => (0, count),
        }
    }
}

/// Bytes of an element.
const ELEMENT: usize = 4;

/// Places behind the last, for what a call may write beyond.
const BEYOND: usize = 4;

/// Calls a function of NCCL's by its name, and turns its result into one of ours. Each use is in an `unsafe` block whose
/// comment states why the arguments are what the function needs.
macro_rules! call {
    ($loaded:expr, $name:ident($($argument:expr),* $(,)?)) => {
        match $loaded.api.$name {
            Some(function) => $loaded.check(stringify!($name), function($($argument),*)),
            None => Err(Problem::NotApplicable(format!("this NCCL ({}) has no {}", $loaded.file, stringify!($name)))),
        }
    };
}

fn nonsense(call: &str, what: &str) -> Problem {
    Problem::Failed(format!("NCCL's {call}: {what}"))
}

impl Loaded {
    /// Opens it, once a process. The error is one line.
    pub(crate) fn open() -> Result<&'static Loaded, String> {
        static LOADED: OnceLock<Result<Loaded, String>> = OnceLock::new();
        LOADED.get_or_init(Self::load).as_ref().map_err(Clone::clone)
    }

    fn load() -> Result<Loaded, String> {
        let opened = open::nccl().map_err(|e| e.to_string())?;
        Ok(Loaded { api: *opened, file: shown(opened.library().file()) })
    }

    /// Its version, as it names it: `2.28.9`.
    pub(crate) fn version(&self) -> Option<String> {
        let mut version = 0;
        // SAFETY: the place is one int, and outlives the call.
        unsafe { call!(self, ncclGetVersion(&mut version)) }.ok()?;
        // from 2.9 on, major · 10000 + minor · 100 + patch
        (1000..10_000_000)
            .contains(&version)
            .then(|| format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100))
    }

    /// An id for ranks to find each other by. It holds addresses of this host, where a thread of NCCL's waits for them.
    pub(crate) fn unique_id(&self) -> Result<[u8; ID_BYTES], Problem> {
        let mut id = ncclUniqueId::default();
        // SAFETY: the place is one id, and outlives the call.
        unsafe { call!(self, ncclGetUniqueId(&mut id)) }?;
        Ok(id.internal.map(|byte| byte as u8))
    }

    fn check(&self, name: &str, code: ncclResult_t) -> Result<(), Problem> {
        if code == ncclResult_t::ncclSuccess || code == ncclResult_t::ncclInProgress {
            return Ok(());
        }
        let text = self.api.ncclGetErrorString.and_then(|describe| {
            // SAFETY: any number may be asked.
            let words = unsafe { describe(code) };
            // SAFETY: null, or a text of the library's own, which it terminates and never frees.
            unsafe { foreign::text_at(words) }
        });
        let text = text.unwrap_or_else(|| "unknown error".to_owned());
        Err(Problem::Failed(format!("{name}: {} (NCCL error {})", text, code.0)))
    }
}

/// What ranks of several processes find each other by.
pub(crate) const ID_BYTES: usize = size_of::<ncclUniqueId>();

/// Which ranks a process has, of how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ranks {
    /// Its first.
    pub(crate) first: usize,
    /// All, those of other processes included.
    pub(crate) all: usize,
}

/// One communicator for each rank of this process.
pub(crate) struct Communicators {
    /// Whose they are.
    pub(crate) loaded: &'static Loaded,
    pub(crate) ranks: Ranks,
    /// Empty once they were aborted.
    all: RefCell<Vec<ncclComm_t>>,
}

impl Communicators {
    /// Joins devices, by CUDA's ordinals. This takes seconds, and starts threads of NCCL's own.
    pub(crate) fn join(loaded: &'static Loaded, devices: &[i32]) -> Result<Self, Problem> {
        let count = i32::try_from(devices.len()).map_err(|_| Problem::Failed("too many ranks".to_owned()))?;
        let mut all = vec![ptr::null_mut(); devices.len() + BEYOND];
        // SAFETY: there are `count` devices, and places for more communicators than that; both outlive the call.
        unsafe { call!(loaded, ncclCommInitAll(all.as_mut_ptr(), count, devices.as_ptr())) }?;
        let beyond = all.split_off(devices.len());
        let broken = match (all.iter().position(|comm| comm.is_null()), beyond.iter().all(|comm| comm.is_null())) {
            (None, true) => None,
            (Some(rank), _) => Some(format!("success, and rank {rank} of {count} has no communicator (null)")),
            (None, false) => Some(format!("it gave more than {count} communicators for {count} ranks; not relied on")),
        };
        all.retain(|comm| !comm.is_null());
        let ranks = Ranks { first: 0, all: devices.len() };
        let joined = Communicators { loaded, ranks, all: RefCell::new(all) };
        match broken {
            None => Ok(joined),
            Some(what) => {
                joined.abort();
                Err(nonsense("ncclCommInitAll", &what))
            }
        }
    }

    /// Joins the devices whose contexts are entered by `enter`, one after another, with ranks of other processes that give
    /// the same id. This blocks until all have come.
    pub(crate) fn join_others(
        loaded: &'static Loaded,
        id: &[u8; ID_BYTES],
        ranks: Ranks,
        enter: &[&dyn Fn() -> Result<(), Problem>],
    ) -> Result<Self, Problem> {
        let number = |n: usize| i32::try_from(n).map_err(|_| Problem::Failed(format!("{n} ranks are too many")));
        let (all, last) = (number(ranks.all)?, ranks.first.saturating_add(enter.len()));
        if enter.is_empty() || last > ranks.all {
            return Err(Problem::Failed(format!("ranks {} to {last} of {all}", ranks.first)));
        }
        let id = ncclUniqueId { internal: id.map(|byte| byte as _) };
        // NCCL writes each when the group ends
        let mut made = vec![ptr::null_mut(); enter.len()];
        // SAFETY: takes nothing; groups may be nested.
        unsafe { call!(loaded, ncclGroupStart()) }?;
        let begun = enter.iter().zip(&mut made).zip(ranks.first..).try_for_each(|((enter, comm), rank)| {
            enter()?;
            let rank = number(rank)?;
            // SAFETY: the place is one communicator, and outlives the group, which is ended below; the id is 128 bytes, passed by
            // value; a context is current.
            unsafe { call!(loaded, ncclCommInitRank(comm, all, id, rank)) }
        });
        // SAFETY: takes nothing; it ends the group that was started above.
        let ended = unsafe { call!(loaded, ncclGroupEnd()) };
        let missing = made.iter().position(|comm| comm.is_null());
        made.retain(|comm| !comm.is_null());
        let joined = Communicators { loaded, ranks, all: RefCell::new(made) };
        match (begun.and(ended), missing) {
            (Ok(()), None) => Ok(joined),
            (Ok(()), Some(at)) => {
                joined.abort();
                let rank = ranks.first + at;
                Err(nonsense(
                    "ncclCommInitRank",
                    &format!("success, and rank {rank} of {all} has no communicator (null)"),
                ))
            }
            (Err(problem), _) => {
                joined.abort();
                Err(problem)
            }
        }
    }

    /// Starts what `work` asks for as one operation of all ranks.
    pub(crate) fn grouped(&self, work: impl FnOnce(&Self) -> Result<(), Problem>) -> Result<(), Problem> {
        // SAFETY: takes nothing; groups may be nested.
        unsafe { call!(self.loaded, ncclGroupStart()) }?;
        let outcome = work(self);
        // SAFETY: takes nothing; it ends the group that was started above. What `work` asked for is alive until it is done:
        // see `call`.
        let ended = unsafe { call!(self.loaded, ncclGroupEnd()) };
        outcome.and(ended)
    }

    /// Asks for the part of one rank of this process. Numbers are 32-bit floating point, and are summed. Within
    /// [`Self::grouped`].
    pub(crate) fn call(
        &self,
        rank: usize,
        operation: Operation,
        send: Part,
        receive: Part,
        count: usize,
        stream: &Stream,
    ) -> Result<(), Problem> {
        let ranks = self.ranks.all;
        let here = rank.checked_sub(self.ranks.first);
        let Some(comm) = here.and_then(|here| self.all.borrow().get(here).copied()) else {
            return Err(Problem::Failed(format!("no rank {rank} of {ranks} here")));
        };
        let peer = match operation {
            Operation::Send(peer) | Operation::Receive(peer) if peer >= ranks => {
                return Err(Problem::Failed(format!("no peer {peer} of {ranks} ranks")));
            }
            Operation::Send(peer) | Operation::Receive(peer) => i32::try_from(peer).unwrap_or(0),
            _ => 0,
        };
        let (sent, received) = operation.elements(count, ranks);
        for (what, part, elements) in [("send", send, sent), ("receive", receive, received)] {
            let bytes = elements.saturating_mul(ELEMENT);
            if part.bytes() < bytes {
                return Err(Problem::Failed(format!("{bytes} bytes to {what} in a buffer of {}", part.bytes())));
            }
        }
        let loaded = self.loaded;
        let stream = stream.handle();
        let (from, to) = (send.address() as *const _, receive.address() as *mut _);
        // SAFETY, of all below: the communicator was given by NCCL and is not destroyed, the stream is alive and of the rank's
        // device, and the buffers hold as much as the operation moves. NCCL uses them until the stream has done its work,
        // for which their memory waits before it goes.
        match operation {
            Operation::AllReduce => {
                // SAFETY: as above; both buffers hold `count` elements.
                unsafe { call!(loaded, ncclAllReduce(from, to, count, FLOAT, SUM, comm, stream)) }
            }
            Operation::AllGather => {
                // SAFETY: as above; `to` holds `count` elements of each rank.
                unsafe { call!(loaded, ncclAllGather(from, to, count, FLOAT, comm, stream)) }
            }
            Operation::ReduceScatter => {
                // SAFETY: as above; `from` holds `count` elements for each rank.
                unsafe { call!(loaded, ncclReduceScatter(from, to, count, FLOAT, SUM, comm, stream)) }
            }
            Operation::Broadcast => {
                // SAFETY: as above; both buffers hold `count` elements, and rank 0 exists.
                unsafe { call!(loaded, ncclBroadcast(from, to, count, FLOAT, 0, comm, stream)) }
            }
            Operation::Send(_) => {
                // SAFETY: as above; `from` holds `count` elements, and the peer exists.
                unsafe { call!(loaded, ncclSend(from, count, FLOAT, peer, comm, stream)) }
            }
            Operation::Receive(_) => {
                // SAFETY: as above; `to` holds `count` elements, and the peer exists.
                unsafe { call!(loaded, ncclRecv(to, count, FLOAT, peer, comm, stream)) }
            }
        }
    }

    /// Whether an error has come up meanwhile.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        for comm in self.all.borrow().iter() {
            let mut state = ncclResult_t::ncclSuccess;
            // SAFETY: the communicator is not destroyed; the place is one result, and outlives the call.
            unsafe { call!(self.loaded, ncclCommGetAsyncError(*comm, &mut state)) }?;
            self.loaded.check("NCCL", state)?;
        }
        Ok(())
    }
}

impl Communicators {
    /// Gives them up after an error: kernels that wait for other ranks end, which nothing else makes them do.
    pub(crate) fn abort(&self) {
        for comm in self.all.take() {
            // SAFETY: given by ncclCommInitAll, and taken out of the list, so that nobody uses it again.
            let _ = unsafe { call!(self.loaded, ncclCommAbort(comm)) };
        }
    }

    /// Whether they were given up.
    pub(crate) fn aborted(&self) -> bool {
        self.all.borrow().is_empty()
    }
}

impl Drop for Communicators {
    fn drop(&mut self) {
        for comm in self.all.take() {
            // SAFETY: given by ncclCommInitAll, and taken out of the list, so that nobody uses it again.
            let _ = unsafe { call!(self.loaded, ncclCommDestroy(comm)) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::c_int;

    use super::*;
    use crate::library::{Table, fakes};

    const OK: ncclResult_t = ncclResult_t::ncclSuccess;

    fn loaded(api: Nccl) -> &'static Loaded {
        fakes::keep(Loaded { api, file: "libnccl.so.2".to_owned() })
    }

    fn why(joined: Result<Communicators, Problem>) -> String {
        match joined {
            Err(Problem::Failed(why)) => why,
            Err(other) => panic!("{other:?}"),
            Ok(_) => panic!("joined"),
        }
    }

    /// Gives communicators from number 1 on: as many as are asked for, and so many more or fewer.
    fn giving<const MORE: isize>() -> Nccl {
        unsafe extern "C" fn init<const MORE: isize>(all: *mut ncclComm_t, n: c_int, _: *const c_int) -> ncclResult_t {
            for i in 0..n as isize + MORE {
                // SAFETY: within the places, or in the room behind them where more are given than asked for.
                unsafe { all.wrapping_offset(i).write((i + 1) as ncclComm_t) };
            }
            OK
        }
        fakes::set(0);
        Nccl { ncclCommInitAll: Some(init::<MORE>), ..Nccl::answering() }
    }

    #[test]
    fn success_without_communicators_is_an_error() {
        fakes::set(0);
        let none = why(Communicators::join(loaded(Nccl::answering()), &[0, 1]));
        assert_eq!(none, "NCCL's ncclCommInitAll: success, and rank 0 of 2 has no communicator (null)");
        let api = giving::<-1>();
        assert!(why(Communicators::join(loaded(api), &[0, 1, 2])).contains("rank 2 of 3 has no communicator"));
        assert_eq!(fakes::called(), ["ncclCommAbort"; 2], "what was given is given back, and null is not");
        let api = giving::<1>();
        assert!(why(Communicators::join(loaded(api), &[0, 1])).contains("more than 2 communicators for 2 ranks"));
    }

    /// Gives rank `r` communicator number `r + 1`, but for those of `without`.
    fn giving_ranks<const WITHOUT: c_int>() -> Nccl {
        unsafe extern "C" fn init<const WITHOUT: c_int>(
            comm: *mut ncclComm_t,
            _: c_int,
            _: ncclUniqueId,
            rank: c_int,
        ) -> ncclResult_t {
            fakes::log("ncclCommInitRank");
            if rank != WITHOUT {
                // SAFETY: the place is one communicator.
                unsafe { comm.write((rank as usize + 1) as ncclComm_t) };
            }
            OK
        }
        fakes::set(0);
        Nccl { ncclCommInitRank: Some(init::<WITHOUT>), ..Nccl::answering() }
    }

    #[test]
    fn ranks_of_several_processes() {
        let id = [7; ID_BYTES];
        let enter: &dyn Fn() -> Result<(), Problem> = &|| Ok(());
        let refuse: &dyn Fn() -> Result<(), Problem> = &|| Err(Problem::Failed("no context".to_owned()));
        let (ranks, two) = (Ranks { first: 2, all: 4 }, [enter, enter]);
        let joined = Communicators::join_others(loaded(giving_ranks::<-1>()), &id, ranks, &two).unwrap();
        assert_eq!(fakes::called(), ["ncclGroupStart", "ncclCommInitRank", "ncclCommInitRank", "ncclGroupEnd"]);
        assert_eq!((joined.ranks, joined.all.borrow().len()), (ranks, 2));
        drop(joined);
        assert_eq!(fakes::called(), ["ncclCommDestroy"; 2]);
        let none = Communicators::join_others(loaded(giving_ranks::<3>()), &id, ranks, &two);
        assert_eq!(why(none), "NCCL's ncclCommInitRank: success, and rank 3 of 4 has no communicator (null)");
        assert_eq!(fakes::called().last(), Some(&"ncclCommAbort"), "what was given is given back");
        let broken = Communicators::join_others(loaded(giving_ranks::<-1>()), &id, ranks, &[enter, refuse]);
        assert_eq!(why(broken), "no context");
        assert_eq!(fakes::called()[2..], ["ncclGroupEnd", "ncclCommAbort"]);
        assert!(
            why(Communicators::join_others(loaded(Nccl::answering()), &id, Ranks { first: 3, all: 4 }, &two))
                .contains("4")
        );
        fakes::set(2);
        assert!(loaded(Nccl::answering()).unique_id().is_err());
    }

    #[test]
    fn every_code_of_every_call_is_an_error_and_the_group_is_ended() {
        for code in [1, 2, 3, 5, 6, 99, u32::MAX] {
            let joined = Communicators::join(loaded(giving::<0>()), &[0, 1]).unwrap();
            fakes::set(code);
            assert!(joined.check().is_err() && joined.loaded.version().is_none());
            assert!(joined.grouped(|_| Ok(())).is_err());
            assert!(
                why(Communicators::join(loaded(Nccl::answering()), &[0]))
                    .ends_with(&format!("unknown error (NCCL error {code})"))
            );
            fakes::set(0);
            assert!(joined.grouped(|_| Err(Problem::Failed("no".to_owned()))).is_err());
            assert_eq!(fakes::called(), ["ncclGroupStart", "ncclGroupEnd"]);
        }
    }

    #[test]
    fn communicators_are_destroyed_or_aborted_once() {
        drop(Communicators::join(loaded(giving::<0>()), &[0, 1]).unwrap());
        assert_eq!(fakes::called(), ["ncclCommDestroy"; 2]);
        let joined = Communicators::join(loaded(giving::<0>()), &[0, 1]).unwrap();
        joined.abort();
        assert!(joined.aborted());
        drop(joined);
        assert_eq!(fakes::called(), ["ncclCommAbort"; 2]);
    }

    #[test]
    fn buffers_hold_what_an_operation_moves() {
        assert_eq!(Operation::AllReduce.elements(10, 4), (10, 10));
        assert_eq!(Operation::AllGather.elements(10, 4), (10, 40));
        assert_eq!(Operation::ReduceScatter.elements(10, 4), (40, 10));
        assert_eq!(Operation::Send(1).elements(10, 4), (10, 0));
        assert_eq!(Operation::AllGather.elements(usize::MAX, 4), (usize::MAX, usize::MAX));
    }
}
