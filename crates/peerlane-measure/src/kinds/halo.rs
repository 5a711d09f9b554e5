//! Halo exchanges.

use super::rates::Driven;
use super::{Kind, Path, Predicted, Scope, Site, Size, Step, TableCell, Task, Test, Truth, Work, names};
use peerlane_machine::exchange::Exchange;
use peerlane_machine::halo::{Halo, grid};
use peerlane_machine::machine::lookup::HOST;
use peerlane_machine::matrix::{Engine, Quantity, Unit};
use peerlane_machine::names::{list, ranges};
use peerlane_machine::transfer::{Transfer, Via};
use peerlane_machine::units::Bytes;
use peerlane_model::model::Model;

/// Faces, from what starts alone take to what rates alone bind.
const FACES: [Bytes; 5] =
    [Bytes(4 << 10), Bytes(64 << 10), Bytes::from_mib(1), Bytes::from_mib(16), Bytes::from_mib(64)];

/// The face of a quick plan.
const QUICK: usize = 2;

/// Of the first 2, 4, 8 ... GPUs and of all, in as many dimensions as leave several parts along each, by every method. A quick plan
/// has all GPUs, and faces of one size.
pub(super) fn steps(site: &Site<'_>) -> Vec<Step> {
    let quick = site.scope == Scope::Quick;
    let n = site.gpus.len();
    let faces = if quick { &FACES[QUICK..=QUICK] } else { &FACES };
    let fewer = (1..).map(|power| 1 << power).take_while(|count| *count < n && !quick);
    let mut steps = Vec::new();
    for count in fewer.chain([n]) {
        for parts in (1..=3).filter_map(|dimensions| decomposition(count, dimensions)) {
            for exchange in Exchange::ALL {
                for face in faces {
                    let halo = Halo { gpus: site.gpus[..count].to_vec(), parts, face: *face, exchange };
                    steps.push(Step { test: Test::Halo, work: Work::Halo(halo), size: Size::Exactly(*face) });
                }
            }
        }
    }
    steps
}

/// So many parts, several along each of so many dimensions; `None` where their number has too few divisors.
pub(super) fn decomposition(count: usize, dimensions: u32) -> Option<[u32; 3]> {
    let sides = grid(count, dimensions);
    let mut parts = [1; 3];
    for (part, side) in parts.iter_mut().zip(&sides) {
        *part = u32::try_from(*side).ok()?;
    }
    sides.iter().all(|side| *side > 1).then_some(parts)
}

/// How an exchange goes between two GPUs: staged, as the driver and a pipeline of copies do it.
pub(super) fn via(exchange: Exchange) -> Via {
    if exchange == Exchange::Staged { Via::Driver } else { Via::Direct }
}

/// What the parts of a grid send to their neighbours.
fn sends(halo: &Halo) -> impl Iterator<Item = (&str, &str)> {
    halo.sends().filter_map(|sent| Some((halo.gpus.get(sent.from)?.as_str(), halo.gpus.get(sent.to)?.as_str())))
}

/// So many times as long as without faults the slowest faces take, one leg of their way after the other.
fn hindered(halo: &Halo, truth: &Truth) -> Result<f64, String> {
    let engine = if halo.exchange == Exchange::Stores { Engine::Sm } else { Engine::Ce };
    let leg = |ends: &dyn Fn(&str, &str) -> Transfer| -> Result<(f64, f64), String> {
        let transfers: Vec<Transfer> = sends(halo).map(|(a, b)| Transfer { engine, ..ends(a, b) }).collect();
        let driven: Vec<Driven> = truth.all_driven(&transfers)?;
        let slowest = |rates: Vec<f64>| 1.0 / rates.into_iter().fold(f64::INFINITY, f64::min);
        let free = Truth { faults: &[], ..*truth }.rates(&driven)?;
        Ok((slowest(truth.rates(&driven)?), slowest(free)))
    };
    let legs: Vec<(f64, f64)> = match halo.exchange {
        Exchange::Staged => {
            vec![leg(&|from, _| Transfer::new(from, HOST))?, leg(&|_, to| Transfer::new(HOST, to))?]
        }
        Exchange::Stores | Exchange::Copies => vec![leg(&|from, to| Transfer::new(from, to))?],
    };
    let (hindered, free) = legs.into_iter().fold((0.0, 0.0), |sum, leg| (sum.0 + leg.0, sum.1 + leg.1));
    Ok(hindered / free)
}

impl<'w> Kind<'w> for &'w Halo {
    fn words(&self) -> String {
        let (gpus, parts, how) = (list(&self.gpus), self.decomposition(), self.exchange.name());
        format!("{gpus} as {parts}, {how}, faces of {}", self.face)
    }

    fn nodes(&self) -> Vec<&'w str> {
        names(&self.gpus)
    }

    fn paths(&self) -> Vec<Path<'w>> {
        let via = via(self.exchange);
        sends(self).map(|(from, to)| Path { from, to, via }).collect()
    }

    fn answers(&self) -> &'static [(Quantity, Unit)] {
        &[(Quantity::ExchangeTime, Unit::Microseconds)]
    }

    fn table(&self) -> Option<TableCell> {
        Some(TableCell {
            title: format!("halo exchange, {} by the size of a face", Quantity::ExchangeTime.name()),
            row: format!("{} as {}, {}", ranges(&self.gpus), self.decomposition(), self.exchange.name()),
            column: (self.face.0, self.face.to_string()),
            wide: true,
        })
    }

    fn predicted(&self, model: &Model) -> Option<Predicted> {
        let (time, face) = (model.halo(self)?, self.face.0 as f64);
        let [_, most] = time.interval(face);
        let is_confirmed = time.is_confirmed();
        Some(Predicted { value: time.notified(face) * 1e6, worst: most * 1e6, is_confirmed, exchange: None })
    }

    fn simulate(&self, size: Size, truth: &Truth) -> Result<Task, String> {
        let slowness = truth.slowest(&self.gpus)?;
        self.problem().map_or(Ok(()), Err)?;
        let hindered = hindered(self, truth)?;
        let unknown = || "the model does not predict this: a rate is not known".to_owned();
        let predicted = truth.model.halo(self).ok_or_else(unknown)?;
        let startup = predicted.notified(0.0);
        let moving = predicted.notified(self.face.0 as f64) - startup;
        Ok(truth.timed(size, vec![startup * slowness + moving * hindered]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_dimension_has_a_single_part() {
        let of = |count| [1, 2, 3].map(|dimensions| decomposition(count, dimensions));
        assert_eq!(of(2), [Some([2, 1, 1]), None, None]);
        assert_eq!(of(4), [Some([4, 1, 1]), Some([2, 2, 1]), None]);
        assert_eq!(of(7), [Some([7, 1, 1]), None, None]);
        assert_eq!(of(8), [Some([8, 1, 1]), Some([4, 2, 1]), Some([2, 2, 2])]);
        assert_eq!(of(16), [Some([16, 1, 1]), Some([4, 4, 1]), Some([4, 2, 2])]);
    }
}
