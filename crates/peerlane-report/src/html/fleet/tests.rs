//! A fleet's page: its size, what it leaves out, and names that look like markup.

use peerlane::action::Action;
use peerlane::check::{Certainty, Finding, FindingKind, Severity};
use peerlane::fleet::{Figures, Fleet, Kind, Member, Outlier, Test, Unread};
use peerlane::matrix::Unit;
use peerlane::subject::Subject;
use peerlane::verdict::Verdict;

use super::{FleetPage, MOST_UNREAD, fleet_page, per_mille};

/// More tests than `measure --full` has families, methods and path classes on a machine with GPUs and NICs.
const TESTS: usize = 120;

/// Every so many machines has an outlier.
const EVERY: usize = 10;

fn outlier(machine: String) -> Outlier {
    Outlier {
        file: format!("/shared/runs/2026-11-23/{machine}.run.json"),
        machine,
        finding: Finding {
            rule: "outlier".to_owned(),
            kind: FindingKind::Fault,
            severity: Severity::Error,
            subjects: vec![Subject::Pair("GPU0".to_owned(), "GPU3".to_owned())],
            summary: "GPU0→GPU3 (pairs, bandwidth) is 20.0 % below the median of 5,000 machines of its kind".to_owned(),
            expected: "about 391.10 GB/s".to_owned(),
            measured: "GPU0→GPU3 (pairs, bandwidth) 312.90 GB/s, not 391.10".to_owned(),
            evidence: Vec::new(),
            fix: "Compare `nvidia-smi nvlink -s` of both GPUs with those of another machine; reseat or replace."
                .to_owned(),
            certainty: Certainty::Likely,
            confirm: String::new(),
            cost: None,
            reset: false,
        },
        action: Action::Isolate,
        why: "Measured 312.9 GB/s; the model expects 392.4 GB/s, the median of its peers is 391.1 GB/s, and it had \
              390.8 GB/s on 20 November."
            .to_owned(),
        history: Vec::new(),
        since: None,
        worst: Some(Figures {
            measured: 312.9,
            expected: Some(392.4),
            peers: Some(391.1),
            before: Some(390.8),
            unit: Unit::GigabytesPerSecond,
        }),
        loss: 0.2,
        numbers: 3,
        repeats: 2,
        test: Some(7),
    }
}

fn fleet(machines: usize) -> Fleet {
    let name = |at: usize| format!("gpu-h200-rack{:03}-node{at:05}.cluster.example", at / 18);
    let member = |at: usize| Member {
        name: name(at),
        kind: 0,
        records: 3,
        first: Some("2026-11-20T06:00:12Z".to_owned()),
        last: Some("2026-11-23T06:00:12Z".to_owned()),
        verdict: if at.is_multiple_of(EVERY) { Verdict::Fault } else { Verdict::Healthy },
        incomplete: false,
        action: at.is_multiple_of(EVERY).then_some(Action::Isolate),
        scores: (0..TESTS).map(|test| Some(0.9 + 0.001 * ((at * 31 + test * 17) % 150) as f32)).collect(),
    };
    let test = |at: usize| Test {
        name: format!("pairs: write, copy engine, class {at}"),
        family: "pairs".to_owned(),
        method: "write, copy engine".to_owned(),
        class: format!("class {at}"),
    };
    Fleet {
        schema: "peerlane/fleet/4",
        records: 3 * machines,
        kinds: vec![Kind {
            machines,
            gpus: 8,
            products: vec!["NVIDIA H200".to_owned()],
            example: name(0),
            compared: true,
            spread: 0.01,
            shared: Vec::new(),
        }],
        tests: (0..TESTS).map(test).collect(),
        machines: (0..machines).map(member).collect(),
        outliers: (0..machines).step_by(EVERY).map(|at| outlier(name(at))).collect(),
        network: Vec::new(),
        waived: 0,
        notes: Vec::new(),
        unread: Vec::new(),
    }
}

#[test]
fn schema_is_current() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema/fleet-page-1.json");
    let fresh = serde_json::to_string_pretty(&schemars::schema_for!(FleetPage)).unwrap() + "\n";
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(&path, &fresh).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == fresh, "{} is stale: run UPDATE_SCHEMA=1 cargo test schema", path.to_string_lossy());
}

#[test]
fn a_thousand_machines_with_every_test_fit_3_mb() {
    let page = fleet_page(&fleet(1000)).unwrap();
    assert!(page.len() < 3_000_000, "{} bytes", page.len());
    // and five times as many do not need more for each
    let more = fleet_page(&fleet(5000)).unwrap();
    assert!(more.len() < 5 * page.len(), "{} bytes", more.len());
}

#[test]
fn however_many_outliers_there_are_the_page_stays_small_and_counts_the_rest() {
    let mut fleet = fleet(1000);
    let one = fleet.outliers.remove(0);
    fleet.outliers = vec![one; 100_000];
    let document = FleetPage::of(&fleet);
    assert!(document.outliers.len() > 1000);
    assert_eq!(document.outliers.len() + document.left_out, 100_000);
    assert!(fleet_page(&fleet).unwrap().len() < 3_000_000);
}

#[test]
fn many_unread_files_are_counted() {
    let mut fleet = fleet(8);
    fleet.unread = vec![Unread { name: "a".to_owned(), why: "not a record".to_owned() }; MOST_UNREAD + 7];
    let document = FleetPage::of(&fleet);
    assert_eq!((document.unread.len(), document.unread_left_out), (MOST_UNREAD, 7));
}

#[test]
fn outliers_name_machines_and_tests_that_are_there() {
    let fleet = fleet(40);
    let document = serde_json::to_value(FleetPage::of(&fleet)).unwrap();
    for (view, outlier) in document["outliers"].as_array().unwrap().iter().zip(&fleet.outliers) {
        let machine = usize::try_from(view["machine"].as_u64().unwrap()).unwrap();
        assert_eq!(document["machines"][machine]["name"], outlier.machine.as_str());
        assert!(view["test"].as_u64().unwrap() < TESTS as u64);
    }
    let schema: serde_json::Value =
        serde_json::from_str(include_str!("../../../../../schema/fleet-page-1.json")).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    assert!(validator.is_valid(&document));
}

#[test]
fn kinds_with_the_same_gpus_have_names_of_their_own() {
    let mut fleet = fleet(8);
    let mut second = fleet.kinds.first().cloned().unwrap();
    second.example = "node7".to_owned();
    fleet.kinds.push(second);
    let document = FleetPage::of(&fleet);
    let names: Vec<&str> = document.kinds.iter().map(|kind| kind.name.as_str()).collect();
    assert_eq!(names[1], "8 × NVIDIA H200, like node7");
    assert_ne!(names[0], names[1]);
}

#[test]
fn scores_are_per_mille_and_what_is_no_number_is_not_measured() {
    assert_eq!(per_mille(0.8567), Some(857));
    assert_eq!(per_mille(-1.0), Some(0));
    assert_eq!(per_mille(1e9), Some(100_000));
    assert_eq!(per_mille(f32::NAN), None);
    assert_eq!(per_mille(f32::INFINITY), None);
}

#[test]
fn hostile_names_stay_text() {
    let evil = "</script><img src=x onerror=alert(1)>\"PEERLANE-DATA\"PEERLANE-MARKDOWN";
    let mut fleet = fleet(1);
    fleet.machines[0].name = evil.to_owned();
    fleet.outliers[0] = Outlier { file: evil.to_owned(), ..outlier(evil.to_owned()) };
    evil.clone_into(&mut fleet.outliers[0].finding.summary);
    fleet.unread = vec![Unread { name: evil.to_owned(), why: evil.to_owned() }];
    let page = fleet_page(&fleet).unwrap();
    assert!(!page.contains("<img"));
    assert_eq!(page.matches("</script>").count(), 2);
}

#[test]
fn a_page_tells_no_folder_that_all_records_share() {
    let mut fleet = fleet(30);
    fleet.outliers[0].file = "/home/somebody/runs/2026-11-22/a.json".to_owned();
    fleet.outliers[1].file = "/home/somebody/runs/2026-11-23/b.json".to_owned();
    fleet.outliers.truncate(2);
    fleet.unread = vec![Unread { name: "/home/somebody/runs/c.txt".to_owned(), why: "not a record".to_owned() }];
    fleet.notes = vec!["/home/somebody/runs/2026-11-22/a.json has no host name".to_owned()];
    let page = fleet_page(&fleet).unwrap();
    assert!(!page.contains("somebody"));
    for name in
        ["\"2026-11-22/a.json\"", "\"2026-11-23/b.json\"", "\"c.txt\"", "\"2026-11-22/a.json has no host name\""]
    {
        assert!(page.contains(name), "{name}");
    }
    // names that are no paths, and paths without a common folder, stay
    fleet.unread[0].name = "/other".to_owned();
    fleet.outliers[1].file = "node7: record".to_owned();
    let document = serde_json::to_value(FleetPage::of(&fleet)).unwrap();
    assert_eq!(document["unread"][0]["name"], "/other");
    assert_eq!(document["outliers"][0]["file"], "/home/somebody/runs/2026-11-22/a.json");
    assert_eq!(document["outliers"][1]["file"], "node7: record");
}
