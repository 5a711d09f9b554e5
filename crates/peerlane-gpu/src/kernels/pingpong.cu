// Round trip of a flag between two kernels, one thread each, on two GPUs (or one).

#include "common.cuh"

// The clock is read once in 64 polls, since reading it takes as long as several.
static __device__ bool await(const u32 *flag, u32 value, u32 ordered, u64 deadline) {
    for (;;) {
        for (int poll = 0; poll < 64; poll++)
            if (receive(flag, ordered) == value) return true;
        if (now_ns() > deadline) return false;
    }
}

// `warmup + rounds` round trips. The side with `first` = 1 sends and then waits, the other answers. Each
// polls its own memory (`mine`) and stores to the other's (`theirs`): one remote store a direction, no
// remote load. Both flags are cleared before either kernel starts.
// `ordered` 1: release stores and acquire loads, as a program needs that sends data beside the flag;
// 0: relaxed ones, the bare link.
// The `warmup` rounds (at least 1) are not timed: they wait until the other kernel runs at all.
// No wait lasts beyond `limit_ns` from this kernel's start: then it gives up, and so does the other.
// result[0] = timed rounds done, result[1] = their ns, result[2] = their cycles, result[3] = 1 if given up.
extern "C" __global__ void pingpong(u32 *mine, u32 *theirs, u32 first, u32 ordered, u32 warmup, u32 rounds,
                                    u64 limit_ns, u64 *result) {
    u64 deadline = now_ns() + limit_ns;
    u64 begin = 0;
    long long cycles = 0;
    u32 done = 0;
    for (; done < warmup + rounds; done++) {
        if (done == warmup) {
            begin = now_ns();
            cycles = clock64();
        }
        if (first) send(theirs, done + 1, ordered);
        if (!await(mine, done + 1, ordered, deadline)) break;
        if (!first) send(theirs, done + 1, ordered);
    }
    result[2] = begin ? clock64() - cycles : 0;
    result[1] = begin ? now_ns() - begin : 0;
    result[0] = done > warmup ? done - warmup : 0;
    result[3] = done < warmup + rounds;
}
