//! What is predicted of the collectives of one machine, as a document.

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

use super::Library;
use crate::cluster::Cluster;
use peerlane_machine::machine::Machine;
use peerlane_machine::transfer::Collective;
use peerlane_machine::units::Bytes;
use peerlane_model::collectives::Choice;
use peerlane_model::collectives::tuner::Predicted;

/// What is predicted of one collective among all GPUs of a machine.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ExpectedCollective {
    /// Which.
    pub collective: Collective,
    /// GPUs that take part.
    pub gpus: usize,
    /// One for each size, in their order.
    pub points: Vec<ExpectedPoint>,
}

/// One size.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ExpectedPoint {
    /// Bytes, as nccl-tests counts them.
    pub size: u64,
    /// Seconds.
    pub time: f64,
    /// Bus bandwidth in GB/s, as nccl-tests counts it.
    pub busbw: f64,
    /// The algorithm that NCCL or RCCL would choose: `ring`, `nvls` …
    pub algorithm: String,
    /// Its protocol: `ll`, `ll128` or `simple`.
    pub protocol: String,
}

impl ExpectedCollective {
    /// The collectives of a machine at these sizes; none below two GPUs, or where a rate is not known.
    pub fn all(machine: &Machine, sizes: &[Bytes]) -> Vec<Self> {
        const ALL: [Collective; 4] =
            [Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter, Collective::Broadcast];
        let cluster = Cluster::single(machine.clone());
        let gpus = cluster.gpus().len();
        let libraries = Library::each(&cluster, &ALL, Choice::FREE, None).unwrap_or_default();
        let of = |(collective, library): (Collective, Library)| {
            let point = |size: &Bytes| {
                let Predicted { algorithm, protocol, time, rate, .. } = library.predict(*size, Choice::FREE).ok()?;
                let (algorithm, protocol) = (algorithm.to_string(), protocol.to_string());
                Some(ExpectedPoint { size: size.0, time, busbw: rate / 1e9, algorithm, protocol })
            };
            let points: Option<Vec<_>> = sizes.iter().map(point).collect();
            Some(ExpectedCollective { collective, gpus, points: points? })
        };
        ALL.into_iter().zip(libraries).filter(|_| gpus > 1).filter_map(of).collect()
    }
}
