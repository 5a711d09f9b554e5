use super::super::{Act, Recording, join, read as read_file};
use super::*;

const NCCL: &str = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)";

/// A kernel on a stream, and when it was launched.
fn kernel(name: &str, stream: u32, from: f64, time: f64, correlation: u32, launch: f64, more: &str) -> String {
    format!(
        "{{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"{name}\",\"ts\":{from},\"dur\":{time},\"args\":{{\"device\":0,\"stream\":{stream},\
         \"correlation\":{correlation}{more}}}}},\n{}",
        call("cudaLaunchKernel", launch, 1.0, correlation)
    )
}

fn call(name: &str, from: f64, time: f64, correlation: u32) -> String {
    format!(
        "{{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"{name}\",\"ts\":{from},\"dur\":{time},\"args\":{{\"correlation\":{correlation}}}}}"
    )
}

fn sum(stream: u32, from: f64, time: f64, correlation: u32, launch: f64, number: u32) -> String {
    let more = format!(
        ",\"Collective name\":\"allreduce\",\"In msg nelems\":512,\"Out msg nelems\":512,\"dtype\":\"BFloat16\",\"Group size\":2,\
         \"Process Group Name\":\"0\",\"Process Group Ranks\":\"[0, 1]\",\"Seq\":{number}"
    );
    kernel(NCCL, stream, from, time, correlation, launch, &more)
}

fn profile(rank: u32, events: &[String]) -> Recording {
    let text = format!(
        "{{\"schemaVersion\":1,\"distributedInfo\":{{\"rank\":{rank},\"world_size\":2}},\"traceEvents\":[\n{}\n]}}",
        events.join(",\n")
    );
    read_file(&format!("{rank}.json"), text.as_bytes()).unwrap()
}

#[test]
fn streams_become_what_waits_for_what() {
    let read = profile(
        1,
        &[
            kernel("gemm", 7, 100.0, 50.0, 1, 10.0, ""),
            // after the first product, beside the second
            sum(20, 150.0, 80.0, 2, 12.0, 4),
            kernel("gemm", 7, 150.0, 40.0, 3, 14.0, ""),
            // waits for the sum, 2 µs
            kernel("step", 7, 232.0, 10.0, 4, 16.0, ""),
        ],
    );
    assert_eq!((read.rank, read.world), (Some(1), Some(2)));
    let after: Vec<&[u32]> = read.records.iter().map(|r| r.after.as_slice()).collect();
    // sorted by start and then by end, the second product before the sum
    assert_eq!(after, [&[] as &[u32], &[0], &[0], &[1, 2]]);
    let What::Collective { collective, bytes, ref group, number } = read.records[2].what else { panic!("{read:?}") };
    assert_eq!((collective, bytes, number), (Collective::AllReduce, Size::Whole(1024), Some(4)));
    assert_eq!(*group, Among::Ranks([0, 1].into(), "0".to_owned()));
    assert!((read.records[3].delay - 2e-6).abs() < 1e-12, "{:?}", read.records[3]);
    let split = read.recorded.unwrap();
    let us = [split.time, split.computing, split.communication, split.exposed, split.idle].map(|s| (s * 1e6).round());
    assert_eq!(us, [142.0, 100.0, 80.0, 40.0, 2.0]);
}

#[test]
fn what_ended_before_a_launch_is_waited_for_only_where_the_host_waited() {
    let events = |more: &[String]| {
        let mut all = vec![kernel("gemm", 7, 100.0, 10.0, 1, 10.0, ""), sum(20, 110.0, 20.0, 2, 12.0, 1)];
        all.extend(more.iter().cloned());
        // launched after the sum had ended
        all.push(kernel("gemm", 7, 150.0, 10.0, 3, 145.0, ""));
        profile(0, &all).records[2].clone()
    };
    let free = events(&[]);
    assert_eq!((free.after.as_slice(), (free.delay * 1e6).round()), (&[0][..], 40.0));
    let bound = events(&[call("cudaDeviceSynchronize", 20.0, 111.0, 0)]);
    assert_eq!((bound.after.as_slice(), (bound.delay * 1e6).round()), (&[0, 1][..], 20.0));
    // a stream that was made to wait
    let told = events(&[call("cudaStreamWaitEvent", 140.0, 1.0, 0)]);
    assert_eq!(told.after, [0, 1]);
}

#[test]
fn collectives_that_one_rank_did_not_record_are_left_out_at_the_ends_only() {
    let ranks = |numbers: &[u32]| {
        let all = numbers.iter().zip(1_u32..).map(|(n, i)| sum(20, f64::from(100 * i), 20.0, i, f64::from(10 * i), *n));
        all.collect::<Vec<String>>()
    };
    let joined = join(vec![profile(0, &ranks(&[4, 5, 6])), profile(1, &ranks(&[5, 6, 7]))], 2).unwrap();
    assert_eq!(joined.acts.iter().filter(|act| matches!(act, Act::Collective { .. })).count(), 2);
    assert!(
        joined.notes[0].starts_with("2 collectives among ranks 0 to 1 are recorded on a part"),
        "{:?}",
        joined.notes
    );
    let message = join(vec![profile(0, &ranks(&[4, 5, 6])), profile(1, &ranks(&[4, 6]))], 2).unwrap_err().to_string();
    assert!(message.contains("rank 1 has 2 collectives among ranks 0 to 1, and rank 0 has 3"), "{message}");
}

#[test]
fn profiles_that_cannot_be_played_are_said() {
    let read = |text: &str| read_file("p.json", text.as_bytes()).unwrap_err().to_string();
    let events = |of: &str| format!("{{\"traceEvents\":[{of}]}}");
    let unknown = kernel(NCCL, 7, 0.0, 5.0, 1, 0.0, "");
    assert!(read(&events(&unknown)).contains(
        "1 kernels are communication by their names (ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)) and have no record"
    ));
    assert!(
        read(&events(&call("cudaLaunchKernel", 0.0, 1.0, 1)))
            .contains("without a kernel: record it with ProfilerActivity.CUDA")
    );
    let whole = events(&unknown);
    assert!(read(&whole[..whole.len() - 3]).contains("cut off"));
    // one among others keeps its time
    let mixed = profile(0, &[unknown, sum(20, 10.0, 20.0, 2, 1.0, 1)]);
    assert_eq!(mixed.records[0].what, What::Known(5e-6, Some(Collective::AllReduce)));
    assert!(mixed.notes[0].starts_with("1 kernels of communication have no collective's ranks"), "{:?}", mixed.notes);
}
