//! Adapters that fail, by a stand-in of `libibverbs`: each fault ends as a cell that names it, and none as a hang.
//!
//! The library must be there when the process starts, so the test starts itself again with it. A fresh machine needs nothing
//! but cargo; the stand-in is for Linux's loader.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "programs of this test's own")]

#[path = "stand_in/mod.rs"]
mod stand_in;

use std::collections::BTreeSet;
use std::env;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use peerlane_machine::matrix::Operation;
use peerlane_machine::transfer::{NicEnd, Rdma};
use peerlane_machine::units::{Bytes, Seconds};
use peerlane_measure::nodes::{Cell, Event, Method, Node, NodePlan, Probe, Transport, Wanted, execute};
use peerlane_measure::run::{self, FlagKind};
use peerlane_measure::{measure, plan};
use peerlane_net::launcher::HostPort;
use peerlane_net::verbs::nics;
use peerlane_net::{Agents, Head, Join, LocalNics, Secret, take_part};

const WAIT: Duration = Duration::from_secs(30);

/// Runs a test of this file again, with the stand-in where the loader looks first.
fn with_the_library(test: &str) {
    let folder = stand_in::built(env!("CARGO_TARGET_TMPDIR"), test);
    let again = Command::new(env::current_exe().unwrap())
        .args([test, "--exact", "--ignored", "--nocapture"])
        .env("LD_LIBRARY_PATH", &folder)
        .output()
        .unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    let said = String::from_utf8_lossy(&again.stdout);
    assert!(again.status.success(), "{said}\n{}", String::from_utf8_lossy(&again.stderr));
    assert!(said.contains("1 passed"), "{said}");
}

#[test]
fn each_fault_of_an_adapter_is_a_named_cell() {
    with_the_library("faulty_adapters");
}

#[test]
fn nics_of_one_node_are_measured_and_each_fault_is_named() {
    with_the_library("one_node");
}

#[test]
#[ignore = "the test before starts it, with the stand-in"]
fn one_node() {
    // what never returns is the watchdog's, which kills the process
    let names = ["sound0", "sound1", "lost0", "error0", "wrong0", "refuses0", "silent0", "absurd0", "missing0"];
    let end = |nic: &str| NicEnd { nic: nic.to_owned(), memory: "host".to_owned() };
    let step = |from: &str, to: &str, op| plan::Step {
        test: plan::Test::Nic,
        work: plan::Work::Rdma(Rdma { from: end(from), to: end(to), op }),
        size: plan::Size::Exactly(Bytes(1 << 16)),
    };
    let mut rounds: Vec<Vec<plan::Step>> = vec![
        vec![step("sound0", "sound1", Operation::Write)],
        vec![step("sound1", "sound0", Operation::Read)],
        // called so by the plan
        vec![step("eth0", "sound0", Operation::Write)],
    ];
    rounds.extend(names.iter().map(|nic| vec![step(nic, nic, Operation::Write)]));
    let method = plan::Method { patience: Seconds::new(3.0), ..plan::Method::default() };
    let plan = plan::Plan { method, rounds, skipped: Vec::new() };
    let mut nics = LocalNics::new([("eth0".to_owned(), "sound1".to_owned())].into());
    let mut cells: Vec<run::Cell> = Vec::new();
    let answered = measure::execute(&plan, &mut nics, &BTreeSet::new(), &mut |event| {
        if let run::Event::Cells(more) = event {
            cells.extend(more);
        }
    });
    answered.unwrap();
    let said = |step: usize| {
        let cell = cells.iter().find(|cell| cell.step == step).unwrap();
        let voids = cell.flags.iter().find(|flag| flag.kind.voids());
        voids.map_or((None, String::new()), |flag| (Some(flag.kind), flag.detail.clone()))
    };
    for sound in 0..5 {
        let cell = cells.iter().find(|cell| cell.step == sound).unwrap();
        assert!(cell.value().is_some_and(|gb| gb > 0.01), "{cell:?}");
        assert!(cell.flag(FlagKind::Unverified).is_none(), "{cell:?}");
    }
    let faults = [
        ("lost0", FlagKind::Failed, "local catastrophic error"),
        ("error0", FlagKind::Failed, "transport retry counter exceeded"),
        ("wrong0", FlagKind::Corrupt, "1 of 65536 bytes"),
        ("refuses0", FlagKind::Failed, "Cannot allocate memory"),
        ("silent0", FlagKind::Hung, "the adapter reported nothing for 0.9 s"),
        ("absurd0", FlagKind::Failed, "completions, and was asked for 32"),
        ("missing0", FlagKind::Failed, "no such RDMA adapter; libibverbs lists sound0, sound1,"),
    ];
    for (index, (nic, kind, words)) in faults.into_iter().enumerate() {
        let (found, detail) = said(5 + index);
        assert!(found == Some(kind) && detail.contains(words), "{nic}: {found:?} {detail}");
    }
}

/// Two agents in threads of this process, each with all adapters.
fn two_nodes() -> Agents {
    let secret = || Secret::new("0123456789abcdef").unwrap();
    let (found, notes) = nics();
    assert!(notes.is_empty(), "{notes:?}");
    let head = Head::listen(&secret(), &[0], 2).unwrap();
    let port = head.port();
    for rank in 0..2 {
        let nics = found.clone();
        thread::spawn(move || {
            let heads = || vec![HostPort { host: "127.0.0.1".to_owned(), port: Some(port) }];
            let node = Node { host: format!("node{rank}"), nics, ..Node::default() };
            let (secret, ports) = (secret(), Vec::new());
            let join =
                Join { secret: &secret, rank, size: 2, node: Some(node), gpus: None, heads: &heads, ports, wait: WAIT };
            let _ = take_part(join);
        });
    }
    head.gather(2, WAIT, false, &mut |_| true).unwrap()
}

#[test]
#[ignore = "the test before starts it, with the stand-in"]
fn faulty_adapters() {
    let (done, ended) = mpsc::channel();
    thread::spawn(move || {
        let mut agents = two_nodes();
        let method = Method { time: Seconds::new(0.1), samples: 6, patience: Seconds::new(3.0), ..Method::default() };
        let wanted = Wanted {
            transports: vec![Transport::Verbs],
            patience: Some(method.patience),
            budget: Some(Seconds::new(400.0)),
            ..Wanted::default()
        };
        let nodes = peerlane_measure::nodes::Network::nodes(&agents).to_vec();
        let mut plan = NodePlan::of(&nodes, &wanted, method).unwrap();
        // measuring suspects again shows nothing further here
        plan.again = 0;
        let mut cells: Vec<Cell> = Vec::new();
        let complete = execute(&mut agents, &plan, Vec::new(), &mut |event| {
            if let Event::Cells(more) = event {
                cells.extend(more);
            }
            true
        });
        let _ = done.send((complete, cells));
    });
    let (complete, cells) = ended.recv_timeout(Duration::from_secs(300)).expect("nothing hangs");
    assert!(complete, "every step has its cell");

    let of = |nic: &str| {
        let of: Vec<&Cell> = cells.iter().filter(|c| c.step.from.nic.as_deref() == Some(nic)).collect();
        let what = |probe| of.iter().any(|c| c.step.probe == probe && c.step.from != c.step.to);
        assert!(of.iter().any(|c| c.step.from == c.step.to) && what(Probe::Write) && what(Probe::Latency), "{nic}");
        of
    };
    for nic in ["sound0", "sound1"] {
        for cell in of(nic) {
            assert!(cell.value().is_some() && cell.flags.is_empty(), "{:?} {:?}", cell.step, cell.flags);
        }
    }
    for cell in of("wrong0") {
        let corrupt = cell.flag(FlagKind::Corrupt);
        // a latency's message is too short for the fault
        assert_eq!(corrupt.is_some(), cell.step.probe != Probe::Latency, "{:?} {:?}", cell.step, cell.flags);
        assert_eq!(cell.value().is_none(), corrupt.is_some());
    }
    let faults = [
        (
            "lost0",
            FlagKind::Failed,
            "flushed error: the connection broke before (the adapter reported: local catastrophic",
        ),
        ("error0", FlagKind::Failed, "transport retry counter exceeded: the other side no longer answers"),
        ("refuses0", FlagKind::Failed, "ibv_reg_mr: cannot allocate memory (os error 12) ("),
        ("silent0", FlagKind::Hung, "the adapter reported nothing for"),
        ("absurd0", FlagKind::Failed, "completions, and was asked for 32"),
        ("stuck0", FlagKind::Hung, "node1: still taking samples after"),
    ];
    for (nic, kind, words) in faults {
        let mut said = String::new();
        for cell in of(nic) {
            assert!(cell.value().is_none(), "{:?} {:?}", cell.step, cell.flags);
            let flag = cell.flag(kind).unwrap_or_else(|| panic!("{:?} {:?}", cell.step, cell.flags));
            said += &format!("{}\n", flag.detail);
        }
        // of two sides, either may be the first to see it, and says what it sees
        assert!(said.to_lowercase().contains(words), "{nic}: {said}");
    }
}
