//! The log of `NCCL_DEBUG=INFO`, and the table of nccl-tests' `all_reduce_perf`, of one host.

use std::fmt::Write;

use super::site::{Site, short};

/// Channels of a ring that the log lists.
const CHANNELS: usize = 2;

/// Sizes of messages in bytes, and the one at which half of the bandwidth is reached.
const SIZES: [u64; 6] = [1 << 20, 1 << 22, 1 << 24, 1 << 26, 1 << 28, 1 << 30];
const HALF: f64 = 4e6;

/// What `srun -l` puts before each line of its only task.
pub(super) const OF_SRUN: &str = "0: ";

/// The log of all ranks, in the wording of NCCL 2.27.
pub(super) fn log(site: &Site) -> String {
    let mut text = "NCCL version 2.27.3+cuda12.9\n".to_owned();
    let ranks = site.gpus.len();
    let mut say = |rank: usize, words: &str| {
        // String takes all that is written
        let _ = writeln!(text, "{}:2204:{} [{rank}] NCCL INFO {words}", site.host, 2260 + rank);
    };
    for (name, value) in &site.variables {
        say(0, &format!("{name} set by environment to {value}."));
    }
    let used: Vec<&str> = site.nics.iter().filter(|nic| nic.up && !nic.ethernet).map(|nic| nic.name.as_str()).collect();
    if used.is_empty() {
        say(0, "NET/IB : No device found.");
        say(0, "NET/Socket : Using [0]eno1:10.1.0.7<0>");
        say(0, "Using network Socket");
    } else {
        let list: Vec<String> = used.iter().zip(0..).map(|(name, n)| format!("[{n}]{name}:1/IB")).collect();
        say(0, &format!("NET/IB : Using {} [RO]; OOB eno1:10.1.0.7<0>", list.join(" ")));
        say(0, "Using network IB");
        let state = if site.direct_rdma { "Enabled" } else { "Disabled" };
        for (name, n) in used.iter().zip(0..) {
            say(0, &format!("NET/IB : GPU Direct RDMA {state} for HCA {n} '{name}'"));
        }
    }
    for (rank, gpu) in site.gpus.iter().enumerate() {
        let bus = short(gpu.address).replace(':', "");
        let bus = bus.trim_start_matches('0');
        say(
            rank,
            &format!(
                "ncclCommInitRank comm 0x55d0c8 rank {rank} nranks {ranks} cudaDev {rank} nvmlDev {rank} busId {bus}0 commId \
                 0x9d1f - Init START"
            ),
        );
    }
    let off = site.variables.contains(&("NCCL_P2P_DISABLE", "1"));
    for channel in 0..CHANNELS {
        for rank in 0..ranks {
            let next = (rank + 1) % ranks;
            let via = if site.is_near(rank, next) && !off { "P2P/CUMEM" } else { "SHM/direct/direct" };
            say(rank, &format!("Channel {channel:02}/0 : {rank}[{rank}] -> {next}[{next}] via {via}"));
        }
    }
    for warning in &site.warnings {
        let _ = writeln!(text, "\n{}:2204:2260 [0] {warning}", site.host);
    }
    text
}

/// The table of one process with all GPUs; empty where no rate is known.
pub(super) fn all_reduce(site: &Site) -> String {
    let Some((rate, _)) = site.all_reduce else { return String::new() };
    let ranks = site.gpus.len();
    let mut text = format!(
        "# nThread 1 nGpus {ranks} minBytes 1048576 maxBytes 1073741824 step: 4(factor) warmup iters: 5 iters: 20 agg iters: 1 \
         validation: 1 graph: 0\n#\n# Using devices\n"
    );
    for (rank, gpu) in site.gpus.iter().enumerate() {
        // String takes all that is written
        let _ = writeln!(
            text,
            "#  Rank {rank:2} Group  0 Pid   2204 on {:>10} device {rank:2} [{}] {}",
            site.host,
            short(gpu.address),
            gpu.product
        );
    }
    text.push_str(
        "#\n#                                                              out-of-place                       in-place          \n\
         #       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong\n\
         #        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)       \n",
    );
    // powers of two
    let exact = |size: u64| size as f64;
    let factor = 2.0 * (ranks.saturating_sub(1)) as f64 / ranks.max(1) as f64;
    for size in SIZES {
        let bus = rate * exact(size) / (exact(size) + HALF);
        let alone = bus / factor;
        let time = exact(size) / alone / 1e3;
        let wrong = if SIZES.last() == Some(&size) { site.wrong } else { 0 };
        let half = format!("{time:8.2} {alone:7.2} {bus:7.2} {wrong:7}");
        let _ = writeln!(text, "{size:12} {:13}     float     sum      -1 {half} {half}", size / 4);
    }
    let verdict = if site.wrong > 0 { format!("{} FAILED", site.wrong) } else { "0 OK".to_owned() };
    let _ = writeln!(text, "# Out of bounds values : {verdict}\n# Avg bus bandwidth    : {rate:.4}\n#");
    text
}
