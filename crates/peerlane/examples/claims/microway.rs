//! 'Comparing NVLink vs PCI-E with NVIDIA Tesla P100 GPUs on OpenPOWER Servers', Microway.

use peerlane::evidence::{Direction, Quantity};
use peerlane::fabric::PathClass;

use super::figures::{Range, System, constant, number, of};
use super::{Claim, verdict};

const ONE: Option<Direction> = Some(Direction::Unidirectional);

fn near(class: PathClass) -> bool {
    !matches!(class, PathClass::Same | PathClass::Sys)
}

fn far(class: PathClass) -> bool {
    class == PathClass::Sys
}

/// Cells of one matrix over those of the other, place by place.
fn ratios(a: &System, b: &System, of: impl Fn(usize, usize) -> bool) -> Range {
    let (x, y) = (a.matrix(Quantity::Bandwidth, ONE), b.matrix(Quantity::Bandwidth, ONE));
    let cells = (0..4).flat_map(|i| (0..4).map(move |j| (i, j))).filter(|(i, j)| i != j && of(*i, *j));
    Range::of(cells.map(|(i, j)| x.value(i, j).unwrap() / y.value(i, j).unwrap()).collect())
}

pub(crate) fn claims() -> Vec<Claim> {
    let (power, x86) = (of("microway-s822lc"), of("microway-p100-pcie"));
    let rate = |s: &System, class: fn(PathClass) -> bool| {
        (s.published(Quantity::Bandwidth, ONE, class), s.predicted(Quantity::Bandwidth, ONE, class))
    };
    let ((pair, pair_model), (cross, cross_model)) = (rate(&power, near), rate(&power, far));
    let ((pcie, pcie_model), (staged, staged_model)) = (rate(&x86, near), rate(&x86, far));
    let time = |s: &System, class: fn(PathClass) -> bool| s.published(Quantity::Latency, None, class);
    let (fast, slow) = (time(&power, near), time(&power, far));
    let all = Range::of(vec![fast.low(), slow.high()]);
    let brick = constant("tesla-p100-sxm2", "nvlink_brick_rate");
    let by_cell = ratios(&power, &x86, |_, _| true);
    let medians = [cross.median() / staged.median(), pair.median() / pcie.median()];
    let model = [cross_model.median() / staged_model.median(), pair_model.median() / pcie_model.median()];
    let host = |from| (power.host_rate(from, 0), x86.host_rate(from, 0));
    let ((down, down_x86), (up, up_x86)) = (host(true), host(false));
    let alone = |s: &System, from: bool| {
        let alone = if from { &s.design.from_host } else { &s.design.to_host };
        alone.as_ref().unwrap().worst.rate
    };
    let claim = |says, stated: String, predicted: String, verdict: String| Claim { says, stated, predicted, verdict };
    vec![
        claim(
            "P100's NVLink: 80 GB/s, 160 both ways",
            format!("4 bricks of {}: {} and {} (data sheet)", number(brick), number(4.0 * brick), number(8.0 * brick)),
            String::new(),
            verdict(4.0 * brick == 80.0, || number(4.0 * brick)),
        ),
        claim(
            "a link of 40 GB/s provides about 35 in practice",
            format!("{} GB/s", pair.said()),
            format!("{} GB/s", pair_model.said()),
            verdict(pair.within(34.5, 35.5), || pair.said()),
        ),
        claim(
            "to GPUs of the other CPU about 20 GB/s",
            format!("{} GB/s", cross.said()),
            format!("{} GB/s", cross_model.said()),
            verdict((cross.median() - 20.0).abs() < 1.0, || cross.said()),
        ),
        claim(
            "latency between GPUs is 8 to 16 us",
            format!("{} us within a pair, {} across", fast.said(), slow.said()),
            String::new(),
            verdict(all.within(7.5, 16.5), || all.said()),
        ),
        claim(
            "latencies are about the same over PCIe, larger to GPUs of other CPUs",
            format!(
                "PCIe {} and {} us; across {} longer",
                time(&x86, near).said(),
                time(&x86, far).said(),
                super::figures::percent(time(&x86, far).median() / slow.median() - 1.0)
            ),
            String::new(),
            verdict(
                (time(&x86, near).median() / fast.median() - 1.0).abs() < 0.05 && time(&x86, far).low() > slow.high(),
                || "see the numbers".to_owned(),
            ),
        ),
        claim(
            "NVLink is two to three times faster than PCIe between GPUs",
            format!(
                "medians {} (across sockets) and {} (within a pair) times; place by place {}",
                number(medians[0]),
                number(medians[1]),
                by_cell.said()
            ),
            format!("{} and {} times", number(model[0]), number(model[1])),
            verdict(by_cell.within(2.0, 3.0), || {
                format!(
                    "{:.1} to {:.1} by medians, {:.1} to {:.1} place by place",
                    medians[0],
                    medians[1],
                    by_cell.low(),
                    by_cell.high()
                )
            }),
        ),
        claim(
            "host to device 33236.9 MB/s over NVLink, 11658.4 over PCIe",
            format!("in MiB/s: {} and {} GB/s", number(down), number(down_x86)),
            format!("{} and {} GB/s", number(alone(&power, true)), number(alone(&x86, true))),
            verdict((down - 33.2369).abs() < 0.01, || {
                format!("the tool's MB/s are MiB/s, so {} and {} GB/s", number(down), number(down_x86))
            }),
        ),
        claim(
            "device to host 32322.6 MB/s over NVLink, 12882.0 over PCIe",
            format!("in MiB/s: {} and {} GB/s", number(up), number(up_x86)),
            format!("{} and {} GB/s", number(alone(&power, false)), number(alone(&x86, false))),
            verdict((up - 32.3226).abs() < 0.01, || {
                format!("the tool's MB/s are MiB/s, so {} and {} GB/s", number(up), number(up_x86))
            }),
        ),
        claim(
            "a 3X speedup between host and device",
            format!("{} from the host, {} to it", number(down / down_x86), number(up / up_x86)),
            format!(
                "{} and {}",
                number(alone(&power, true) / alone(&x86, true)),
                number(alone(&power, false) / alone(&x86, false))
            ),
            verdict((down / down_x86).min(up / up_x86) >= 2.95, || {
                format!("{:.1} and {:.1}", down / down_x86, up / up_x86)
            }),
        ),
        claim(
            "x86 feeds its GPUs with less throughput",
            "one GPU at a time".to_owned(),
            format!(
                "all four at once: {} against {} GB/s",
                number(x86.design.host_feed.as_ref().unwrap().sum.rate),
                number(power.design.host_feed.as_ref().unwrap().sum.rate)
            ),
            verdict(
                x86.design.host_feed.as_ref().unwrap().sum.rate < power.design.host_feed.as_ref().unwrap().sum.rate,
                || "it does not".to_owned(),
            ),
        ),
    ]
}
