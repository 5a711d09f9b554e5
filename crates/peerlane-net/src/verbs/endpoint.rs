//! One side's memory and queue pairs, and the work on them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use peerlane_gpu::Mapping;
use peerlane_gpu::bindings::verbs::*;
use peerlane_machine::one_line::shown;
use peerlane_machine::transfer::Registration;
use peerlane_measure::measure::Failure;
use peerlane_measure::run::{FlagKind, NO_GPU_MEMORY};

use super::address::Address;
use super::raw::{Completions, Context, Domain, QueuePair, Region, Work, device_names, status_words};
use super::sysfs::{CLASS, Folder, Gid};
use crate::gpu_memory::Gpus;

/// Before the messages lies what the sides tell each other by writes.
const CONTROL: usize = 4096;
/// Where the other side writes a number of messages, and where the one that is for it is kept.
const TOLD: usize = 0;
const TO_TELL: usize = 64;
/// Each message begins at a page.
const PAGE: usize = 4096;

/// The most memory of one step, on each side.
const MOST_MEMORY: usize = 8 << 30;
/// The most requests in a queue, as perftest has it; and the most bytes of all of them, where messages are large.
const MOST_DEPTH: u32 = 128;
const MOST_IN_FLIGHT: usize = 16 << 20;
/// Room for messages that are received: more than are sent before the other side looks.
const MOST_RECEIVES: u32 = 512;
/// Messages up to this size are sent from within the request, where the adapter has the room: perftest's size for latency.
const INLINE: u32 = 220;
/// Messages below this size report every 16th completion: an adapter can send more than it can report.
const ALWAYS_REPORTED: usize = 8192;

/// Reads that are under way at once: what adapters commonly offer.
const MOST_READS: i32 = 16;
/// 4.096 µs · 2¹⁶ = 0.27 s without an acknowledgement before packets are sent again, which adapters may stretch to four times
/// that; and so many times. A peer that is gone is noticed after 2 to 8 s. One time less than verbs allow: `rdma_rxe` takes 7
/// for ever.
const TIMEOUT: u8 = 16;
const RETRIES: u8 = 6;
/// As long as the other side has no room for a message: for ever, since the watchdog ends it.
const RETRIES_WITHOUT_ROOM: u8 = 7;
/// 0.64 ms until the next try.
const PAUSE_WITHOUT_ROOM: u8 = 12;

/// Which completions of which queue pair an identifier is of.
const RECEIVED: u64 = 1 << 63;
const COUNTER: u64 = 1 << 62;

/// What a side needs to be made.
pub(super) struct Wanted<'a> {
    /// `mlx5_0`, or `mlx4_0:2` for its second port.
    pub(super) nic: &'a str,
    /// The node of host memory.
    pub(super) numa_node: Option<u32>,
    /// The GPU whose memory it is, and no host's.
    pub(super) gpu: Option<&'a str>,
    pub(super) size: usize,
    pub(super) queue_pairs: u32,
    /// Whether messages are received, so that room must be posted.
    pub(super) receives: bool,
    /// Whether the sides tell each other numbers of messages.
    pub(super) counts: bool,
    /// Whether the last byte of a message is waited for.
    pub(super) ordered: bool,
}

/// Why a side cannot be made.
pub(super) enum Trouble {
    /// In words, which need the NIC's name.
    Words(String),
    /// As the record has it.
    Is(Failure),
}

impl From<String> for Trouble {
    fn from(words: String) -> Self {
        Trouble::Words(words)
    }
}

/// How GPU memory was registered, and why not as a dmabuf, where that was refused.
pub(super) type Registered = (Registration, Option<String>);

/// The adapter and the port of a NIC's name.
pub(super) fn adapter_and_port(nic: &str) -> (&str, u8) {
    let named = nic.rsplit_once(':').and_then(|(adapter, port)| Some((adapter, port.parse().ok()?)));
    named.unwrap_or((nic, 1))
}

/// One side's memory and queue pairs.
pub(super) struct Endpoint {
    // dropped in this order
    queue_pairs: Vec<QueuePair>,
    completions: Arc<Completions>,
    pub(super) region: Arc<Region>,
    context: Arc<Context>,
    pub(super) nic: String,
    /// Of GPU memory.
    pub(super) registered: Option<Registered>,
    port: u8,
    gid: Option<Gid>,
    pub(super) own: Address,
    peer: Option<Address>,
    pub(super) size: usize,
    /// Queue pairs that carry messages; one more carries the counter.
    pub(super) count: usize,
    depth: u32,
    /// Messages that may be under way on each queue pair: no more than `depth`.
    window: u32,
    /// Messages a completion stands for.
    batch: u32,
    in_flight: Vec<u32>,
    counter_in_flight: bool,
    /// Messages whose completion was reported, and by queue pair those that were received, since the beginning.
    pub(super) sent: u64,
    arrived: Vec<u64>,
    receives: u32,
    /// Completions that the queue holds.
    entries: usize,
}

impl Endpoint {
    pub(super) fn new(wanted: &Wanted<'_>, gpus: Option<&mut dyn Gpus>) -> Result<Self, Trouble> {
        let (adapter, port) = adapter_and_port(wanted.nic);
        let known = device_names()?;
        if !known.iter().any(|name| name == adapter) {
            let all = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(format!("no such RDMA adapter; libibverbs lists {all}").into());
        }
        let context = Arc::new(Context::open(adapter)?);
        let attributes = context.port(port)?;
        if attributes.state != ibv_port_state::IBV_PORT_ACTIVE {
            return Err(format!("port {port} is not active").into());
        }
        let is_ethernet = u32::from(attributes.link_layer) == IBV_LINK_LAYER_ETHERNET.0;
        let gid = if is_ethernet {
            let gid = Folder::of(CLASS.as_ref(), adapter).roce_v2(port);
            Some(gid.ok_or_else(|| {
                format!("port {port} has no GID of RoCE v2: does its network interface have an address?")
            })?)
        } else {
            None
        };
        let limits = context.limits()?;

        let count = wanted.queue_pairs as usize;
        let stride = wanted.size.next_multiple_of(PAGE);
        let memory = (2 * count).checked_mul(stride).map(|bytes| bytes + CONTROL).filter(|bytes| *bytes <= MOST_MEMORY);
        let memory = memory.ok_or_else(|| {
            format!(
                "{count} queue pairs with messages of {} bytes need more than {MOST_MEMORY} bytes of memory",
                wanted.size
            )
        })?;
        let domain = Arc::new(Domain::new(&context)?);
        let (region, registered) = match wanted.gpu {
            None => {
                let memory = Mapping::new(memory, wanted.numa_node).map_err(|e| match wanted.numa_node {
                    Some(node) => format!("memory of NUMA node {node}: {e}"),
                    None => format!("memory: {e}"),
                })?;
                (Region::new(&domain, memory, !wanted.ordered)?, None)
            }
            Some(gpu) => {
                let gpus = gpus.ok_or_else(|| format!("no GPU was opened, and the step is of {gpu}'s memory"))?;
                let memory = gpus.memory(gpu, memory).map_err(Trouble::Is)?;
                let (region, how, why) = Region::of_gpu(&domain, memory).map_err(|why| {
                    let why = format!("{NO_GPU_MEMORY} for {}: {why}", wanted.nic);
                    Trouble::Is(Failure::new(FlagKind::NotApplicable, why))
                })?;
                (region, Some((how, why)))
            }
        };
        let region = Arc::new(region);

        let fitting = u32::try_from(MOST_IN_FLIGHT / (stride * count)).unwrap_or(MOST_DEPTH);
        let most = u32::try_from(limits.max_qp_wr).unwrap_or(1).max(1);
        let depth = fitting.clamp(2, MOST_DEPTH).min(most);
        let receives = if wanted.receives { MOST_RECEIVES.min(most) } else { 0 };
        let entries = (depth + receives) * wanted.queue_pairs + depth;
        let completions = Arc::new(Completions::new(&context, entries)?);
        // one with room for no message to receive is refused by some adapters
        let room = (depth, receives.max(1));
        let queue_pairs = (0..count + usize::from(wanted.counts))
            .map(|_| QueuePair::new(&domain, &completions, &region, room, if wanted.ordered { INLINE } else { 0 }))
            .collect::<Result<Vec<_>, _>>()?;

        let random = random();
        let own = Address {
            lid: attributes.lid,
            gid: gid.map(|gid| gid.address),
            mtu: attributes.active_mtu.0.clamp(1, 5),
            first_packet: random as u32 & 0xff_ffff,
            reads: limits.max_qp_rd_atom.clamp(1, MOST_READS) as u8,
            memory: region.address(),
            key: region.remote_key(),
            seed: (random >> 32) as u32,
            queue_pairs: queue_pairs.iter().map(QueuePair::number).collect(),
        };
        Ok(Endpoint {
            in_flight: vec![0; count],
            nic: wanted.nic.to_owned(),
            registered,
            batch: if wanted.size < ALWAYS_REPORTED { (depth / 4).clamp(1, 16) } else { 1 },
            window: depth,
            size: wanted.size,
            counter_in_flight: false,
            peer: None,
            sent: 0,
            arrived: vec![0; count],
            queue_pairs,
            completions,
            region,
            context,
            port,
            gid,
            own,
            count,
            depth,
            receives,
            entries: entries as usize,
        })
    }

    /// Connects every queue pair to the other side's.
    pub(super) fn connect(&mut self, text: &str) -> Result<(), String> {
        let peer = Address::parse(text).ok_or_else(|| format!("'{}' is no address of verbs", shown(text)))?;
        let (own, other) = (self.queue_pairs.len(), peer.queue_pairs.len());
        if own != other {
            return Err(format!("this side has {own} queue pairs, the other one {other}"));
        }
        if self.gid.is_some() != peer.gid.is_some() {
            let name = |gid: bool| if gid { "Ethernet" } else { "InfiniBand" };
            return Err(format!(
                "this port is {}, the other one {}",
                name(self.gid.is_some()),
                name(peer.gid.is_some())
            ));
        }
        for (queue_pair, number) in self.queue_pairs.iter().zip(&peer.queue_pairs) {
            self.connect_one(queue_pair, *number, &peer)?;
        }
        self.peer = Some(peer);
        for index in 0..self.count {
            for _ in 0..self.receives {
                self.post_receive(index)?;
            }
        }
        Ok(())
    }

    /// INIT, ready to receive, ready to send: the states of a connection, as the InfiniBand specification has them.
    fn connect_one(&self, queue_pair: &QueuePair, number: u32, peer: &Address) -> Result<(), String> {
        use ibv_qp_attr_mask as field;
        let access = ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0
            | ibv_access_flags::IBV_ACCESS_REMOTE_READ.0
            | ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0;
        let init = ibv_qp_attr {
            qp_state: ibv_qp_state::IBV_QPS_INIT,
            port_num: self.port,
            qp_access_flags: access,
            ..ibv_qp_attr::default()
        };
        let fields = [field::IBV_QP_PKEY_INDEX, field::IBV_QP_PORT, field::IBV_QP_ACCESS_FLAGS];
        queue_pair.modify("INIT", init, &fields)?;

        let mut path = ibv_ah_attr { dlid: peer.lid, port_num: self.port, ..ibv_ah_attr::default() };
        if let (Some(own), Some(other)) = (self.gid, peer.gid) {
            path.is_global = 1;
            path.grh.dgid.raw = other.octets();
            path.grh.sgid_index = own.index;
            path.grh.hop_limit = 255;
        }
        let receive = ibv_qp_attr {
            qp_state: ibv_qp_state::IBV_QPS_RTR,
            path_mtu: ibv_mtu(self.own.mtu.min(peer.mtu)),
            dest_qp_num: number,
            rq_psn: peer.first_packet,
            max_dest_rd_atomic: self.own.reads,
            min_rnr_timer: PAUSE_WITHOUT_ROOM,
            ah_attr: path,
            ..ibv_qp_attr::default()
        };
        let fields = [
            field::IBV_QP_AV,
            field::IBV_QP_PATH_MTU,
            field::IBV_QP_DEST_QPN,
            field::IBV_QP_RQ_PSN,
            field::IBV_QP_MAX_DEST_RD_ATOMIC,
            field::IBV_QP_MIN_RNR_TIMER,
        ];
        queue_pair.modify("ready to receive", receive, &fields)?;

        let send = ibv_qp_attr {
            qp_state: ibv_qp_state::IBV_QPS_RTS,
            timeout: TIMEOUT,
            retry_cnt: RETRIES,
            rnr_retry: RETRIES_WITHOUT_ROOM,
            sq_psn: self.own.first_packet,
            max_rd_atomic: self.own.reads.min(peer.reads),
            ..ibv_qp_attr::default()
        };
        let fields = [
            field::IBV_QP_TIMEOUT,
            field::IBV_QP_RETRY_CNT,
            field::IBV_QP_RNR_RETRY,
            field::IBV_QP_SQ_PSN,
            field::IBV_QP_MAX_QP_RD_ATOMIC,
        ];
        queue_pair.modify("ready to send", send, &fields)
    }

    pub(super) fn peer(&self) -> Result<&Address, String> {
        self.peer.as_ref().ok_or_else(|| "the sides are not connected".to_owned())
    }

    /// Where the message that a queue pair sends, and the one that it receives, lies in the memory of either side.
    pub(super) fn outgoing(&self, queue_pair: usize) -> usize {
        CONTROL + queue_pair * self.size.next_multiple_of(PAGE)
    }

    pub(super) fn incoming(&self, queue_pair: usize) -> usize {
        self.outgoing(self.count + queue_pair)
    }

    /// What the other side told last: how many messages it has sent, or done with.
    pub(super) fn told(&self) -> u64 {
        self.region.word(TOLD)
    }

    /// Messages that were received, on all queue pairs.
    pub(super) fn received(&self) -> u64 {
        self.arrived.iter().sum()
    }

    /// Messages that were received on one of them.
    pub(super) fn arrived(&self, queue_pair: usize) -> u64 {
        self.arrived.get(queue_pair).copied().unwrap_or(0)
    }

    fn post_receive(&self, index: usize) -> Result<(), String> {
        let Some(queue_pair) = self.queue_pairs.get(index) else { return Ok(()) };
        queue_pair.post_receive(self.incoming(index), self.size as u32, RECEIVED | index as u64)
    }

    /// Posts one message of a queue pair.
    pub(super) fn post(&self, index: usize, kind: Kind, signaled: bool) -> Result<(), String> {
        let Some(queue_pair) = self.queue_pairs.get(index) else { return Ok(()) };
        let Address { memory, key, .. } = *self.peer()?;
        let (offset, work) = match kind {
            Kind::Write => (self.outgoing(index), Work::Write { to: memory + self.incoming(index) as u64, key }),
            Kind::Read => (self.incoming(index), Work::Read { from: memory + self.outgoing(index) as u64, key }),
            Kind::Send => (self.outgoing(index), Work::Send),
        };
        queue_pair.post(work, offset, self.size as u32, index as u64, signaled)
    }

    /// Lets no more messages be under way than two completions stand for.
    pub(super) fn narrow(&mut self) {
        self.window = (2 * self.batch).min(self.depth);
    }

    /// Lets twice as many messages be under way; false where that is what the queues hold.
    pub(super) fn widen(&mut self) -> bool {
        let before = self.window;
        self.window = (2 * before).min(self.depth);
        self.window > before
    }

    /// Messages that are under way on all queue pairs at most.
    pub(super) fn window(&self) -> u64 {
        self.count as u64 * u64::from(self.window)
    }

    /// Posts messages until every queue is full.
    pub(super) fn fill(&mut self, kind: Kind) -> Result<(), String> {
        for index in 0..self.count {
            while self.in_flight.get(index).is_some_and(|n| n + self.batch <= self.window) {
                for i in 1..=self.batch {
                    self.post(index, kind, i == self.batch)?;
                }
                self.in_flight.iter_mut().skip(index).take(1).for_each(|n| *n += self.batch);
            }
        }
        Ok(())
    }

    /// Writes a number of messages to the other side, unless the last such write is still under way: whether it did.
    pub(super) fn tell(&mut self, messages: u64) -> Result<bool, String> {
        let Some(queue_pair) = self.queue_pairs.get(self.count).filter(|_| !self.counter_in_flight) else {
            return Ok(false);
        };
        self.region.set_word(TO_TELL, messages);
        let Address { memory, key, .. } = *self.peer()?;
        queue_pair.post(Work::Write { to: memory + TOLD as u64, key }, TO_TELL, 8, COUNTER, true)?;
        self.counter_in_flight = true;
        Ok(true)
    }

    /// Takes all that has finished into account, and posts room again for what was received. Gives the number of completions:
    /// those that came while this thread was not running count as of one moment.
    pub(super) fn reap(&mut self) -> Result<usize, String> {
        let mut total = 0;
        let mut finished = [ibv_wc::default(); 32];
        // no more than a queue holds, so that an adapter that always has one more does not keep this thread
        while total < self.entries {
            let completions = Arc::clone(&self.completions);
            let finished = completions.poll(&mut finished)?;
            for completion in finished {
                self.account(completion)?;
            }
            total += finished.len();
            if finished.len() < 32 {
                break;
            }
        }
        Ok(total)
    }

    fn account(&mut self, completion: &ibv_wc) -> Result<(), String> {
        if completion.status != ibv_wc_status::IBV_WC_SUCCESS {
            return Err(self.failure(completion));
        }
        match completion.wr_id {
            COUNTER => self.counter_in_flight = false,
            id if id & RECEIVED != 0 => {
                let queue_pair = (id ^ RECEIVED) as usize;
                self.arrived.iter_mut().skip(queue_pair).take(1).for_each(|n| *n += 1);
                self.post_receive(queue_pair)?;
            }
            id => {
                self.sent += u64::from(self.batch);
                self.in_flight.iter_mut().skip(id as usize).take(1).for_each(|n| *n = n.saturating_sub(self.batch));
            }
        }
        Ok(())
    }

    /// Counts a message that was posted by itself, outside of [`Endpoint::fill`].
    pub(super) fn posted_one(&mut self, queue_pair: usize) {
        self.in_flight.iter_mut().skip(queue_pair).take(1).for_each(|n| *n += 1);
    }

    /// Whether no message of a queue pair is under way.
    pub(super) fn is_free(&self, queue_pair: usize) -> bool {
        self.in_flight.get(queue_pair).is_none_or(|n| *n == 0)
    }

    /// Whether there is room for one more message on the first queue pair.
    pub(super) fn has_room(&self) -> bool {
        self.in_flight.first().is_some_and(|n| *n < self.depth)
    }

    /// Every message by itself, each reported: where messages wait for each other.
    pub(super) fn report_each(&mut self) {
        self.batch = 1;
    }

    /// Waits until nothing is under way.
    pub(super) fn drain(&mut self, patience: Duration) -> Result<(), String> {
        let mut last = Instant::now();
        while self.counter_in_flight || self.in_flight.iter().any(|n| *n > 0) {
            if self.reap()? > 0 {
                last = Instant::now();
            } else if last.elapsed() > patience {
                return Err(self.silent(patience));
            }
        }
        Ok(())
    }

    /// A completion with an error, in words.
    fn failure(&self, completion: &ibv_wc) -> String {
        let status = status_words(completion.status);
        let hint = match completion.status {
            ibv_wc_status::IBV_WC_RETRY_EXC_ERR => ": the other side no longer answers, or no packet reaches it",
            ibv_wc_status::IBV_WC_RNR_RETRY_EXC_ERR => ": the other side receives nothing",
            ibv_wc_status::IBV_WC_REM_ACCESS_ERR => ": the other side's adapter refuses access to its memory",
            ibv_wc_status::IBV_WC_WR_FLUSH_ERR => ": the connection broke before",
            _ => "",
        };
        format!("{status}{hint}{}", self.events())
    }

    /// Nothing was reported for this long.
    pub(super) fn silent(&self, patience: Duration) -> String {
        format!("the adapter reported nothing for {:.1} s{}", patience.as_secs_f64(), self.events())
    }

    /// What the adapter reported by itself, for the end of a message.
    fn events(&self) -> String {
        let events = self.context.events();
        if events.is_empty() { String::new() } else { format!(" (the adapter reported: {})", events.join(", ")) }
    }
}

/// How a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Write,
    Read,
    Send,
}

/// A number that is hardly ever the same twice, so that nothing of an earlier step passes for this one's.
fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}
