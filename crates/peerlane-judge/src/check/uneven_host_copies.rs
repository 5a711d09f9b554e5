//! GPUs whose copies to or from host memory are far below those of other GPUs of the same product.

use super::prelude::*;
use super::view::sources::is_ours;
use peerlane_machine::units::Rate;

pub(super) const RULE: Rule = Rule::new("uneven-host-copies", One(run));

/// Below this share of the best of its product: half the lanes, or the previous generation, leave a half; buffers on the
/// other socket rarely cost that much.
const BELOW: f64 = 0.6;

/// The same against its expectation, next to the median of its peers, where `peerlane measure` measured it.
const SURELY_BELOW: f64 = 0.90;

/// And so many times the median deviation of its peers.
const OUTLYING: f64 = 8.0;

/// GPUs that are compared with each other: fewer show no usual rate.
const FEWEST: usize = 4;

/// A number that is low.
struct Low<'m> {
    gpu: NodeId,
    measured: &'m SourcedMatrix,
    cell: Cell,
    /// The rate of its peers, and who they are.
    usual: Rate,
    peers: String,
    certainty: Certainty,
}

impl Low<'_> {
    fn share(&self) -> f64 {
        self.cell.rate.gb() / self.usual.gb()
    }
}

fn run(view: &View) -> Option<Raised> {
    let one_way = view.bandwidths().filter(|(_, o)| o.matrix.direction == Some(Direction::Unidirectional));
    let judge = |(at, measured)| {
        let mut low = unexpected(view, at, measured);
        low.extend(below_expected_peers(view, at, measured));
        low
    };
    let low: Vec<Low> = one_way.flat_map(judge).collect();
    let worst = lowest(&low, |l| l.share())?;
    let names = distinct(low.iter().map(|l| view.name(l.gpu)));
    let (rate, usual) = (worst.cell.rate, worst.usual);
    let raised = RULE
        .raise(Fault, Warning, worst.certainty)
        .summary(format!(
            "Host copies of {} reach {} of those of {}: {rate} instead of {usual}",
            list(&names),
            percent(worst.share()),
            if worst.certainty == Likely { "the other GPUs" } else { "another GPU of the same product" },
        ))
        .expected(format!("about {usual}, as {}", worst.peers))
        .measured(view.quote(worst.measured, &worst.cell))
        .evidence(view.cite(low.iter().flat_map(|l| origins(l.measured))))
        .fix(
            "Reseat or move the card if its link is narrow under load: half the rate usually means half the lanes or \
             the previous generation. If the link is at full width, bind memory to the GPU's own NUMA node.",
        )
        .confirm(confirm::WIDTH)
        .cost(Cost::of_rate(usual.gb(), rate.gb()))
        .about_nodes(names)
        .losing(1.0 - worst.share());
    Some(raised)
}

/// The low numbers of a matrix, except those that the model has an expectation of or that a known link explains.
fn unexpected<'m>(view: &View, at: usize, measured: &'m SourcedMatrix) -> Vec<Low<'m>> {
    let fabric = view.fabric();
    let alike = view.cells(&measured.matrix).into_iter().filter_map(|cell| {
        let (gpu, to_gpu) = cell.with_host()?;
        let known = fabric.upstream(gpu).is_some() || view.expected_rate(at, &cell).is_some();
        let node = fabric.node(gpu);
        let product = node.product.as_deref().filter(|_| node.kind == NodeKind::Gpu && !known)?;
        Some(((to_gpu, product), (gpu, cell)))
    });
    let mut low = Vec::new();
    for (_, members) in grouped(alike) {
        let Some((_, best)) = highest(members.iter().copied(), |(_, cell)| cell.rate.gb()) else { continue };
        let usual = best.rate;
        let found = members.into_iter().filter(|(_, cell)| cell.rate.gb() < BELOW * usual.gb());
        low.extend(found.map(|(gpu, cell)| {
            let peers = format!("{} reaches", view.arrow(&measured.matrix, &best));
            Low { gpu, measured, cell, usual, peers, certainty: Possible }
        }));
    }
    low
}

/// The GPUs that are below their expectation where most of their product are not: the share of it that they reach is
/// compared, so that what a narrower link explains is none of them.
fn below_expected_peers<'m>(view: &View, at: usize, measured: &'m SourcedMatrix) -> Vec<Low<'m>> {
    if !is_ours(measured) {
        return Vec::new();
    }
    let alike = view.cells(&measured.matrix).into_iter().filter_map(|cell| {
        let (gpu, to_gpu) = cell.with_host()?;
        let node = view.fabric().node(gpu);
        if node.kind != NodeKind::Gpu {
            return None;
        }
        let expected = view.expected_rate(at, &cell)?;
        Some(((to_gpu, &node.product, &node.part), (gpu, cell, expected)))
    });
    let mut low = Vec::new();
    for (_, members) in grouped(alike).into_iter().filter(|(_, members)| members.len() >= FEWEST) {
        let level = |(_, cell, expected): &(NodeId, Cell, Rate)| cell.rate.gb() / expected.gb();
        let Some(usual) = median(members.iter().map(level)).filter(|usual| *usual > 0.0) else { continue };
        let deviation = median(members.iter().map(|m| (level(m) / usual - 1.0).abs())).unwrap_or_default();
        let limit = usual * SURELY_BELOW.min(1.0 - OUTLYING * deviation);
        let many = members.len();
        // slow-path reports what is further below
        let low_enough = |m: &(NodeId, Cell, Rate)| (view.settings.slow_path.slow..limit).contains(&level(m));
        low.extend(members.into_iter().filter(low_enough).map(|(gpu, cell, expected)| Low {
            gpu,
            measured,
            cell,
            usual: expected * usual,
            peers: format!("most of {many} GPUs reach"),
            certainty: Likely,
        }));
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
