// Makes pages of managed memory move, by reading or writing words of them.

#include "common.cuh"

// Adds up every `stride`-th of `words` words (1: all; 1024: one a 4 KiB page) and adds that to *sum, which
// keeps the loads from being optimised away and lets the caller check what was read.
extern "C" __global__ void __launch_bounds__(512) touch_read(const u32 *buffer, u64 words, u64 stride, u64 *sum) {
    u64 mine = 0;
    for (u64 i = thread() * stride; i < words; i += threads() * stride) mine += buffer[i];
    // One atomic a warp: thousands to one address would take longer than a small buffer does.
    for (int lanes = 16; lanes > 0; lanes /= 2) mine += __shfl_down_sync(0xffffffffu, mine, lanes);
    if (threadIdx.x % 32 == 0) atomicAdd(sum, mine);
}

// Writes `value` to every `stride`-th of `words` words.
extern "C" __global__ void __launch_bounds__(512) touch_write(u32 *buffer, u64 words, u64 stride, u32 value) {
    for (u64 i = thread() * stride; i < words; i += threads() * stride) buffer[i] = value;
}
