//! What makes an allocation the weighted max-min fair one, on random problems.

use peerlane::solve::{Binding, Flow, share};
use proptest::prelude::*;

const CLOSE: f64 = 1e-9;

fn problem() -> impl Strategy<Value = (Vec<f64>, Vec<Flow>)> {
    let capacity = prop_oneof![1 => Just(0.0), 9 => 0.001..1000.0, 1 => Just(f64::INFINITY)];
    prop::collection::vec(capacity, 1..8).prop_flat_map(|capacities| {
        let n = capacities.len();
        let cap = prop_oneof![3 => Just(f64::INFINITY), 1 => 0.0..100.0];
        let flow = (prop::collection::vec((0..n, 0.01..10.0), 0..5), 0.01..10.0, cap)
            .prop_map(|(uses, weight, cap)| Flow { uses, weight, cap });
        (Just(capacities), prop::collection::vec(flow, 0..20))
    })
}

fn consumed(flows: &[Flow], rates: &[f64], resource: usize) -> f64 {
    let of = |f: &Flow| f.uses.iter().filter(|(r, _)| *r == resource).map(|(_, c)| c).sum::<f64>();
    flows.iter().zip(rates).map(|(f, rate)| if of(f) > 0.0 { of(f) * rate } else { 0.0 }).sum()
}

fn same(a: f64, b: f64) -> bool {
    a == b || (a - b).abs() <= CLOSE * a.abs().max(b.abs())
}

proptest! {
    #[test]
    fn no_capacity_is_exceeded((capacities, flows) in problem()) {
        let got = share(&capacities, &flows).unwrap();
        for (r, capacity) in capacities.iter().enumerate().filter(|(_, c)| c.is_finite()) {
            prop_assert!(consumed(&flows, &got.rates, r) <= capacity * (1.0 + CLOSE));
        }
        for (flow, rate) in flows.iter().zip(&got.rates) {
            prop_assert!(*rate >= 0.0 && *rate <= flow.cap);
        }
    }

    #[test]
    fn each_flow_has_its_certificate((capacities, flows) in problem()) {
        let got = share(&capacities, &flows).unwrap();
        for (i, flow) in flows.iter().enumerate() {
            match got.bindings[i] {
                Binding::Cap => prop_assert_eq!(got.rates[i], flow.cap),
                Binding::Nothing => {
                    prop_assert!(got.rates[i].is_infinite() && flow.cap.is_infinite());
                    prop_assert!(flow.uses.iter().all(|(r, _)| capacities[*r].is_infinite()));
                }
                Binding::Resource(r) => {
                    prop_assert!(flow.uses.iter().any(|(used, _)| *used == r));
                    prop_assert!(same(consumed(&flows, &got.rates, r), capacities[r]), "resource {} is not full", r);
                    let level = got.rates[i] / flow.weight;
                    for (other, rate) in flows.iter().zip(&got.rates) {
                        if other.uses.iter().any(|(used, _)| *used == r) {
                            prop_assert!(rate / other.weight <= level * (1.0 + CLOSE));
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn order_does_not_matter((capacities, flows) in problem(), turn in 0usize..20) {
        let got = share(&capacities, &flows).unwrap();
        let mut turned = flows.clone();
        if !turned.is_empty() {
            turned.rotate_left(turn % flows.len());
            turned.reverse();
        }
        let again = share(&capacities, &turned).unwrap();
        let mut expected = got.rates;
        if !expected.is_empty() {
            expected.rotate_left(turn % flows.len());
            expected.reverse();
        }
        for (a, b) in expected.iter().zip(&again.rates) {
            prop_assert!(same(*a, *b), "{} is not {}", a, b);
        }
    }

    #[test]
    fn scaling_capacities_and_caps_scales_rates((capacities, flows) in problem(), k in 0.01..100.0) {
        let got = share(&capacities, &flows).unwrap();
        let wider: Vec<f64> = capacities.iter().map(|c| c * k).collect();
        let scaled: Vec<Flow> = flows.iter().map(|f| Flow { cap: f.cap * k, ..f.clone() }).collect();
        let again = share(&wider, &scaled).unwrap();
        for (a, b) in got.rates.iter().zip(&again.rates) {
            prop_assert!(same(a * k, *b), "{} is not {}", a * k, b);
        }
    }
}
