//! How real machines differ from the model, so that tests of judgement are no tests of the model
//! against itself.

use super::contends;
use crate::plan::Step;
use peerlane_machine::fabric::Fabric;
use peerlane_machine::names::is_host;
use peerlane_machine::random::Random;
use peerlane_machine::transfer::{Transfer, Via};

/// By how much a simulated machine differs from its model although nothing is wrong with it. Shares of a rate or a time;
/// each difference stays the same for one seed, as it would on one machine.
///
/// None of them is a fault: tables of machines without any show as much ([`Effects::REAL`] gives each one's source).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effects {
    /// Standard deviation of an ordered pair's own rate.
    pub pair: f64,
    /// Standard deviation of a whole kind of transfer: of one path class, engine, operation and way.
    pub kind: f64,
    /// Standard deviation of a pair's rate where data goes through host memory.
    pub staged: f64,
    /// The most that is lost where both directions run at once.
    pub both_ways: f64,
    /// The most that is lost where transfers share a memory.
    pub contended: f64,
    /// Standard deviation of a pair's latency.
    pub latency: f64,
    /// Standard deviation of everything that one run measures.
    pub run: f64,
}

impl Effects {
    /// As published tables and recorded runs of sound machines show them: pairs of one class and alike in their parts
    /// differ by 1 to 2 %; a kind of transfer as a whole is off its prediction by 2 to 3 % (`validation/accuracy.md`);
    /// staged copies of alike pairs spread far more; both ways at once, 2 to 4 % less than the model has; transfers that
    /// share a memory up to a tenth less (four H200); small copies differ by 3 to 5 % from pair to pair; and two runs
    /// of one H200 machine by half a percent.
    pub const REAL: Effects =
        Effects { pair: 0.015, kind: 0.025, staged: 0.06, both_ways: 0.04, contended: 0.10, latency: 0.04, run: 0.005 };

    /// By how much one machine differs from another of its design. Three virtual machines with H200 (`captures/`, on three
    /// days) differ by 0.1 to 0.7 % in each kind of transfer, pairs of one machine by 0.01 to 0.3 %; staged copies by 0.8 %
    /// and 0.3 %. Here each is as much as the most of these, and local contention and latencies a fifth and half of
    /// [`Effects::REAL`].
    pub const MACHINE: Effects =
        Effects { pair: 0.003, kind: 0.007, staged: 0.01, both_ways: 0.0, contended: 0.02, latency: 0.02, run: 0.0 };

    /// By how much one day's run differs from the next of the same machine.
    pub const DAY: Effects =
        Effects { pair: 0.001, kind: 0.002, staged: 0.003, both_ways: 0.0, contended: 0.01, latency: 0.01, run: 0.005 };

    /// The factors on the values of a step: one for each, those of rates below 1 where they are slower, those of times
    /// above 1.
    pub(super) fn factors(&self, seed: u64, step: &Step, fabric: &Fabric, values: usize, rates: bool) -> Vec<f64> {
        let draw = |deviation: f64, of: &str| (deviation * Random::new(seed, of).normal()).exp();
        let run = draw(self.run, "this run");
        let transfers = step.work.transfers();
        let of = |i: usize| {
            let Some(transfer) = transfers.get(i) else { return draw(self.latency, &format!("{:?}", step.work)) };
            let pair = format!("{} {} {:?} {:?}", transfer.source, transfer.destination, transfer.engine, transfer.via);
            let kind =
                format!("kind {} {:?} {:?} {:?}", class(fabric, transfer), transfer.engine, transfer.op, transfer.via);
            if !rates {
                return draw(self.latency, &pair) * draw(self.kind, &kind);
            }
            let own = if transfer.via == Via::Direct { self.pair } else { self.staged };
            let lost = match transfers {
                [_] => 0.0,
                many if contends(many) => self.contended,
                _ => self.both_ways,
            };
            let share = Random::new(seed, &format!("lost {pair} {}", transfers.len())).uniform();
            draw(own, &pair) * draw(self.kind, &kind) * (1.0 - lost * share)
        };
        // the first value of a small copy is its time, the second what enqueueing it takes
        (0..values).map(|i| run * of(if rates { i } else { 0 })).collect()
    }
}

/// The class of a transfer's path, in words.
fn class(fabric: &Fabric, transfer: &Transfer) -> String {
    let (a, b) = (&transfer.source, &transfer.destination);
    if is_host(a) || is_host(b) {
        return if is_host(a) { "from host".to_owned() } else { "to host".to_owned() };
    }
    let class = fabric.find(a).zip(fabric.find(b)).and_then(|(a, b)| fabric.class(a, b));
    class.map_or_else(String::new, |class| class.to_string())
}
