use super::slab::Shape;
use super::*;
use crate::cuda::{Device, Driver};
use crate::live::GpuName;
use crate::live::machine::Found;

#[test]
fn every_place_has_one_thread() {
    for (side, count) in [(64, 64), (64, 2), (128, 126), (192, 5), (256, 256), (320, 7), (512, 3), (576, 4), (1024, 2)]
    {
        let shape = Shape::of(side, count);
        let Shape { along, rows, strip } = shape;
        let deep = 8 - along - rows;
        let divisors = shape.divisors(side, count);
        let [across, _, layers] = divisors;
        // exact while number and divisor together have no more than 32 bits
        let [by_across, by_strip, by_layers] = divisors.map(|by| {
            let reciprocal = (1_u64 << 32).div_ceil(u64::from(by));
            move |n: u32| ((u64::from(n) * reciprocal) >> 32) as u32
        });
        let mut seen = vec![0_u8; (side / 8 * side * count) as usize];
        // as the kernel counts
        for block in 0..shape.blocks(side, count) {
            for thread in 0..256 {
                let line = by_across(block);
                let sheet = by_strip(line);
                let slice = by_layers(sheet);
                let i = ((block - line * across) << along) + (thread & ((1 << along) - 1));
                let layer = ((sheet - slice * layers) << deep) + (thread >> (along + rows));
                let y = ((slice * strip + line - sheet * strip) << rows) + ((thread >> along) & ((1 << rows) - 1));
                if layer < count {
                    seen[((layer * side + y) * (side / 8) + i) as usize] += 1;
                }
            }
        }
        assert!(seen.iter().all(|n| *n == 1), "side {side}, {count} planes: {shape:?}");
    }
}

/// The first GPU, as many times as a lattice has slabs: they exchange as those of several GPUs do.
fn machine() -> Machine {
    let driver = Driver::open().unwrap();
    let address = Device::all(driver).unwrap()[0].address().unwrap().unwrap();
    Machine::open(Found::look(&[GpuName { name: "GPU0".to_owned(), address }]).unwrap()).unwrap()
}

fn lattice(slabs: usize, side: u32, exchange: Exchange, overlap: bool) -> Lattice {
    Lattice { gpus: vec!["GPU0".to_owned(); slabs], side, exchange, overlap }
}

fn prepared(machine: &mut Machine, lattice: &Lattice) -> SpinGlass {
    SpinGlass::prepare(machine, lattice, &Method::default()).unwrap().0
}

/// All spins by place.
fn spins(glass: &SpinGlass) -> Vec<[f32; 3]> {
    let slab = &glass.slabs[0];
    let side = slab.side as usize;
    let component = side * side / 2;
    let mut all = vec![[0.0; 3]; side * side * side];
    for colour in 0..2 {
        let mut words = vec![0_u64; 3 * component * side / 2];
        slab.edge.copy_to_slice(&mut words, slab.spins[colour].part(0, usize::MAX)).unwrap();
        let number = |at: usize| f32::from_bits((words[at / 2] >> (32 * (at % 2))) as u32);
        for n in 0..component * side {
            let (z, y, i) = (n / component, n % component / (side / 2), n % (side / 2));
            let x = 2 * i + (y + z + colour) % 2;
            all[(z * side + y) * side + x] = [0, 1, 2].map(|c| number((3 * z + c) * component + n % component));
        }
    }
    all
}

/// Whether J = -1 towards the next place along each axis, by place; both ends of each bond must agree.
fn couplings(glass: &SpinGlass) -> Vec<[bool; 3]> {
    let slab = &glass.slabs[0];
    let side = slab.side as usize;
    let component = side * side / 2;
    let mut known = vec![[None; 3]; side * side * side];
    for colour in 0..2 {
        let mut words = vec![0_u64; component * side / 8];
        slab.edge.copy_to_slice(&mut words, slab.couplings[colour].part(0, usize::MAX)).unwrap();
        for n in 0..component * side {
            let byte = words[n / 8] >> (8 * (n % 8)) & 0xff;
            let bit = |k: usize| byte >> k & 1 == 1;
            let (z, y, i) = (n / component, n % component / (side / 2), n % (side / 2));
            let x = 2 * i + (y + z + colour) % 2;
            let before = |v: usize| (v + side - 1) % side;
            let at = |x: usize, y: usize, z: usize| (z * side + y) * side + x;
            let (left, right) = if x % 2 == 1 { (bit(0), bit(1)) } else { (bit(1), bit(0)) };
            let bonds = [
                (at(before(x), y, z), 0, left),
                (at(x, y, z), 0, right),
                (at(x, before(y), z), 1, bit(2)),
                (at(x, y, z), 1, bit(3)),
                (at(x, y, before(z)), 2, bit(4)),
                (at(x, y, z), 2, bit(5)),
            ];
            for (place, axis, negative) in bonds {
                let of: &mut Option<bool> = &mut known[place][axis];
                assert!(of.is_none_or(|other| other == negative), "place {place}, axis {axis}");
                *of = Some(negative);
            }
        }
    }
    known.into_iter().map(|bonds| bonds.map(Option::unwrap)).collect()
}

/// A half-sweep as a textbook writes it.
fn textbook(spins: &mut [[f32; 3]], couplings: &[[bool; 3]], side: usize, colour: usize) {
    let at = |[x, y, z]: [usize; 3]| (z * side + y) * side + x;
    for n in 0..side * side * side {
        let place = [n % side, n / side % side, n / side / side];
        if place.iter().sum::<usize>() % 2 != colour {
            continue;
        }
        let mut field = [0.0_f64; 3];
        for axis in 0..3 {
            let (mut next, mut before) = (place, place);
            next[axis] = (place[axis] + 1) % side;
            before[axis] = (place[axis] + side - 1) % side;
            for (neighbour, bond) in [(next, place), (before, before)] {
                let sign = if couplings[at(bond)][axis] { -1.0 } else { 1.0 };
                for c in 0..3 {
                    field[c] += sign * f64::from(spins[at(neighbour)][c]);
                }
            }
        }
        let dot = |a: [f64; 3]| (0..3).map(|c| a[c] * field[c]).sum::<f64>();
        let factor = 2.0 * dot(spins[n].map(f64::from)) / dot(field);
        spins[n] = [0, 1, 2].map(|c| (factor * field[c] - f64::from(spins[n][c])) as f32);
    }
}

#[test]
#[ignore = "needs a GPU"]
fn half_sweeps_are_those_of_a_textbook() {
    let mut machine = machine();
    for side in [64, 192] {
        let mut glass = prepared(&mut machine, &lattice(1, side, Exchange::Stores, false));
        glass.draw().unwrap();
        let couplings = couplings(&glass);
        let mut wanted = spins(&glass);
        let negative = couplings.iter().flatten().filter(|negative| **negative).count() as f64;
        assert!((negative / couplings.len() as f64 / 3.0 - 0.5).abs() < 0.01, "half of the bonds");
        let mean = (0..3).map(|c| wanted.iter().map(|s| f64::from(s[c])).sum::<f64>() / wanted.len() as f64);
        assert!(mean.into_iter().all(|m| m.abs() < 0.01), "no direction is preferred");
        glass.go(2, Doing::Everything).unwrap();
        textbook(&mut wanted, &couplings, side as usize, 0);
        textbook(&mut wanted, &couplings, side as usize, 1);
        let found = spins(&glass);
        let off = found.iter().zip(&wanted).flat_map(|(a, b)| (0..3).map(move |c| (a[c] - b[c]).abs()));
        let worst = off.fold(0.0, f32::max);
        assert!(worst < 2e-4, "L = {side}: {worst}");
    }
}

#[test]
#[ignore = "needs a GPU"]
fn cut_lattices_equal_whole_ones_by_every_exchange() {
    let mut machine = machine();
    for slabs in [2, 3] {
        for exchange in Exchange::ALL {
            for overlap in [false, true] {
                let lattice = lattice(slabs, 128, exchange, overlap);
                let mut glass = prepared(&mut machine, &lattice);
                glass.sample(3).unwrap();
                assert_eq!(glass.verify().unwrap(), [Verdict::Intact], "{lattice}");
            }
        }
    }
}

#[test]
#[ignore = "needs a GPU"]
fn a_wrong_boundary_is_found() {
    let mut machine = machine();
    let mut glass = prepared(&mut machine, &lattice(2, 128, Exchange::Copies, true));
    let slab = &glass.slabs[0];
    let [below, _] = slab.neighbours(1);
    slab.gpu.context.enter().unwrap();
    slab.edge.set(below, 0x3f).unwrap();
    slab.edge.synchronize().unwrap();
    glass.go(2, Doing::Everything).unwrap();
    let verdict = glass.verify().unwrap();
    assert!(matches!(&verdict[0], Verdict::Corrupt(why) if why.contains("the energy drifted by")), "{verdict:?}");
}

#[test]
#[ignore = "needs a GPU"]
fn ten_thousand_sweeps_keep_energy_and_lengths() {
    let mut machine = machine();
    let mut glass = prepared(&mut machine, &lattice(1, 256, Exchange::Stores, false));
    for _ in 0..50 {
        glass.go(400, Doing::Everything).unwrap();
    }
    let (before, now) = (glass.before, glass.inspect().unwrap());
    // a thousandth of what is allowed, and a dozen roundings
    assert!((now.energy - before.energy).abs() < 2e-8, "{before:?} {now:?}");
    assert!(now.length < 1e-6, "{now:?}");
}
