//! What Kubernetes shows of nodes and pods: rows of `kubectl get nodes`, `get pods` and of sets of pods, tables of GPUs for each node, and
//! the states of containers in `kubectl describe pod`.
//!
//! A row is known by its own cells, so that a list that was searched (`kubectl get pods | grep gpu`) needs no header.

use super::health::Health;
use super::{Found, Text};
use peerlane_machine::fact::{Area, Grade};

const TOOL: &str = "kubectl";

/// A pod is placed within seconds, and its image is there within minutes.
const PLACED: u64 = 5 * 60;
const STARTED: u64 = 10 * 60;
const LONG: u64 = 30 * 60;

/// A pod that runs and was started this often does not run well.
const RESTARTS: u32 = 10;

/// Longer lines are no rows.
const LONGEST: usize = 1000;

pub(super) fn scan(text: &Text, found: &mut Found) {
    const HALLMARKS: [&str; 15] = [
        "Ready",
        "/1 ",
        "/2 ",
        "/3 ",
        "/4 ",
        "State:",
        "Running",
        "Pending",
        "GPU",
        "gpu",
        "DESIRED",
        "Restart Count",
        "Registered device plugin for '",
        " AMDGPUs",
        "validations are successful",
    ];
    if !text.holds_one_of(&HALLMARKS) {
        return;
    }
    let mut health = Health::default();
    // other tools have names and states, too
    const OF_PODS: [&str; 7] =
        ["Namespace:", "Container ID:", "Image ID:", "Restart Count:", "Exit Code:", "kubelet", "kubectl"];
    let describes_pods = text.holds(&OF_PODS);
    let mut container = Container::default();
    text.walk(|i| {
        let line = text.line(i);
        if line.len() > LONGEST {
            return None;
        }
        // most lines are passed over quickly
        let end = match line.contains("READY") {
            true => sets(text, i, &mut health),
            false if line.contains("GPU") || line.contains("gpu") => gpus_of_nodes(text, i, &mut health),
            false => None,
        };
        if end.is_some() {
            return end;
        }
        let may_be_row = line.contains(['/', 'R', 'U']);
        let words: Vec<&str> = if may_be_row { line.split_whitespace().collect() } else { Vec::new() };
        if let Some((part, bad, status)) = node(&words) {
            health.judge(Area::Node, bad, Some(part), "is", status, i);
        } else if let Some((part, bad, what)) = pod(&words) {
            health.judge(Area::Pod, bad, Some(part), "is", &what, i);
        } else if line.contains("Registered device plugin for '") || line.contains("validations are successful") {
            health.sound(Area::Pod, i);
        } else if let Some(count) = gpus_of_amd(line) {
            health.judge(
                Area::Node,
                (count == 0).then_some(Grade::Fault),
                None,
                "AMD's device plugin found",
                "no GPU",
                i,
            );
        } else if describes_pods {
            container.take(line, i, &mut health);
        }
        None
    });
    health.push(text, TOOL, found);
}

/// `gpu7   NotReady,SchedulingDisabled   worker   40d   v1.29.3`: a node's name and state, and how bad that is.
fn node<'a>(words: &[&'a str]) -> Option<(&'a str, Option<Grade>, &'a str)> {
    let [name, status, _roles, rest @ ..] = words else { return None };
    let is_version = |word: &&str| word.starts_with("v1.") && word.len() >= 5;
    // a role may be `<none>`, and ages stand before the version
    let version = rest.iter().position(is_version)?;
    let age = rest.get(version.checked_sub(1)?)?;
    seconds(age).filter(|_| is_name(name))?;
    let mut bad = None;
    for state in status.split(',') {
        bad = bad.max(match state {
            "Ready" => None,
            "SchedulingDisabled" => Some(Grade::Limit),
            "NotReady" | "Unknown" => Some(Grade::Fault),
            _ => return None,
        });
    }
    Some((name, bad, status))
}

/// `trainer-0   0/1   CrashLoopBackOff   12 (3m ago)   40m`: a pod's name and state, and how bad that is.
fn pod<'a>(words: &[&'a str]) -> Option<(&'a str, Option<Grade>, String)> {
    let at = words.iter().position(|word| ratio(word).is_some()).filter(|at| (1..=2).contains(at))?;
    let [name, ready, status, restarts, rest @ ..] = words.get(at - 1..)? else { return None };
    let (now, all) = ratio(ready)?;
    let restarts: u32 = restarts.parse().ok()?;
    // `12 (3m ago) 40m`
    let age = rest.iter().find(|word| !word.starts_with('(') && !word.ends_with(')')).and_then(|word| seconds(word));
    if !is_name(name) || (age.is_none() && !rest.is_empty()) {
        return None;
    }
    let bad = match *status {
        "Completed" | "Succeeded" => None,
        "Running" if now < all => grown(age, STARTED, Grade::Suspect),
        "Running" if restarts >= RESTARTS => Some(Grade::Note),
        "Running" => None,
        "Pending" => grown(age, PLACED, Grade::Fault),
        "ContainerCreating" | "PodInitializing" => grown(age, LONG, Grade::Fault),
        "Terminating" => Some(Grade::Note),
        state if state.strip_prefix("Init:").is_some_and(|state| ratio(state).is_some()) => {
            grown(age, LONG, Grade::Fault)
        }
        state if fails(state.strip_prefix("Init:").unwrap_or(state)) => Some(Grade::Fault),
        _ => return None,
    };
    let since = age.map_or_else(String::new, |_| format!(", age {}", rest.last().copied().unwrap_or_default()));
    let times = if restarts > 0 { format!(", {restarts} restarts") } else { String::new() };
    Some((name, bad, format!("{status} ({ready} ready{times}{since})")))
}

/// What a state is that all pods have at their start: good to know while it is young.
fn grown(age: Option<u64>, limit: u64, grade: Grade) -> Option<Grade> {
    Some(if age.is_some_and(|age| age >= limit) { grade } else { Grade::Note })
}

/// Whether a pod's state, or the reason for which a container does not run, is a failure.
fn fails(state: &str) -> bool {
    const STATES: [&str; 32] = [
        "CrashLoopBackOff",
        "Error",
        "OOMKilled",
        "ImagePullBackOff",
        "ErrImagePull",
        "ErrImageNeverPull",
        "InvalidImageName",
        "ImageInspectError",
        "RegistryUnavailable",
        "CreateContainerError",
        "CreateContainerConfigError",
        "CreatePodSandboxError",
        "RunContainerError",
        "StartError",
        "ContainerCannotRun",
        "ContainerStatusUnknown",
        "DeadlineExceeded",
        "Evicted",
        "Failed",
        "Unknown",
        "NodeLost",
        "NodeAffinity",
        "NodeShutdown",
        "Preempted",
        "Preempting",
        "UnexpectedAdmissionError",
        "TopologyAffinityError",
        "PostStartHookError",
        "PreStartHookError",
        "InvalidEnvironmentVariableNames",
        "Unschedulable",
        "BackoffLimitExceeded",
    ];
    let with_number = ["ExitCode:", "Signal:"].iter().any(|start| state.starts_with(start));
    STATES.contains(&state) || state.starts_with("OutOf") || with_number
}

/// `Found 8 AMDGPUs`, by the device plugin of AMD's GPUs.
fn gpus_of_amd(line: &str) -> Option<u32> {
    line.split_once("Found ")?.1.split_once(" AMDGPUs")?.0.parse().ok()
}

/// Sets of pods: `NAME DESIRED CURRENT READY …` of daemon sets, `NAME READY UP-TO-DATE AVAILABLE AGE` of deployments.
fn sets(text: &Text, head: usize, health: &mut Health) -> Option<usize> {
    let names: Vec<&str> = text.line(head).split_whitespace().collect();
    let at = |name: &str| names.iter().position(|word| *word == name);
    let (own, ready) = (at("NAME")?, at("READY")?);
    let desired = at("DESIRED");
    if desired.is_none() && at("AVAILABLE").is_none() || at("STATUS").is_some() {
        return None;
    }
    let mut i = head + 1;
    while i < text.len() {
        let cells: Vec<&str> = text.line(i).split_whitespace().collect();
        let (Some(name), Some(ready)) = (cells.get(own), cells.get(ready)) else { break };
        let counts = match desired {
            Some(desired) => cells.get(desired).and_then(|all| Some((ready.parse().ok()?, all.parse().ok()?))),
            None => ratio(ready),
        };
        let Some((now, all)) = counts.filter(|_| is_name(name)) else { break };
        let age = cells.last().and_then(|word| seconds(word));
        // an update takes minutes
        let young = age.is_some_and(|age| age < STARTED);
        let bad = (now < all).then_some(if young { Grade::Note } else { Grade::Suspect });
        health.judge(Area::Pod, bad, Some(name), "has", &format!("{now} of {all} pods ready"), i);
        i += 1;
    }
    (i > head + 1).then_some(i)
}

/// A table with the number of GPUs that each node offers, as `kubectl get nodes -o custom-columns=…` and scripts print it. What is `0` was
/// withdrawn; what is `<none>` was never offered, which is usual for a node without GPUs.
fn gpus_of_nodes(text: &Text, head: usize, health: &mut Health) -> Option<usize> {
    let names = cells(text.line(head));
    let short = names.iter().all(|name| name.len() <= 48 && !name.contains([':', '=', '"']));
    let is_of_nodes =
        |name: &&str| ["node", "nodes", "name", "node name"].contains(&name.to_ascii_lowercase().as_str());
    let node = names.iter().position(is_of_nodes)?;
    let offered = names.iter().position(|name| counts_gpus(name)).filter(|at| short && *at != node)?;
    let of_cluster = || text.holds_one_of(&["kubectl", "nvidia.com/gpu", "amd.com/gpu", "kubernetes"]);
    if !(names.get(node).is_some_and(|name| name.to_ascii_lowercase().starts_with("node")) || of_cluster()) {
        return None;
    }
    let mut rows: Vec<(usize, &str, Option<u32>)> = Vec::new();
    let mut i = head + 1;
    while i < text.len() {
        let line = text.line(i);
        let row = cells(line);
        let row = if row.len() == names.len() { row } else { line.split_whitespace().collect() };
        let (Some(name), Some(count)) = (row.get(node), row.get(offered)) else { break };
        let count = if *count == "<none>" { None } else { Some(count.parse().ok()) };
        match count {
            _ if row.len() != names.len() || !is_name(name) => break,
            Some(None) => break,
            count => rows.push((i, name, count.flatten())),
        }
        i += 1;
    }
    let any = rows.iter().any(|(_, _, count)| count.is_some_and(|count| count > 0));
    for (i, name, count) in &rows {
        let controls = ["master", "control", "cpu", "login"].iter().any(|word| name.contains(word));
        let bad = match count {
            Some(0) => Some(Grade::Fault),
            None if any || controls => Some(Grade::Note),
            None => Some(Grade::Fault),
            Some(_) => None,
        };
        health.judge(Area::Node, bad, Some(name), "offers", "no GPU to pods", *i);
    }
    (!rows.is_empty()).then_some(i)
}

/// The cells of a row: between bars, or gaps of two blanks.
fn cells(line: &str) -> Vec<&str> {
    let line = line.trim();
    match line.contains('|') {
        true => line.trim_matches('|').split('|').map(str::trim).collect(),
        false => line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect(),
    }
}

/// Whether a column has the number of GPUs that a node offers: `GPU`, `Available(GPUs)`, `nvidia.com/gpu`.
fn counts_gpus(name: &str) -> bool {
    const OTHERS: [&str; 16] = [
        "used", "use", "model", "type", "mem", "memory", "util", "product", "driver", "requests", "limits", "temp",
        "power", "name", "index", "id",
    ];
    let lower = name.to_ascii_lowercase();
    let words = || lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words().any(|word| matches!(word, "gpu" | "gpus")) && !words().any(|word| OTHERS.contains(&word))
}

/// The containers of `kubectl describe pod`: a state, and the lines below that say why.
#[derive(Default)]
struct Container {
    pod: Option<String>,
    /// `State` or `Last State` with its value, and whether that is how it is now.
    state: Option<(String, bool)>,
    reason: Option<String>,
}

impl Container {
    fn take(&mut self, line: &str, i: usize, health: &mut Health) {
        let Some((key, value)) = line.trim_start_matches(['>', ' ', '\t']).split_once(':') else { return };
        let value = value.trim();
        match key {
            "Name" if !line.starts_with(' ') => {
                *self = Container { pod: Some(value.to_owned()), ..Container::default() }
            }
            "State" | "Last State" if matches!(value, "Running" | "Waiting" | "Terminated") => {
                if (key, value) == ("State", "Running") {
                    health.sound(Area::Pod, i);
                }
                (self.state, self.reason) = (Some((value.to_owned(), key == "State")), None);
            }
            "Reason" if self.state.as_ref().is_some_and(|(state, _)| state != "Running") => {
                let is_now = self.state.as_ref().is_some_and(|(_, is_now)| *is_now);
                let what = if is_now { "a container does not run:" } else { "a container ended before:" };
                if value == "Completed" {
                    health.sound(Area::Pod, i);
                } else if matches!(value, "PodInitializing" | "ContainerCreating") {
                    health.trouble(Area::Pod, Grade::Note, self.pod.as_deref(), "a container waits:", value, i);
                } else if fails(value) {
                    let grade = if is_now { Grade::Fault } else { Grade::Suspect };
                    health.trouble(Area::Pod, grade, self.pod.as_deref(), what, value, i);
                }
                self.reason = Some(value.to_owned());
            }
            "Exit Code" if self.state.is_some() && value.parse::<u32>().is_ok_and(|code| code > 0) => {
                let (_, is_now) = self.state.clone().unwrap_or_default();
                let grade = if is_now { Grade::Fault } else { Grade::Suspect };
                health.trouble(Area::Pod, grade, self.pod.as_deref(), "exit code", &meaning(value), i);
            }
            "Status" if self.pod.is_some() && matches!(value, "Pending" | "Failed" | "Unknown") => {
                let bad = if value == "Pending" { Grade::Suspect } else { Grade::Fault };
                health.trouble(Area::Pod, bad, self.pod.as_deref(), "is", value, i);
            }
            "Status" if self.pod.is_some() && matches!(value, "Running" | "Succeeded") => health.sound(Area::Pod, i),
            _ => {}
        }
    }
}

/// What an exit code of a container says.
fn meaning(code: &str) -> String {
    let means = match code {
        "137" => " (killed: mostly by its memory limit)",
        "139" => " (segmentation fault)",
        "134" => " (abort)",
        "143" => " (ended from outside)",
        "126" | "127" => " (its command cannot be started)",
        _ => "",
    };
    format!("{code}{means}")
}

/// `1/1`.
fn ratio(word: &str) -> Option<(u32, u32)> {
    let (now, all) = word.split_once('/')?;
    let number = |text: &str| text.parse().ok().filter(|_| text.len() <= 3 && text.bytes().all(|b| b.is_ascii_digit()));
    Some((number(now)?, number(all)?)).filter(|(now, all)| now <= all)
}

/// `6m18s`, `40d`, `5h`: an age in seconds.
fn seconds(word: &str) -> Option<u64> {
    let mut rest = word.trim_end_matches(',');
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit()).filter(|end| (1..=6).contains(end))?;
        let number: u64 = rest.get(..end)?.parse().ok()?;
        let unit = match rest.as_bytes().get(end)? {
            b's' => 1,
            b'm' => 60,
            b'h' => 3600,
            b'd' => 86_400,
            b'y' => 31_536_000,
            _ => return None,
        };
        total = total.saturating_add(number * unit);
        rest = rest.get(end + 1..)?;
    }
    (!word.is_empty()).then_some(total)
}

/// A name as Kubernetes allows it.
fn is_name(word: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'.' | b'/' | b'_');
    word.bytes().all(plain) && word.bytes().any(|b| b.is_ascii_lowercase()) && word.len() <= 253
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;
    use peerlane_machine::fact::Fact;

    /// What is sound, and the parts that are not with their grades.
    fn read(body: &str) -> (u32, Vec<(String, Grade)>) {
        let mut all = (0, Vec::new());
        for one in scanned(scan, body).evidence {
            let Fact::Health(report) = one.fact else { panic!() };
            all.0 += report.sound;
            all.1.extend(report.troubles.into_iter().map(|t| (t.part.unwrap_or_default(), t.grade)));
        }
        all
    }

    fn bad(body: &str) -> Vec<(String, Grade)> {
        read(body).1
    }

    fn of(all: &[(&str, Grade)]) -> Vec<(String, Grade)> {
        all.iter().map(|(part, grade)| ((*part).to_owned(), *grade)).collect()
    }

    #[test]
    fn nodes() {
        let rows = "n1   Ready                      control-plane   40d   v1.29.3   10.0.0.1   <none>   Ubuntu\n\
                    n2   NotReady                   <none>          40d   v1.29.3\n\
                    n3   Ready,SchedulingDisabled   worker          3h5m  v1.29.3\n";
        let wanted = of(&[("n2", Grade::Fault), ("n3", Grade::Limit)]);
        assert_eq!(read(rows), (1, wanted.clone()), "without a header");
        assert_eq!(bad(&format!("NAME   STATUS   ROLES   AGE   VERSION\n{rows}")), wanted);
    }

    #[test]
    fn pods() {
        let rows = "train     a   1/1   Running             0               3d\n\
                    b         0/1   CrashLoopBackOff    12 (3m ago)     40m\n\
                    c         0/1   Pending             0               2h\n\
                    d         0/1   ContainerCreating   0               8s\n\
                    e         0/1   Init:0/2            0               3h   10.0.0.7   n3   <none>   <none>\n\
                    f         0/1   Completed           0               3h\n\
                    g         0/1   Running             0               20m\n\
                    h         0/1   Init:Error          3               5m\n";
        let (fault, note) = (Grade::Fault, Grade::Note);
        let wanted = [("b", fault), ("c", fault), ("d", note), ("e", fault), ("g", Grade::Suspect), ("h", fault)];
        assert_eq!(read(rows), (2, of(&wanted)));
        for row in
            ["a 1/1 of 3 parts\n", "step 10/10 Running 3 4m\n", "a   1/2   Walking   0   3d\n", "x 2/1 Error 0 3d\n"]
        {
            assert_eq!(bad(row), [], "{row}");
        }
    }

    #[test]
    fn sets_of_pods() {
        let sets = "NAME   DESIRED   CURRENT   READY   UP-TO-DATE   AVAILABLE   NODE SELECTOR   AGE\n\
                    a      8         8         7       8            7           gpu=true        9d\n\
                    b      8         8         8       8            8           <none>          9d\n";
        assert_eq!(read(sets), (1, of(&[("a", Grade::Suspect)])));
        let deployments = "NAME   READY   UP-TO-DATE   AVAILABLE   AGE\na      0/1     1            0           9d\n";
        assert_eq!(bad(deployments), of(&[("a", Grade::Suspect)]));
    }

    #[test]
    fn gpus_that_nodes_offer() {
        let table = "Node          GPUs(offered)    GPUs(used)\nn1                 2               0\nn2                 0               0\n";
        assert_eq!(read(table), (1, of(&[("n2", Grade::Fault)])));
        let columns = |first: &str| format!("$ kubectl get nodes\nNAME     GPU\nn1       {first}\ncpu-1    <none>\n");
        assert_eq!(bad(&columns("8")), of(&[("cpu-1", Grade::Note)]));
        assert_eq!(bad(&columns("<none>")), of(&[("n1", Grade::Fault), ("cpu-1", Grade::Note)]));
        assert_eq!(bad("NAME   GPU\nnvidia   fast\n"), []);
        assert_eq!(bad("Name   GPU memory\nn1   0\n"), []);
    }

    #[test]
    fn device_plugins() {
        let nvidia =
            "I0301 10:00:00.000000 1 server.go:125] Registered device plugin for 'nvidia.com/gpu' with Kubelet\n";
        assert_eq!(read(nvidia), (1, vec![]));
        let amd = |count: u32| read(&format!("I0301 10:00:00.000000 1 amdgpu.go:190] Found {count} AMDGPUs\n"));
        assert_eq!((amd(8).0, amd(0).1.len()), (1, 1));
    }

    #[test]
    fn containers_of_a_pod() {
        let pod = "Name:         trainer-0\nStatus:       Running\n    State:          Waiting\n      Reason:       CrashLoopBackOff\n    \
                   Last State:     Terminated\n      Reason:       OOMKilled\n      Exit Code:    137\n    Ready:  False\n";
        let wanted = [Grade::Fault, Grade::Suspect, Grade::Suspect].map(|grade| ("trainer-0", grade));
        assert_eq!(read(pod), (1, of(&wanted)));
        assert_eq!(bad("Reason: Error\nExit Code: 1\n"), [], "no container");
        assert_eq!(read("Name: a\nStatus: Running\nState: Running\n"), (0, vec![]), "of another tool");
        assert_eq!(read("    State:          Running\n      Started: Mon\n    Restart Count:  0\n"), (1, vec![]));
    }
}
