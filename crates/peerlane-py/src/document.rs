//! Answers, which become Python objects when they are looked at.

use peerlane::comparison::MachineComparison;
use peerlane::export::json::{CheckDocument, PredictionDocument};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::Serialize;

use crate::table::Table;
use crate::work::work;

/// A document that `--json` writes. Comparisons, which are the most of it, are kept apart and are written when they are asked for.
#[pyclass(frozen, module = "peerlane._native")]
pub(crate) struct Document {
    content: Content,
    /// Each machine's name and comparison.
    comparisons: Vec<(String, MachineComparison)>,
}

enum Content {
    Check(CheckDocument),
    Prediction(PredictionDocument),
    Other(Box<dyn Fn() -> serde_json::Result<Vec<u8>> + Send + Sync>),
}

impl Document {
    pub(crate) fn check(mut document: CheckDocument) -> Self {
        let machines = document.machines.iter_mut();
        let comparisons = machines.filter_map(|of| Some((of.name.clone(), of.comparison.take()?))).collect();
        Document { content: Content::Check(document), comparisons }
    }

    pub(crate) fn prediction(mut document: PredictionDocument) -> Self {
        let comparisons = match document.comparison.take() {
            Some(only) => vec![(document.machine.clone().unwrap_or_default(), only)],
            None => {
                let machines = document.machines.iter_mut();
                machines.map(|of| (of.name.clone(), std::mem::take(&mut of.comparison))).collect()
            }
        };
        Document { content: Content::Prediction(document), comparisons }
    }

    pub(crate) fn other(document: impl Serialize + Send + Sync + 'static) -> Self {
        let content = Content::Other(Box::new(move || serde_json::to_vec(&document)));
        Document { content, comparisons: Vec::new() }
    }

    fn whole(&self) -> serde_json::Result<Vec<u8>> {
        match &self.content {
            Content::Check(document) => {
                let mut document = document.clone();
                let machines = document.machines.iter_mut().zip(&self.comparisons);
                machines.for_each(|(of, (_, comparison))| of.comparison = Some(comparison.clone()));
                serde_json::to_vec(&document)
            }
            Content::Prediction(document) => {
                let mut document = document.clone();
                if let ([], [(_, only)]) = (document.machines.as_slice(), self.comparisons.as_slice()) {
                    document.comparison = Some(only.clone());
                }
                let machines = document.machines.iter_mut().zip(&self.comparisons);
                machines.for_each(|(of, (_, comparison))| of.comparison = comparison.clone());
                serde_json::to_vec(&document)
            }
            Content::Other(write) => write(),
        }
    }
}

#[pymethods]
impl Document {
    /// All of it, as JSON.
    fn json<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &work(py, || self.whole())?))
    }

    /// All but comparisons, as JSON.
    fn head<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let written = work(py, || match &self.content {
            Content::Check(document) => serde_json::to_vec(document),
            Content::Prediction(document) => serde_json::to_vec(document),
            Content::Other(write) => write(),
        });
        Ok(PyBytes::new(py, &written?))
    }

    /// How many machines are compared.
    #[getter]
    fn machines(&self) -> usize {
        self.comparisons.len()
    }

    /// The comparison of the machine with this number, as JSON.
    fn comparison<'py>(&self, py: Python<'py>, machine: usize) -> PyResult<Bound<'py, PyBytes>> {
        let comparison = self.comparisons.get(machine).map(|(_, comparison)| comparison);
        Ok(PyBytes::new(py, &work(py, || serde_json::to_vec(&comparison))?))
    }

    /// Every expected and measured value.
    fn cells(&self, py: Python<'_>) -> PyResult<Table> {
        work(py, || Ok::<_, String>(Table::of_cells(&self.comparisons)))
    }
}
