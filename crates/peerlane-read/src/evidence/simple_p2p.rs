//! Reads CUDA's `simpleP2P` sample: copies between two GPUs, turn about, and whether what kernels wrote into each
//! other's memory is right.
//!
//! Who can access whom stands in lines that `deviceQuery` prints too; their scanner reads them.

use std::collections::BTreeMap;

use super::device_query::peer_access;
use super::{CorruptData, Direction, Engine, Fact, Found, GpuFacts, Matrix, Operation, Text};

const TOOL: &str = "simpleP2P";

/// More wrong elements are not counted; the sample stops sooner.
const MOST_ERRORS: usize = 1000;

pub(super) fn scan(text: &Text, found: &mut Found) {
    let mut names: BTreeMap<u32, (String, usize)> = BTreeMap::new();
    text.walk(|i| {
        let line = text.line(i).trim();
        if line.starts_with("Checking GPU(s) for support of peer to peer") {
            names.clear();
        } else if let Some((ends, _)) = peer_access(line) {
            ends.into_iter().for_each(|(number, name)| {
                names.entry(number).or_insert((name.to_owned(), i));
            });
        } else if let Some((a, b, rate)) = copies(line) {
            push_gpus(text, &names, i, found);
            found.push(text, TOOL, text.numbers(i, i), Fact::Matrix(matrix(a, b, rate)));
        } else if line.starts_with(WRONG) {
            let errors = (i..text.len()).take(MOST_ERRORS).take_while(|i| text.line(*i).trim().starts_with(WRONG));
            let count = errors.count();
            let detail = format!("{count} elements are not what was written, the first: {}", first_error(line));
            let fact = Fact::Corrupt(CorruptData { test: "kernels on two GPUs".to_owned(), detail });
            found.push(text, TOOL, text.numbers(i, i + count - 1), fact);
            return Some(i + count);
        }
        None
    });
}

/// What the sample prints of each element that is wrong, a dozen at most.
const WRONG: &str = "Verification error @ element ";

/// `element 1 is 0.000000 instead of 4.000000` of `Verification error @ element 1: val = 0.000000, ref = 4.000000`.
fn first_error(line: &str) -> String {
    let rest = line.strip_prefix(WRONG).unwrap_or(line);
    let parts = || {
        let (element, values) = rest.split_once(": val = ")?;
        let (value, reference) = values.split_once(", ref = ")?;
        Some(format!("element {element} is {value} instead of {reference}"))
    };
    parts().unwrap_or_else(|| rest.to_owned())
}

/// `cudaMemcpyPeer / cudaMemcpy between GPU0 and GPU1: 25.07GB/s`.
fn copies(line: &str) -> Option<(u32, u32, f64)> {
    let rest = line.strip_prefix("cudaMemcpyPeer / cudaMemcpy between ")?;
    let (pair, rate) = rest.split_once(':')?;
    let (a, b) = pair.split_once(" and ")?;
    let number = |name: &str| super::gpu_number(name.trim()).filter(|n| *n < super::p2p_test::MAX_DEVICES);
    let rate: f64 = rate.trim().strip_suffix("GB/s")?.trim().parse().ok()?;
    Some((number(a)?, number(b)?, rate)).filter(|(a, b, _)| a != b)
}

fn push_gpus(text: &Text, names: &BTreeMap<u32, (String, usize)>, until: usize, found: &mut Found) {
    let Some(first) = names.values().map(|(_, line)| *line).min() else { return };
    let gpus = names.iter().map(|(number, (name, _))| GpuFacts::listed(*number, name)).collect();
    found.push(text, TOOL, text.numbers(first, until), Fact::Gpus(gpus));
}

/// The sample copies there and back in turns, and prints one rate. One cell has it: a square of two GPUs would mean that
/// the machine has no others.
fn matrix(a: u32, b: u32, rate: f64) -> Matrix {
    Matrix {
        direction: Some(Direction::Unidirectional),
        p2p: Some(true),
        op: Some(Operation::Write),
        engine: Some(Engine::Ce),
        rows: vec![format!("GPU{a}")],
        cols: vec![format!("GPU{b}")],
        values: vec![vec![Some(rate)]],
        title: TOOL.to_owned(),
        ..Matrix::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;

    const RUN: &str = "[./simpleP2P] - Starting...\nChecking GPU(s) for support of peer to peer memory access...\n\
        > Peer access from Card X (GPU0) -> Card X (GPU1) : Yes\n> Peer access from Card X (GPU1) -> Card X (GPU0) : Yes\n\
        cudaMemcpyPeer / cudaMemcpy between GPU0 and GPU1: 21.50GB/s\nCopy data back to host from GPU0 and verify results...\n";

    #[test]
    fn a_rate_and_two_names() {
        let found = scanned(scan, &format!("{RUN}Test passed\n"));
        let [gpus, rate] = found.evidence.as_slice() else { panic!("{found:#?}") };
        assert!(matches!(&gpus.fact, Fact::Gpus(g) if g.len() == 2 && g[1].name.as_deref() == Some("Card X")));
        let Fact::Matrix(m) = &rate.fact else { panic!() };
        assert_eq!((m.between("GPU0", "GPU1"), m.rows.len()), (Some(21.5), 1));
    }

    #[test]
    fn wrong_elements() {
        let wrong = |n: u32| format!("Verification error @ element {n}: val = nan, ref = {}.000000\n", 4 * n);
        let found = scanned(scan, &format!("{RUN}{}{}Test failed!\n", wrong(0), wrong(1)));
        let Fact::Corrupt(c) = &found.evidence[2].fact else { panic!("{found:#?}") };
        assert_eq!(c.detail, "2 elements are not what was written, the first: element 0 is nan instead of 0.000000");
        assert_eq!(found.evidence[2].origin.lines, Some((7, 8)));
        assert_eq!(scanned(scan, "We saw a Verification error @ element 3.\n"), Found::default());
    }
}
