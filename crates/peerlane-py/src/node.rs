//! What was opened, and the library's answers about it.

use std::ffi::OsString;

use peerlane::Opened;
use peerlane::case::Case;
use peerlane::catalogue::Parts;
use peerlane::check::Settings;
use peerlane::cluster::{ClusterError, Wanted};
use peerlane::comparison::{Comparison, MachineComparison};
use peerlane::input_file::{self, Kind};
use peerlane::model::Model;
use peerlane::place::{Jobs, Request, Workload};
use peerlane::simulate::workload::Sizes;
use peerlane::target::{self, Opener};
use peerlane::units::{Bytes, Rate, Seconds};
use peerlane::what_if::Edit;
use pyo3::prelude::*;

use crate::document::Document;
use crate::table::Table;
use crate::work::work;

/// Machines and clusters, with everything that is given about them.
#[pyclass(frozen, module = "peerlane._native")]
pub(crate) struct Node {
    opened: Opened,
}

/// A size in bytes, or several in words: `64KiB..1GiB`.
#[derive(FromPyObject)]
enum Size {
    Number(u64),
    Words(String),
}

fn sizes(all: Vec<Size>) -> Result<Vec<Bytes>, String> {
    let mut found = Vec::new();
    for size in all {
        match size {
            Size::Number(bytes) => found.push(Bytes(bytes)),
            Size::Words(words) => found.extend(words.parse::<Sizes>().map_err(|e| e.to_string())?.0),
        }
    }
    Ok(found)
}

fn edits(words: &[String]) -> Result<Vec<Edit>, String> {
    words.iter().map(|word| word.parse().map_err(|e| format!("what if '{word}': {e}"))).collect()
}

fn settings(file: Option<OsString>) -> Result<Settings, String> {
    let Some(file) = file else { return Ok(Settings::default()) };
    let text = input_file::text(file.as_ref(), Kind::Settings).map_err(|e| e.to_string())?;
    Settings::read(&text).map_err(|e| format!("{}: {e}", file.display()))
}

impl Node {
    fn new(opened: Opened) -> Self {
        Node { opened }
    }

    fn cases(&self) -> Opened {
        Opened { cases: self.opened.cases.clone(), ..Opened::default() }
    }
}

#[pymethods]
impl Node {
    /// What targets describe.
    #[staticmethod]
    fn open(py: Python<'_>, targets: Vec<OsString>) -> PyResult<Self> {
        work(py, || Opener::new(&peerlane_cli::this_machine).clusters().open(targets).map(Node::new))
    }

    /// What texts describe, each with its name.
    #[staticmethod]
    fn of_texts(py: Python<'_>, texts: Vec<(String, Vec<u8>)>) -> PyResult<Self> {
        work(py, || {
            let opener = Opener::new(&peerlane_cli::this_machine).clusters();
            let read = |(name, text): (String, Vec<u8>)| {
                let source = opener.read_bytes(&name, &text);
                (name, source)
            };
            opener.join(texts.into_iter().map(read)).map(Node::new)
        })
    }

    /// The names of the machines.
    #[getter]
    fn machines(&self) -> Vec<&str> {
        self.opened.machines().map(|machine| machine.name.as_str()).collect()
    }

    /// The names of the clusters.
    #[getter]
    fn clusters(&self) -> Vec<&str> {
        self.opened.clusters.iter().map(|cluster| cluster.name.as_str()).collect()
    }

    /// What a person should know of what was opened.
    #[getter]
    fn notices(&self) -> Vec<&str> {
        self.opened.notices.iter().map(String::as_str).collect()
    }

    /// Whether something could not be read; a notice has the reason.
    #[getter]
    fn incomplete(&self) -> bool {
        self.opened.incomplete
    }

    /// One of several machines.
    fn only(&self, py: Python<'_>, wanted: &str) -> PyResult<Self> {
        work(py, || self.cases().only(wanted).map(Node::new))
    }

    /// The machines and the nodes of clusters with edits applied.
    fn what_if(&self, py: Python<'_>, words: Vec<String>) -> PyResult<Self> {
        work(py, || {
            let edits = edits(&words)?;
            let given = Opened { clusters: self.opened.clusters.clone(), ..self.cases() };
            given.changed(&edits).map(Node::new).map_err(|e| e.to_string())
        })
    }

    /// A cluster of so many nodes like the only machine.
    fn cluster(
        &self,
        py: Python<'_>,
        nodes: u32,
        network: &str,
        gbit_per_s: Option<f64>,
        hop_latency_us: f64,
    ) -> PyResult<Self> {
        work(py, || {
            let wanted: Wanted = network.parse().map_err(|e: ClusterError| e.to_string())?;
            if !(hop_latency_us >= 0.0 && gbit_per_s.is_none_or(|rate| rate > 0.0 && rate.is_finite())) {
                return Err("a rate must be above 0, and a latency not below it".to_owned());
            }
            let (rate, hop) = (gbit_per_s.map(Rate::from_gbit), Seconds::from_us(hop_latency_us));
            let cluster = self.opened.cluster(nodes, &wanted, rate, hop).map_err(|e| e.to_string())?;
            Ok(Node::new(Opened { clusters: vec![cluster], ..Opened::default() }))
        })
    }

    /// See the document.
    fn check(&self, py: Python<'_>, rules: Option<OsString>) -> PyResult<Document> {
        work(py, || settings(rules).map(|settings| Document::check(self.opened.check(&settings))))
    }

    /// See the document.
    fn predict(&self, py: Python<'_>, of: Vec<Size>, collectives: Vec<Size>) -> PyResult<Document> {
        work(py, || {
            let predicted = self.opened.predict(&sizes(of)?, &sizes(collectives)?);
            Ok::<_, String>(Document::prediction(predicted))
        })
    }

    /// See the document.
    fn explain(&self, py: Python<'_>, a: &str, b: &str) -> PyResult<Document> {
        work(py, || self.opened.explain(a, b).map(Document::other))
    }

    /// See the document.
    fn simulate(&self, py: Python<'_>, workload: &str, of: Vec<Size>) -> PyResult<Vec<Document>> {
        work(py, || {
            let workload = workload.parse().map_err(|e| format!("{e}"))?;
            let simulated = self.opened.simulate(&workload, &sizes(of)?).map_err(|e| e.to_string())?;
            Ok::<_, String>(simulated.into_iter().map(Document::other).collect())
        })
    }

    /// See the document.
    fn place(
        &self,
        py: Python<'_>,
        jobs: Option<String>,
        nics: Option<usize>,
        workload: &str,
        busy: Vec<String>,
    ) -> PyResult<Document> {
        work(py, || {
            let jobs = match jobs.map(|words| words.parse::<Jobs>()) {
                Some(jobs) => jobs.map_err(|e| e.to_string())?.0,
                None => Vec::new(),
            };
            let Some(workload) = Workload::ALL.into_iter().find(|known| known.name() == workload) else {
                let names = Workload::ALL.map(Workload::name).join(", ");
                return Err(format!("no such workload: '{workload}'; there are: {names}"));
            };
            let placed = self.opened.place(&Request { jobs, nics, workload, busy });
            placed.map(Document::other).map_err(|e| e.to_string())
        })
    }

    /// See the document.
    fn infer(&self, py: Python<'_>) -> PyResult<Document> {
        work(py, || self.opened.infer().map(Document::other))
    }

    /// See the document.
    fn accuracy(&self, py: Python<'_>) -> PyResult<Document> {
        work(py, || self.opened.accuracy().map(Document::other))
    }

    /// Every expected and measured value, as `check` compares them.
    fn cells(&self, py: Python<'_>) -> PyResult<Table> {
        work(py, || {
            let compared = |case: &Case| {
                let model = Model::new(&case.machine, Parts::embedded());
                (case.machine.name.clone(), MachineComparison::of(&Comparison::of(&model)))
            };
            Ok::<_, String>(Table::of_cells(&self.opened.cases.iter().map(compared).collect::<Vec<_>>()))
        })
    }
}

/// Designs side by side, each by the name of what it was opened from; edits add a changed one beside each.
#[pyfunction]
pub(crate) fn compare(py: Python<'_>, nodes: Vec<(String, Py<Node>)>, words: Vec<String>) -> PyResult<Document> {
    work(py, || {
        let opened = nodes.iter().map(|(name, node)| (name, node.get().cases()));
        let designs = target::designs(opened, &edits(&words)?).map_err(|e| e.to_string())?;
        Ok::<_, String>(Document::other(target::compare(&designs)))
    })
}
