//! What was opened: one of several, all of it changed, a cluster of it.

use peerlane_design::case::Case;
use peerlane_design::cluster::{Cluster, Wanted};
use peerlane_design::what_if::{Edit, apply};
use peerlane_machine::machine::Machine;
use peerlane_machine::units::{Rate, Seconds};
use peerlane_model::assumptions::Assumptions;
use peerlane_model::model::Model;
use peerlane_read::catalogue::Parts;

use super::{OpenError, Opened};

impl Opened {
    /// A model of each machine, by the parts of the catalogue.
    pub fn models(&self) -> Vec<Model<'_>> {
        self.cases.iter().map(|case| Model::new(&case.machine, Parts::embedded())).collect()
    }

    /// The machines.
    pub fn machines(&self) -> impl Iterator<Item = &Machine> {
        self.cases.iter().map(|case| &case.machine)
    }

    /// The only machine; `what` is the first half of the message where there are several: `this format holds one machine`.
    ///
    /// # Errors
    /// Where there are several, or none.
    pub fn the_only(&self, what: &str) -> Result<&Case, OpenError> {
        match self.cases.as_slice() {
            [one] => Ok(one),
            cases => {
                let names: Vec<&str> = self.machines().map(|m| m.name.as_str()).collect();
                let (n, names) = (cases.len(), names.join(", "));
                Err(OpenError::new(format!("{what}, but there are {n}; choose one with --machine: {names}")))
            }
        }
    }

    /// One of several machines, by its name or its number from 1.
    ///
    /// # Errors
    /// Where there is none such.
    pub fn only(mut self, wanted: &str) -> Result<Self, OpenError> {
        let at = pick(self.machines(), wanted)?;
        self.cases = vec![self.cases.swap_remove(at)];
        Ok(self)
    }

    /// The machines and the nodes of clusters with edits applied. Measurements of a machine are not carried over to the changed one.
    ///
    /// # Errors
    /// Where an edit is for no machine, or cannot be applied.
    pub fn changed(mut self, edits: &[Edit]) -> Result<Self, OpenError> {
        known_names(edits, self.machines().chain(self.clusters.iter().map(|cluster| &cluster.node)))?;
        for case in &mut self.cases {
            if let Some(changed) = changed(&case.machine, edits)? {
                *case = Case::from(changed);
            }
        }
        self.clusters = self.clusters.into_iter().map(|of| changed_cluster(of, edits)).collect::<Result<_, _>>()?;
        Ok(self)
    }

    /// A cluster of so many nodes like the only machine, with what is assumed of it; `rate` is that of a link between them.
    ///
    /// # Errors
    /// Where there are several machines, or the network does not take them.
    pub fn cluster(
        &self,
        nodes: u32,
        network: &Wanted,
        rate: Option<Rate>,
        hop: Seconds,
    ) -> Result<Cluster, OpenError> {
        let machine = &self.the_only("a cluster is made of one machine")?.machine;
        let node = Assumptions::of(machine, Parts::embedded()).assumed_machine(Parts::embedded());
        Cluster::of(node, nodes, network, rate, hop).map_err(|e| OpenError::new(e.to_string()))
    }
}

/// Adds what was opened by itself; the machines of both stay apart.
impl Extend<Opened> for Opened {
    fn extend<T: IntoIterator<Item = Opened>>(&mut self, all: T) {
        for Opened { cases, clusters, incomplete, coverage, notices } in all {
            self.cases.extend(cases);
            self.clusters.extend(clusters);
            self.incomplete |= incomplete;
            self.coverage.extend(coverage);
            self.notices.extend(notices);
        }
    }
}

/// The cluster with the edits made to its node.
///
/// # Errors
/// Where one cannot be applied.
pub fn changed_cluster(cluster: Cluster, edits: &[Edit]) -> Result<Cluster, OpenError> {
    match changed(&cluster.node, edits)? {
        Some(node) => cluster.with_node(node).map_err(|e| OpenError::new(e.to_string())),
        None => Ok(cluster),
    }
}

/// The machine that the edits make of this one; `None` where none of them is for it.
///
/// # Errors
/// Where one cannot be applied.
pub fn changed(machine: &Machine, edits: &[Edit]) -> Result<Option<Machine>, OpenError> {
    if !edits.iter().any(|e| e.is_for(&machine.name)) {
        return Ok(None);
    }
    let changed = apply(machine, edits, Parts::embedded()).map(Some);
    changed.map_err(|e| OpenError::new(format!("{}: {e}", machine.name)))
}

/// Rejects edits for unknown machines.
///
/// # Errors
/// With the names of those that there are.
pub fn known_names<'m>(edits: &[Edit], machines: impl Iterator<Item = &'m Machine>) -> Result<(), OpenError> {
    let names: Vec<&str> = machines.map(|m| m.name.as_str()).collect();
    let stray = edits.iter().find(|e| !names.iter().any(|name| e.is_for(name)));
    stray.map_or(Ok(()), |edit| {
        let wanted = edit.machine.as_deref().unwrap_or_default();
        let available = names.join(", ");
        Err(OpenError::new(format!("what if '{edit}': no machine '{wanted}'; available: {available}")))
    })
}

/// The index of the machine with a name, or with a number from 1.
///
/// # Errors
/// With the names of those that there are.
pub fn pick<'m>(machines: impl Iterator<Item = &'m Machine>, wanted: &str) -> Result<usize, OpenError> {
    let names: Vec<&str> = machines.map(|machine| machine.name.as_str()).collect();
    let by_name = names.iter().position(|name| *name == wanted);
    let by_number = wanted.parse::<usize>().ok().and_then(|n| n.checked_sub(1)).filter(|n| *n < names.len());
    let at = by_name.or(by_number);
    at.ok_or_else(|| OpenError::new(format!("no machine '{wanted}'; available: {}", names.join(", "))))
}
