//! Breadth-first searches of a graph.

use super::halo::via;
use super::{Kind, Path, Predicted, Scope, Site, Size, Step, TableCell, Task, Test, Truth, Work};
use super::{are_picked, each_with_each, names};
use peerlane_machine::bfs::Bfs;
use peerlane_machine::exchange::Exchange;
use peerlane_machine::matrix::{Quantity, Unit};
use peerlane_machine::names::{list, ranges};
use peerlane_model::model::Model;

/// Scales, from 134 MB to 17 GB of arcs.
const SCALES: [u32; 6] = [20, 22, 24, 25, 26, 27];

/// The scales at which all GPUs but the first are measured, and the sets of several.
const SCALED: [u32; 2] = [24, 26];

/// Searches on the first GPU alone, and on all others at [`SCALED`]; on the first 2, 4, 8 ... GPUs and on all, by every exchange. A
/// quick plan has one graph on each GPU, and one on all of them.
pub(super) fn steps(site: &Site<'_>) -> Vec<Step> {
    let search = |gpus: &[String], scale: u32, exchange| {
        let search = Bfs { gpus: gpus.to_vec(), scale, exchange };
        let size = Size::Exactly(search.bytes());
        search.problem().is_none().then_some(Step { test: Test::Bfs, work: Work::Bfs(search), size })
    };
    let quick = site.scope == Scope::Quick;
    let scaled = if quick { &SCALED[..1] } else { &SCALED };
    let n = site.gpus.len();
    let mut steps = Vec::new();
    for (i, gpu) in site.gpus.iter().enumerate() {
        let scales = if quick || i > 0 { scaled } else { &SCALES };
        steps.extend(scales.iter().filter_map(|scale| search(std::slice::from_ref(gpu), *scale, Exchange::Stores)));
    }
    let fewer = (1..).map(|power| 1 << power).take_while(|count| *count < n && !quick);
    for count in fewer.chain((n > 1).then_some(n)) {
        let exchanges = if quick { &Exchange::ALL[..1] } else { &Exchange::ALL };
        for scale in scaled {
            steps.extend(exchanges.iter().filter_map(|exchange| search(&site.gpus[..count], *scale, *exchange)));
        }
    }
    steps
}

impl<'w> Kind<'w> for &'w Bfs {
    fn words(&self) -> String {
        let how = if self.gpus.len() > 1 { format!(", {}", self.exchange.name()) } else { String::new() };
        format!("{}, scale {}{how}", list(&self.gpus), self.scale)
    }

    fn nodes(&self) -> Vec<&'w str> {
        names(&self.gpus)
    }

    fn paths(&self) -> Vec<Path<'w>> {
        let via = via(self.exchange);
        each_with_each(&self.gpus).map(|(from, to)| Path { from, to, via }).collect()
    }

    fn answers(&self) -> &'static [(Quantity, Unit)] {
        &[(Quantity::EdgeRate, Unit::Gteps)]
    }

    fn is_picked(&self, has: &dyn Fn(&str, &str) -> bool) -> bool {
        are_picked(&self.gpus, has)
    }

    fn table(&self) -> Option<TableCell> {
        let (quantity, roots) = (Quantity::EdgeRate.name(), Bfs::ROOTS);
        let how = if self.gpus.len() > 1 { format!(", {}", self.exchange.name()) } else { String::new() };
        Some(TableCell {
            title: format!("breadth-first search, Kronecker graph, {quantity}, harmonic mean of {roots} roots"),
            row: ranges(&self.gpus) + &how,
            column: (self.scale.into(), format!("2^{}", self.scale)),
            wide: false,
        })
    }

    fn predicted(&self, model: &Model) -> Option<Predicted> {
        let predicted = model.bfs(self)?;
        let gteps = |seconds: f64| self.edges() as f64 / seconds / 1e9;
        Some(Predicted {
            value: gteps(predicted.total),
            worst: gteps(predicted.most),
            is_confirmed: true,
            exchange: Some(predicted.exchange / predicted.total),
        })
    }

    /// As slow as the slowest of its GPUs.
    fn simulate(&self, size: Size, truth: &Truth) -> Result<Task, String> {
        let slowness = truth.slowest(&self.gpus)?;
        self.problem().map_or(Ok(()), Err)?;
        let unknown = || "the model does not predict this: a rate is not known, or the graph does not fit".to_owned();
        let time = truth.model.bfs(self).ok_or_else(unknown)?.total * slowness;
        let duration = time * Bfs::ROOTS as f64;
        Ok(Task { values: vec![self.edges() as f64 / time], rates: true, size: size.most(), duration })
    }
}
