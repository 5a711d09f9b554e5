// Latency of one load, from a chain of loads each of which needs the value of the one before.

#include "common.cuh"

// Makes a ring of `bytes / stride` nodes, `stride` bytes apart; each holds the address of the next and the
// last that of the first. Launched by whoever owns the memory, so that no slow remote store is needed.
// Addresses are the owner's: unified addressing gives peers and the host's mapped memory the same ones.
extern "C" __global__ void build_ring(char *ring, u64 bytes, u64 stride) {
    u64 nodes = bytes / stride;
    for (u64 i = thread(); i < nodes; i += threads()) {
        u64 next = i + 1 == nodes ? 0 : i + 1;
        *(char **)(ring + i * stride) = ring + next * stride;
    }
}

static __device__ u64 load(u64 address) {
    u64 value;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
    return value;
}

// Follows the ring for `steps` timed loads from where the address at result[0] leads, and leaves there where it stopped:
// the loads cannot be optimised away, and the next call goes on where caches hold nothing of this one. result[1] is the
// time in ns, result[2] in cycles of this multiprocessor; both are 0 where the first load finds no ring.
// Only block `chosen` works: launched with one thread a block and as many blocks as multiprocessors, other
// choices give other multiprocessors, whose distances to the links differ.
// A relaxed load of system scope is never served by L1, which may hold lines of a peer's memory.
// The first load is not timed: it waits for result[0], which comes from the host's memory and takes 1.2 us or more. The
// clocks are read only once its value is here, since that decides whether they are read at all.
extern "C" __global__ void chase(u64 *result, u64 steps, u32 chosen) {
    if (blockIdx.x != chosen) return;
    u64 node = load(result[0]);
    u64 begin = 0;
    long long cycles = 0;
    if (node) {
        begin = now_ns();
        cycles = clock64();
#pragma unroll 4
        for (u64 i = 0; i < steps; i++) node = load(node);
    }
    result[0] = node;
    result[1] = result[2] = 0;
    if (!node) return; // here, too, the clocks are read only once the last value is here
    result[2] = clock64() - cycles;
    result[1] = now_ns() - begin;
}
