//! Limits that `infer` states on simulated machines with noise. `examples/infer_noise` does it for all systems and many seeds.

use super::infer_catalogue::judge;

#[path = "../../examples/infer_noise/machines.rs"]
mod machines;

use machines::{System, Verdicts};

#[test]
fn noise_makes_no_limits_and_hides_few() {
    let mut sum = Verdicts::default();
    for name in ["dgx-1v", "exxact-devbox", "microway-p100-pcie"] {
        let system = System::new(name).unwrap();
        for (noise, seed) in [(0.003, 1), (0.01, 4), (0.01, 9), (0.03, 3)] {
            let one = system.verdicts(noise, seed);
            sum.identifiable += one.identifiable;
            sum.found += one.found;
            sum.stated.extend(one.stated);
            sum.wrong.extend(one.wrong);
        }
    }
    assert!(sum.stated.iter().all(|(_, right)| *right), "{:?}", sum.wrong);
    assert!(sum.identifiable > 0 && sum.found * 100 >= sum.identifiable * 97, "{:?}", sum.wrong);
    assert!(sum.stated.iter().any(|(confidence, _)| *confidence >= 0.99));
}
