//! Agents whose GPUs' process is a shell that answers as it is told to, and two real agents around it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use peerlane_machine::one_line::shown;
use peerlane_machine::transfer::Registration;
use peerlane_machine::units::{Bytes, Seconds};
use peerlane_measure::measure::{Failure, Verdict};
use peerlane_measure::nodes::{
    Method, Network, Nic, NicGpu, Node, NodeGpu, NodePlan, Samples, Step, Transport, Wanted,
};
use peerlane_measure::run::FlagKind;

use super::{Found, GpuSides, REGISTERING};
use crate::launcher::HostPort;
use crate::tests::without_crowd;
use crate::{Agents, Head, Join, Secret, take_part};

const WAIT: Duration = Duration::from_secs(20);

const METHOD: Method =
    Method { time: Seconds::new(0.05), samples: 3, patience: Seconds::new(4.0), silence: Seconds::new(8.0) };

/// Answers to all that is asked. `WHEN` may be put before it: cases that go wrong.
const SOUND: &str = r#"
    *'"Open"'*) echo '{"Opened":{"gpus":[{"name":"GPU0","product":"H"}],"nccl":"2.28.3","notes":[]}}' ;;
    *'"Prepare"'*) echo '{"Address":"the id"}' ;;
    *'"Connect"'*) case "$line" in *'the id'*) echo '"Done"' ;; *) echo '{"Failed":{"kind":"failed","message":"no id"}}' ;; esac ;;
    *'"Sample"'*) echo '{"Values":[2e9,2e9,2e9]}' ;;
    *'"Stop"'*) ;;
    *'"Verify"'*) echo '{"Verdict":"Intact"}' ;;
    *) echo '"Done"' ;;"#;

/// A shell with these cases before the sound ones; `once` names a file that is there after the first time.
fn shell(name: &str, when: &str) -> (Arc<GpuSides>, Found) {
    let once: PathBuf = std::env::temp_dir().join(format!("peerlane-gpu-{}-{name}", std::process::id()));
    let _ = fs::remove_file(&once);
    let script = format!("once={}\nwhile read -r line; do case \"$line\" in\n{when}{SOUND}\nesac; done", shown(&once));
    let program = move || {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &script]);
        Ok(command)
    };
    GpuSides::of(Box::new(program))
}

/// Two agents with such shells, and a round between them.
fn agents(name: &str, when: &str) -> Agents {
    let secret = || Secret::new("0123456789abcdef").unwrap();
    let head = Head::listen(&secret(), &[0], 2).unwrap();
    let port = head.port();
    for rank in 0..2 {
        let (sides, found) = shell(&format!("{name}-{rank}"), if rank == 1 { when } else { "" });
        assert_eq!((found.gpus.len(), found.nccl.as_deref()), (1, Some("2.28.3")), "{found:?}");
        thread::spawn(move || {
            let heads = || vec![HostPort { host: "127.0.0.1".to_owned(), port: Some(port) }];
            let node = Node { host: format!("node{rank}"), gpus: found.gpus, nccl: found.nccl, ..Node::default() };
            let (secret, ports, gpus) = (secret(), Vec::new(), Some(sides));
            let join =
                Join { secret: &secret, rank, size: 2, node: Some(node), gpus, heads: &heads, ports, wait: WAIT };
            let _ = take_part(join);
        });
    }
    head.gather(2, WAIT, false, &mut |_| true).unwrap()
}

/// The steps between two nodes: of TCP from one to the other, and of NCCL.
fn steps(agents: &Agents) -> (Step, Vec<Step>) {
    let of = |transport| {
        let wanted = Wanted { transports: vec![transport], ..Wanted::default() };
        let plan = NodePlan::of(agents.nodes(), &wanted, METHOD).unwrap();
        plan.rounds_of(agents.nodes()).concat()
    };
    let tcp = of(Transport::Tcp).into_iter().find(|step| !step.is_loopback()).unwrap();
    (Step { size: Bytes(8), ..tcp }, of(Transport::Nccl))
}

fn round(agents: &mut Agents, step: &Step) -> Result<Samples, Failure> {
    agents.round(std::slice::from_ref(step), &METHOD).remove(0)
}

#[test]
fn ranks_are_joined_by_the_first_ones_id() {
    let _alone = without_crowd();
    let mut agents = agents("sound", "");
    let (_, steps) = steps(&agents);
    assert_eq!(steps.len(), 2, "a pair, and the all-reduce");
    for step in &steps {
        let samples = round(&mut agents, step).unwrap();
        assert_eq!((samples.values, samples.verdict), (vec![2e9; 3], Verdict::Intact));
    }
}

#[test]
fn a_rank_that_hangs_costs_its_cell_and_the_next_one_gets_a_new_process() {
    let _alone = without_crowd();
    let hangs = "*'\"Serve\"'*) [ -e \"$once\" ] || { touch \"$once\"; exec sleep 60; }; echo '\"Done\"' ;;\n";
    let connects = hangs.replace("Serve", "Connect");
    // one that serves is given up once the other side has its samples; here that is at once
    for (name, when) in [("serve", hangs), ("connect", connects.as_str())] {
        let mut agents = agents(name, when);
        let (tcp, steps) = steps(&agents);
        let began = Instant::now();
        let hung = round(&mut agents, &steps[0]);
        assert!(began.elapsed() < Duration::from_secs_f64(METHOD.patience.seconds() + 2.0), "{:?}", began.elapsed());
        assert_eq!(hung.unwrap_err().kind, FlagKind::Hung, "{name}");
        assert!(round(&mut agents, &tcp).is_ok(), "{name}: the agents live");
        let samples = round(&mut agents, &steps[1]).unwrap_or_else(|failure| panic!("{name}: {failure:?}"));
        assert_eq!(samples.verdict, Verdict::Intact);
    }
}

#[test]
fn a_process_that_dies_says_its_last_words() {
    let _alone = without_crowd();
    let dies = "*'\"Serve\"'*) [ -e \"$once\" ] || { touch \"$once\"; echo 'misaligned address' >&2; exit 3; }; echo '\"Done\"' ;;\n";
    let mut agents = agents("dies", dies);
    let (_, steps) = steps(&agents);
    let failure = round(&mut agents, &steps[0]).unwrap_err();
    assert_eq!(failure.kind, FlagKind::Failed);
    assert!(failure.message.contains("exit status: 3; its last output: misaligned address"), "{}", failure.message);
    assert!(round(&mut agents, &steps[1]).is_ok());
}

#[test]
fn a_driver_that_takes_longer_than_a_step_to_open_is_waited_for() {
    let slow = r#"
    *'"Open"'*) [ -e "$once" ] && sleep 3; touch "$once"; echo '{"Opened":{"gpus":[{"name":"GPU0","product":"H"}],"nccl":"2.28.3","notes":[]}}' ;;
    *'"Prepare"'*) [ -e "$once.dies" ] || { touch "$once.dies"; exit 3; }; echo '{"Address":"the id"}' ;;
    "#;
    let dies = std::env::temp_dir().join(format!("peerlane-gpu-{}-reopens-1.dies", std::process::id()));
    let _ = fs::remove_file(&dies);
    let mut agents = agents("reopens", slow);
    let (_, steps) = steps(&agents);
    assert!(round(&mut agents, &steps[0]).unwrap_err().message.contains("exit status: 3"));
    let (by, mut rounds) = (Instant::now() + WAIT, 0);
    while let Err(failure) = round(&mut agents, &steps[0]) {
        assert!(Instant::now() < by, "{failure:?}");
        thread::sleep(Duration::from_millis(200));
        rounds += 1;
    }
    assert!(rounds > 0, "the first rounds come too early");
    let _ = fs::remove_file(&dies);
}

#[test]
fn what_answers_no_question_is_no_gpu() {
    for (when, words) in [
        (
            "*) echo '{\"Opened\":{\"gpus\":[],\"notes\":[\"no GPU memory: CUDA shows no GPU\"]}}' ;;\n",
            "CUDA shows no GPU",
        ),
        ("*) echo nonsense ;;\n", "the GPUs' process sent an invalid message"),
        ("*) exit 1 ;;\n", "the GPUs' process ended: exit status: 1"),
    ] {
        let (sides, found) = shell("none", when);
        assert!(found.gpus.is_empty() && found.notes.len() == 1 && found.notes[0].contains(words), "{found:?}");
        assert!(sides.process.lock().unwrap().is_none(), "nothing is left running");
    }
    assert_eq!(
        shell("found", "").1.gpus,
        [NodeGpu { name: "GPU0".to_owned(), product: "H".to_owned(), address: None }]
    );
}

#[test]
fn how_adapters_get_at_gpus_is_found_out_and_one_that_hangs_is_not_known() {
    let cases = r#"
    *'"Register"'*'"silent0"'*) exec sleep 60 ;;
    *'"Register"'*'"mlx5_0"'*) echo '{"Registered":{"registration":"dmabuf","why":null}}' ;;
    *'"Register"'*) echo '{"Registered":{"registration":null,"why":"dmabuf: no; nvidia-peermem: no"}}' ;;
    "#;
    let (sides, _) = shell("register", cases);
    let nic = |name: &str, gpu: bool| Nic {
        name: name.to_owned(),
        gpu: gpu.then(|| NicGpu { name: "GPU0".to_owned(), ..NicGpu::default() }),
        ..Nic::default()
    };
    let mut nics =
        [nic("mlx5_1", true), nic("mlx5_2", false), nic("mlx5_0", true), nic("silent0", true), nic("mlx5_3", true)];
    let began = Instant::now();
    let notes = sides.register(&mut nics);
    assert!(began.elapsed() < 2 * REGISTERING, "{:?}", began.elapsed());
    let of = |at: usize| nics[at].gpu.as_ref().map(|gpu: &NicGpu| (gpu.registration, gpu.why.as_deref()));
    assert_eq!(of(0), Some((None, Some("dmabuf: no; nvidia-peermem: no"))));
    assert_eq!((of(1), of(2)), (None, Some((Some(Registration::Dmabuf), None))));
    // a hang is no refusal, and costs no more than itself
    assert_eq!((of(3), of(4)), (None, None));
    assert!(
        notes.len() == 2 && notes[0].starts_with("silent0: whether") && notes[0].contains("was killed"),
        "{notes:?}"
    );
    assert!(notes[1].ends_with("others took too long"), "{notes:?}");
    // a new process is there for the first step
    let by = Instant::now() + WAIT;
    while sides.process.try_lock().map_or(true, |held| held.is_none()) {
        assert!(Instant::now() < by, "nobody opens the GPUs again");
        thread::sleep(Duration::from_millis(20));
    }
}
