//! Recorded runs as targets: whole, growing, from a pipe, and what is none.

#[allow(dead_code, reason = "shared with tests that need all of it")]
#[path = "../../../peerlane-report/src/render/run/sample.rs"]
mod sample;

use crate::common::{checked, err, file, json, peerlane, status, stdout, with_input};

use peerlane::plan::Test;
use peerlane::run::{Event, Partial, Run};

fn measured() -> Run {
    sample::run(&[Test::Pairs, Test::PairsBoth, Test::Staged, Test::Host, Test::AllHost, Test::Sizes, Test::Pageable])
}

#[test]
fn a_recorded_run_is_a_target_of_every_command() {
    let path = file("runs", "run.json", measured().to_json().unwrap());
    let check = checked(&["check", "-v", &path]);
    assert!(check.contains("HEALTHY  no findings") && check.contains("peerlane measure"), "{check}");
    let map = checked(&["map", &path]);
    assert!(
        map.contains(
            "bandwidth, one way, P2P on, writes, copy engine, 512 MiB, GB/s, 4×4: run.json (peerlane measure)"
        )
    );
    assert!(map.contains("copies GPU0 → GPU1, 10 message sizes"), "{map}");
    assert!(checked(&["predict", &path]).contains("GPU0"));
    let explain = checked(&["explain", &path, "GPU0", "GPU2"]);
    assert!(explain.contains("run.json (peerlane measure)"), "{explain}");
    let json = json(&["map", "--json", &path]);
    assert_eq!(json["machines"][0]["matrices"][0]["spread"][0][1]["n"].as_u64().map(|n| n >= 6), Some(true));
}

#[test]
fn its_numbers_are_shown_again_as_they_were_measured() {
    let path = file("runs", "again.json", measured().to_json().unwrap());
    let text = checked(&["map", "--format", "matrix", &path]);
    assert!(
        text.starts_with("h200x4-vm (simulated machine)\nmeasured 2026-11-21 04:12 UTC in 9.8 s of simulated time"),
        "{text}"
    );
    assert!(text.contains("concurrent rates, copy engine, 64 MiB, GB/s [all-host]") && text.contains("Path classes"));
}

#[test]
fn a_slow_pair_is_found_with_its_spread() {
    let mut run = measured();
    for (a, b) in [("GPU0", "GPU1"), ("GPU1", "GPU0")] {
        let cell = sample::cell_of(&mut run, Test::Pairs, a, b);
        let estimate = cell.estimate.as_mut().unwrap();
        (estimate.value, estimate.low, estimate.high, cell.n) = (180.0, 179.5, 180.2, 9);
    }
    let text = checked(&["check", "-v", &file("runs", "slow.json", run.to_json().unwrap())]);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("[slow-path, fault, "), "{text}");
    assert!(words.contains("median of 9 samples, 95 % interval 179.50 to 180.20"), "{text}");
}

#[test]
fn a_growing_run_is_read_and_said_to_be_incomplete() {
    let mut run = measured();
    let cells = std::mem::take(&mut run.cells);
    let mut lines = Partial::header_line(&run).unwrap();
    for cell in cells.iter().take(20) {
        lines.push_str(&Partial::event_line(&Event::Cells(vec![cell.clone()])).unwrap());
    }
    lines.truncate(lines.len() - 40);
    let path = file("runs", "run.json.partial", &lines);
    let output = peerlane(&["check", "-v", &path]);
    assert_eq!(status(&output), 2, "{}", err(&output));
    let said: String = stdout(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    let steps = run.plan.steps().count();
    // the last whole line has the first of a small copy's two numbers
    assert!(
        said.contains(&format!("the run is not complete: {} of {steps} steps have no answer", steps - 18)),
        "{said}"
    );
    assert!(said.contains("run.json.partial: ignored 1 line, truncated or unreadable"), "{said}");
    // from a pipe, too
    let piped = with_input(&["check", "-v", "-"], lines.as_bytes());
    assert!(String::from_utf8_lossy(&piped.stdout).contains("the run is not complete"), "{}", err(&piped));
}

#[test]
fn runs_stay_their_own_machines_beside_other_evidence() {
    let path = file("runs", "beside.json", measured().to_json().unwrap());
    let topo = file("runs", "topo.txt", "\tGPU0\tGPU1\nGPU0\t X \tSYS\nGPU1\tSYS\t X \n");
    let json = json(&["map", "--json", &path, &topo, &path]);
    let names: Vec<&str> = json["machines"].as_array().unwrap().iter().map(|m| m["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["h200x4-vm", "h200x4-vm", "topo"]);
    let second = checked(&["map", "--format", "matrix", "--machine", "2", &path, &topo, &path]);
    assert!(second.starts_with("h200x4-vm (simulated machine)"), "{second}");
}

#[test]
fn what_is_no_run_is_said() {
    let whole = measured().to_json().unwrap();
    let fails = |name: &str, content: &str, why: &str| {
        let output = peerlane(&["check", &file("runs", name, content)]);
        assert_eq!(output.status.code(), Some(2), "{name}");
        assert!(err(&output).contains(why), "{name}: {}", err(&output));
    };
    fails("newer.json", &whole.replacen("peerlane/run/1", "peerlane/run/7", 1), "its schema is peerlane/run/7");
    fails("cut.json", &whole[..whole.len() / 2], "cut.json: line ");
    fails("nobody.json", &whole.replacen("\"machine\":{", "\"machine\":{\"x\":1,\"", 1), "nobody.json: line 5");
    fails("other.json", "{\"schema\":\"peerlane/fabric/1\"}", "nothing recognised");
    fails("none.json", "{", "nothing recognised");
}
