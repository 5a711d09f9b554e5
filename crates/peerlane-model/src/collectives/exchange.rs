//! Sends and receives in one kernel, of which NCCL and RCCL make an all-to-all: what they take beside the bytes on their paths.

use super::tuner::{EXCHANGED_BETWEEN, Factors, Job, NETWORK_STEP, Ranks, US};
use super::{Algorithm, Protocol};

/// Microseconds that the host takes to enqueue a send and a receive beside the launch: two and four H200 by one process, which
/// enqueues those of all pairs, take 18 and 42 for an all-to-all of a few bytes (`captures/h200x2-vm-collectives`,
/// `captures/h200x4-vm-parts`).
const ENQUEUE: f64 = 1.2;

/// Bytes of a chunk over NVLink and otherwise (`NCCL_P2P_NVL_CHUNKSIZE`; `NCCL_P2P_PCI_CHUNKSIZE`, `NCCL_P2P_NET_CHUNKSIZE`), and
/// the channels that have one on its way before its end arrives: the same runs from 8 to 256 MiB.
const CHUNK: [f64; 2] = [524_288.0, 131_072.0];
const CHANNELS: f64 = 8.0;

impl Job {
    /// Seconds of an all-to-all in which each GPU sends `sent` bytes, which alone would move in `moving` seconds. `start`: of
    /// the usual time of kernel and launch.
    pub fn exchange(&self, sent: f64, moving: f64, start: f64) -> f64 {
        let simple = Protocol::Simple;
        let within = self.base(simple) + self.step(Algorithm::Ring, simple);
        let (kernel, network) = match self.nodes {
            1 => (within, 0.0),
            _ => (within + NETWORK_STEP[0][simple as usize], self.network),
        };
        (start * kernel * US + network + moving * self.exchange_slower(sent)).max(start * self.enqueued())
    }

    /// How many times as long the bytes of an exchange move as they would by themselves: the first chunks fill the pipeline, and
    /// between nodes less is reached.
    pub fn exchange_slower(&self, sent: f64) -> f64 {
        let chunk = CHUNK[usize::from(self.nodes > 1 || !self.is_fabric())];
        let reached = if self.nodes > 1 { EXCHANGED_BETWEEN } else { 1.0 };
        (1.0 + if sent > 0.0 { (chunk * CHANNELS / sent).min(1.0) } else { 0.0 }) / reached
    }

    /// Seconds that the host takes to enqueue the sends and receives of all peers, and to launch.
    fn enqueued(&self) -> f64 {
        let ranks = self.ranks as f64;
        let pairs = match self.run {
            Ranks::ProcessEach => ranks,
            Ranks::OneProcess => ranks * ranks / self.nodes as f64,
            Ranks::Graph => 0.0,
        };
        self.launch(Factors::ONE) + ENQUEUE * US * pairs
    }
}

#[cfg(test)]
mod tests {
    use super::super::tuner::{Generation, Medium};
    use super::*;
    use peerlane_machine::transfer::Collective;

    const JOB: Job = Job {
        collective: Collective::AllToAll,
        ranks: 2,
        nodes: 1,
        generation: Generation::Hopper,
        medium: Medium::Fabric,
        run: Ranks::OneProcess,
        network: 0.0,
        on_amd: false,
    };

    /// Microseconds of so many GPUs, each sending at 340 GB/s, by MiB of what each has (`alltoall_perf` in the captures above).
    #[test]
    fn two_and_four_h200_are_met_within_thirty_percent() {
        const MEASURED: [(usize, f64, f64); 10] = [
            (2, 0.001, 19.0),
            (2, 1.0, 24.2),
            (2, 16.0, 55.6),
            (2, 64.0, 137.6),
            (2, 1024.0, 1616.8),
            (4, 0.001, 44.2),
            (4, 1.0, 56.8),
            (4, 16.0, 66.7),
            (4, 64.0, 196.3),
            (4, 1024.0, 2384.6),
        ];
        for (ranks, mib, measured) in MEASURED {
            let sent = mib * 1_048_576.0 * (1.0 - 1.0 / ranks as f64);
            let predicted = Job { ranks, ..JOB }.exchange(sent, sent / 340e9, 1.0) / US;
            let ratio = predicted / measured;
            assert!((0.7..1.3).contains(&ratio), "{ranks} GPUs, {mib} MiB: {predicted:.1} of {measured} us");
        }
    }

    #[test]
    fn peers_and_networks_take_time_and_bytes_never_less() {
        let many =
            |ranks: usize, nodes: usize| Job { ranks, nodes, run: Ranks::ProcessEach, ..JOB }.exchange(1e3, 1e-8, 1.0);
        assert!(many(16, 2) > many(8, 1) && many(65_536, 8_192) > 3.9 * many(16_384, 2_048));
        let of = |sent: f64| JOB.exchange(sent, sent / 340e9, 1.0);
        let sizes = (0..32).map(|log| f64::from(1_u32 << log));
        assert!(sizes.clone().zip(sizes.skip(1)).all(|(less, more)| of(less) <= of(more) && of(more) > more / 340e9));
        assert!(of(0.0).is_finite());
    }
}
