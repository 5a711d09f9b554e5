use super::*;
use crate::cuda::{Device, Driver};
use crate::live::GpuName;
use crate::live::machine::Found;

/// The first GPU, as many times as a search has parts: they exchange as those of several GPUs do.
fn machine() -> Machine {
    let driver = Driver::open().unwrap();
    let address = Device::all(driver).unwrap()[0].address().unwrap().unwrap();
    Machine::open(Found::look(&[GpuName { name: "GPU0".to_owned(), address }]).unwrap()).unwrap()
}

fn prepared(machine: &mut Machine, parts: usize, scale: u32, exchange: Exchange) -> Bfs {
    let search = Search { gpus: vec!["GPU0".to_owned(); parts], scale, exchange };
    Bfs::prepare(machine, &search).unwrap().0
}

/// `u32` after `u32` of a buffer.
fn numbers(bfs: &Bfs, buffer: &Rc<dyn Buffer>, count: usize) -> Vec<u32> {
    let mut words = vec![0_u64; count.div_ceil(2)];
    bfs.parts[0].vertices.stream.copy_to_slice(&mut words, first(buffer, 4 * count)).unwrap();
    (0..count).map(|i| (words[i / 2] >> (32 * (i % 2))) as u32).collect()
}

/// Levels by name, as a textbook finds them from the arcs on the GPU.
fn textbook(bfs: &Bfs, root: Root) -> Vec<u32> {
    let n = bfs.search.vertices() as usize;
    let v = &bfs.parts[0].vertices;
    let names = numbers(bfs, &v.names, n);
    let labels = numbers(bfs, &v.labels, n);
    let mut offsets = vec![0_u64; n + 1];
    v.stream.copy_to_slice(&mut offsets, first(&v.rows.offsets, 8 * (n + 1))).unwrap();
    let arcs = numbers(bfs, &v.rows.arcs, offsets[n] as usize);
    assert!((0..n).all(|name| names[labels[name] as usize] as usize == name));
    let degrees: Vec<u64> = offsets.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(degrees[..64].windows(2).all(|pair| pair[0] * 17 / 16 >= pair[1]), "largest first: {:?}", &degrees[..64]);
    let mut levels = vec![u32::MAX; n];
    levels[root.name as usize] = 0;
    let mut frontier = vec![root.label];
    let mut level = 0;
    while !frontier.is_empty() {
        level += 1;
        let mut next = Vec::new();
        for from in frontier {
            for to in &arcs[offsets[from as usize] as usize..offsets[from as usize + 1] as usize] {
                let name = names[*to as usize] as usize;
                if levels[name] == u32::MAX {
                    levels[name] = level;
                    next.push(*to);
                }
            }
        }
        frontier = next;
    }
    levels
}

/// Levels by name, by the tree of a search in one part.
fn levels(bfs: &Bfs, root: Root) -> Vec<u32> {
    let n = bfs.search.vertices() as usize;
    let tree = numbers(bfs, &bfs.parts[0].tree, n);
    let depth = |mut name: usize| {
        let mut level = 0;
        while name != root.name as usize {
            assert!(level < 100, "a circle");
            name = tree[name] as usize;
            level += 1;
        }
        level
    };
    (0..n).map(|name| if tree[name] == u32::MAX { u32::MAX } else { depth(name) }).collect()
}

#[test]
#[ignore = "needs a GPU"]
fn breadth_first_levels_are_those_of_a_textbook() {
    let mut machine = machine();
    for scale in [10, 13, 18] {
        let bfs = prepared(&mut machine, 1, scale, Exchange::Stores);
        for root in &bfs.roots[..4] {
            bfs.go(*root).unwrap();
            assert!(levels(&bfs, *root) == textbook(&bfs, *root), "scale {scale}, root {root:?}");
        }
    }
}

#[test]
#[ignore = "needs a GPU"]
fn breadth_first_trees_of_several_parts_are_intact_by_every_exchange() {
    let mut machine = machine();
    for parts in [1, 2, 3, 5] {
        for exchange in Exchange::ALL {
            let mut bfs = prepared(&mut machine, parts, 16, exchange);
            bfs.sample(2).unwrap();
            assert_eq!(bfs.verify().unwrap(), [Verdict::Intact], "{parts} parts, {}", exchange.name());
            // as Graph500 counts them: nearly all edges are in the one large component
            let reached = bfs.roots.iter().filter(|root| root.edges > bfs.search.edges() * 9 / 10).count();
            assert!(reached > 60, "{reached} of 64 roots");
        }
    }
}

#[test]
#[ignore = "needs a GPU"]
fn a_wrong_breadth_first_tree_is_found() {
    let mut machine = machine();
    let bfs = prepared(&mut machine, 1, 14, Exchange::Stores);
    let (root, part) = (bfs.roots[0], &bfs.parts[0]);
    let spoil = |word: usize, bytes: usize, value: u8| {
        bfs.go(root).unwrap();
        part.vertices.stream.set(part.tree.part(4 * word, bytes), value).unwrap();
        bfs.checker.wrong(&bfs.parts, root).unwrap()
    };
    assert_eq!(spoil(0, 0, 0), None);
    let tree = numbers(&bfs, &part.tree, bfs.search.vertices() as usize);
    let reached: Vec<usize> =
        (0..tree.len()).filter(|name| tree[*name] != u32::MAX && *name != root.name as usize).collect();
    let lost = spoil(reached[7], 4, 0xff).unwrap();
    assert!(lost.contains("lead out of it") || lost.contains("no path to the root"), "{lost}");
    // vertex 0 is hardly everybody's neighbour
    let moved = reached.iter().take(64).filter(|name| spoil(**name, 4, 0).is_some()).count();
    assert!(moved > 32, "{moved} of 64 wrong parents are found");
}
