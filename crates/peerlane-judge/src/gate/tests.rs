use super::*;
use crate::check::raised::Raised;
use crate::finding::{Certainty, FindingKind, Severity};
use peerlane_machine::fault::{Fault, Planted};
use peerlane_machine::subject;
use peerlane_machine::units::Seconds;
use peerlane_measure::run::Subject;
use peerlane_measure::simulated_machine::Effects;
use peerlane_read::catalogue;

fn examined(system: &str, faults: Vec<Fault>, seed: u64) -> Examined<String> {
    let text = catalogue::system_text(system).unwrap();
    let design = catalogue::read_system(text, system).unwrap();
    let effects = [(seed, Effects::REAL)];
    let subject = Subject::of_system(system, system, text);
    simulate(&design, (&design, subject), &Planted { noise: 0.02, seed, faults }, &effects, Seconds::new(20.0))
}

#[test]
fn a_sound_machine_is_ok_and_all_is_measured() {
    let sound = examined("hgx-h200", Vec::new(), 1);
    assert_eq!(sound.conclusion.line("8 GPUs"), "ok: 8 GPUs", "{:#?}", sound.conclusion.findings);
    assert_eq!(sound.measured(), sound.planned);
    assert!(sound.run.complete);
}

#[test]
fn the_first_wave_touches_every_gpu_both_ways() {
    for system in ["hgx-h200", "h200x4-vm", "exxact-devbox"] {
        let machine = catalogue::system(system).unwrap().unwrap();
        let waves = waves(&machine);
        let gpus = machine.fabric.of_kind(peerlane_machine::fabric::NodeKind::Gpu).count();
        let transfers = waves[0].rounds.iter().flatten().filter_map(|step| match &step.work {
            peerlane_measure::plan::Work::Transfers(transfers) => transfers.first(),
            _ => None,
        });
        let of_peers: Vec<_> = transfers.filter(|t| t.gpus().count() == 2).collect();
        for at in 0..gpus {
            let name = format!("GPU{at}");
            assert!(of_peers.iter().any(|t| t.source == name), "{system}: {name} sends");
            assert!(of_peers.iter().any(|t| t.destination == name), "{system}: {name} receives");
        }
        let pairs = gpus * (gpus - 1);
        assert!(of_peers.len() <= (2 * gpus).min(pairs), "{system}: {} of {pairs}", of_peers.len());
    }
}

#[test]
fn a_planted_fault_is_isolated_after_two_measurements() {
    let throttled = examined("hgx-h200", vec![Fault::Throttle { gpu: "GPU3".to_owned(), factor: 0.5 }], 2);
    assert_eq!(throttled.conclusion.outcome, Gate::Isolate);
    let line = throttled.conclusion.line("");
    assert!(line.starts_with("isolate GPU3: ") && line.chars().count() <= MOST_CHARACTERS, "{line}");
    assert!(throttled.repeated > 0);
}

#[test]
fn errors_that_rise_under_load_are_in_the_verdict_with_an_action() {
    use peerlane_machine::counter::ErrorCounter as C;
    for (counter, per_gb, starts, outcome) in [
        (C::NvlinkReplay, 50.0, "hold GPU3: NVLinks of GPU3 had errors under load", Gate::Hold),
        (C::NvlinkRecovery, 5.0, "hold GPU3: ", Gate::Hold),
        (C::NvlinkCrc, 5000.0, "hold GPU3: ", Gate::Hold),
        (C::PcieReplay, 50.0, "hold GPU3: ", Gate::Hold),
        (C::AerNonfatal, 5.0, "hold GPU3: ", Gate::Hold),
        (C::EccUncorrected, 1.0, "reset GPU3: ", Gate::Isolate),
    ] {
        let gated = examined("hgx-h200", vec![Fault::Errors { gpu: "GPU3".to_owned(), counter, per_gb }], 1);
        let line = gated.conclusion.line("");
        assert!(line.starts_with(starts) && gated.conclusion.outcome == outcome, "{counter}: {line}");
        assert!(gated.conclusion.findings.iter().all(|one| one.finding.measured.contains("GPU3")), "{line}");
        let [counted] = gated.run.counters.as_slice() else { panic!("{:?}", gated.run.counters) };
        assert_eq!(counted.steps.len(), gated.measured());
        assert!(gated.run.wall.seconds() > 0.0);
    }
}

#[test]
fn lines_are_short_and_name_the_place_once() {
    let raised = Raised::new("narrow-link", FindingKind::Fault, Severity::Warning, Certainty::Likely)
        .summary("GPU1 runs at PCIe 3.0 x8, but both ends allow x16")
        .about(vec![subject::Subject::Node("GPU1".to_owned())]);
    let fault = Conclusion::of(Verdict::Fault, &[raised.finding], None);
    assert_eq!(fault.line(""), "isolate GPU1: runs at PCIe 3.0 x8, but both ends allow x16");
    assert_eq!(fit("one two three", 9), "one two…");
    assert_eq!(fit("äöü", 3), "äöü");
    assert_eq!(Conclusion::not_judged("GPU0 is in use").line(""), "unknown: GPU0 is in use");
    assert_eq!(Conclusion::of(Verdict::NotJudged, &[], None).outcome, Gate::Unknown);
    assert_eq!(
        Conclusion::of(Verdict::NotJudged, &[], Missing::of(3, 9)).line(""),
        "unknown: 3 of 9 planned steps have no value"
    );
    assert_eq!(
        Conclusion::of(Verdict::Healthy, &[], None).line("2 GPUs, 9 tests, 1.2 s"),
        "ok: 2 GPUs, 9 tests, 1.2 s"
    );
}
