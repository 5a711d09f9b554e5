use super::*;

/// Each of two GPUs puts half of its buffer into the other's, signals, and waits.
fn plan(kind: &str, operations: &[&str]) -> String {
    let gpu = |id: u32| {
        format!(
            "{{\"id\": {id}, \"input_chunks\": 2, \"output_chunks\": 2, \"scratch_chunks\": 2, \"threadblocks\": [{{\"id\": 0, \"ops\": [{}], \"channels\": \
             [{{\"channel_type\": \"{kind}\", \"channel_ids\": [0]}}], \"remote_buffer_refs\": [{{\"access_channel_type\": \"{kind}\", \"remote_buffer_ids\": \
             [0]}}]}}], \"channels\": [{{\"channel_type\": \"{kind}\", \"connected_to\": [{}]}}], \"remote_buffers\": [{{\"rank\": {}, \"type\": \"s\", \
             \"access_channel_types\": [\"{kind}\"]}}], \"semaphores\": []}}",
            operations.join(", "),
            1 - id,
            1 - id
        )
    };
    format!(
        "{{\"name\": \"halves\", \"collective\": \"allreduce\", \"protocol\": \"Simple\", \"inplace\": true, \"gpus\": [{}, {}]}}",
        gpu(0),
        gpu(1)
    )
}

fn put(kind: &str) -> String {
    format!(
        "{{\"name\": \"put\", \"src_buff\": [{{\"type\": \"i\", \"index\": 0, \"size\": 1}}], \"dst_buff\": [{{\"buffer_id\": 0, \"index\": 0, \"size\": 1}}], \
         \"channel_ids\": [0], \"channel_type\": \"{kind}\"}}"
    )
}

fn on_channel(name: &str, kind: &str) -> String {
    format!("{{\"name\": \"{name}\", \"channel_ids\": [0], \"channel_type\": \"{kind}\"}}")
}

fn after<'j>(joined: &'j Joined, act: u32) -> impl Iterator<Item = u32> + 'j {
    joined.waits.iter().filter(move |(_, b)| *b == act).map(|(a, _)| *a)
}

#[test]
fn what_is_put_is_there_when_its_signal_comes() {
    for kind in ["memory", "port"] {
        let text = plan(kind, &[&put(kind), &on_channel("signal", kind), &on_channel("wait", kind)]);
        let joined = joined(&text, 1 << 20).unwrap();
        assert_eq!(joined.ranks, 2);
        let at = |act: Act| joined.acts.iter().position(|one| *one == act).unwrap() as u32;
        let (data, signal) = (at(Act::Message(0, 1, 1 << 19)), at(Act::Message(0, 1, SIGNAL)));
        assert!(after(&joined, signal).any(|before| before == data), "{kind}: {joined:?}");
        let waits = joined.waits.iter().filter(|(a, b)| *a == signal && joined.acts[*b as usize] == Act::Pause(1, 0.0));
        assert_eq!(waits.count(), 1, "{kind}");
        assert!(joined.notes[0].contains("all-reduce 'halves' of MSCCL++ at 1 MiB"), "{:?}", joined.notes);
    }
    let (what, can) = described(&plan("memory", &[&put("memory"), &on_channel("signal", "memory")])).unwrap();
    assert!(can);
    assert!(what.contains("all-reduce 'halves', 2 GPUs with up to 1 thread blocks"), "{what}");
    assert!(what.contains("2 transfers of 0.50 times the size for each GPU, and 2 signals"), "{what}");
}

#[test]
fn packets_are_read_when_they_have_come() {
    let unpack = "{\"name\": \"upkt\", \"src_buff\": [{\"type\": \"s\", \"index\": 0, \"size\": 1}], \"dst_buff\": [{\"type\": \"o\", \"index\": 0, \"size\": 1}]}";
    let text = plan("memory", &[&put("memory").replace("\"put\"", "\"ppkt\""), unpack]);
    let joined = joined(&text, 64).unwrap();
    let sent = joined.acts.iter().position(|act| *act == Act::Message(0, 1, 64)).unwrap() as u32;
    assert!(
        joined.waits.iter().any(|(a, b)| *a == sent && joined.acts[*b as usize] == Act::Pause(1, 0.0)),
        "{joined:?}"
    );
}

#[test]
fn a_plan_that_would_hang_or_cannot_be_is_said() {
    let refused = |operations: &[&str]| joined(&plan("memory", operations), 1 << 20).unwrap_err();
    let (put, signal, wait) = (put("memory"), on_channel("signal", "memory"), on_channel("wait", "memory"));
    let why = refused(&[&put, &wait]);
    assert!(
        why.contains("GPU 0, thread block 0, operation 1 (wait) waits for a signal of GPU 1 that is never sent"),
        "{why}"
    );
    assert!(refused(&[&wait, &signal]).contains("wait for each other in a circle"));
    let acquire = "{\"name\": \"sem_acquire\", \"semaphore_ids\": [0]}";
    assert!(refused(&[acquire]).contains("GPU 0 acquires semaphore 0 1 times"));
    assert!(refused(&[&put.replace("\"buffer_id\": 0", "\"buffer_id\": 7")]).contains("remote buffer 7 is none"));
    assert!(
        refused(&["{\"name\": \"gstore\", \"channel_type\": \"switch\"}"]).contains("multicast through the switch")
    );
    assert!(refused(&[&signal.replace("[0]", "[3]")]).contains("channel 3 is not among those of its thread block"));
    let whole = plan("memory", &[&put]);
    assert!(joined(&whole[..whole.len() - 4], 8).unwrap_err().contains("cut off"));
    assert!(
        joined(&whole.replace("\"id\": 1, \"input", "\"id\": 4, \"input"), 8).unwrap_err().contains("has the id 4")
    );
    assert!(joined("{\"gpus\": [{\"inputChunks\": 1}]}", 8).unwrap_err().contains("before 0.7"));
    // loops within a pipeline are one pass
    let pipeline = format!(
        "{{\"name\": \"pipeline\", \"iter_context\": {{\"unit_size\": 4, \"num_chunks\": 1}}, \"ops\": [{put}]}}"
    );
    let once = joined(&plan("memory", &[&pipeline]), 1 << 20).unwrap();
    assert_eq!(once.acts.iter().filter(|act| matches!(act, Act::Message(..))).count(), 2);
}
