//! The tools. Each question is answered by a thread of its own, within the patience, one after another.

use std::sync::Arc;
use std::time::Duration;

use peerlane::cluster::Wanted;
use peerlane::units::Seconds;
use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{Implementation, ServerCapabilities, ServerConfig};
use rmcp::{Json, ServerHandler, tool, tool_handler, tool_router};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::answers::{self, Changed, Checked, Compared, Explained, Predicted, Simulated, Systems};
use crate::input::{Allowed, Inputs};
use crate::strict::Strict;

/// What the server says of itself.
const INSTRUCTIONS: &str = "Facts about multi-GPU machines: what every path between GPUs, NICs and host memory is, should deliver and \
     does deliver. Give the texts that tools printed whole and unchanged (nvidia-smi topo -m, dmesg, nccl-tests, lspci -vvv and many \
     more), or the name of a system of the catalogue. Quote numbers with their unit and interval. NOT JUDGED is not healthy.";

/// The most nodes of a simulated cluster.
const MOST_NODES: u32 = 4096;

/// The server.
#[derive(Clone)]
pub(crate) struct Server {
    allowed: Arc<Allowed>,
    patience: Duration,
    turn: Arc<Semaphore>,
    tool_router: ToolRouter<Self>,
}

/// The subject of a question.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct About {
    #[serde(flatten)]
    inputs: Inputs,
}

/// Two devices.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Ends {
    #[serde(flatten)]
    inputs: Inputs,
    /// Where the data comes from: `GPU0`, `host`, `mlx5_0`.
    from: String,
    /// Where it goes.
    to: String,
}

/// A workload.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Work {
    #[serde(flatten)]
    inputs: Inputs,
    /// `all-reduce`, `all-gather`, `reduce-scatter`, `all-to-all`, `broadcast`, `halo:3`, `training:model=llama-3-8b,tp=8,…`.
    workload: String,
    /// Message sizes: `64KiB..1GiB` or `1MiB,64MiB`; of a collective as nccl-tests counts them, of a halo one face.
    #[serde(default)]
    sizes: Option<String>,
    /// Makes a cluster of this many nodes like the machine.
    #[serde(default)]
    nodes: Option<u32>,
    /// The network between them: `rail`, `fat-tree:2`, `torus:4x4`, `dragonfly`, `switch`.
    #[serde(default)]
    network: Option<String>,
}

#[tool_router]
impl Server {
    pub(crate) fn new(allowed: Allowed, patience: Duration) -> Self {
        let turn = Arc::new(Semaphore::new(1));
        Server { allowed: Arc::new(allowed), patience, turn, tool_router: Self::tool_router() }
    }

    /// Judges machines by what their tools and logs say: verdict, cause first, what to do, and what was not understood.
    #[tool(annotations(read_only_hint = true, open_world_hint = false))]
    async fn check(
        &self,
        Parameters(Strict(About { inputs })): Parameters<Strict<About>>,
    ) -> Result<Json<Checked>, String> {
        self.answer(move |allowed| answers::check(&inputs.open(allowed)?)).await
    }

    /// What every path of a machine should deliver, with intervals and what limits it.
    #[tool(annotations(read_only_hint = true, open_world_hint = false))]
    async fn predict(
        &self,
        Parameters(Strict(About { inputs })): Parameters<Strict<About>>,
    ) -> Result<Json<Predicted>, String> {
        self.answer(move |allowed| answers::predict(&inputs.open(allowed)?)).await
    }

    /// One path hop by hop: rate, latency, what limits it, what was measured, what would make it faster.
    #[tool(annotations(read_only_hint = true, open_world_hint = false))]
    async fn explain(&self, Parameters(Strict(ends)): Parameters<Strict<Ends>>) -> Result<Json<Explained>, String> {
        self.answer(move |allowed| answers::explain(&ends.inputs.open(allowed)?, &ends.from, &ends.to)).await
    }

    /// Machines or designs side by side, with a conclusion: each text, path and system is one of its own, and so is each with what_if.
    #[tool(annotations(read_only_hint = true, open_world_hint = false))]
    async fn compare(
        &self,
        Parameters(Strict(About { inputs })): Parameters<Strict<About>>,
    ) -> Result<Json<Compared>, String> {
        self.answer(move |allowed| answers::compare(&inputs, allowed)).await
    }

    /// How long a collective or a workload takes on a machine, or on a cluster of such machines.
    #[tool(annotations(read_only_hint = true, open_world_hint = false))]
    async fn simulate(&self, Parameters(Strict(work)): Parameters<Strict<Work>>) -> Result<Json<Simulated>, String> {
        self.answer(move |allowed| {
            let mut opened = work.inputs.open(allowed)?;
            if let Some(nodes) = work.nodes {
                if nodes > MOST_NODES {
                    return Err(format!("{nodes} nodes: at most {MOST_NODES}"));
                }
                let wanted: Wanted = work.network.as_deref().unwrap_or("rail").parse().map_err(|e| format!("{e}"))?;
                let hop = Seconds::from_us(HOP_US);
                let cluster = opened.cluster(nodes, &wanted, None, hop).map_err(|e| e.to_string())?;
                (opened.cases, opened.clusters) = (Vec::new(), vec![cluster]);
            }
            answers::simulate(&opened, &work.workload, work.sizes.as_deref().unwrap_or("64KiB..1GiB"))
        })
        .await
    }

    /// What changes of a design (`what_if`) change: expected rates before and after, the verdict, new findings.
    #[tool(annotations(read_only_hint = true, open_world_hint = false))]
    async fn what_if(
        &self,
        Parameters(Strict(About { inputs })): Parameters<Strict<About>>,
    ) -> Result<Json<Changed>, String> {
        self.answer(move |allowed| {
            let edits = inputs.edits()?;
            if edits.is_empty() {
                return Err("no change: give what_if, such as 'GPU0.link=pcie 3.0 x16'".to_owned());
            }
            let before = inputs.unchanged(allowed)?;
            let after = before.clone().changed(&edits).map_err(|e| e.to_string())?;
            Ok(answers::what_if(&before, &after))
        })
        .await
    }

    /// The systems and clusters of the catalogue.
    #[tool(annotations(read_only_hint = true, open_world_hint = false))]
    async fn systems(&self) -> Result<Json<Systems>, String> {
        self.answer(|_| answers::systems()).await
    }
}

/// Latency of each switch between nodes, in microseconds, as the program has it by default.
const HOP_US: f64 = 0.2;

impl Server {
    /// Answers within the patience, waiting for its turn included. What takes longer is left to itself, and the next question waits for it.
    async fn answer<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Allowed) -> Result<T, String> + Send + 'static,
    ) -> Result<Json<T>, String> {
        let (until, patience) = (Instant::now() + self.patience, self.patience.as_secs());
        let turn = tokio::time::timeout_at(until, Arc::clone(&self.turn).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else {
            return Err(format!("busy for {patience} s with an earlier question; ask again later"));
        };
        let allowed = Arc::clone(&self.allowed);
        let work = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            question(&allowed)
        });
        match tokio::time::timeout_at(until, work).await {
            // a panic ends the thread of this question alone
            Ok(answer) => answer
                .unwrap_or_else(|_| Err("an error in peerlane itself, please report it with the inputs".to_owned()))
                .map(Json),
            Err(_) => {
                Err(format!("no answer within {patience} s; it is still being looked for, and the next question waits"))
            }
        }
    }
}

#[tool_handler(router = self.tool_router)]
impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("peerlane", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }
}
