//! Which nodes send to which.

/// Edges between nodes: from, to, and bytes per byte of the collective.
pub(super) type Edge = (u32, u32, f64);

/// The edges of a ring of nodes.
pub(super) fn ring(nodes: u32) -> Vec<Edge> {
    (0..nodes).map(|node| (node, (node + 1) % nodes, 1.0)).collect()
}

/// The edges of NCCL's two trees of nodes, each with half of the data up and down: neighbours by number first, then twice as
/// far, and so on. The second is the mirror image of the first, or of an odd number of nodes shifted by one
/// (`ncclGetBtree`, `ncclGetDtree`, `src/graph/trees.cc`).
pub(super) fn trees(nodes: u32) -> Vec<Edge> {
    let both = |child: u32, parent: u32| [(child, parent, 0.5), (parent, child, 0.5)];
    let second = |node: u32| if nodes.is_multiple_of(2) { nodes - 1 - node } else { (node + 1) % nodes };
    let parent = |node: u32| {
        let bit = 1 << node.trailing_zeros();
        let up = (node ^ bit) | (bit << 1);
        if up >= nodes { node ^ bit } else { up }
    };
    let edges = (1..nodes).map(|node| (node, parent(node)));
    edges.flat_map(|(v, p)| both(v, p).into_iter().chain(both(second(v), second(p)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn trees_reach_every_node_once_and_no_node_carries_more_than_twice_the_data() {
        for nodes in [2, 3, 4, 5, 7, 8, 12, 31, 248, 1000] {
            let edges = trees(nodes);
            assert_eq!(edges.len() as u32, 4 * (nodes - 1));
            let mut asked = vec![[0.0; 2]; nodes as usize];
            for (a, b, bytes) in &edges {
                assert!(a != b && *a < nodes && *b < nodes, "{nodes}: {a} {b}");
                asked[*a as usize][0] += bytes;
                asked[*b as usize][1] += bytes;
            }
            assert!(asked.iter().flatten().all(|bytes| (0.5..=2.0).contains(bytes)), "{nodes}: {asked:?}");
            // from every node of the first tree one comes to the root
            let parents: HashMap<u32, u32> = edges.chunks(4).map(|of| (of[0].0, of[0].1)).collect();
            for start in 1..nodes {
                let path = std::iter::successors(Some(start), |node| parents.get(node).copied());
                assert_eq!(path.take(64).last(), Some(0), "{nodes} {start}");
            }
        }
    }
}
