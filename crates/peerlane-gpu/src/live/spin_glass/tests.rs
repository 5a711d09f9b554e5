use super::block::bytes_of;
use super::shape::{Shape, on_surface};
use super::*;
use crate::cuda::{Device, Driver};
use crate::live::GpuName;
use crate::live::machine::Found;

#[test]
fn every_place_has_one_thread() {
    let slabs = [(64, 64), (64, 2), (128, 126), (192, 5), (256, 256), (320, 7), (512, 3), (576, 4), (1024, 2)];
    let blocks = [[16, 64, 64], [32, 32, 32], [64, 16, 4], [160, 160, 160], [96, 10, 6], [512, 4, 8]];
    for extents in slabs.map(|(side, count)| [side, side, count]).into_iter().chain(blocks) {
        let shape = Shape::of(extents);
        let Shape { along, rows, strip } = shape;
        let deep = 8 - along - rows;
        let divisors = shape.divisors(extents);
        let [across, _, layers] = divisors;
        // exact while number and divisor together have no more than 32 bits
        let [by_across, by_strip, by_layers] = divisors.map(|by| {
            let reciprocal = (1_u64 << 32).div_ceil(u64::from(by));
            move |n: u32| ((u64::from(n) * reciprocal) >> 32) as u32
        });
        let [width, height, planes] = extents;
        let mut seen = vec![0_u8; (width / 8 * height * planes) as usize];
        // as the kernels count
        for block in 0..shape.blocks(extents) {
            for thread in 0..256 {
                let line = by_across(block);
                let sheet = by_strip(line);
                let slice = by_layers(sheet);
                let i = ((block - line * across) << along) + (thread & ((1 << along) - 1));
                let layer = ((sheet - slice * layers) << deep) + (thread >> (along + rows));
                let y = ((slice * strip + line - sheet * strip) << rows) + ((thread >> along) & ((1 << rows) - 1));
                if layer < planes && y < height {
                    seen[((layer * height + y) * (width / 8) + i) as usize] += 1;
                }
            }
        }
        assert!(seen.iter().all(|n| *n == 1), "{extents:?}: {shape:?}");
    }
}

/// As the kernel finds the places of a surface, each once, and no other.
#[test]
fn every_place_on_the_surface_has_one_thread() {
    let axes = [false, true];
    let cuts = axes.into_iter().flat_map(|x| axes.into_iter().flat_map(move |y| axes.map(|z| [x, y, z])));
    for cut in cuts {
        let extents = [32, 6, 10];
        let [quads, height, planes] = [extents[0] / 8, extents[1], extents[2]];
        let mut seen = vec![0_u8; (quads * height * planes) as usize];
        let count = on_surface(extents, cut);
        for n in 0..count {
            let (sheet, below) = (quads * height, if cut[2] { 2 * quads * height } else { 0 });
            let (deep, rows) = (planes - 2 * u32::from(cut[2]), height - 2 * u32::from(cut[1]));
            let line = quads * deep;
            let before = below + if cut[1] { 2 * line } else { 0 };
            let [quad, y, z] = if n < below {
                [n % sheet % quads, n % sheet / quads, n / sheet * (planes - 1)]
            } else if n < before {
                let n = n - below;
                [n % line % quads, n / line * (height - 1), n % line / quads + u32::from(cut[2])]
            } else {
                let (n, side) = (n - before, rows * deep);
                [n / side * (quads - 1), n % side % rows + u32::from(cut[1]), n % side / rows + u32::from(cut[2])]
            };
            seen[((z * height + y) * quads + quad) as usize] += 1;
        }
        for n in 0..quads * height * planes {
            let place = [n % quads, n / quads % height, n / quads / height];
            let ends = [quads, height, planes];
            let on = (0..3).any(|axis| cut[axis] && (place[axis] == 0 || place[axis] + 1 == ends[axis]));
            assert_eq!(seen[n as usize], u8::from(on), "{cut:?} {place:?}");
        }
    }
}

/// The kernels divide by multiplying with what 2^32 / n is, rounded up: exact while number and divisor together have no more than
/// 32 bits.
#[test]
fn blocks_of_the_largest_lattices_are_counted_without_overflow() {
    for side in (Lattice::STEP..=Lattice::LARGEST).step_by(Lattice::STEP as usize) {
        let slabs = [side, side - 2, side / 2, 1].map(|count| [side, side, count]);
        let blocks = [[side / 2, side, side], [side / 2; 3], [side, side / 2, side]];
        for extents in slabs.into_iter().chain(blocks.into_iter().filter(|extents| extents[0] % 16 == 0)) {
            let shape = Shape::of(extents);
            let blocks = shape.blocks(extents);
            let [across, strip, layers] = shape.divisors(extents).map(u64::from);
            let slices = u64::from(extents[1].div_ceil(1 << shape.rows) / shape.strip);
            assert_eq!(u64::from(blocks), across * strip * layers * slices, "{extents:?}: 64 bits give as many");
            let last = u64::from(blocks - 1);
            let divisions = [(last, across), (last / across, strip), (last / across / strip, layers)];
            for (number, by) in divisions {
                assert!(number * by < 1 << 32, "{extents:?}: {number} by {by}");
                assert_eq!((number * (1_u64 << 32).div_ceil(by)) >> 32, number / by, "{extents:?}");
            }
            // a grid has less than 2^31 blocks
            assert!(blocks + shape.ends(side) + on_surface([side; 3], [true; 3]) < 1 << 31);
        }
        let plane = side as usize * side as usize;
        assert_eq!(bytes_of([side; 3], 4), 6 * plane);
        assert_eq!(bytes_of([side / 2, side, side / 4], 0), 6 * plane / 4);
    }
}

/// The first GPU, as many times as a lattice has slabs: they exchange as those of several GPUs do.
fn machine() -> Machine {
    let driver = Driver::open().unwrap();
    let address = Device::all(driver).unwrap()[0].address().unwrap().unwrap();
    Machine::open(Found::look(&[GpuName { name: "GPU0".to_owned(), address }]).unwrap()).unwrap()
}

fn lattice(slabs: usize, side: u32, exchange: Exchange, overlap: bool) -> Lattice {
    Lattice { gpus: vec!["GPU0".to_owned(); slabs], blocks: None, side, weak: false, exchange, overlap }
}

fn in_blocks(parts: [u32; 3], side: u32, exchange: Exchange, overlap: bool) -> Lattice {
    Lattice { blocks: Some(parts), ..lattice(parts.iter().product::<u32>() as usize, side, exchange, overlap) }
}

fn prepared(machine: &mut Machine, lattice: &Lattice) -> SpinGlass {
    SpinGlass::prepare(machine, lattice, &Method::default()).unwrap().0
}

/// All spins by place.
fn spins(glass: &SpinGlass) -> Vec<[f32; 3]> {
    let slab = &glass.parts[0];
    let side = slab.extents[0] as usize;
    let component = side * side / 2;
    let mut all = vec![[0.0; 3]; side * side * side];
    for colour in 0..2 {
        let mut words = vec![0_u64; 3 * component * side / 2];
        slab.bulk.copy_to_slice(&mut words, slab.spins[colour].part(0, usize::MAX)).unwrap();
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
    let slab = &glass.parts[0];
    let side = slab.extents[0] as usize;
    let component = side * side / 2;
    let mut known = vec![[None; 3]; side * side * side];
    for colour in 0..2 {
        let mut words = vec![0_u64; component * side / 8];
        slab.bulk.copy_to_slice(&mut words, slab.couplings[colour].part(0, usize::MAX)).unwrap();
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
        assert_eq!(glass.whole.as_ref().unwrap().parts[0].extents[2], 128 * slabs as u32);
        glass.sample(3).unwrap();
        assert_eq!(glass.verify().unwrap(), [Verdict::Intact], "{lattice}");
    }
}

/// 4.6 · 10⁹ places, and 6.9 · 10⁹ numbers of each colour, where a GPU has 120 GB; else what it holds twice.
#[test]
#[ignore = "needs a GPU"]
fn a_lattice_beyond_32_bits_equals_its_slabs() {
    let mut machine = machine();
    let room = machine.room("GPU0").unwrap();
    let mut sides = [1664, 1280, 1024, 512].into_iter().map(|side| lattice(2, side, Exchange::Stores, true));
    let lattice = sides.find(|lattice| room > 2 * lattice.bytes().0 + (1 << 30)).unwrap();
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
    assert!(why.contains("L = 3072, 1 GPU needs 351 GiB on GPU0, which has"), "{why}");
}

/// On one GPU: up to 2 x 2 x 2, uneven in their extents, of rows that are no power of two, by each exchange and order.
#[test]
#[ignore = "needs a GPU"]
fn blocks_equal_lattices_in_one_piece_by_every_exchange() {
    let mut machine = machine();
    for (parts, side) in [
        ([2, 1, 1], 128),
        ([1, 2, 1], 128),
        ([1, 1, 2], 128),
        ([2, 2, 1], 64),
        ([2, 2, 2], 64),
        ([3, 1, 1], 192),
        ([1, 3, 2], 192),
    ] {
        for exchange in Exchange::ALL {
            for overlap in [false, true] {
                let lattice = in_blocks(parts, side, exchange, overlap);
                let mut glass = prepared(&mut machine, &lattice);
                assert!(glass.whole.is_some());
                glass.sample(2).unwrap();
                assert_eq!(glass.verify().unwrap(), [Verdict::Intact], "{lattice}");
                glass.whole = None;
                assert_eq!(glass.differs().unwrap(), None, "{lattice}, exchanged by the host");
            }
        }
    }
    let grown = Lattice { weak: true, ..in_blocks([2, 2, 1], 64, Exchange::Stores, true) };
    assert_eq!(prepared(&mut machine, &grown).verify().unwrap(), [Verdict::Intact]);
}

/// On all GPUs of the machine, four and eight parts dealt out in turns.
#[test]
#[ignore = "needs two GPUs"]
fn blocks_on_several_gpus_equal_lattices_in_one_piece() {
    let driver = Driver::open().unwrap();
    let devices = Device::all(driver).unwrap();
    let names: Vec<GpuName> = devices
        .iter()
        .enumerate()
        .map(|(i, device)| GpuName { name: format!("GPU{i}"), address: device.address().unwrap().unwrap() })
        .collect();
    assert!(names.len() > 1, "one GPU only");
    let mut machine = Machine::open(Found::look(&names).unwrap()).unwrap();
    for (parts, side) in [([2, 1, 1], 256), ([1, 2, 1], 256), ([2, 2, 1], 128), ([2, 2, 2], 128)] {
        for exchange in Exchange::ALL {
            for overlap in [false, true] {
                let lattice = in_blocks(parts, side, exchange, overlap);
                let gpus = (0..lattice.gpus.len()).map(|i| names[i % names.len()].name.clone()).collect();
                let mut glass = prepared(&mut machine, &Lattice { gpus, ..lattice.clone() });
                glass.sample(2).unwrap();
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
    let slab = &glass.parts[0];
    slab.gpu.context.enter().unwrap();
    slab.bulk.set(slab.neighbours(1, 4).unwrap(), 0x3f).unwrap();
    slab.bulk.synchronize().unwrap();
    glass.go(2, Doing::Everything).unwrap();
    let verdict = glass.verify().unwrap();
    assert!(matches!(&verdict[0], Verdict::Corrupt(why) if why.contains("the energy drifted by")), "{verdict:?}");
}

/// A wrong face in any direction, of slabs and of blocks, is found by the comparison with the lattice in one piece.
#[test]
#[ignore = "needs a GPU"]
fn a_wrong_face_in_any_direction_is_found() {
    let mut machine = machine();
    for lattice in [lattice(2, 128, Exchange::Copies, true), in_blocks([2, 2, 2], 64, Exchange::Copies, true)] {
        let mut glass = prepared(&mut machine, &lattice);
        let mut whole = glass.whole.take().unwrap();
        whole.seed = glass.seed;
        whole.draw().unwrap();
        whole.run(2).unwrap();
        let right = whole.inspect().unwrap().bits;
        for i in 0..glass.parts.len() {
            for face in glass.parts[i].faces.clone() {
                for wrong in [false, true] {
                    glass.draw().unwrap();
                    if wrong {
                        let part = &glass.parts[i];
                        part.gpu.context.enter().unwrap();
                        part.bulk.set(part.neighbours(1, face).unwrap(), 0x3f).unwrap();
                        part.bulk.synchronize().unwrap();
                    }
                    glass.run(2).unwrap();
                    let differs = glass.inspect().unwrap().bits != right;
                    assert_eq!(differs, wrong, "{lattice}, part {i}, face {face}");
                }
            }
        }
    }
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
