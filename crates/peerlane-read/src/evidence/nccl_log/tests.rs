//! Logs of several releases, whole and in parts.

use super::*;

fn logs(body: &str) -> Vec<NcclLog> {
    let mut found = Found::default();
    scan(&Text::new("t", body.as_bytes()), &mut found);
    found.evidence.into_iter().filter_map(|e| if let Fact::NcclLog(l) = e.fact { Some(l) } else { None }).collect()
}

#[test]
fn a_log() {
    let logs = logs(
        "NCCL version 2.27.3+cuda12.9\n\
         n1:10:11 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>\n\
         n1:10:11 [0] NCCL INFO ncclCommInitRank comm 0x55 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1c1060 commId 0x1 - Init START\n\
         n1:10:11 [0] NCCL INFO Channel 00/02 :    0   1\n\
         n1:10:11 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read\n\
         n1:10:11 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM/read\n\
         n1:10:12 [1] NCCL INFO Channel 00/0 : 1[1] -> 0[0] [send] via NET/IB/0/GDRDMA\n\
         n1:10:11 [0] NCCL INFO Channel 00/0 : 1[1] -> 0[0] [receive] via NET/IB/0/GDRDMA\n\
         n1:10:12 [1] NCCL WARN Call to connect failed\n",
    );
    let log = &logs[0];
    assert_eq!((log.version.as_deref(), log.host.as_deref()), (Some("2.27.3+cuda12.9"), Some("n1")));
    assert_eq!(log.networks, ["mlx5_0:1/IB", "mlx5_1:1/RoCE"]);
    assert_eq!(log.ranks[&0].address.unwrap().to_string(), "0001:c1:06.0");
    assert_eq!((log.ranks[&0].cuda, log.ranks[&1].driver), (Some(0), Some(1)));
    assert_eq!(log.rings, [[0, 1]]);
    let [p2p, net] = log.transports.as_slice() else { panic!() };
    assert_eq!((p2p.via.as_str(), p2p.channels), ("P2P/CUMEM/read", 2));
    assert_eq!((net.from, net.via.as_str(), net.channels), (1, "NET/IB/0/GDRDMA", 1));
    assert_eq!(log.warnings, ["Call to connect failed"]);
}

#[test]
fn old_ends_carry_bus_ids() {
    let logs = logs("h:1:2 [0] NCCL INFO Channel 00 : 0[1b000] -> 1[1c000] via P2P/IPC\n");
    assert_eq!(logs[0].ranks[&1].address.unwrap().to_string(), "0000:1c:00.0");
}

#[test]
fn runs_are_kept_apart_and_prose_is_none() {
    let run = "NCCL version 2.1.2\nh:1:2 [0] NCCL INFO Ring 00 :    0   1\n";
    assert_eq!(logs(&run.repeat(2)).len(), 2);
    assert!(logs("We used NCCL version 2.4 for this.\nNCCL version matters\n").is_empty());
}

#[test]
fn what_keeps_access_from_being_used() {
    let mut found = Found::default();
    let text = "NCCL INFO NCCL_P2P_LEVEL set by environment to LOC\n\
                n1:1:2 [0] NCCL INFO comm 0x5 rank 0 nranks 2 cudaDev 0 nvmlDev 4 busId ca000 - Init START\n\
                n1:1:2 [0] NCCL INFO comm 0x5 rank 1 nranks 2 cudaDev 1 nvmlDev 5 busId cb000 - Init START\n\
                n1:1:2 [0] NCCL INFO P2P is disabled between connected GPUs 5 and 4. You can repress this message\n\
                n1:1:2 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 1 'mlx5_1'\n\
                n1:1:2 [0] NCCL INFO GPU Direct RDMA Disabled for GPU ca000 / HCA 0 (distance 7 > 4)\n\
                n1:1:2 [0] NCCL INFO Using network Socket\n\
                n1:1:2 [0] NCCL INFO Channel 00 : 0[ca000] -> 1[cb000] via direct shared memory\n\
                n1:1:2 [1] transport/nvls.cc:254 NCCL WARN Cuda failure 401 'not in the present state'\n\
                Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 401\n";
    scan(&Text::new("t", text.as_bytes()), &mut found);
    let [Fact::NcclLog(log), Fact::Gpus(gpus), Fact::P2p(p2p)] =
        &found.evidence.iter().map(|e| e.fact.clone()).collect::<Vec<_>>()[..]
    else {
        panic!("{found:?}")
    };
    assert_eq!((log.hosts, log.size, log.network.as_deref()), (1, Some(2), Some("Socket")));
    assert_eq!(log.variables["NCCL_P2P_LEVEL"], "LOC");
    assert_eq!(log.transports[0].via, "SHM");
    let [one, far] = &log.staged[..] else { panic!() };
    assert_eq!((one.adapter.as_str(), one.gpu, one.distance), ("mlx5_1", None, None));
    assert_eq!((far.adapter.as_str(), far.gpu.is_some(), far.distance), ("0", true, Some((7, 4))));
    assert_eq!(log.warnings.len(), 2);
    assert!(log.warnings[0].starts_with("transport/nvls.cc:254 Cuda failure 401"));
    assert_eq!((gpus[0].index, gpus[0].address.unwrap().to_string()), (Some(4), "0000:ca:00.0".to_owned()));
    assert_eq!(p2p.rows, ["GPU4", "GPU5"]);
    assert_eq!(p2p.cells, [[None, Some(P2pStatus::NotSupported)], [Some(P2pStatus::NotSupported), None]]);
}

#[test]
fn what_gets_gpudirect_somewhere_is_not_staged() {
    let staged = |lines: &[&str]| {
        let text: String = lines.iter().map(|line| format!("n1:1:2 [0] NCCL INFO {line}\n")).collect();
        let mut found = Found::default();
        scan(&Text::new("t", text.as_bytes()), &mut found);
        let Fact::NcclLog(log) = &found.evidence[0].fact else { panic!() };
        log.staged.len()
    };
    let far = "GPU Direct RDMA Disabled for GPU ca000 / HCA 3 (distance 7 > 5)";
    assert_eq!(staged(&[far]), 1);
    assert_eq!(staged(&["GPU Direct RDMA Enabled for GPU ca000 / HCA 0 (distance 4 <= 5), read 1", far]), 0);
    assert_eq!(staged(&["GPU Direct RDMA Enabled for GPU cb000 / HCA 0 (distance 4 <= 5), read 1", far]), 1);
    assert_eq!(staged(&["NET/Socket : GPU Direct RDMA Disabled for HCA 0 'eth0'"]), 0, "TCP has none");
}

#[test]
fn ranks_of_several_hosts_are_no_gpus_of_one() {
    let line = |host: &str, rank: u32| {
        format!("{host}:1:2 [0] NCCL INFO comm 0x5 rank {rank} nranks 2 cudaDev 0 nvmlDev 0 busId ca000 - Init\n")
    };
    let mut found = Found::default();
    scan(&Text::new("t", (line("n1", 0) + &line("n2", 1)).as_bytes()), &mut found);
    assert_eq!(found.evidence.len(), 1);
}

#[test]
fn ranks_that_each_see_one_gpu_are_numbered_by_address() {
    let text = "NCCL INFO Channel 00 : 1[89000] -> 0[3d000] via direct shared memory\n\
                NCCL INFO comm 0x7f rank 1 nranks 2 cudaDev 0 busId 89000 - Init COMPLETE\n\
                NCCL INFO comm 0x7f rank 0 nranks 2 cudaDev 0 busId 3d000 - Init COMPLETE\n";
    let mut found = Found::default();
    scan(&Text::new("t", text.as_bytes()), &mut found);
    let Fact::Gpus(gpus) = &found.evidence[1].fact else { panic!() };
    let all: Vec<(Option<u32>, u8)> = gpus.iter().map(|g| (g.index, g.address.unwrap().bus)).collect();
    assert_eq!(all, [(Some(0), 0x3d), (Some(1), 0x89)]);
    let some = text.replace("nranks 2", "nranks 16");
    let mut found = Found::default();
    scan(&Text::new("t", some.as_bytes()), &mut found);
    assert_eq!(found.evidence.len(), 1, "of several hosts, perhaps");
}

#[test]
fn what_cuda_allows_of_all_gpus() {
    let of = |all: u32| {
        logs(&format!("n1:5:6 [0] NCCL INFO Check P2P Type isAllDirectP2p 0 directMode 0 isAllCudaP2p {all}\n"))
            .remove(0)
            .cuda_p2p
    };
    assert_eq!((of(1), of(0)), (Some(true), Some(false)));
}

#[test]
fn cuda_refuses_pairs_by_address() {
    let text = "n1:5:6 [0] NCCL INFO Could not enable P2P between dev 1(=1b000) and dev 0(=1a000)\n\
                n1:5:6 [0] NCCL INFO peer query failed between dev 0(=1a000) and dev 1(=1b000)\n";
    let mut found = Found::default();
    scan(&Text::new("t", text.as_bytes()), &mut found);
    let [_, Fact::Gpus(gpus), Fact::P2p(p2p)] = &found.evidence.iter().map(|e| e.fact.clone()).collect::<Vec<_>>()[..]
    else {
        panic!("{found:?}")
    };
    assert_eq!((gpus[1].index, gpus[1].address.unwrap().bus), (Some(1), 0x1b));
    assert_eq!(p2p.cells[0], [None, Some(P2pStatus::NotSupported)]);
}

/// Two processes of one host, each with a rank of all GPUs and of one half.
#[test]
fn communicators_are_kept_apart() {
    let line = |gpu: u32, words: &str| format!("n1:{gpu}:{gpu} [{gpu}] NCCL INFO {words}\n");
    let member = |gpu: u32, rank: u32, size: u32, id: &str| {
        let words = format!(
            "comm 0x{gpu} rank {rank} nranks {size} cudaDev {gpu} nvmlDev {gpu} busId {gpu}b000 commId {id} - Init START"
        );
        line(gpu, &words)
    };
    let mut text = "NCCL version 2.21.5+cuda12.4\n".to_owned();
    for half in 0..2 {
        for rank in 0..2 {
            text += &member(1 + half * 2 + rank, rank, 2, &format!("0xa{half}"));
        }
        text += &line(1 + half * 2, "Channel 00/02 :    0   1");
        let (a, b) = (1 + half * 2, 2 + half * 2);
        text += &line(a, &format!("Channel 00/0 : 0[{a}] -> 1[{b}] via P2P/CUMEM"));
    }
    for rank in 0..4 {
        text += &member(1 + rank, rank, 4, "0xb");
    }
    text += &line(3, "Channel 00/0 : 2[3] -> 3[4] via P2P/CUMEM");
    let log = logs(&text).remove(0);
    assert_eq!(log.ranks.len(), 4);
    assert_eq!(log.rings, [[0, 1], [2, 3]]);
    let pairs: Vec<(u32, u32)> = log.transports.iter().map(|t| (t.from, t.to)).collect();
    assert_eq!(pairs, [(0, 1), (2, 3)]);
    assert_eq!(log.ranks[&3].address.unwrap().bus, 0x4b);
}

#[test]
fn groups_without_a_common_communicator_are_numbered_on() {
    let member = |gpu: u32, rank: u32| {
        format!(
            "n1:{gpu}:1 [0] NCCL INFO comm 0x{gpu} rank {rank} nranks 2 cudaDev {gpu} busId {gpu}b000 - Init COMPLETE\n"
        )
    };
    let log = logs(&(member(1, 0) + &member(2, 1) + &member(3, 0) + &member(4, 1))).remove(0);
    let all: Vec<u8> = log.ranks.values().map(|r| r.address.unwrap().bus).collect();
    assert_eq!(all, [0x1b, 0x2b, 0x3b, 0x4b]);
}

#[test]
fn gpus_without_gpudirect_are_named_by_rank_since_2_24() {
    let of = |version: &str, gpu: &str| {
        let text = format!(
            "NCCL version {version}+cuda12\n\
             n1:1:1 [0] NCCL INFO comm 0x1 rank 3 nranks 4 cudaDev 3 nvmlDev 3 busId ca000 commId 0x1 - Init START\n\
             n1:1:1 [0] NCCL INFO GPU Direct RDMA Disabled for GPU {gpu} / HCA a (distance 9 > 5)\n"
        );
        let staged = logs(&text).remove(0).staged.remove(0);
        (staged.adapter, staged.gpu.map(|a| a.bus), staged.distance)
    };
    assert_eq!(of("2.28.9", "3"), ("10".to_owned(), Some(0xca), Some((9, 5))));
    assert_eq!(of("2.22.3", "ca000"), ("10".to_owned(), Some(0xca), Some((9, 5))));
}

#[test]
fn lists_of_sockets_and_versions_of_every_form() {
    let log =
        logs("INFO NET/Socket : Using\n[0]bond0:10.0.0.1<0>\n\n[1]br-05ab:172.19.0.1<0>\n[2]veth61:fe80::b8<0>\n")
            .remove(0);
    assert_eq!(log.sockets.len(), 3);
    let log =
        logs("n1:1:1 [0] NCCL INFO RCCL version : 2.22.3-HEAD:2718\nn1:1:1 [0] NCCL INFO NCCL_IB_HCA set to mlx5_0\n")
            .remove(0);
    assert_eq!((log.release(), log.variables["NCCL_IB_HCA"].as_str()), (Some((2, 22)), "mlx5_0"));
}

#[test]
fn releases_before_2_5_name_no_gpu_over_the_network() {
    let text = "NCCL version 2.4.8+cuda10.1\n\
                n1:1:2 [0] NCCL INFO Ring 00 : 0 -> 1 [send] via NET/Socket/0\n\
                n1:1:2 [0] NCCL INFO Ring 00 : 1[0] -> 0[1] via P2P/IPC\n";
    let log = logs(text).remove(0);
    let all: Vec<&str> = log.transports.iter().map(|t| t.via.as_str()).collect();
    assert_eq!(all, ["NET/Socket/0", "P2P/IPC"]);
}

#[test]
fn graphs_of_every_form() {
    let of = |heading: &str, a: &str, b: &str| {
        let info = |tid: u32, words: &str| format!("n1:5:{tid} [{tid}] NCCL INFO {words}\n");
        let member =
            |n: u32| info(n, &format!("comm 0x{n} rank {n} nranks 2 cudaDev {n} busId {}b000 - Init START", n + 1));
        let mut text = member(0) + &member(1);
        for tid in 0..2 {
            text += &info(tid, heading);
            text += &info(tid, &format!(" 0 : NET/0 {a} {b} NET/0"));
            text += &info(tid, &format!(" 1 : {b} {a}"));
        }
        let mut found = Found::default();
        scan(&Text::new("t", text.as_bytes()), &mut found);
        let all = found.evidence.into_iter().filter_map(|e| match e.fact {
            Fact::NcclGraph(graph) => Some((e.origin.lines, graph)),
            _ => None,
        });
        all.collect::<Vec<_>>()
    };
    for (heading, a, b) in [
        ("Pattern 4, crossNic 0, nChannels 2, speed 21/21, nvlink 1, type 1, sameChannels 1", "GPU/0", "GPU/1"),
        (
            "Pattern 4, crossNic 0, nChannels 2, speed 21.000000/10.000000, type NVL/PIX, sameChannels 1",
            "GPU/0",
            "GPU/1",
        ),
        (
            "Pattern 4, crossNic 0, nChannels 2, bw 21.000000/21.000000, type NVL/PIX, sameChannels 0",
            "GPU/0-1b000",
            "GPU/0-2b000",
        ),
    ] {
        let all = of(heading, a, b);
        let [(lines, graph)] = &all[..] else { panic!("{heading}: {all:?}") };
        assert_eq!((graph.pattern, graph.speed, *lines), (4, 21.0, Some((3, 5))), "{heading}");
        assert_eq!(graph.channels, [[0, 1], [1, 0]], "{heading}");
    }
    assert!(of("Pattern 4, crossNic 0, nChannels 2, bw 21/21", "GPU/0", "GPU/7").is_empty(), "no rank 7");
    assert!(of("Pattern x", "GPU/0", "GPU/1").is_empty());
}

#[test]
fn many_communicators_cost_little() {
    let text: String = (0..20_000)
        .map(|n| format!("n1:{n}:1 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 busId {:x}000 commId 0x{n} - Init START\nn1:{n}:1 [0] NCCL INFO Channel 00/02 : 0 1\n", n % 256))
        .collect();
    let start = std::time::Instant::now();
    assert_eq!(logs(&text).len(), 1);
    assert!(start.elapsed().as_secs() < 5);
}
