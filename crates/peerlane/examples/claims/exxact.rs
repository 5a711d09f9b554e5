//! 'Exploring the Complexities of PCIe Connectivity and Peer-to-Peer Communication', Exxact, 2016.

use peerlane::evidence::{Direction, Quantity};
use peerlane::fabric::PathClass;

use super::figures::{Range, System, lanes, number, of, percent, raw};
use super::{Claim, verdict};

const BOTH: Option<Direction> = Some(Direction::Bidirectional);

fn rates(system: &System, class: PathClass) -> (Range, Range) {
    let is = |c| c == class;
    (system.published(Quantity::Bandwidth, BOTH, is), system.predicted(Quantity::Bandwidth, BOTH, is))
}

fn all(system: &System) -> Range {
    system.published(Quantity::Bandwidth, BOTH, |c| c != PathClass::Same)
}

fn latency(system: &System, class: impl Fn(PathClass) -> bool) -> Range {
    system.published(Quantity::Latency, None, class)
}

fn direct(system: &System) -> String {
    let reach = system.design.reach.unwrap();
    format!("{} of {} ordered pairs go directly", reach.direct, reach.of)
}

fn everyone(system: &System) -> bool {
    system.design.reach.is_some_and(|r| r.direct == r.of)
}

pub(crate) fn claims() -> Vec<Claim> {
    let [traditional, devbox, txr430, txr550, txr414, twenty] =
        ["exxact-traditional", "exxact-devbox", "exxact-txr430", "exxact-txr550", "exxact-txr414", "exxact-txr414-20"]
            .map(of);
    let limit = 2.0 * raw("3.0 x16");
    let (phb, phb_model) = rates(&traditional, PathClass::Phb);
    let (sys, sys_model) = rates(&traditional, PathClass::Sys);
    let (box_pix, box_pix_model) = rates(&devbox, PathClass::Pix);
    let (box_phb, box_phb_model) = rates(&devbox, PathClass::Phb);
    let (old_far, old_near) =
        (latency(&traditional, |c| c == PathClass::Sys), latency(&traditional, |c| c == PathClass::Phb));
    let box_latency = latency(&devbox, |c| c != PathClass::Same);
    let (bank_pix, bank_pix_model) = rates(&txr430, PathClass::Pix);
    let (bank_phb, bank_phb_model) = rates(&txr430, PathClass::Phb);
    let (full_pix, full_pix_model) = rates(&txr550, PathClass::Pix);
    let (full_phb, full_phb_model) = rates(&txr550, PathClass::Phb);
    let flat = all(&txr414);
    let flat_model = txr414.predicted(Quantity::Bandwidth, BOTH, |c| c != PathClass::Same);
    let per_socket = lanes("xeon-e5-v3") / 16;
    let cut = |s: &System| s.design.bisection.clone().unwrap();
    let box_all = devbox.design.all_to_all.clone().unwrap();
    let share = cut(&txr550).figure.rate / 2.0 / 4.0;
    let (units, tflops) = (twenty.machine.facts.rack_units.unwrap(), twenty.machine.facts.tflops.unwrap());
    let through_root = |s: &System| {
        let gpus: Vec<_> = s.machine.fabric.of_kind(peerlane::fabric::NodeKind::Gpu).collect();
        let classes = gpus.iter().flat_map(|a| gpus.iter().filter_map(|b| s.machine.fabric.class(*a, *b)));
        classes.filter(|c| !matches!(c, PathClass::Same | PathClass::Pix | PathClass::Pxb)).count()
    };
    let claim = |says, stated: String, predicted: String, verdict: String| Claim { says, stated, predicted, verdict };
    vec![
        claim(
            "E5-26xx v3 processors are limited to 40 channels",
            format!("{} lanes (data sheet)", lanes("xeon-e5-v3")),
            String::new(),
            verdict(lanes("xeon-e5-v3") == 40, || format!("{}", lanes("xeon-e5-v3"))),
        ),
        claim(
            "so 2 GPUs a socket and 4 in two sockets at full x16",
            format!("{} and {}", per_socket, 2 * per_socket),
            String::new(),
            verdict(per_socket == 2, || format!("{per_socket} a socket")),
        ),
        claim(
            "traditional server: about 12 GB/s across QPI, 19 below one host bridge",
            format!("{} (median {}) and {}", sys.said(), number(sys.median()), phb.said()),
            format!("{} and {}", sys_model.said(), phb_model.said()),
            verdict((sys.median() - 12.0).abs() < 0.5 && phb.within(18.5, 19.5), || "see the numbers".to_owned()),
        ),
        claim(
            "the most that x16 of PCIe 3.0 can do is 32 GB/s",
            format!("{} both ways after the line code", number(limit)),
            format!("{} after packet headers, too", number(box_pix_model.high())),
            verdict((limit - 32.0).abs() < 0.25, || {
                format!("{}; no copy can pass {}", number(limit), number(box_pix_model.high()))
            }),
        ),
        claim(
            "peer-to-peer through the host bridge is substantially less than that",
            format!("{} of it", percent(phb.median() / limit)),
            format!("{} of it: 64-byte packets", percent(phb_model.median() / limit)),
            verdict(phb.high() < 0.75 * limit, || percent(phb.high() / limit)),
        ),
        claim(
            "latency across QPI is substantially higher than by peer-to-peer",
            format!(
                "{} against {} us: {} times by medians",
                old_far.said(),
                old_near.said(),
                number(old_far.median() / old_near.median())
            ),
            String::new(),
            verdict(old_far.low() > 1.5 * old_near.high(), || "they overlap".to_owned()),
        ),
        claim(
            "PLX switches have 48, 80 and 96 channels",
            format!("{}, {} and {} (product briefs)", lanes("pex8747"), lanes("pex8780"), lanes("pex8796")),
            String::new(),
            verdict([lanes("pex8747"), lanes("pex8780"), lanes("pex8796")] == [48, 80, 96], || {
                "see the briefs".to_owned()
            }),
        ),
        claim(
            "dev box: 4 GPUs at x16 at one socket, peer-to-peer among all",
            format!(
                "{} lanes of GPUs, {} of {} of the CPU",
                devbox.design.lanes.gpus,
                devbox.design.lanes.cpus_used.unwrap(),
                devbox.design.lanes.cpus.unwrap()
            ),
            direct(&devbox),
            verdict(everyone(&devbox) && devbox.design.lanes.gpus == 64, || direct(&devbox)),
        ),
        claim(
            "dev box: 8999 US$",
            format!("{} US$ a GPU", number(devbox.machine.facts.price_usd.unwrap() / 4.0)),
            format!(
                "{} GB/s of all-to-all for 1000 US$",
                number(box_all.equal.rate / devbox.machine.facts.price_usd.unwrap() * 1000.0)
            ),
            verdict(devbox.machine.facts.price_usd == Some(8999.0), || "another price".to_owned()),
        ),
        claim(
            "dev box: an x16 bottleneck and the host bridge between its two banks",
            format!("pairs across: {}", box_phb.said()),
            format!(
                "bisection {}: {} against {}",
                number(cut(&devbox).figure.rate),
                cut(&devbox).one.join(" "),
                cut(&devbox).other.join(" ")
            ),
            verdict((cut(&devbox).figure.rate / box_phb_model.median() - 1.0).abs() < 0.01, || {
                "the worst split is another".to_owned()
            }),
        ),
        claim(
            "dev box: pairs of one switch get much closer to 32 GB/s",
            format!("{}, {} of {}", box_pix.said(), percent(box_pix.median() / limit), number(limit)),
            box_pix_model.said(),
            verdict(box_pix.low() > 1.25 * phb.high(), || percent(box_pix.median() / limit)),
        ),
        claim(
            "dev box: all-to-all has to share the single x16 between the banks",
            "not measured".to_owned(),
            format!(
                "{} GB/s with equal messages, where {} flow at first; bound by {}",
                number(box_all.equal.rate),
                number(box_all.together.sum.rate),
                box_all.equal.bottleneck
            ),
            verdict(box_all.equal.rate < 0.8 * box_all.together.sum.rate, || "it does not bind".to_owned()),
        ),
        claim(
            "dev box: latency at most 6.31 us, against 16.86",
            format!(
                "{} against {}: {} times",
                number(box_latency.high()),
                number(old_far.high()),
                number(old_far.high() / box_latency.high())
            ),
            String::new(),
            verdict(box_latency.high() == 6.31 && old_far.high() == 16.86, || "see the tables".to_owned()),
        ),
        claim(
            "TXR430: two dev boxes in one node, each bank like one",
            format!("{} and {}, dev box {} and {}", bank_pix.said(), bank_phb.said(), box_pix.said(), box_phb.said()),
            format!("{} and {}", bank_pix_model.said(), bank_phb_model.said()),
            verdict(bank_pix.median() / box_pix.median() > 0.95 && bank_phb.median() / box_phb.median() > 0.95, || {
                format!(
                    "{} and {} of it",
                    percent(bank_pix.median() / box_pix.median()),
                    percent(bank_phb.median() / box_phb.median())
                )
            }),
        ),
        claim(
            "TXR430: no peer-to-peer between the banks of 4",
            format!("{} between them", rates(&txr430, PathClass::Sys).0.said()),
            format!("{}; {} between the banks", direct(&txr430), rates(&txr430, PathClass::Sys).1.said()),
            verdict(txr430.design.reach.unwrap().direct == 24, || direct(&txr430)),
        ),
        claim(
            "TXR430: can come out cheaper than two dev boxes",
            format!(
                "two cost {} US$; its own price is not given",
                number(2.0 * devbox.machine.facts.price_usd.unwrap())
            ),
            String::new(),
            "cannot be told".to_owned(),
        ),
        claim(
            "TXR550: the first with peer-to-peer across 8 GPUs",
            String::new(),
            direct(&txr550),
            verdict(everyone(&txr550), || direct(&txr550)),
        ),
        claim(
            "TXR550: 4 GPUs of a switch share one x16 to the other bank",
            "not measured".to_owned(),
            format!(
                "bisection {} both ways: {} one way for each of four",
                number(cut(&txr550).figure.rate),
                number(share)
            ),
            verdict(cut(&txr550).one.len() == 4 && share < 0.2 * full_pix_model.median(), || "they do not".to_owned()),
        ),
        claim(
            "TXR550: close to the maximum within a bank, cut considerably between",
            format!("{} against {}", full_pix.said(), full_phb.said()),
            format!("{} against {}", full_pix_model.said(), full_phb_model.said()),
            verdict(full_phb.high() < 0.7 * full_pix.low(), || percent(full_phb.high() / full_pix.low())),
        ),
        claim(
            "TXR550: latency is affected in a similar way",
            "no latencies are given".to_owned(),
            String::new(),
            "cannot be told".to_owned(),
        ),
        claim(
            "TXR414: peer-to-peer across up to 20 GPUs",
            String::new(),
            direct(&twenty),
            verdict(everyone(&twenty), || direct(&twenty)),
        ),
        claim(
            "TXR414: no copy between GPUs is slowed by the host bridge",
            String::new(),
            format!(
                "{} of its pairs pass a root complex, of the 20-GPU version's {}",
                through_root(&txr414),
                through_root(&twenty)
            ),
            verdict(through_root(&txr414) + through_root(&twenty) == 0, || "some pass it".to_owned()),
        ),
        claim(
            "TXR414: close to the maximum and highly consistent",
            format!(
                "{}: a spread of {}, {} of {}",
                flat.said(),
                format_args!("{:.1} %", (flat.high() / flat.low() - 1.0) * 100.0),
                percent(flat.median() / limit),
                number(limit)
            ),
            format!(
                "{}; but all at once {} for each GPU of the ten, of the twenty {}",
                flat_model.said(),
                number(txr414.design.all_to_all.as_ref().unwrap().equal.rate / 10.0),
                number(twenty.design.all_to_all.as_ref().unwrap().equal.rate / 20.0)
            ),
            verdict(flat.high() / flat.low() < 1.01 && flat.low() > 0.75 * limit, || percent(flat.low() / limit)),
        ),
        claim(
            "TXR414: 140 TFLOP/s in 4U, 1.4 PFLOP/s in a rack",
            format!(
                "{} a rack unit, {} in the {} that 42U hold",
                number(tflops / units),
                number(tflops * (42.0 / units).floor()),
                (42.0 / units).floor()
            ),
            String::new(),
            verdict(tflops * (42.0 / units).floor() == 1400.0, || number(tflops * (42.0 / units).floor())),
        ),
    ]
}
