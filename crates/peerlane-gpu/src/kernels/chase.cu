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

// Follows the ring for `steps` loads from result[0], and leaves there where it stopped: the loads cannot be
// optimised away, and the next call goes on where caches hold nothing of this one. result[1] is the time
// in ns, result[2] in cycles of this multiprocessor.
// Only block `chosen` works: launched with one thread a block and as many blocks as multiprocessors, other
// choices give other multiprocessors, whose distances to the links differ.
// A relaxed load of system scope is never served by L1, which may hold lines of a peer's memory.
extern "C" __global__ void chase(u64 *result, u64 steps, u32 chosen) {
    if (blockIdx.x != chosen) return;
    u64 node = result[0];
    u64 begin = now_ns();
    long long cycles = clock64();
#pragma unroll 4
    for (u64 i = 0; i < steps; i++) asm volatile("ld.relaxed.sys.global.u64 %0, [%0];" : "+l"(node)::"memory");
    result[0] = node;
    result[2] = clock64() - cycles;
    result[1] = now_ns() - begin;
}
