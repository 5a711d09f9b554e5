use std::collections::VecDeque;

use peerlane::catalogue::{self, Parts};
use peerlane::model::{Assume, Model};
use peerlane::traffic::{Follower, SimulatedTraffic, gauges};
use peerlane::units::Seconds;

use super::*;

/// A machine after so many samples, drawn in so many columns.
fn drawn(system: &str, samples: usize, columns: usize, past: bool) -> Vec<String> {
    let machine = catalogue::system(system).unwrap().unwrap();
    let model = Model::assuming(&machine, Parts::embedded(), Assume::Usual);
    let mut traffic = SimulatedTraffic::new(&model, Seconds::new(1.0));
    let mut follower = Follower::default();
    let mut moments: VecDeque<Moment> = VecDeque::new();
    for _ in 0..samples {
        let sample = traffic.sample();
        let rates = follower.rates(&sample);
        moments.push_back(Moment { sample, rates });
    }
    let gauges = gauges(&model);
    let at = moments.len() - 1;
    let fabric = &machine.fabric;
    let view = View { fabric, gauges: &gauges, moments: &moments, at, past, each_link: true };
    let plain = |line: &Line| line.iter().map(|(_, text)| text.as_str()).collect::<String>();
    view.lines(columns).iter().map(plain).collect()
}

#[test]
fn every_catalogue_system_fits_its_columns() {
    for system in catalogue::system_names() {
        for (columns, samples) in [(80, 3), (100, 1), (160, 20)] {
            for line in drawn(system, samples, columns, samples > 10) {
                assert!(width(&line) <= columns, "{system}: {line}");
            }
        }
    }
}
