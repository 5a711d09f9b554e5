use super::*;
use crate::cuda::{Device, Driver};
use crate::live::GpuName;
use crate::live::machine::Found;

/// Decompositions that are tried on one GPU.
const PARTS: [[u32; 3]; 6] = [[2, 1, 1], [3, 1, 1], [2, 2, 1], [4, 2, 1], [2, 2, 2], [1, 3, 2]];

/// The first GPU, as many times as a grid has parts: they exchange as those of several GPUs do.
fn machine() -> Machine {
    let driver = Driver::open().unwrap();
    let address = Device::all(driver).unwrap()[0].address().unwrap().unwrap();
    Machine::open(Found::look(&[GpuName { name: "GPU0".to_owned(), address }]).unwrap()).unwrap()
}

fn prepared(machine: &mut Machine, parts: [u32; 3], face: u64, exchange: Exchange) -> Halo {
    let gpus = vec!["GPU0".to_owned(); parts.iter().product::<u32>() as usize];
    let grid = Grid { gpus, parts, face: Bytes(face), exchange };
    Halo::prepare(machine, &grid, &Method::default()).unwrap().0
}

#[test]
fn steps_fit_into_the_queues_of_the_driver() {
    let all = [(2, 1), (4, 1), (6, 1), (2, 2), (4, 8), (6, 8)];
    let of = |exchange| all.map(|(sides, parts)| most(sides, parts, exchange));
    assert_eq!(of(Exchange::Stores), of(Exchange::Copies));
    assert_eq!(of(Exchange::Copies), [112, 75, 56, 96, 12, 8]);
    assert_eq!(of(Exchange::Staged), [64, 48, 32, 48, 6, 4]);
}

#[test]
#[ignore = "needs a GPU"]
fn every_face_comes_in_where_it_belongs() {
    let mut machine = machine();
    for parts in PARTS {
        for exchange in Exchange::ALL {
            for face in [16, 4096, (1 << 20) + 16] {
                let mut halo = prepared(&mut machine, parts, face, exchange);
                let time = halo.sample(3).unwrap()[0][0][0];
                assert!(time > 0.0 && time < 0.1, "{parts:?}, {}, {face} B: {time} s", exchange.name());
                let verdict = halo.verify().unwrap();
                assert_eq!(verdict, [Verdict::Intact], "{parts:?}, {}, {face} B", exchange.name());
            }
        }
    }
}

#[test]
#[ignore = "needs a GPU"]
fn a_wrong_face_is_found_and_named() {
    let mut machine = machine();
    for exchange in Exchange::ALL {
        let mut halo = prepared(&mut machine, [2, 2, 1], 4096, exchange);
        // of one of the two places
        let region = &halo.regions[3];
        region.gpu.context.enter().unwrap();
        region.gpu.kernels.fill(&region.sides[1].stream, region.sent(1, 1), 1 << 30, false).unwrap();
        halo.settle().unwrap();
        let verdicts = halo.verify().unwrap();
        let [Verdict::Corrupt(how)] = verdicts.as_slice() else { panic!("{}", exchange.name()) };
        assert!(how.starts_with("the face from part 3 to side 0 of part 2: GPU0: 1024 of 1024 words differ"), "{how}");
    }
}

#[test]
#[ignore = "needs a GPU"]
fn every_place_is_looked_at() {
    let mut machine = machine();
    for exchange in Exchange::ALL {
        let mut halo = prepared(&mut machine, [3, 2, 1], 4096, exchange);
        halo.go(2).unwrap();
        assert_eq!(halo.wrong().unwrap(), None);
        let places: Vec<(usize, usize, u32, u32)> = halo.places().collect();
        assert_eq!(places.len(), 6 * 4 * 2);
        for (part, side, step, seed) in places {
            let region = &halo.regions[part];
            let fill = |spoilt| {
                region.gpu.context.enter().unwrap();
                region.gpu.kernels.fill(&region.sides[side].stream, region.place(side, step), seed, spoilt).unwrap();
            };
            fill(true);
            let how = halo.wrong().unwrap().unwrap();
            assert!(how.contains(&format!("to side {side} of part {part}: ")), "{how}");
            fill(false);
            assert_eq!(halo.wrong().unwrap(), None);
        }
        // the last exchanges alone must not pass for these
        halo.spoil().unwrap();
        halo.go(1).unwrap();
        assert!(halo.wrong().unwrap().is_some());
        halo.go(1).unwrap();
        assert_eq!(halo.wrong().unwrap(), None);
    }
}
