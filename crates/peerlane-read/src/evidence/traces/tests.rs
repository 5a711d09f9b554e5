use std::io::Write;

use super::open::{Content, content, gunzipped};
use super::*;
use crate::evidence::{Files, Item, pack};

/// A number as protobuf writes it.
fn varint(mut n: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while n >= 0x80 {
        bytes.push((n as u8 & 0x7f) | 0x80);
        n >>= 7;
    }
    bytes.push(n as u8);
    bytes
}

fn number(field: u64, n: u64) -> Vec<u8> {
    [varint(field << 3), varint(n)].concat()
}

fn bytes(field: u64, of: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), varint(of.len() as u64), of.to_vec()].concat()
}

fn attribute(name: &str, field: u64, n: u64) -> Vec<u8> {
    bytes(10, &[bytes(1, name.as_bytes()), number(field, n)].concat())
}

/// A node: number, name, type, what it waits for, µs, and more fields.
fn node(id: u64, name: &str, kind: u64, after: &[u64], us: u64, more: &[Vec<u8>]) -> Vec<u8> {
    let packed: Vec<u8> = after.iter().flat_map(|n| varint(*n)).collect();
    let mut all =
        [number(1, id), bytes(2, name.as_bytes()), number(3, kind), bytes(5, &packed), number(7, us)].concat();
    more.iter().for_each(|field| all.extend(field));
    all
}

fn compute(id: u64, after: &[u64], us: u64) -> Vec<u8> {
    node(id, "gemm", 4, after, us, &[])
}

/// An all-reduce has the type 0, an all-gather 2.
fn collective(id: u64, after: &[u64], kind: u64, size: u64, group: Option<&str>) -> Vec<u8> {
    let mut more =
        vec![attribute("is_cpu_op", 27, 0), attribute("comm_type", 9, kind), attribute("comm_size", 9, size)];
    more.extend(group.map(|name| bytes(10, &[bytes(1, b"pg_name"), bytes(29, name.as_bytes())].concat())));
    node(id, "sum", 7, after, 0, &more)
}

fn file(nodes: &[Vec<u8>]) -> Vec<u8> {
    let version = bytes(1, b"0.0.4");
    let messages = [version].into_iter().chain(nodes.iter().cloned());
    messages.flat_map(|message| [varint(message.len() as u64), message].concat()).collect()
}

fn of(rank: u32, nodes: &[Vec<u8>]) -> Recording {
    super::read(&format!("t.{rank}.et"), &file(nodes)).unwrap()
}

fn refused(ranks: Vec<Recording>) -> String {
    join(ranks, 2).unwrap_err().to_string()
}

#[test]
fn nodes_become_records_and_both_ranks_one_collective() {
    let nodes = [compute(1, &[], 5), collective(2, &[1], 2, 100, None), compute(3, &[2], 7)];
    let joined = join(vec![of(0, &nodes), of(1, &nodes)], 8).unwrap();
    assert_eq!((joined.ranks, joined.groups.as_slice()), (2, [vec![0, 1]].as_slice()));
    // what each of two gives is 100 bytes
    let gather = Act::Collective { collective: Collective::AllGather, group: 0, bytes: 200, took: None };
    assert_eq!(joined.acts.iter().filter(|act| **act == gather).count(), 1);
    assert_eq!(joined.acts.iter().filter(|act| matches!(act, Act::Compute(_, s) if *s == 5e-6)).count(), 2);
    assert_eq!(joined.recorded, None);
}

#[test]
fn threads_of_the_host_work_beside_each_other() {
    let host = |id, thread| node(id, "op", 4, &[], 5, &[attribute("is_cpu_op", 27, 1), attribute("tid", 9, thread)]);
    let of_threads = |threads: [u64; 2]| of(0, &[host(1, threads[0]), host(2, threads[1])]);
    let (one, two) = (of_threads([1, 1]), of_threads([1, 2]));
    assert_eq!((&one.records[1].after[..], &two.records[1].after[..]), (&[0][..], &[][..]));
    assert!(one.notes.is_empty() && two.notes[0].contains("does not say when nodes began"), "{:?}", two.notes);
}

#[test]
fn one_trace_stands_for_all_ranks_and_their_groups() {
    let nodes = [collective(1, &[], 0, 8, None), collective(2, &[], 0, 16, Some("tp"))];
    let mut one = of(2, &nodes);
    one.groups.insert("tp".to_owned(), vec![2, 3]);
    one.world = Some(8);
    let joined = join(vec![one.clone()], 1).unwrap();
    assert_eq!(joined.ranks, 8);
    assert!(joined.groups.contains(&vec![0, 1]) && joined.groups.contains(&vec![6, 7]), "{:?}", joined.groups);
    assert_eq!(joined.groups.len(), 5);
    // neither neighbours nor at one distance
    one.groups.insert("tp".to_owned(), vec![2, 3, 7]);
    assert!(refused(vec![one]).contains("irregularly among 8 ranks"));
    // what it does not say, the cluster does
    assert_eq!(join(vec![of(0, &nodes[..1])], 4).unwrap().ranks, 4);
}

#[test]
fn ranks_that_do_not_match_are_named() {
    let all_reduce = |size| [collective(1, &[], 0, size, None)];
    let two = [collective(1, &[], 0, 64, None), collective(2, &[1], 0, 1 << 20, None)];
    let kinds = [collective(1, &[], 2, 64, None)];
    let cases = [
        (
            vec![of(0, &two), of(1, &all_reduce(64))],
            "rank 1 has 1 collectives among ranks 0 to 1, and rank 0 has 2: the first without a partner is all-reduce of 1 MiB",
        ),
        (
            vec![of(0, &all_reduce(64)), of(1, &kinds)],
            "collective 1 among ranks 0 to 1 is all-reduce on rank 0 and all-gather on rank 1",
        ),
        (vec![of(0, &all_reduce(64)), of(1, &all_reduce(1 << 20))], "has 64 B on rank 0 and 1 MiB on rank 1"),
        (vec![of(0, &all_reduce(64)), of(2, &all_reduce(64))], "rank 1 of 2 missing"),
        (vec![of(1, &all_reduce(64)), of(1, &all_reduce(64))], "t.1.et and t.1.et are both of rank 1"),
        (vec![of(0, &[compute(1, &[], 5)]), of(1, &[compute(1, &[], 5)])], "no communication at all in 2 records"),
    ];
    for (ranks, expected) in cases {
        let message = refused(ranks);
        assert!(message.contains(expected), "{message}");
    }
    let mut other = of(1, &[collective(1, &[], 0, 64, Some("x"))]);
    other.groups.insert("x".to_owned(), vec![0]);
    let message = refused(vec![of(0, &all_reduce(64)), other]);
    assert!(message.contains("among rank 0, and not rank 1 itself"), "{message}");
}

#[test]
fn an_order_that_differs_between_groups_is_a_circle() {
    let in_order =
        |first: &str, second: &str| [collective(1, &[], 0, 8, Some(first)), collective(2, &[1], 0, 8, Some(second))];
    let message = refused(vec![of(0, &in_order("a", "b")), of(1, &in_order("b", "a"))]);
    assert!(
        message.contains("ranks wait for each other in a circle, at all-reduce of 8 B among ranks 0 to 1"),
        "{message}"
    );
    assert!(join(vec![of(0, &in_order("a", "b")), of(1, &in_order("a", "b"))], 2).is_ok());
}

#[test]
fn clocks_and_steps_that_differ_are_noted() {
    let nodes = [collective(1, &[], 0, 8, None)];
    let mut ranks = vec![of(0, &nodes), of(1, &nodes)];
    let recorded = Some(Split { time: 0.5, ..Split::default() });
    for (rank, began) in ranks.iter_mut().zip([100.0, 103.0]) {
        (rank.began, rank.recorded, rank.steps) = (Some(began), recorded, 2);
    }
    // a kernel that waited for the other rank
    (ranks[0].records[0].took, ranks[1].records[0].took) = (Some(0.5), Some(0.1));
    assert_eq!(join(ranks.clone(), 2).unwrap().recorded.unwrap().waiting, Some((0.5 - 0.1) / 2.0 / 2.0));
    ranks[1].steps = 1;
    let notes = join(ranks.clone(), 2).unwrap().notes;
    assert!(notes.iter().any(|n| n.starts_with("Rank 0 has 2 steps and rank 1 has 1: some are cut off")), "{notes:?}");
    assert!(notes.iter().any(|n| n.starts_with("Rank 1 begins 2.000 s after rank 0 ends: their clocks")), "{notes:?}");
    (ranks[1].began, ranks[1].steps) = (Some(100.2), 2);
    assert!(join(ranks, 2).unwrap().notes.is_empty());
}

#[test]
fn messages_find_their_receiver() {
    let send = |to| [node(1, "send", 5, &[], 0, &[attribute("comm_dst", 7, to), attribute("comm_size", 9, 100)])];
    let receive = [node(1, "recv", 6, &[], 0, &[attribute("comm_src", 7, 0)])];
    let joined = join(vec![of(0, &send(1)), of(1, &receive)], 2).unwrap();
    assert!(joined.acts.contains(&Act::Message(0, 1, 100)), "{joined:?}");
    let message = refused(vec![of(0, &send(1)), of(1, &send(0))]);
    assert!(message.contains("rank 0 sends 1 messages with tag 0 to rank 1, which receives 0"), "{message}");
    assert!(refused(vec![of(0, &send(1))]).contains("give a file for each rank"));
}

#[test]
fn nodes_that_cannot_be_are_named() {
    let marked = node(4, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 4, &[], 9, &[]);
    let without = node(5, "sum", 7, &[], 0, &[attribute("comm_type", 9, 0)]);
    let cases: [(&[Vec<u8>], &str); 8] = [
        (&[compute(1, &[2], 1), compute(2, &[1], 1)], "waits for itself through others (2 nodes cannot begin)"),
        (&[compute(1, &[9], 1)], "node 1 (gemm) waits for node 9, which is not in the trace"),
        (&[compute(1, &[], 1), compute(1, &[], 1)], "two nodes have the number 1"),
        (&[marked], "node 4 (ncclDevKernel_AllReduce_Sum_f32_RING_LL) is communication that is marked as computing"),
        (&[without], "no attribute comm_size"),
        (&[node(6, "?", 12, &[], 0, &[])], "type 12 is not in Chakra's schema"),
        (&[collective(7, &[], 33, 8, None)], "comm_type 33 is not in Chakra's schema"),
        (&[], "no node in it"),
    ];
    for (nodes, expected) in cases {
        let message = super::read("t.et", &file(nodes)).unwrap_err().to_string();
        assert!(message.contains(expected) && message.starts_with("t.et: "), "{message}");
    }
    // what others' programs leave out without a word
    let on_host = node(3, "sum", 7, &[], 5, &[attribute("is_cpu_op", 27, 1)]);
    let cases: [(&[Vec<u8>], &str); 2] = [
        (std::slice::from_ref(&on_host), "1 of 1 collectives are marked as the host's (is_cpu_op)"),
        (&[collective(1, &[], 0, 0, None)], "1 of 1 collectives have a comm_size of 0"),
    ];
    for (nodes, expected) in cases {
        let message = super::read("t.et", &file(nodes)).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }
    let some = super::read("t.et", &file(&[on_host, collective(4, &[], 0, 8, None)])).unwrap();
    assert!(some.notes[0].contains("1 of 2 collectives are marked as the host's"), "{:?}", some.notes);
    // what a converter lost
    let apart: Vec<Vec<u8>> =
        (0..2).flat_map(|i| [compute(2 * i, &[], 5), collective(2 * i + 1, &[], 0, 8, None)]).collect();
    let lost = super::read("t.et", &file(&apart)).unwrap();
    assert!(lost.notes[0].starts_with("No collective waits for computing"), "{:?}", lost.notes);
    // callers that contradict data dependencies are left out, and said to be
    let called = [node(1, "a", 4, &[2], 1, &[]), node(2, "b", 4, &[], 1, &[number(4, 1)])];
    assert!(super::read("t.et", &file(&called)).unwrap().notes[0].contains("contradict"));
}

#[test]
fn every_cut_of_a_trace_is_said_and_none_panics() {
    let whole = file(&[compute(1, &[], 5), collective(2, &[1], 0, 100, None)]);
    for end in 0..whole.len() {
        match super::read("t.et", &whole[..end]) {
            Ok(recording) => assert!(recording.records.len() == 1, "at {end} a message ends"),
            Err(error) => {
                let why = error.to_string();
                assert!(["cut off", "no node", "neither"].iter().any(|word| why.contains(word)), "{end}: {why}");
            }
        }
    }
    let message = super::read("t.et", &whole[..whole.len() - 1]).unwrap_err().to_string();
    assert!(message.contains("cut off after node 1: the message at byte"), "{message}");
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0xff;
        drop(super::read("t.et", &damaged));
    }
}

#[test]
fn json_of_the_jsonizer_and_of_the_feeder() {
    let written = r#"{"version": "0.0.4"}{"id": "1", "name": "gemm", "type": "COMP_NODE", "durationMicros": "5"}
        {"id": "2", "type": "COMM_COLL_NODE", "dataDeps": ["1"], "attr": [{"name": "comm_type", "int64Val": "0"},
        {"name": "comm_size", "int64Val": "100"}, {"name": "is_cpu_op", "boolVal": false}]}"#;
    let proto = of(0, &[compute(1, &[], 5), collective(2, &[1], 0, 100, None)]);
    let read = super::read("t.0.json", written.as_bytes()).unwrap();
    assert_eq!(read.records, proto.records);
    let feeder = r#"{"workload_graph": [{"Id": 1, "Name": "gemm", "NodeType": 4, "runtime": 5, "is_cpu_op": false}, {"Id": 2,
        "NodeType": 7, "data_deps": [1], "comm_type": 0, "comm_size": 100}], "ngpus": 2}"#;
    let read = super::read("t.0.json", feeder.as_bytes()).unwrap();
    assert_eq!((read.records, read.world), (proto.records, Some(2)));
    let cut = super::read("t.0.json", &written.as_bytes()[..written.len() - 9]).unwrap_err().to_string();
    assert!(cut.contains("cut off after node 1"), "{cut}");
    assert_eq!(format_of(br#"{"0": [0, 1], "1": [2, 3]}"#), Some(Format::Groups));
}

#[test]
fn a_bomb_ends_at_the_limit_and_a_damaged_file_is_said() {
    let packed = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let whole = |file: &str, bytes: Vec<u8>| match content(file, bytes)? {
        Content::One(bytes) => Ok::<_, TraceError>(bytes),
        Content::Archive(_) => panic!("{file} is an archive"),
    };
    let bomb = packed(&vec![0; 9 << 20]);
    assert!(bomb.len() < 1 << 20, "{}", bomb.len());
    assert_eq!(whole("bomb.json.gz", bomb.clone()).unwrap().len(), 9 << 20);
    let message = gunzipped("bomb.json.gz", &bomb, 8 << 20).unwrap_err().to_string();
    assert!(message.contains("bomb.json.gz: unpacks to more than 8 MiB; record fewer steps"), "{message}");
    let small = packed(&vec![b' '; 60 << 20]);
    let message = whole("small.json.gz", small).unwrap_err().to_string();
    assert!(message.contains("small.json.gz: unpacks to more than 48 MiB"), "{message}");
    let message = whole("cut.json.gz", bomb[..bomb.len() / 2].to_vec()).unwrap_err().to_string();
    assert!(message.contains("cut.json.gz: damaged or cut off"), "{message}");
    // a length that no memory has
    let long = [file(&[compute(1, &[], 5)]), varint(u64::MAX)].concat();
    assert!(super::read("t.et", &long).unwrap_err().to_string().contains("cut off after node 1"));
    // more records of all ranks than are read
    let mut one = of(0, &[collective(1, &[], 0, 8, None), compute(2, &[], 1)]);
    one.world = Some(MOST_RECORDS as u32);
    assert!(refused(vec![one]).contains("8000000 records are more than the 4000000 that are read"));
}

#[test]
fn an_archive_keeps_large_traces_without_text() {
    let nodes: Vec<Vec<u8>> = (1..5000).map(|n| compute(n, &[], 5)).collect();
    let (trace, other) = (file(&nodes), vec![0; 100 << 10]);
    assert!(trace.len() > 64 << 10, "{}", trace.len());
    let mut files = Files::default();
    files.insert("run/t.0.et", Item::File(trace.clone()));
    files.insert("run/program", Item::File(other));
    let Content::Archive(found) = content("t.tar.zst", pack(&files, 0).unwrap()).unwrap() else { panic!("one file") };
    assert_eq!(found.into_contents().collect::<Vec<_>>(), [("run/t.0.et".to_owned(), trace)]);
}

#[test]
fn ranks_are_in_names() {
    for (name, rank) in [
        ("a/trace.3.et", Some(3)),
        ("rank12_step5.json", Some(12)),
        ("frankly5.json", Some(5)),
        ("kineto.0.json.gz", Some(0)),
        ("x.et", None),
        ("w7/x.et", None),
    ] {
        assert_eq!(rank_in(name), rank, "{name}");
    }
}
