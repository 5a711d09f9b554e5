//! `measure --nodes`: processes on this machine that take each other for nodes.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{self, err, path, status, stdout};

const SECRET: &str = "a secret of this test";

/// How long anything may take; a round with a stopped agent takes some seconds.
const PATIENCE: Duration = Duration::from_secs(90);

/// A process of a job of Slurm's, which has the variables of no other launcher.
fn process(job: &str, rank: usize, size: usize, options: &[&str]) -> Command {
    let mut command = common::command(&[&["measure", "--nodes", "--every-rank"], options].concat());
    let job = format!("{job}-{}", std::process::id());
    command.env("PEERLANE_SECRET", SECRET).env("SLURM_JOB_ID", job).env("SLURM_JOB_NODELIST", "localhost,b,c,d");
    command.env("SLURM_PROCID", rank.to_string()).env("SLURM_NTASKS", size.to_string());
    command.env("SLURMD_NODENAME", format!("node{rank}"));
    command
}

/// Its output, or none where it does not end: then it is killed.
fn ended(mut child: Child) -> Output {
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("it did not end: {:?}", child.wait_with_output());
        }
        thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().unwrap()
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([format!("-{name}"), child.id().to_string()]).status().unwrap().success());
}

fn wait_for(what: &str, mut is: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < PATIENCE, "waited for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// The value of a rate from one node to another.
fn rate(run: &Value, from: usize, to: usize) -> Option<f64> {
    let cells = run["cells"].as_array().unwrap();
    let is = |cell: &&Value| cell["probe"] == "send" && cell["from"]["node"] == from && cell["to"]["node"] == to;
    cells.iter().find(is)?["value"].as_f64()
}

#[test]
fn two_processes_measure_each_other_and_only_the_head_writes() {
    let file = path("between", "two.json");
    let _ = fs::remove_file(&file);
    let name = file.to_str().unwrap();
    let agent = process("two", 1, 2, &["-o", name]).spawn().unwrap();
    let head = ended(process("two", 0, 2, &["-o", name]).spawn().unwrap());
    let agent = ended(agent);
    assert_eq!((status(&head), status(&agent)), (0, 0), "{head:?} {agent:?}");
    assert_eq!((stdout(&agent), err(&agent)), (String::new(), String::new()));
    assert!(err(&head).contains("2 nodes, by Slurm, head node0: tcp, "), "{}", err(&head));
    let run: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!((&run["complete"], &run["launcher"]), (&Value::Bool(true), &Value::from("Slurm")));
    assert!(rate(&run, 0, 1).unwrap() > 1e6 && rate(&run, 1, 0).unwrap() > 1e6);
    let flagged = run["cells"].as_array().unwrap().iter().any(|cell| cell.get("flags").is_some());
    assert!(!flagged, "all content was compared");
}

#[test]
fn a_killed_and_a_stopped_agent_cost_their_own_pairs() {
    let file = path("between", "killed.json");
    let partial = format!("{}.partial", file.display());
    for old in [Path::new(&partial), &file] {
        let _ = fs::remove_file(old);
    }
    let head = process("killed", 0, 4, &["-o", file.to_str().unwrap()]).spawn().unwrap();
    let mut agents: Vec<Child> = (1..4).map(|rank| process("killed", rank, 4, &[]).spawn().unwrap()).collect();
    wait_for("the first cells", || fs::read_to_string(&partial).is_ok_and(|text| text.contains("cells")));
    let began = Instant::now();
    signal(&agents[1], "KILL");
    signal(&agents[2], "STOP");
    let head = ended(head);
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    let run: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    let mut lost: Vec<u64> = run["lost"].as_array().unwrap().iter().map(|l| l["node"].as_u64().unwrap()).collect();
    lost.sort_unstable();
    assert_eq!(lost, [2, 3], "{}", run["lost"]);
    let why = run["lost"].to_string();
    // the head may hear that the connection is closed, or find out when it sends
    let closed = why.contains("closed the connection") || why.contains("nothing can be sent to its agent");
    assert!(closed && why.contains("no sign of life"), "{why}");
    assert!(rate(&run, 0, 1).is_some() && rate(&run, 1, 0).is_some(), "those that live are measured: {head:?}");
    let cells = run["cells"].as_array().unwrap();
    let valueless = cells.iter().filter(|cell| cell.get("value").is_none());
    for cell in valueless {
        let nodes = [&cell["from"]["node"], &cell["to"]["node"]].map(|node| node.as_u64().unwrap());
        assert!(nodes.iter().any(|node| [2, 3].contains(node)), "{cell}");
        let why = cell["flags"][0]["detail"].as_str().unwrap();
        assert!(why.starts_with("node2") || why.starts_with("node3"), "{why}");
    }
    assert_eq!(status(&ended(agents.remove(0))), 0, "the agent that lives ends with its head");
    signal(&agents[1], "CONT");
    let stopped = ended(agents.remove(1));
    assert_eq!(status(&stopped), 2, "{stopped:?}");
    agents.remove(0).wait().unwrap();
}

#[test]
fn a_redacted_record_names_no_host_even_of_a_node_that_is_lost() {
    let file = path("between", "redacted.json");
    let partial = format!("{}.partial", file.display());
    for old in [Path::new(&partial), &file] {
        let _ = fs::remove_file(old);
    }
    let named = |rank: usize, options: &[&str]| {
        let mut command = process("redacted", rank, 3, options);
        command.env("SLURMD_NODENAME", format!("rackety{rank}"));
        command
    };
    let head = named(0, &["--redact", "-o", file.to_str().unwrap()]).spawn().unwrap();
    let mut agents: Vec<Child> = (1..3).map(|rank| named(rank, &[]).spawn().unwrap()).collect();
    wait_for("the first cells", || fs::read_to_string(&partial).is_ok_and(|text| text.contains("cells")));
    signal(&agents[1], "KILL");
    let head = ended(head);
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("was lost") && !text.contains("rackety"), "{head:?} {text}");
    assert!(!(err(&head) + &stdout(&head)).contains("rackety"), "{head:?}");
    assert_eq!(status(&ended(agents.remove(0))), 0);
    agents.remove(0).wait().unwrap();
}

#[test]
fn agents_end_when_their_head_is_killed() {
    let mut head = process("headless", 0, 3, &[]).spawn().unwrap();
    let agent = process("headless", 1, 3, &[]).spawn().unwrap();
    // the head reports the wait once an agent has come; the third never does
    thread::sleep(Duration::from_millis(1500));
    signal(&head, "KILL");
    head.wait().unwrap();
    let agent = ended(agent);
    assert_eq!(status(&agent), 2);
    let heard = err(&agent);
    assert!(heard.contains("rank 1: the head closed the connection"), "{heard}");
}

#[test]
fn nothing_begins_without_the_same_secret() {
    let refused = |command: &mut Command| {
        let output = ended(command.spawn().unwrap());
        assert_eq!((status(&output), stdout(&output)), (2, String::new()));
        err(&output)
    };
    let none = refused(process("none", 0, 2, &[]).env_remove("PEERLANE_SECRET"));
    assert!(none.contains("nothing listens without it") && none.contains("openssl rand -hex 16"), "{none}");
    let short = refused(process("short", 0, 2, &[]).env("PEERLANE_SECRET", "guess"));
    assert!(short.contains("PEERLANE_SECRET: it has fewer than 16 characters"), "{short}");
    let head = process("wrong", 0, 2, &["--wait", "7s"]).spawn().unwrap();
    let file = common::file("between", "secret", "another secret, in a file\n");
    let agent = refused(&mut process("wrong", 1, 2, &["--secret-file", &file]));
    assert!(agent.contains("refuses this secret"), "{agent}");
    let head = err(&ended(head));
    assert!(head.contains("1 of 2 processes came; missing: rank 1; ") && head.contains("another secret"), "{head}");
}

#[test]
fn a_secret_that_others_may_read_is_reported_or_refused() {
    use std::os::unix::fs::PermissionsExt;
    let file = common::file("between", "open-secret", "a secret, in a file of its own\n");
    let with = |mode: u32, more: &[&str]| {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        let args = [&["--secret-file", &file, "--wait", "1s"], more].concat();
        err(&ended(process("open", 0, 2, &args).spawn().unwrap()))
    };
    for (mode, who) in
        [(0o644, "its mode is 0644, so that everybody on this host"), (0o640, "its mode is 0640, so that its group")]
    {
        let (warned, refused) = (with(mode, &[]), with(mode, &["--strict-secrets"]));
        for said in [&warned, &refused] {
            assert!(said.contains(who) && said.contains("`chmod 600`"), "{said}");
        }
        assert!(warned.contains("1 of 2 processes came"), "a warning alone ends nothing: {warned}");
        assert!(!refused.contains("processes came"), "{refused}");
    }
    for more in [&[][..], &["--strict-secrets"]] {
        let said = with(0o600, more);
        assert!(said.contains("1 of 2 processes came") && !said.contains("chmod"), "{said}");
    }
}

#[test]
fn processes_of_different_runs_are_refused_with_both_numbers() {
    let head = process("size", 0, 3, &[]).spawn().unwrap();
    let agent = ended(process("size", 1, 2, &[]).spawn().unwrap());
    let (head, agent) = (err(&ended(head)), err(&agent));
    for said in [&head, &agent] {
        assert!(said.contains("was started as one of 2 processes, and the head as one of 3"), "{said}");
    }
    let missing = ended(process("missing", 0, 2, &["--wait", "1s"]).spawn().unwrap());
    assert!(err(&missing).contains("1 of 2 processes came; missing: rank 1"), "{missing:?}");
}

#[test]
fn a_rendezvous_file_names_the_head_where_the_launcher_does_not() {
    let file = path("between", "rendezvous");
    let _ = fs::remove_file(&file);
    let mpich = |rank: &str, options: &[&str]| {
        let mut command = common::command(&[&["measure", "--nodes", "--every-rank"], options].concat());
        command.env("PEERLANE_SECRET", SECRET).env("PMI_RANK", rank).env("PMI_SIZE", "2");
        command.env("PMI_JOBID", format!("{}", std::process::id()));
        command
    };
    let agent = ended(mpich("1", &[]).spawn().unwrap());
    let why = err(&agent);
    assert!(why.contains("MPICH does not say on which host rank 0 is") && why.contains("--rendezvous"), "{why}");
    let options = ["--rendezvous", file.to_str().unwrap()];
    let agent = mpich("1", &options).spawn().unwrap();
    let head = ended(mpich("0", &options).spawn().unwrap());
    assert_eq!((status(&head), status(&ended(agent))), (0, 0), "{head:?}");
}

#[test]
fn without_a_launcher_the_command_says_how_to_start_it() {
    let mut command = common::command(&["measure", "--nodes"]);
    let output = command.env("PEERLANE_SECRET", SECRET).output().unwrap();
    assert_eq!(status(&output), 2);
    assert!(err(&output).contains("srun -N 4 --ntasks-per-node=1 peerlane measure --nodes"), "{}", err(&output));
    assert!(common::refused(&["measure", "live", "--nodes"]).contains("cannot be used with"));
    assert!(common::refused(&["measure", "--head", "a"]).contains("--nodes"));
}
