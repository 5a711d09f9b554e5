//! Which settings are worth a try, by the model's prediction.

use peerlane_machine::curve::At;
use peerlane_machine::fabric::{NodeId, NodeKind};
use peerlane_machine::machine::Machine;
use peerlane_machine::machine::lookup::LookupError;
use peerlane_machine::names::gpu_number;
use peerlane_machine::transfer::Collective;
use peerlane_machine::units::Bytes;
use peerlane_model::collectives::tuner::Medium;
use peerlane_model::collectives::tuning::Tuning;
use peerlane_model::collectives::{Rings, Settings, Variables};
use peerlane_model::flows::{Flows, interchangeable};
use peerlane_model::model::Model;
use peerlane_read::catalogue::Parts;

use super::document::{Action, Gain, Likely, MeasuredCollective, Rate, SCHEMA, Setting, Suggestion, TuningDocument};
use super::may_run;

/// A predicted gain below this is none.
const WORTH: f64 = 1.02;

/// A measured rate below this share of the prediction is looked into.
const FAR_BELOW: f64 = 0.6;

/// How near a prediction must come to a low rate to explain it.
const NEAR: [f64; 2] = [0.75, 1.33];

const GB: f64 = 1e9;

/// What is to be tuned.
#[derive(Clone, Debug)]
pub struct Request {
    /// The collective.
    pub collective: Collective,
    /// The GPUs, rank 0 first; all of the machine where empty.
    pub gpus: Vec<String>,
    /// Sizes of messages.
    pub sizes: Vec<Bytes>,
    /// NCCL's variables that are set.
    pub environment: Vec<Setting>,
}

/// Why nothing can be said.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TuneError {
    /// A GPU is not there.
    #[error("{0}: {1}")]
    NoSuchGpu(String, LookupError),
    /// Not a collective between 2 and 32 GPUs that NCCL's settings concern.
    #[error("{machine}: settings are predicted for 2 to 32 GPUs, and not for all-to-all; there are {gpus} GPUs")]
    Unsupported {
        /// The machine.
        machine: String,
        /// How many GPUs.
        gpus: usize,
    },
    /// The model has no rate for the rings.
    #[error("{0}: the rate between its GPUs is not known, so no setting can be predicted; `peerlane predict` says why")]
    Unknown(String),
}

/// A variable that costs speed, and why.
struct Cost {
    name: &'static str,
    reason: &'static str,
}

/// Variables that limit transfers within a host. Others say which network or libraries to use, or what to log.
const COSTS: [Cost; 15] = [
    Cost {
        name: "NCCL_P2P_DISABLE",
        reason: "It turns peer-to-peer off, so that all data goes through host memory. If it is set because the machine hangs or \
                 corrupts data, fix that cause first: usually ACS, the IOMMU or the driver.",
    },
    Cost {
        name: "NCCL_P2P_LEVEL",
        reason: "It forbids peer-to-peer between GPUs that are farther apart than this, so that their data goes through host \
                 memory.",
    },
    Cost {
        name: "NCCL_PROTO",
        reason: "It limits the protocols that NCCL may choose from by message size: LL has the least latency and at most half of \
                 the bandwidth, LL128 (NVLink) 92 %, Simple all of it and the most latency.",
    },
    Cost {
        name: "NCCL_ALGO",
        reason: "It limits the algorithms that NCCL may choose from by message size and number of ranks.",
    },
    Cost {
        name: "NCCL_MAX_NCHANNELS",
        reason: "It limits the channels, and one channel moves only what one thread block moves.",
    },
    Cost {
        name: "NCCL_MAX_NRINGS",
        reason: "It limits the channels, and one channel moves only what one thread block moves.",
    },
    Cost {
        name: "NCCL_MAX_CTAS",
        reason: "It limits the channels, and one channel moves only what one thread block moves.",
    },
    Cost {
        name: "NCCL_MIN_NCHANNELS",
        reason: "It opens more channels than NCCL would, which take blocks from other kernels.",
    },
    Cost {
        name: "NCCL_MIN_CTAS",
        reason: "It opens more channels than NCCL would, which take blocks from other kernels.",
    },
    Cost { name: "NCCL_BUFFSIZE", reason: "It sets the size of the buffers, and so of the chunks of a pipeline." },
    Cost { name: "NCCL_NTHREADS", reason: "It sets the threads of a channel's block." },
    Cost { name: "NCCL_LL128_NTHREADS", reason: "It sets the threads of a channel's block." },
    Cost { name: "NCCL_P2P_DIRECT_DISABLE", reason: "It makes ranks of one process copy through buffers." },
    Cost { name: "NCCL_P2P_USE_CUDA_MEMCPY", reason: "It uses copy engines in place of kernels." },
    Cost { name: "NCCL_THREAD_THRESHOLDS", reason: "It changes from which size on more channels are used." },
];

/// The settings to change on a machine, with predicted gains.
pub fn tune(machine: &Machine, parts: &Parts, request: &Request) -> Result<TuningDocument, TuneError> {
    let gpus = gpus(machine, &request.gpus)?;
    let unsupported = TuneError::Unsupported { machine: machine.name.clone(), gpus: gpus.len() };
    let mut tuning = Tuning::of(machine, parts, gpus.clone(), request.collective).ok_or(unsupported)?;
    let as_is = Change::of(&request.environment, request.collective);
    let paths = tuning.paths(&as_is.settings()).ok_or_else(|| TuneError::Unknown(machine.name.clone()))?;
    let mut search = Search { tuning: &mut tuning, sizes: &request.sizes, machine, parts };
    let mut suggestions = search.removals(&request.environment, &as_is);
    let clean = as_is.with_all(&suggestions);
    suggestions.extend(search.additions(&clean));
    search.regauge(&as_is, &mut suggestions);
    suggestions.sort_by(|a, b| gain_of(b).total_cmp(&gain_of(a)));
    let best = as_is.with_all(&suggestions);
    suggestions.extend(search.trials(&best));
    let document = TuningDocument {
        schema: SCHEMA,
        machine: machine.name.clone(),
        collective: request.collective,
        gpus: gpus.iter().map(|gpu| machine.fabric.node(*gpu).name.clone()).collect(),
        environment: request.environment.clone(),
        over: paths.medium.words().to_owned(),
        as_is: search.rates(&as_is),
        tuned: search.rates(&best),
        gains: search.gains(&as_is, &best),
        measured: search.measured(&as_is),
        suggestions,
        proof: None,
    };
    Ok(document)
}

fn gpus(machine: &Machine, wanted: &[String]) -> Result<Vec<NodeId>, TuneError> {
    if wanted.is_empty() {
        return Ok(machine.fabric.of_kind(NodeKind::Gpu).collect());
    }
    let find = |name: &String| machine.lookup_gpu(name).map_err(|why| TuneError::NoSuchGpu(machine.name.clone(), why));
    wanted.iter().map(find).collect()
}

fn gain_of(suggestion: &Suggestion) -> f64 {
    suggestion.best().map_or(1.0, |gain| gain.gain)
}

/// The variables after some changes.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) variables: Variables,
    collective: Collective,
}

impl Change {
    /// Of those that may be run.
    pub(super) fn of(environment: &[Setting], collective: Collective) -> Self {
        let runs = environment.iter().filter(|setting| may_run(&setting.name, &setting.value));
        let variables = runs.map(|setting| (setting.name.clone(), setting.value.clone())).collect();
        Change { variables, collective }
    }

    pub(super) fn with(&self, action: &Action) -> Self {
        let mut changed = self.clone();
        match action {
            Action::Unset { name, .. } => drop(changed.variables.remove(name)),
            Action::Set { name, value } => drop(changed.variables.insert(name.clone(), value.clone())),
            Action::Order { .. } | Action::Bind { .. } => {}
        }
        changed
    }

    /// The same with the change taken back.
    pub(super) fn without(&self, action: &Action) -> Self {
        let mut changed = self.clone();
        match action {
            Action::Unset { name, value } => drop(changed.variables.insert(name.clone(), value.clone())),
            Action::Set { name, .. } => drop(changed.variables.remove(name)),
            Action::Order { .. } | Action::Bind { .. } => {}
        }
        changed
    }

    /// With all that have a predicted gain.
    pub(super) fn with_all(&self, suggestions: &[Suggestion]) -> Self {
        let predicted = suggestions.iter().filter(|suggestion| !suggestion.predicted.is_empty());
        predicted.fold(self.clone(), |changed, suggestion| changed.with(&suggestion.action))
    }

    /// Without NVLink SHARP, as every run of a proof is.
    fn settings(&self) -> Settings {
        let mut variables = self.variables.clone();
        variables.insert("NCCL_NVLS_ENABLE".to_owned(), "0".to_owned());
        Settings::of(&variables, self.collective)
    }
}

struct Search<'s, 'a> {
    tuning: &'s mut Tuning<'a>,
    sizes: &'s [Bytes],
    machine: &'a Machine,
    parts: &'a Parts,
}

impl Search<'_, '_> {
    fn rates(&mut self, change: &Change) -> Vec<Rate> {
        let settings = change.settings();
        let rate = |size: &Bytes| {
            let [rate, low, high] = self.tuning.interval(&settings, *size)?;
            Some(Rate { size: *size, rate: rate / GB, low: low / GB, high: high / GB })
        };
        self.sizes.iter().filter_map(rate).collect()
    }

    fn gains(&mut self, before: &Change, after: &Change) -> Vec<Gain> {
        let (before, after) = (before.settings(), after.settings());
        let gain = |size: &Bytes| {
            let [gain, low, high] = self.tuning.gain(&before, &after, *size)?;
            let rate = self.tuning.predict(&before, *size)?.rate / GB;
            Some(Gain { size: *size, gain, low, high, before: rate, after: rate * gain })
        };
        self.sizes.iter().filter_map(gain).collect()
    }

    /// Variables whose removal is predicted to help at some size and to hurt at none; then those with no predicted effect.
    fn removals(&mut self, environment: &[Setting], as_is: &Change) -> Vec<Suggestion> {
        let mut found = Vec::new();
        let runs = |setting: &&Setting| !setting.value.is_empty() && may_run(&setting.name, &setting.value);
        for Setting { name, value, source } in environment.iter().filter(runs) {
            let Some(cost) = COSTS.iter().find(|cost| cost.name == name) else { continue };
            let action = Action::Unset { name: name.clone(), value: value.clone() };
            // alone in an environment where nothing else limits
            let clean = COSTS.iter().fold(as_is.clone(), |clean, cost| {
                clean.with(&Action::Unset { name: cost.name.to_owned(), value: String::new() })
            });
            let gains = self.gains(&clean.without(&action), &clean);
            if gains.iter().any(|gain| gain.gain < 1.0 / WORTH) {
                continue;
            }
            let helps = gains.iter().any(|gain| gain.gain >= WORTH);
            let named = ["environment", "--set"].contains(&source.as_str());
            let place = if named { String::new() } else { format!(" It is set in {source}.") };
            let reason = format!("{name}={value} is set. {}{place}", cost.reason);
            let predicted = if helps { gains } else { Vec::new() };
            found.push(Suggestion { command: action.command(), action, reason, predicted, proven: None });
        }
        found
    }

    /// Gains of each against all the others that have one.
    fn regauge(&mut self, as_is: &Change, suggestions: &mut [Suggestion]) {
        let best = as_is.with_all(suggestions);
        for suggestion in suggestions.iter_mut().filter(|s| !s.predicted.is_empty()) {
            if !matches!(suggestion.action, Action::Order { .. } | Action::Bind { .. }) {
                suggestion.predicted = self.gains(&best.without(&suggestion.action), &best);
            }
        }
    }

    /// Variables that are predicted to help.
    fn additions(&mut self, clean: &Change) -> Vec<Suggestion> {
        let mut found = Vec::new();
        let settings = clean.settings();
        let level = settings.peer.unwrap_or_else(|| self.tuning.default_level());
        let set = |name: &str, value: &str| Action::Set { name: name.to_owned(), value: value.to_owned() };
        if let Some(needed) = self.tuning.level_for_all().filter(|needed| *needed > level && settings.peer.is_none()) {
            let action = set("NCCL_P2P_LEVEL", needed.name());
            let reason = format!(
                "By itself NCCL uses no peer-to-peer between GPUs whose path crosses a host bridge ({}), although the driver \
                 offers it; their data goes through host memory. Keep it only if data arrives intact.",
                needed.name()
            );
            found.extend(self.helping(clean, action, reason));
        }
        let direct = self.tuning.paths(&settings).is_some_and(|paths| paths.medium == Medium::Pcie);
        if direct && settings.peer.is_none() {
            let reason = "Through host memory these pairs are predicted to be faster than directly: what they share on the \
                          direct way carries less.";
            found.extend(self.helping(clean, set("NCCL_P2P_DISABLE", "1"), reason.to_owned()));
        }
        found.extend(self.order());
        found
    }

    fn helping(&mut self, clean: &Change, action: Action, reason: String) -> Option<Suggestion> {
        let predicted = self.gains(clean, &clean.with(&action));
        let (helps, hurts) =
            (predicted.iter().any(|g| g.gain >= WORTH), predicted.iter().any(|g| g.gain < 1.0 / WORTH));
        (helps && !hurts).then(|| Suggestion { command: action.command(), action, reason, predicted, proven: None })
    }

    /// Another order of ranks, for sends to the next rank. Rings of other collectives do not depend on it.
    fn order(&mut self) -> Option<Suggestion> {
        if self.tuning.collective() != Collective::SendReceive {
            return None;
        }
        let model = Model::new(self.machine, self.parts);
        let flows = Flows::new(&model, peerlane_machine::matrix::Engine::Sm);
        let places: Vec<usize> =
            self.tuning.gpus().iter().map(|gpu| flows.ends.iter().position(|end| end == gpu)).collect::<Option<_>>()?;
        let best = Rings::best(&flows, &places, &interchangeable(&flows))?;
        let (order, _) = best.rings.first()?;
        let [before, after] = [&places, order].map(|order| Rings::in_order(&flows, order).map(|r| r.rate() / GB));
        let (before, after) = (before?, after?);
        let gain = after / before;
        let gpus: Vec<String> = order.iter().map(|gpu| flows.name(*gpu).to_owned()).collect();
        let devices: Vec<String> =
            gpus.iter().map(|name| gpu_number(name).map(|n| n.to_string())).collect::<Option<_>>()?;
        let action = Action::Order { gpus, devices: devices.join(",") };
        let reason = "Each rank sends to the next, so the order of GPUs decides which paths are used.".to_owned();
        let large = *self.sizes.iter().max()?;
        let predicted = vec![Gain { size: large, gain, low: gain, high: gain, before, after }];
        (gain >= WORTH).then(|| Suggestion { command: action.command(), action, reason, predicted, proven: None })
    }

    /// Settings that help on some machines, which nothing predicts.
    fn trials(&mut self, best: &Change) -> Vec<Suggestion> {
        if self.tuning.collective() == Collective::SendReceive {
            return Vec::new();
        }
        let Some(paths) = self.tuning.paths(&best.settings()) else { return Vec::new() };
        let mut found = Vec::new();
        let mut propose = |action: Action, reason: &str| {
            let known = match &action {
                Action::Set { name, .. } => best.variables.contains_key(name),
                _ => false,
            };
            if !known {
                let (command, reason) = (action.command(), reason.to_owned());
                found.push(Suggestion { action, command, reason, predicted: Vec::new(), proven: None });
            }
        };
        let set = |name: &str, value: &str| Action::Set { name: name.to_owned(), value: value.to_owned() };
        let (channels, why) = match paths.medium {
            Medium::Fabric => (
                "32",
                "More channels than NCCL opens may carry a few per cent more over NVLink; they take blocks from other kernels.",
            ),
            Medium::Pcie | Medium::Host => {
                ("16", "NCCL opens few channels over PCIe and host memory; more keep more transfers in flight.")
            }
        };
        propose(set("NCCL_MIN_NCHANNELS", channels), why);
        if self.tuning.collective() == Collective::AllReduce {
            propose(set("NCCL_ALGO", "Tree"), "Trees may carry more than rings, depending on the number of GPUs.");
        }
        if paths.medium == Medium::Host
            && let Some(node) = self.numa_node()
        {
            let reason = "Data goes through host memory, and all these GPUs are on this NUMA node: buffers elsewhere cross the \
                          socket link.";
            propose(Action::Bind { node }, reason);
        }
        found
    }

    /// The NUMA node of all GPUs, where the machine has another.
    fn numa_node(&self) -> Option<u32> {
        let fabric = &self.machine.fabric;
        let several = fabric.of_kind(NodeKind::Host).count() > 1;
        let mut nodes = self.tuning.gpus().iter().map(|gpu| fabric.node(*gpu).numa);
        let first = nodes.next()??;
        (several && nodes.all(|node| node == Some(first))).then_some(first)
    }

    /// A rate of the same collective that the machine's sources state.
    fn measured(&mut self, as_is: &Change) -> Option<MeasuredCollective> {
        let names = measured_as(self.tuning.collective());
        let gpus = self.tuning.gpus().len();
        let of_all = self.machine.curves.iter().filter(|(curve, _)| {
            let one_host = curve.settings.get("hosts").is_none_or(|n| n == "1");
            names.contains(&curve.what.as_str()) && one_host && curve.ends.len() == gpus
        });
        let best = of_all.filter_map(|(curve, origin)| Some((curve, origin, curve.best()?)));
        let (curve, origin, At { size, rate }) = best.max_by(|a, b| a.2.rate.gb().total_cmp(&b.2.rate.gb()))?;
        let rate = rate.gb();
        let predicted = self.tuning.predict(&as_is.settings(), size)?.rate / GB;
        let likely = if rate < FAR_BELOW * predicted { self.likely(as_is, size, rate) } else { Vec::new() };
        let (what, source) = (curve.what.clone(), origin.to_string());
        Some(MeasuredCollective { what, source, size, rate, predicted, likely })
    }

    /// Settings under which a low rate is to be expected.
    fn likely(&mut self, as_is: &Change, size: Bytes, measured: f64) -> Vec<Likely> {
        const TRIED: [(&str, &str); 6] = [
            ("NCCL_P2P_DISABLE", "1"),
            ("NCCL_PROTO", "LL"),
            ("NCCL_MAX_NCHANNELS", "1"),
            ("NCCL_MAX_NCHANNELS", "2"),
            ("NCCL_MAX_NCHANNELS", "4"),
            ("NCCL_MAX_NCHANNELS", "8"),
        ];
        let mut found = Vec::new();
        for (name, value) in TRIED {
            let changed = as_is.with(&Action::Set { name: name.to_owned(), value: value.to_owned() });
            let Some(predicted) = self.tuning.predict(&changed.settings(), size) else { continue };
            let rate = predicted.rate / GB;
            if (NEAR[0]..=NEAR[1]).contains(&(measured / rate)) {
                found.push(Likely { setting: format!("{name}={value}"), rate });
            }
        }
        found
    }
}

/// How programs name a collective.
fn measured_as(collective: Collective) -> &'static [&'static str] {
    match collective {
        Collective::AllReduce => &["all_reduce_perf", "all-reduce"],
        Collective::AllGather => &["all_gather_perf", "all-gather"],
        Collective::ReduceScatter => &["reduce_scatter_perf", "reduce-scatter"],
        Collective::Broadcast => &["broadcast_perf", "broadcast"],
        Collective::SendReceive => &["sendrecv_perf", "send-receive"],
        Collective::AllToAll => &["alltoall_perf", "all-to-all"],
    }
}
