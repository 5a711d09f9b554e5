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

/// The kernel divides by multiplying with what 2^32 / n is, rounded up: exact while number and divisor together have no more than
/// 32 bits.
#[test]
fn blocks_of_the_largest_lattices_are_counted_without_overflow() {
    for side in (Lattice::STEP..=Lattice::LARGEST).step_by(Lattice::STEP as usize) {
        for count in [side, side - 2, side / 2, 1] {
            let shape = Shape::of(side, count);
            let blocks = shape.blocks(side, count);
            let [across, strip, layers] = shape.divisors(side, count).map(u64::from);
            let slices = u64::from((side >> shape.rows) / shape.strip);
            assert_eq!(u64::from(blocks), across * strip * layers * slices, "side {side}: 64 bits give as many");
            let last = u64::from(blocks - 1);
            let divisions = [(last, across), (last / across, strip), (last / across / strip, layers)];
            for (number, by) in divisions {
                assert!(number * by < 1 << 32, "side {side}: {number} by {by}");
                assert_eq!(number * (1_u64 << 32).div_ceil(by) >> 32, number / by, "side {side}");
            }
            // a grid has less than 2^31 blocks
            assert!(blocks + shape.ends(side) < 1 << 31);
        }
        let side = side as usize;
        assert_eq!(plane(side as u32), 6 * side * side);
    }
}

/// The first GPU, as many times as a lattice has slabs: they exchange as those of several GPUs do.
fn machine() -> Machine {
    let driver = Driver::open().unwrap();
    let address = Device::all(driver).unwrap()[0].address().unwrap().unwrap();
    Machine::open(Found::look(&[GpuName { name: "GPU0".to_owned(), address }]).unwrap()).unwrap()
}

fn lattice(slabs: usize, side: u32, exchange: Exchange, overlap: bool) -> Lattice {
    Lattice { gpus: vec!["GPU0".to_owned(); slabs], side, weak: false, exchange, overlap }
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

/// Two and three cubes on top of each other.
#[test]
#[ignore = "needs a GPU"]
fn lattices_that_grow_equal_those_in_one_piece() {
    let mut machine = machine();
    for (slabs, exchange) in [(2, Exchange::Stores), (3, Exchange::Copies), (3, Exchange::Staged)] {
        let lattice = Lattice { weak: true, ..lattice(slabs, 128, exchange, true) };
        let mut glass = prepared(&mut machine, &lattice);
        assert_eq!(glass.whole.as_ref().unwrap().slabs[0].planes, 128 * slabs as u32);
        glass.sample(3).unwrap();
        assert_eq!(glass.verify().unwrap(), [Verdict::Intact], "{lattice}");
    }
}

/// 4.6 · 10⁹ places, and 6.9 · 10⁹ numbers of each colour.
#[test]
#[ignore = "needs a GPU with 120 GB"]
fn a_lattice_beyond_32_bits_equals_its_slabs() {
    let mut machine = machine();
    let lattice = lattice(2, 1664, Exchange::Stores, true);
    if machine.room("GPU0").unwrap() < 2 * lattice.bytes().0 {
        eprintln!("skipped: too little memory");
        return;
    }
    let mut glass = prepared(&mut machine, &lattice);
    assert!(glass.whole.is_some());
    glass.sample(1).unwrap();
    assert_eq!(glass.verify().unwrap(), [Verdict::Intact]);
}

/// Where the lattice in one piece does not fit, slabs are compared with themselves, exchanged by the host.
#[test]
#[ignore = "needs a GPU"]
fn slabs_without_room_for_the_lattice_in_one_piece_are_compared_all_the_same() {
    let mut machine = machine();
    for exchange in Exchange::ALL {
        let mut glass = prepared(&mut machine, &lattice(3, 128, exchange, true));
        glass.whole = None;
        assert_eq!(glass.verify().unwrap(), [Verdict::Intact], "{exchange:?}");
        // drawn from another seed it is another lattice
        let was = glass.inspect().unwrap();
        glass.seed += 1;
        assert_eq!(glass.differs().unwrap(), None);
        assert_ne!(glass.inspect().unwrap().bits, was.bits);
    }
}

#[test]
#[ignore = "needs a GPU"]
fn a_lattice_that_does_not_fit_says_so() {
    let mut machine = machine();
    let lattice = lattice(1, 3072, Exchange::Stores, false);
    let Err(Problem::NotApplicable(why)) = SpinGlass::prepare(&mut machine, &lattice, &Method::default()) else {
        panic!("377 GB fitted");
    };
    assert!(why.contains("L = 3072") && why.contains("GiB free"), "{why}");
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
