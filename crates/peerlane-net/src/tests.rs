//! Head and agents in one process, over loopback.

use std::io::Write;
use std::net::TcpStream;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use peerlane_machine::units::{Bytes, Seconds};
use peerlane_measure::measure::Verdict;
use peerlane_measure::nodes::{End, Memory, Method, Network, Node, Probe, Step, Transport};
use peerlane_measure::run::FlagKind;

use crate::launcher::HostPort;
use crate::message::{Hello, ToHead};
use crate::{Agents, Error, Head, Join, Secret, take_part};

const WAIT: Duration = Duration::from_secs(20);

/// Held by the test of a thousand agents, which leaves no time for steps that must end within theirs.
static CROWD: RwLock<()> = RwLock::new(());

/// Keeps the thousand away.
pub(crate) fn without_crowd() -> RwLockReadGuard<'static, ()> {
    CROWD.read().unwrap_or_else(PoisonError::into_inner)
}

fn secret() -> Secret {
    Secret::new("0123456789abcdef").unwrap()
}

fn node(rank: usize) -> Node {
    Node { host: format!("node{rank}"), ..Node::default() }
}

/// An agent in a thread; its result comes through the channel.
fn agent(port: u16, rank: usize, size: usize, secret: Secret, node: Option<Node>) -> mpsc::Receiver<Result<(), Error>> {
    let (sender, ended) = mpsc::channel();
    let run = move || {
        let heads = || vec![HostPort { host: "127.0.0.1".to_owned(), port: Some(port) }];
        let join = Join { secret: &secret, rank, size, node, gpus: None, heads: &heads, ports: Vec::new(), wait: WAIT };
        let _ = sender.send(take_part(join));
    };
    thread::Builder::new().stack_size(512 << 10).spawn(run).unwrap();
    ended
}

fn head(size: usize) -> Head {
    Head::listen(&secret(), &[0], size).unwrap()
}

fn gathered(size: usize) -> (Agents, Vec<mpsc::Receiver<Result<(), Error>>>) {
    let head = head(size);
    let port = head.port();
    let agents = (0..size).map(|rank| agent(port, rank, size, secret(), Some(node(rank)))).collect();
    (head.gather(size, WAIT, false, &mut |_| true).unwrap(), agents)
}

fn step(from: usize, to: usize, probe: Probe) -> Step {
    let end = |node| End { node, nic: None, memory: Memory::Host };
    let size = Bytes(if probe == Probe::Latency { 8 } else { 1 << 16 });
    Step { from: end(from), to: end(to), transport: Transport::Tcp, probe, size, queue_pairs: 2, between: Vec::new() }
}

const METHOD: Method =
    Method { time: Seconds::new(0.05), samples: 4, patience: Seconds::new(60.0), silence: Seconds::new(20.0) };

#[test]
fn rounds_of_loopbacks_and_pairs() {
    let _alone = without_crowd();
    let (mut agents, ended) = gathered(4);
    assert_eq!(
        agents.nodes().iter().map(|n| n.host.as_str()).collect::<Vec<_>>(),
        ["node0", "node1", "node2", "node3"]
    );
    let steps = [
        step(0, 0, Probe::Latency),
        step(0, 1, Probe::Send),
        step(2, 1, Probe::SendBoth),
        step(3, 2, Probe::Latency),
        step(3, 0, Probe::Write),
    ];
    for _ in 0..2 {
        let answers = agents.round(&steps, &METHOD);
        for (step, answer) in steps.iter().zip(&answers).take(4) {
            let samples = answer.as_ref().unwrap();
            assert_eq!((samples.values.len(), &samples.verdict), (4, &Verdict::Intact), "{step:?}");
            assert!(samples.values.iter().all(|value| *value > 0.0));
        }
        let refused = answers[4].as_ref().unwrap_err();
        assert_eq!(refused.kind, FlagKind::NotApplicable);
        assert!(refused.message.ends_with(": TCP has no write"), "{}", refused.message);
    }
    drop(agents);
    for agent in ended {
        agent.recv_timeout(WAIT).unwrap().unwrap();
    }
}

#[test]
fn a_thousand_agents_come_together_past_strangers() {
    let _alone = CROWD.write().unwrap_or_else(PoisonError::into_inner);
    const SIZE: usize = 1000;
    let head = head(SIZE);
    let port = head.port();
    let began = Instant::now();
    let stranger = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.write_all(bytes).unwrap();
        stream
    };
    let stalled: Vec<TcpStream> = (0..300).map(|i| stranger(&b"peerlane-net/1\n"[..i % 16])).collect();
    let garbage: Vec<TcpStream> = (0..100).map(|i| stranger(&[i; 4096])).collect();
    let agents: Vec<_> = (0..SIZE).map(|rank| agent(port, rank, SIZE, secret(), Some(node(rank)))).collect();
    let gathered = head.gather(SIZE, WAIT, false, &mut |_| true).unwrap();
    let took = began.elapsed();
    assert_eq!(gathered.nodes().len(), SIZE);
    // 5 s on an idle machine; here other tests run beside it
    assert!(took < Duration::from_secs(15), "{took:?}");
    drop((stalled, garbage, gathered));
    for agent in agents {
        agent.recv_timeout(WAIT).unwrap().unwrap();
    }
}

/// What the head says when these ranks, sizes and secrets come, and what each of them hears.
fn refused(size: usize, wait: Duration, came: &[(usize, usize, &str, Option<Node>)]) -> (String, Vec<String>) {
    let head = head(size);
    let port = head.port();
    let agents: Vec<_> = came
        .iter()
        .map(|(rank, size, secret, node)| agent(port, *rank, *size, Secret::new(secret).unwrap(), node.clone()))
        .collect();
    let why = head.gather(size, wait, false, &mut |_| true).err().expect("it began").to_string();
    let heard = agents.iter().map(|agent| agent.recv_timeout(WAIT).unwrap().unwrap_err().to_string());
    (why, heard.collect())
}

const RIGHT: &str = "0123456789abcdef";
const SOON: Duration = Duration::from_secs(2);

#[test]
fn those_who_do_not_belong_together_are_told_why() {
    let (why, heard) = refused(3, SOON, &[(0, 3, RIGHT, Some(node(0))), (1, 3, "another secret 16", Some(node(1)))]);
    assert!(why.starts_with("1 of 3 processes came; missing: rank 1, 2; "), "{why}");
    assert!(why.ends_with(" connections showed another secret"), "{why}");
    assert!(heard[0].contains("1 of 3 processes came"), "{}", heard[0]);
    assert!(heard[1].contains("refuses this secret"), "{}", heard[1]);

    let (why, heard) = refused(2, WAIT, &[(0, 1, RIGHT, Some(node(0)))]);
    assert!(why.contains("one of 1 processes, and the head as one of 2"), "{why}");
    assert!(heard[0].contains(&why));

    let (why, _) = refused(3, WAIT, &[(1, 3, RIGHT, Some(node(1))), (1, 3, RIGHT, Some(node(2)))]);
    assert!(why.contains("rank 1 came twice, from node"), "{why}");

    let (why, heard) = refused(2, WAIT, &[(0, 2, RIGHT, Some(node(5))), (1, 2, RIGHT, Some(node(5)))]);
    assert!(why.starts_with("ranks 0, 1 are all on node5"), "{why}");
    assert!(heard[0].contains(&why) && heard[1].contains(&why));

    let (why, _) = refused(2, WAIT, &[(0, 2, RIGHT, Some(node(0))), (1, 2, RIGHT, None)]);
    assert!(why.contains("all 2 processes are on one node"), "{why}");
}

#[test]
fn another_version_is_refused() {
    let head = head(2);
    let address = ("127.0.0.1", head.port());
    let other = thread::spawn(move || {
        let stream = TcpStream::connect(address).unwrap();
        let by = Instant::now() + WAIT;
        let key = crate::handshake::answer(&stream, &secret(), &crate::JOIN, by).unwrap();
        let (mut sender, mut receiver) = crate::wire::halves(stream.into(), &key, crate::wire::End::Agent);
        let hello = Hello { version: "0.0.9".to_owned(), rank: 1, size: 2, node: Some(node(1)) };
        sender.send(&ToHead::Hello(Box::new(hello)), WAIT).unwrap();
        receiver.receive::<serde_json::Value>(WAIT).unwrap().to_string()
    });
    let why = head.gather(2, WAIT, false, &mut |_| true).err().unwrap().to_string();
    assert!(why.starts_with("rank 1 on node1 runs peerlane 0.0.9, and the head 0.1.0"), "{why}");
    assert!(other.join().unwrap().contains("0.0.9"));
}

#[test]
fn several_agents_on_one_host_have_names_of_their_own() {
    let head = head(3);
    let port = head.port();
    let agents: Vec<_> = (0..3).map(|rank| agent(port, rank, 3, secret(), Some(node(rank / 2)))).collect();
    let gathered = head.gather(3, WAIT, true, &mut |_| true).unwrap();
    assert_eq!(gathered.nodes().iter().map(|n| n.host.as_str()).collect::<Vec<_>>(), ["node0-0", "node0-1", "node1"]);
    drop(gathered);
    for agent in agents {
        agent.recv_timeout(WAIT).unwrap().unwrap();
    }
}

#[test]
fn nobody_at_the_ports() {
    let port = head(2).port();
    let heads = || vec![HostPort { host: "127.0.0.1".to_owned(), port: None }];
    let wait = Duration::from_millis(300);
    let (secret, ports) = (secret(), vec![port]);
    let join = Join { secret: &secret, rank: 1, size: 2, node: None, gpus: None, heads: &heads, ports, wait };
    let why = take_part(join).unwrap_err().to_string();
    assert!(why.starts_with("no head found at 127.0.0.1 within 0 s (127.0.0.1:"), "{why}");
    assert!(why.contains("refused"), "{why}");
}

#[test]
fn agents_end_when_their_head_is_gone() {
    let (agents, ended) = gathered(2);
    agents.cut();
    for agent in ended {
        let why = agent.recv_timeout(WAIT).unwrap().unwrap_err().to_string();
        assert_eq!(why, "the head closed the connection");
    }
    drop(agents);
}

#[test]
fn a_used_port_is_named() {
    let head = head(2);
    let why = Head::listen(&secret(), &[head.port()], 2).err().unwrap().to_string();
    assert!(why.contains(&format!("cannot listen at port {}: ", head.port())), "{why}");
    assert!(Head::listen(&secret(), &[head.port(), 0], 2).is_ok(), "the next one is tried");
}

/// An agent that joins, measures nothing, and shows no sign of life until then.
fn silent(port: u16, rank: usize, size: usize, until: Duration) -> mpsc::Sender<()> {
    let (hold, held) = mpsc::channel();
    thread::spawn(move || {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let key = crate::handshake::answer(&stream, &secret(), &crate::JOIN, Instant::now() + WAIT).unwrap();
        let (mut sender, _receiver) = crate::wire::halves(stream.into(), &key, crate::wire::End::Agent);
        let version = crate::message::VERSION.to_owned();
        let hello = Hello { version, rank, size, node: Some(node(rank)) };
        sender.send(&ToHead::Hello(Box::new(hello)), WAIT).unwrap();
        let mut wait = until;
        while held.recv_timeout(wait) == Err(mpsc::RecvTimeoutError::Timeout)
            && sender.send(&ToHead::Alive, WAIT).is_ok()
        {
            wait = crate::PULSE;
        }
    });
    hold
}

#[test]
fn an_agent_is_lost_after_the_silence_of_the_plan_and_costs_its_own_steps() {
    let _alone = without_crowd();
    let long = Duration::from_secs(60);
    // the last one is slow, not gone: its step is hung, and it is there for the next round
    for (silence, until, lost) in [(1.0, long, true), (3.0, long, true), (20.0, Duration::from_secs(5), false)] {
        let head = head(3);
        let port = head.port();
        let sound: Vec<_> = (0..2).map(|rank| agent(port, rank, 3, secret(), Some(node(rank)))).collect();
        let _held = silent(port, 2, 3, until);
        let mut agents = head.gather(3, WAIT, false, &mut |_| true).unwrap();
        let began = Instant::now();
        let method = Method { patience: Seconds::new(4.0), silence: Seconds::new(silence), ..METHOD };
        let answers = agents.round(&[step(0, 1, Probe::Send), step(2, 2, Probe::Send)], &method);
        let took = began.elapsed().as_secs_f64();
        assert!(answers[0].is_ok(), "{answers:?}");
        let failure = answers[1].as_ref().unwrap_err();
        if lost {
            assert_eq!(failure.message, format!("node2 was lost: its agent gave no sign of life for {silence:.0} s"));
            // it was heard when it joined
            assert!(took < method.longest().seconds() + 2.0 && took > silence - 1.0, "{took}");
        } else {
            assert_eq!(failure.kind, FlagKind::Hung, "{failure:?}");
            assert!(took < method.longest().seconds() + 2.0, "{took}");
        }
        assert_eq!(agents.lost().len(), usize::from(lost));
        assert!(agents.round(&[step(1, 0, Probe::Send)], &METHOD)[0].is_ok());
        drop((agents, sound));
    }
}
