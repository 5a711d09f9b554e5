use super::sample::{cell_of, run, spoil};
use super::*;
use crate::render::line_width;
use crate::render::text::width;
use peerlane::plan::Test;
use peerlane::run::{Flag, FlagKind};
use peerlane::units::Bytes;

fn shown(run: &Run, verbose: bool) -> String {
    let mut out = Vec::new();
    write(&mut out, run, verbose).unwrap();
    let text = anstream::adapter::strip_str(&String::from_utf8(out).unwrap()).to_string();
    for line in text.lines() {
        assert!(width(line) <= line_width(), "{line}");
    }
    text
}

/// The lines below the one that has `heading`, up to a blank one.
fn below<'t>(text: &'t str, heading: &str) -> Vec<&'t str> {
    let mut lines = text.lines().skip_while(|l| !l.contains(heading)).skip(1).take_while(|l| !l.is_empty());
    let table: Vec<&str> = lines.by_ref().collect();
    assert!(!table.is_empty(), "{heading} is not in\n{text}");
    table
}

#[test]
fn every_test_fits_and_the_head_names_the_machine() {
    let whole = run(&Test::ALL);
    let text = shown(&whole, false);
    let head: Vec<&str> = text.lines().take(6).collect();
    assert_eq!(head[0], "h200x4-vm (simulated machine)");
    assert!(
        head[1].starts_with("measured 2026-11-21 04:12 UTC in 9.8 s of simulated time, after 3.2 s of initialisation"),
        "{head:?}"
    );
    assert!(head.contains(&"GPUs 31–34 °C before, 42–45 °C after"), "{head:?}");
    assert!(head[2].starts_with("4 × NVIDIA H200 · driver 580.159.04 · CUDA 13.0 · peerlane "), "{head:?}");
    for test in whole.plan.steps().map(|s| s.test) {
        assert!(text.contains(test.name()), "{test}");
    }
    assert!(text.contains("skipped: numa: "));
    // verbose lists every cell
    let all = shown(&whole, true);
    assert!(all.lines().count() > text.lines().count() + whole.cells.len());
}

#[test]
fn a_matrix_shows_title_precision_and_flags() {
    let mut run = run(&[Test::Pairs]);
    spoil(cell_of(&mut run, Test::Pairs, "GPU0", "GPU2"), FlagKind::Hung, "no sign of life for 20 s");
    spoil(cell_of(&mut run, Test::Pairs, "GPU1", "GPU2"), FlagKind::Outliers, "2 of 18 samples lie far off");
    spoil(cell_of(&mut run, Test::Pairs, "GPU1", "GPU3"), FlagKind::Beside, "a control showed no difference");
    let wide = cell_of(&mut run, Test::Pairs, "GPU3", "GPU0");
    let value = wide.estimate.unwrap().value;
    wide.estimate.as_mut().unwrap().low = value * 0.982;
    let text = shown(&run, false);
    assert!(text.contains("1 without a value: 1 hung"), "{text}");
    let table = below(&text, "bandwidth, one way, P2P on, writes, copy engine, 512 MiB, GB/s; rows write to columns");
    assert_eq!(table[0].split_whitespace().collect::<Vec<_>>(), ["GPU0", "GPU1", "GPU2", "GPU3"]);
    assert_eq!(table[1].split_whitespace().nth(3), Some("hung"));
    assert!(table[2].contains('*') && !table[3].contains('*'), "{table:#?}");
    let notes = [
        "  n 6–17; 95 % interval within ±0.2 % except GPU3→GPU0 ±1.8 %",
        "  hung, GPU0→GPU2: no sign of life for 20 s",
        "  outliers, GPU1→GPU2: 2 of 18 samples lie far off",
    ];
    assert_eq!(table[5..], notes);
    assert!(shown(&run, true).contains("concurrent, GPU1→GPU3: a control showed no difference"));
    // readers are the rows
    let read = below(&text, "reads, copy engine, 512 MiB, GB/s; rows read from columns");
    assert!(read[1].starts_with("  GPU0     - 39"), "{read:#?}");
}

#[test]
fn cells_with_the_same_flag_share_a_line() {
    let mut run = run(&[Test::Pairs]);
    for cell in run.cells.iter_mut().filter(|c| run::ends(&c.work).starts_with("GPU3→")) {
        spoil(cell, FlagKind::Failed, "error 719");
    }
    for cell in &mut run.cells {
        spoil(cell, FlagKind::Unverified, "no time");
    }
    let text = shown(&run, false);
    let table = below(&text, "writes, copy engine");
    assert!(table.contains(&"  failed, GPU3→GPU0, GPU3→GPU1, GPU3→GPU2: error 719"), "{table:#?}");
    assert!(table.contains(&"  not verified, all 12: no time"), "{table:#?}");
}

#[test]
fn stars_mark_single_cells_and_differing_sizes_are_shown() {
    let mut run = run(&[Test::Pairs]);
    for cell in &mut run.cells {
        cell.flags.push(Flag::new(FlagKind::Drift, "samples fall"));
    }
    let text = shown(&run, false);
    assert!(!text.contains('*') && text.contains("  drift, all 12: samples fall"), "{text}");
    run.cells[0].flags.clear();
    run.cells[0].size = Bytes::from_mib(128);
    let text = shown(&run, false);
    assert_eq!(text.matches('*').count(), 11, "in one table of four: {text}");
    assert_eq!(text.matches("128 MiB–512 MiB; rows").count(), 1, "{text}");
}

#[test]
fn lists_with_the_host_share_a_table() {
    let text = shown(&run(&[Test::Host, Test::HostBoth, Test::Local, Test::Pageable]), false);
    let table = below(&text, "bandwidth with host memory and within each GPU, 64 MiB–512 MiB, GB/s");
    let row = |label: &str| table.iter().find(|l| l.trim_start().starts_with(label)).unwrap();
    assert!(row("host → GPU, copy engine ").contains(" 55."));
    assert!(row("host ↔ GPU, summed, copy engine").contains(" 102."));
    assert!(row("GPU → host, copy engine, pageable").contains(" 55."));
    assert!(row("within the GPU, counted once, SM").contains(" 20"));
    assert_eq!(text.matches("with host memory").count(), 1);
}

#[test]
fn sets_are_compared_with_what_their_members_reach_alone() {
    let text = shown(&run(&[Test::Host, Test::AllHost, Test::OneToAll]), false);
    let table = below(&text, "concurrent rates, copy engine, 64 MiB, GB/s [all-host]");
    let words = |i: usize| table[i].split_whitespace().collect::<Vec<_>>();
    assert_eq!(words(0), ["set", "each", "sum", "±", "vs", "alone"]);
    assert_eq!((words(1)[0], words(1)[1], words(1).ends_with(&["80", "%"])), ("host→GPU0–GPU3", "44.10", true));
    assert_eq!((words(3)[0], words(4)[0]), ("host↔GPU0–GPU3", "host→GPU0–GPU3"));
    assert_eq!(words(5), ["GPU0–GPU3→host", "27.30", "27.30", "27.30", "27.30", "109.2", "49", "%"]);
    // no share if the pairs were not measured alone
    let out = below(&text, "concurrent rates, writes, copy engine, 256 MiB, GB/s [one-to-all]");
    assert!(out[1].contains("GPU0→GPU1–GPU3") && out[1].matches('%').count() == 1, "{out:#?}");
}

#[test]
fn sizes_go_down_and_paths_across() {
    let text = shown(&run(&[Test::Sizes, Test::Collectives, Test::Memory]), false);
    let table = below(&text, "bandwidth by message size, copy engine, GB/s [sizes]");
    assert_eq!(table[0].split_whitespace().collect::<Vec<_>>(), ["GPU0→GPU1", "host→GPU0", "GPU0→host"]);
    assert!(table[1].starts_with("  8 B ") && table[10].starts_with("  1 GiB "), "{table:#?}");
    // the sample's messages start within 8 us
    let fit = |label: &str| table.iter().find(|l| l.trim_start().starts_with(label)).unwrap();
    assert!(fit("t₀, us").contains(" 8.0") || fit("t₀, us").contains(" 7.9"), "{table:#?}");
    assert!(fit("r∞, GB/s").contains(" 39") && fit("n½").contains(" MiB"), "{table:#?}");
    let bus = below(&text, "bus bandwidth by message size, NCCL among GPU0–GPU3, GB/s");
    assert!(bus[0].contains("all-reduce all-gather"));
    assert!(below(&text, "latency by message size, NCCL")[1].contains(" 20.0") || text.contains(" 19.9"));
    assert!(below(&text, "host memory alone")[1].starts_with("  host 3"));
}

#[test]
fn an_unfinished_run_and_an_empty_one_are_incomplete() {
    let mut part = run(&[Test::Pairs]);
    part.cells.truncate(7);
    part.complete = false;
    assert!(shown(&part, false).contains("incomplete: 7 values from 7 of 48 steps"));
    part.cells.clear();
    assert!(shown(&part, true).contains("incomplete: 0 values from 0 of 48 steps"));
}

#[test]
fn digits_suit_the_number() {
    let five = |v: f64| significant(v, 5);
    assert_eq!((five(395.1234), five(0.000_14), five(0.0)), ("395.12".into(), "0.00014".into(), "0.0000".into()));
    assert_eq!((five(123_456.7), five(f64::NAN)), ("123457".into(), "NaN".into()));
    let percent = |v: f64| remarks::percent(v);
    assert_eq!((percent(0.0031), percent(0.002), percent(0.123)), ("0.4 %".into(), "0.2 %".into(), "13 %".into()));
}

#[test]
fn exchanges_have_a_row_for_each_decomposition_and_method() {
    let mut run = run(&[Test::Halo]);
    let corrupt = run.cells.iter_mut().find(|cell| run::ends(&cell.work).ends_with("2x2, staged, faces of 1 MiB"));
    spoil(corrupt.unwrap(), FlagKind::Corrupt, "the face from part 1 to side 0 of part 0: 1 of 262144 words differs");
    let text = shown(&run, false);
    let table = below(&text, "halo exchange, time of an exchange by the size of a face, us");
    let lines: Vec<Vec<&str>> = table.iter().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0].join(" "), "4 KiB 64 KiB 1 MiB 16 MiB 64 MiB");
    assert_eq!(lines[1][..5], ["GPU0,", "GPU1", "as", "2,", "stores"], "{table:#?}");
    assert_eq!(lines[1].len(), 10, "{table:#?}");
    assert_eq!(lines[9][..4], ["GPU0–GPU3", "as", "2x2,", "staged"], "{table:#?}");
    assert_eq!(lines[9][6], "corrupt", "{table:#?}");
    // two sets of GPUs, of which four lie in a row and in a square, and three methods
    assert!(table[10].starts_with("  n ") && table[11].starts_with("  corrupt, "), "{table:#?}");
}
