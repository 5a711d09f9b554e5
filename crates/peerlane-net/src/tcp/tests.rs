use super::*;
use peerlane_machine::units::Bytes;
use peerlane_measure::nodes::{End, Transport};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

fn hub() -> Hub {
    Hub::open(IpAddr::from([127, 0, 0, 1]), &Secret::new("0123456789abcdef").unwrap()).unwrap()
}

fn step(probe: Probe, size: u64, queue_pairs: u32) -> Step {
    let end = |node| End { node, nic: None, memory: Memory::Host };
    Step {
        from: end(0),
        to: end(1),
        transport: Transport::Tcp,
        probe,
        size: Bytes(size),
        queue_pairs,
        between: Vec::new(),
    }
}

const PATIENCE: f64 = 2.0;

fn sides(step: &Step) -> (Tcp, Tcp) {
    let hubs = (hub(), hub());
    let (active, passive) =
        (hubs.0.side(step, true, Seconds::new(PATIENCE)), hubs.1.side(step, false, Seconds::new(PATIENCE)));
    let (mut active, mut passive) = (active.unwrap(), passive.unwrap());
    let address = passive.address();
    thread::scope(|scope| {
        scope.spawn(|| passive.connect("").unwrap());
        active.connect(&address).unwrap();
    });
    (active, passive)
}

/// Samples of one step between two hubs, and both verdicts.
fn measured(step: &Step) -> (Vec<f64>, Verdict, Verdict) {
    let (mut active, mut passive) = sides(step);
    let done = AtomicBool::new(false);
    let values = thread::scope(|scope| {
        let serving = scope.spawn(|| passive.serve(&|| done.load(Ordering::Relaxed)));
        let values = active.sample(3, Seconds::new(5e-3));
        done.store(true, Ordering::Relaxed);
        serving.join().unwrap().unwrap();
        values.unwrap()
    });
    (values, active.verify().unwrap(), passive.verify().unwrap())
}

/// The head tells both sides to stop; whoever is told first closes the connection.
#[test]
fn a_side_whose_other_side_ends_first_has_not_failed() {
    let (mut active, mut passive) = sides(&step(Probe::Send, 1 << 16, 2));
    thread::scope(|scope| {
        let serving = scope.spawn(|| passive.serve(&|| false));
        active.sample(1, Seconds::new(1e-3)).unwrap();
        drop(active);
        serving.join().unwrap().unwrap();
    });
    assert_eq!(passive.verify().unwrap(), Verdict::Intact);
}

#[test]
fn rates_and_latencies_with_verified_content() {
    for (probe, size, streams) in [(Probe::Send, 1 << 20, 1), (Probe::Send, 65_537, 4), (Probe::SendBoth, 1 << 16, 2)] {
        let (values, active, passive) = measured(&step(probe, size, streams));
        assert_eq!(values.len(), 3);
        assert!(values.iter().all(|rate| (1e7..1e12).contains(rate)), "{values:?}");
        assert_eq!(passive, Verdict::Intact);
        assert_eq!(active == Verdict::Intact, probe == Probe::SendBoth, "only one that received can tell: {active:?}");
    }
    let (values, active, passive) = measured(&step(Probe::Latency, 8, 1));
    assert!(values.iter().all(|time| (1e-7..1e-2).contains(time)), "{values:?}");
    assert_eq!((active, passive), (Verdict::Intact, Verdict::Intact));
}

#[test]
fn wrong_content_is_found() {
    let (mut active, mut passive) = sides(&step(Probe::Send, 4096, 1));
    active.streams().unwrap().spoil();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| passive.serve(&|| done.load(Ordering::Relaxed)));
        active.sample(2, Seconds::new(1e-3)).unwrap();
        done.store(true, Ordering::Relaxed);
    });
    let Verdict::Corrupt(how) = passive.verify().unwrap() else { panic!("it passed") };
    assert_eq!(how, "stream 0: 1 of 4096 bytes differ, the first at 0x64");
}

#[test]
fn a_partner_that_hangs_or_dies_ends_the_step_in_time() {
    let began = Instant::now();
    let (mut active, passive) = sides(&step(Probe::Send, 1 << 20, 1));
    let hung = active.sample(3, Seconds::new(1e-3)).unwrap_err();
    assert_eq!(hung.kind, FlagKind::Hung);
    assert!(began.elapsed() < Duration::from_secs_f64(3.0 * PATIENCE));
    drop(passive);
    let (mut active, passive) = sides(&step(Probe::Send, 1 << 20, 1));
    drop(passive);
    let dead = active.sample(3, Seconds::new(1e-3)).unwrap_err();
    assert_eq!((dead.kind, dead.message.as_str()), (FlagKind::Failed, "the other side closed the connection"));
}

#[test]
fn strangers_at_the_port_do_not_become_streams() {
    let step = step(Probe::Send, 4096, 1);
    let hubs = (hub(), hub());
    let mut passive = hubs.0.side(&step, false, Seconds::new(PATIENCE)).unwrap();
    let mut active = hubs.1.side(&step, true, Seconds::new(PATIENCE)).unwrap();
    let stalled: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(hubs.0.door.address()).unwrap()).collect();
    let mut garbage = TcpStream::connect(hubs.0.door.address()).unwrap();
    garbage.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    garbage.read_to_end(&mut answer).unwrap_or_default();
    assert!(answer.is_empty(), "a stranger learns nothing");
    let wrong = Secret::new("another secret 16").unwrap();
    let other = TcpStream::connect(hubs.0.door.address()).unwrap();
    let refused = crate::handshake::answer(
        &other,
        &wrong,
        &write_purpose(passive.id, 0),
        Instant::now() + Duration::from_secs(1),
    );
    assert!(matches!(refused, Err(crate::handshake::Refusal::Secret)));
    let address = passive.address();
    thread::scope(|scope| {
        scope.spawn(|| passive.connect("").unwrap());
        active.connect(&address).unwrap();
    });
    assert_eq!(hubs.0.door.refused(), 1);
    drop(stalled);
}

#[test]
fn what_tcp_cannot_do_is_not_applicable() {
    let hub = hub();
    let side = |step: &Step| hub.side(step, true, Seconds::new(1.0)).err().map(|f| (f.kind, f.message));
    assert_eq!(side(&step(Probe::Write, 1, 1)), Some((FlagKind::NotApplicable, "TCP has no write".to_owned())));
    for wrong in
        [step(Probe::Send, 0, 1), step(Probe::Send, 1 << 40, 1), step(Probe::Send, 1, 0), step(Probe::Send, 1, 1 << 20)]
    {
        assert_eq!(side(&wrong).unwrap().0, FlagKind::NotApplicable);
    }
    let mut near = step(Probe::Send, 1, 1);
    near.from.memory = Memory::Numa(1);
    assert!(side(&near).unwrap().1.contains("host1"));
}
