// Fills buffers with data that can be checked, and checks it.
//
// The word at `index` under `seed` is pattern_word(seed, index) of src/pattern.rs. Both steps after the
// key are bijections, so under one seed no two indices below 2^32 (16 GiB) share a word, and at one index
// no two seeds do: data that landed in the wrong place or was left by an earlier step is always seen.
// One multiplication a word keeps both kernels bound by memory, not by arithmetic.

#include "common.cuh"

static __device__ u32 key(u32 seed, u32 high) {
    u32 x = seed + high * 0x85ebca6bu;
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ (x >> 16);
}

static __device__ u32 word(u32 key, u32 low) {
    u32 x = key + low * 0x9e3779b9u;
    return x ^ (x >> 16);
}

// Four words that start at a multiple of four, so all share one key.
static __device__ uint4 quad(u32 seed, u64 index) {
    u32 k = key(seed, (u32)(index >> 32)), low = (u32)index;
    return make_uint4(word(k, low), word(k, low + 1), word(k, low + 2), word(k, low + 3));
}

// Writes `words` words of the pattern, each XORed with `flip`. With all ones as `flip` it poisons: every
// word then differs from the one that `verify` wants, so each word that a copy leaves out is counted.
// `words` need not be a multiple of 4; `buffer` is 16-byte aligned.
extern "C" __global__ void __launch_bounds__(512) fill(uint4 *buffer, u64 words, u32 seed, u32 flip) {
    u64 quads = words / 4;
    for (u64 i = thread(); i < quads; i += threads()) {
        uint4 q = quad(seed, i * 4);
        buffer[i] = make_uint4(q.x ^ flip, q.y ^ flip, q.z ^ flip, q.w ^ flip);
    }
    u64 last = quads * 4 + thread();
    if (last < words) ((u32 *)buffer)[last] = word(key(seed, (u32)(last >> 32)), (u32)last) ^ flip;
}

// Counts the words that differ from the pattern: adds their number to found[0] and raises found[1] to the
// complement of the lowest one's index. So the caller clears both to 0 and reads ~found[1].
// Four loads in flight a thread, since one does not cover the latency of memory.
extern "C" __global__ void __launch_bounds__(512) verify(const uint4 *buffer, u64 words, u32 seed, u64 *found) {
    u64 quads = words / 4, wrong = 0, lowest = ~0ull;
    auto compare = [&](u32 got, u32 want, u64 index) {
        if (got == want) return;
        wrong++;
        if (index < lowest) lowest = index;
    };
    for (u64 first = thread(); first < quads; first += 4 * threads()) {
        uint4 got[4];
#pragma unroll
        for (int k = 0; k < 4; k++) {
            u64 i = first + k * threads();
            if (i < quads) got[k] = buffer[i];
        }
#pragma unroll
        for (int k = 0; k < 4; k++) {
            u64 i = first + k * threads();
            if (i >= quads) break;
            uint4 want = quad(seed, i * 4);
            u32 differs = (got[k].x ^ want.x) | (got[k].y ^ want.y) | (got[k].z ^ want.z) | (got[k].w ^ want.w);
            if (differs == 0) continue;
            compare(got[k].x, want.x, i * 4);
            compare(got[k].y, want.y, i * 4 + 1);
            compare(got[k].z, want.z, i * 4 + 2);
            compare(got[k].w, want.w, i * 4 + 3);
        }
    }
    u64 last = quads * 4 + thread();
    if (last < words) compare(((const u32 *)buffer)[last], word(key(seed, (u32)(last >> 32)), (u32)last), last);
    if (wrong != 0) {
        atomicAdd(&found[0], wrong);
        atomicMax(&found[1], ~lowest);
    }
}
