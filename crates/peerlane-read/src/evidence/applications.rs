//! Benchmarks and applications of computing centres: that they came to their end, that their results are right, the GPUs that they use, and
//! STREAM's rates of a GPU's memory beside what the memory can do.

mod harness;

use super::health::Health;
use super::text::Span;
use super::{Fact, Found, GpuFacts, Text};
use peerlane_machine::fact::{Area, Grade};

const TOOL: &str = "application's log";

/// With less than this of its peak a GPU's memory is slow for STREAM.
const SLOW: f64 = 0.6;

/// More GPUs than any machine has.
const MOST: usize = 512;

/// How applications say that they came to their end: words of a line, and words that its text holds besides.
const ENDS: [(&str, &str); 24] = [
    ("Finished mdrun on rank ", "GROMACS"),
    ("Total wall time: ", "Loop time of "),
    ("WallClock: ", "CPUTime: "),
    ("JOB DONE.", "PWSCF"),
    ("General timing and accounting informations for this job:", "vasp."),
    ("PROGRAM ENDED AT", "CP2K"),
    ("Finalising parallel run", "OpenFOAM"),
    ("SUCCESS COMPLETE WRF", "wrf"),
    ("Solution Validates: ", "STREAM"),
    ("HPCG result is VALID", "HPCG"),
    ("Result is : VALID", "MLPerf"),
    ("Verification    =               SUCCESSFUL", "NAS Parallel Benchmarks"),
    ("[SCORE ] Bandwidth", "[RESULT]"),
    ("Max Write: ", "MiB/sec ("),
    (" exits successfully.", "Process "),
    ("\"key\": \"run_stop\"", "\"status\": \"success\""),
    ("Successfully completed.", "LSF System"),
    ("> Done", "Subject: Job "),
    ("This test is considered PASSED", "Clover"),
    ("exit_status  0", "qname"),
    ("Exit Status:        0", "Resource Usage on "),
    ("State: COMPLETED (exit code 0)", "Job ID: "),
    ("DCGM successfully initialized!", "dcgm-exporter"),
    ("Is CUDA available: True", "PyTorch version: "),
];

/// Of those the ones that only show that the driver works.
const DRIVERS: [&str; 2] = ["DCGM successfully initialized!", "Is CUDA available: True"];

/// How they say that a result is not right.
const FAILED: [(&str, &str, Grade); 7] = [
    ("Failed Validation on array", "STREAM", Grade::Fault),
    ("This test is considered NOT PASSED", "Clover", Grade::Fault),
    ("HPCG result is INVALID", "HPCG", Grade::Suspect),
    ("Result is : INVALID", "MLPerf", Grade::Suspect),
    ("Verification    =             UNSUCCESSFUL", "NAS Parallel Benchmarks", Grade::Fault),
    ("[SCORE-invalid", "[RESULT", Grade::Limit),
    ("TOTAL 0.000000 [INVALID]", "[RESULT]", Grade::Limit),
];

pub(super) fn scan(text: &Text, found: &mut Found) {
    let mut health = Health::default();
    let said: Vec<&str> = ENDS.iter().map(|(words, _)| *words).chain(FAILED.iter().map(|(words, ..)| *words)).collect();
    if text.holds_one_of(&said) {
        results(text, &mut health);
    }
    harness::scan(text, &mut health);
    stream(text, &mut health, found);
    health.push(text, TOOL, found);
    if text.holds(&["compute cap.: "]) {
        gromacs(text, found);
    }
}

/// Ends and results.
fn results(text: &Text, health: &mut Health) {
    let ends: Vec<&str> =
        ENDS.iter().filter(|(end, with)| text.holds(&[end]) && text.holds(&[with])).map(|(end, _)| *end).collect();
    let failed: Vec<(&str, Grade)> = FAILED
        .iter()
        .filter(|(words, with, _)| text.holds(&[words]) && text.holds(&[with]))
        .map(|(words, _, grade)| (*words, *grade))
        .collect();
    if !ends.is_empty() || !failed.is_empty() {
        for (i, line) in text.iter().filter(|(_, line)| line.len() <= 400) {
            if let Some((_, grade)) = failed.iter().find(|(words, _)| line.contains(words)) {
                health.trouble(Area::Test, *grade, None, "a benchmark says of its result:", line, i);
            } else if ends.iter().any(|words| line.contains(words)) && !line.contains("INVALID") {
                let is_of_driver = DRIVERS.iter().any(|words| line.contains(words));
                health.sound(if is_of_driver { Area::Driver } else { Area::Program }, i);
            }
        }
    }
}

/// NVIDIA's STREAM: GPUs with the peak of their memory, and a table of rates of the one that is selected.
fn stream(text: &Text, health: &mut Health, found: &mut Found) {
    if !text.holds(&["GB/s PEAK"]) {
        return;
    }
    let (mut gpus, mut lines, mut selected): (Vec<(GpuFacts, f64)>, Span, u32) = (Vec::new(), Span::default(), 0);
    let mut within = false;
    for (i, line) in text.iter() {
        if let Some((gpu, peak)) = device(line).filter(|_| gpus.len() < MOST) {
            gpus.push((gpu, peak));
            lines.add(i);
        } else if let Some(number) = line.strip_prefix("Device Selected ").and_then(|rest| rest.split(':').next()) {
            selected = number.trim().parse().unwrap_or(0);
        } else if line.starts_with("Function") && line.contains("Rate (MB/s)") {
            within = true;
        } else if let Some((name, rate)) = row(line).filter(|_| within) {
            let peak = gpus.iter().find(|(gpu, _)| gpu.index == Some(selected)).map(|(_, peak)| *peak);
            if let Some(peak) = peak.filter(|peak| *peak > 0.0) {
                let bad = (rate < peak * SLOW).then_some(Grade::Suspect);
                let value = format!("{rate:.0} of {peak:.0} GB/s");
                health.judge(
                    Area::Test,
                    bad,
                    Some(&format!("GPU{selected}")),
                    &format!("memory of the GPU, STREAM {name}:"),
                    &value,
                    i,
                );
            }
        } else {
            within = within && line.trim().is_empty();
        }
    }
    if let Some(lines) = lines.numbers(text) {
        found.push(text, TOOL, lines, Fact::Gpus(gpus.into_iter().map(|(gpu, _)| gpu).collect()));
    }
}

/// `Device 0: "NVIDIA X"  132 SMs(9.0)  Memory: 2619MHz x 5120-bit = 3352.3 GB/s PEAK  ECC is OFF`.
fn device(line: &str) -> Option<(GpuFacts, f64)> {
    let (number, rest) = line.trim().strip_prefix("Device ")?.split_once(": \"")?;
    let (name, rest) = rest.split_once('"')?;
    let (before, _) = rest.split_once(" GB/s PEAK")?;
    let peak = before.rsplit([' ', '=']).next()?.parse().ok()?;
    Some((GpuFacts::listed(number.parse().ok()?, name), peak))
}

/// `Copy:      3071120.9       0.0052  …`: the rate in GB/s.
fn row(line: &str) -> Option<(&str, f64)> {
    let (name, rest) = line.split_once(':')?;
    let rate: f64 = rest.split_whitespace().next()?.parse().ok()?;
    matches!(name, "Copy" | "Scale" | "Add" | "Triad").then_some((name, rate / 1000.0))
}

/// GROMACS's list: `#0: NVIDIA X, compute cap.: 7.0, ECC: yes, stat: compatible`.
fn gromacs(text: &Text, found: &mut Found) {
    let (mut gpus, mut lines, mut health): (Vec<GpuFacts>, Span, Health) =
        (Vec::new(), Span::default(), Health::default());
    for (i, line) in text.iter() {
        let Some((number, rest)) = line.trim().strip_prefix('#').and_then(|rest| rest.split_once(": ")) else {
            continue;
        };
        let (Ok(number), Some((name, rest))) = (number.parse::<u32>(), rest.split_once(", compute cap.: ")) else {
            continue;
        };
        if gpus.len() >= MOST || gpus.iter().any(|gpu| gpu.index == Some(number)) {
            continue;
        }
        lines.add(i);
        gpus.push(GpuFacts::listed(number, name.strip_prefix("NVIDIA NVIDIA ").unwrap_or(name)));
        if let Some((_, state)) = rest.split_once("stat: ") {
            let bad = (state.trim() != "compatible").then_some(Grade::Suspect);
            health.judge(Area::Driver, bad, Some(&format!("GPU{number}")), "GROMACS cannot use it:", state, i);
        }
    }
    if let Some(lines) = lines.numbers(text) {
        found.push(text, TOOL, lines, Fact::Gpus(gpus));
        health.push(text, TOOL, found);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{health, scanned};
    use super::*;

    #[test]
    fn ends_and_results() {
        let end = |body: &str| health(scan, body);
        for body in [
            "GROMACS: gmx mdrun\nPerformance: 1 2\nFinished mdrun on rank 0 Thu Jan 19 18:17:42 2023\n",
            "Loop time of 3 on 4 procs for 5 steps\nTotal wall time: 0:00:13\n",
            "STREAM version 5\nSolution Validates: avg error less than 1e-13 on all three arrays\n",
            "Final Summary::HPCG result is VALID with a GFLOP/s rating of=1.2\n",
            "[RESULT]  ior-easy-write  3.2 GiB/s : time 1 seconds\n[SCORE ] Bandwidth 2.1 GiB/s : IOPS 2 kiops : TOTAL 6\n",
            "[INFO] [launch.py:351:main] Process 12 exits successfully.\n",
            "Sender: LSF System <a@b>\nSuccessfully completed.\n",
            "Sender: LSF System <a@b>\nSubject: Job 4711: <sim> in cluster <big> Done\n",
            "qname        all.q\nexit_status  0\n",
            ":::MLLOG {\"key\": \"run_stop\", \"metadata\": {\"status\": \"success\"}}\n",
        ] {
            assert_eq!((end(body).area, end(body).sound, end(body).troubles.len()), (Area::Program, 1, 0), "{body}");
        }
        let bad = end("STREAM version 5\nFailed Validation on array a[], AvgRelAbsErr > epsilon (1e-13)\n");
        assert_eq!((bad.area, bad.troubles[0].grade), (Area::Test, Grade::Fault));
        for body in ["Total wall time: 3\n", "JOB DONE.\n", "It exits successfully.\n"] {
            assert_eq!(scanned(scan, body), Found::default(), "{body}");
        }
    }

    #[test]
    fn stream_beside_the_peak() {
        let body = |rate: u32| {
            format!(
                "Device 0: \"NVIDIA X\" \t 132 SMs(9.0)\tMemory: 2619MHz x 5120-bit = 3352.3 GB/s PEAK\t ECC is OFF\n\nDevice Selected 0: \"NVIDIA X\"\n\
                 Function      Rate (MB/s)   Avg time     Min time     Max time\nCopy:      {rate}.97       0.0052       0.0052       0.0052\nJob finished\n"
            )
        };
        let of = |rate| {
            let found = scanned(scan, &body(rate));
            let names = found
                .evidence
                .iter()
                .filter_map(|e| if let Fact::Gpus(gpus) = &e.fact { gpus[0].name.clone() } else { None });
            assert_eq!(names.collect::<Vec<_>>(), ["NVIDIA X"]);
            let report = found
                .evidence
                .into_iter()
                .find_map(|e| if let Fact::Health(report) = e.fact { Some(report) } else { None });
            report.map(|report| (report.sound, report.troubles.len()))
        };
        assert_eq!((of(3_071_120), of(1_071_120)), (Some((1, 0)), Some((0, 1))));
    }

    #[test]
    fn gpus_of_gromacs() {
        let found = scanned(
            scan,
            "  GPU info:\n    #0: NVIDIA X, compute cap.: 7.0, ECC: yes, stat: compatible\n    #1: NVIDIA X, compute cap.: 3.0, ECC:  no, stat: incompatible\n",
        );
        let Fact::Gpus(gpus) = &found.evidence[0].fact else { panic!("{found:?}") };
        let Fact::Health(report) = &found.evidence[1].fact else { panic!("{found:?}") };
        assert_eq!((gpus.len(), report.sound, report.troubles.len()), (2, 1, 1));
    }
}
