//! GPUs of one product whose copies to or from host memory are far below those of the others.

use std::collections::BTreeMap;

use super::confirm;
use super::view::{Cell, End, Raised, View, one_way};
use super::words::{list, percent};
use super::{Certainty, Cost, Finding, FindingKind, Rule, Severity};
use peerlane_machine::fabric::{NodeId, NodeKind};
use peerlane_machine::machine::SourcedMatrix;
use peerlane_machine::matrix::Direction;
use peerlane_machine::subject::Subject;

pub(super) const RULE: Rule = Rule { id: "uneven-host-copies", breaks: false, run };

/// Below this share of the best of its product: half the lanes, or the generation before, leave a half; buffers on the
/// other socket rarely cost that much.
const BELOW: f64 = 0.6;

/// A number that is low, with the best of its matrix.
struct Low<'m> {
    gpu: NodeId,
    measured: &'m SourcedMatrix,
    cell: Cell,
    best: Cell,
}

impl Low<'_> {
    fn share(&self) -> f64 {
        self.cell.rate.gb() / self.best.rate.gb()
    }
}

fn run(view: &View) -> Vec<Raised> {
    let mut low: Vec<Low> = Vec::new();
    for (at, measured) in view.bandwidths() {
        if measured.matrix.direction == Some(Direction::Unidirectional) {
            low.extend(judge(view, at, measured));
        }
    }
    let Some(worst) = low.iter().min_by(|a, b| a.share().total_cmp(&b.share())) else { return Vec::new() };
    let mut subjects: Vec<String> = Vec::new();
    for name in low.iter().map(|l| view.name(l.gpu).to_owned()) {
        if !subjects.contains(&name) {
            subjects.push(name);
        }
    }
    let matrix = &worst.measured.matrix;
    let (rate, best) = (one_way(matrix, worst.cell.rate), one_way(matrix, worst.best.rate));
    let finding = Finding {
        summary: format!(
            "Host copies of {} reach {} of those of another GPU of the same product: {rate} beside {best}",
            list(&subjects),
            percent(worst.share())
        ),
        expected: format!("about {best}, as {} reaches", view.arrow(matrix, &worst.best)),
        measured: format!("{} {rate} ({})", view.arrow(matrix, &worst.cell), matrix.describe()),
        evidence: view.cite(low.iter().flat_map(|l| std::iter::once(&l.measured.origin).chain(&l.measured.also))),
        fix: "A half is what half of the lanes or the generation before gives: read the link's width and generation \
               under load, and reseat or move the card; else bind memory to the GPU's own NUMA node."
            .to_owned(),
        confirm: confirm::width(),
        cost: Cost::of_rate(best.gb(), rate.gb()),
        ..Finding::of(&RULE, FindingKind::Fault, Severity::Warning, Certainty::Possible, Subject::nodes_of(subjects))
    };
    let share = 1.0 - worst.share();
    vec![Raised::new(finding, share)]
}

/// The low ones of a matrix. What the model has an expectation of, or a known link explains, is not judged here.
fn judge<'m>(view: &View, at: usize, measured: &'m SourcedMatrix) -> Vec<Low<'m>> {
    let fabric = view.fabric();
    let mut alike: BTreeMap<(bool, &str), Vec<(NodeId, Cell)>> = BTreeMap::new();
    for cell in view.cells(&measured.matrix) {
        let (gpu, to_gpu) = match (cell.from, cell.to) {
            (End::Host, End::Node(id)) => (id, true),
            (End::Node(id), End::Host) => (id, false),
            _ => continue,
        };
        let known = fabric.upstream(gpu).is_some() || view.expected_rate(at, &cell).is_some();
        let node = fabric.node(gpu);
        if let (NodeKind::Gpu, Some(product), false) = (node.kind, node.product.as_deref(), known) {
            alike.entry((to_gpu, product)).or_default().push((gpu, cell));
        }
    }
    let mut low = Vec::new();
    for members in alike.values() {
        let Some((_, best)) = members.iter().max_by(|a, b| a.1.rate.gb().total_cmp(&b.1.rate.gb())).copied() else {
            continue;
        };
        let is_low = |cell: &Cell| cell.rate.gb() < BELOW * best.rate.gb();
        let found = members.iter().filter(|(_, cell)| is_low(cell));
        low.extend(found.map(|(gpu, cell)| Low { gpu: *gpu, measured, cell: *cell, best }));
    }
    low
}

#[cfg(test)]
mod tests {
    use super::super::testing::{captured, findings, uniform};
    use super::*;
    use peerlane_machine::fabric::{FabricBuilder, Node};

    fn found(rates: [f64; 3], products: [&str; 3]) -> Vec<String> {
        let mut b = FabricBuilder::new();
        for (i, product) in products.into_iter().enumerate() {
            let mut gpu = Node::new(format!("GPU{i}"), NodeKind::Gpu);
            gpu.product = Some(product.to_owned());
            b.node(gpu);
        }
        let mut machine = captured(b);
        let mut measured = uniform(3, 0.0, &[]);
        measured.matrix.rows = vec!["host".to_owned()];
        measured.matrix.values = vec![rates.map(Some).to_vec()];
        machine.matrices.push(measured);
        findings(&machine, run).into_iter().map(|f| f.summary).collect()
    }

    #[test]
    fn half_of_what_another_of_the_product_has() {
        let same = ["H100 PCIe"; 3];
        let said = found([52.2, 26.3, 52.0], same);
        assert_eq!(said.len(), 1);
        assert!(said[0].starts_with("Host copies of GPU1 reach 50 %"), "{said:?}");
        assert!(found([52.2, 40.0, 52.0], same).is_empty());
        assert!(found([52.2, 26.3, 52.0], ["H100 PCIe", "A100", "H100 PCIe"]).is_empty());
    }
}
