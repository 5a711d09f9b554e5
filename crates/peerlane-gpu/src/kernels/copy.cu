// Copies memory with loads and stores, from any address that the GPU sees to any other.

#include "common.cuh"

#define DEPTH 8

// Copies `bytes` from `src` to `dst`, `repeats` times over; both are 16-byte aligned and do not overlap.
// Remote reads run on the GPU that owns `dst`, remote writes on the one that owns `src`.
// Each thread has DEPTH loads of 16 bytes in flight, each a whole grid apart: small copies then use all
// blocks, and the last, shorter stretch of a large one is spread over all of them, DEPTH deep too.
// The repeats follow each other without a barrier: launch and tail are paid once. They need a buffer far
// larger than L2, which else serves part of the later ones.
extern "C" __global__ void __launch_bounds__(512) copy(uint4 *dst, const uint4 *src, u64 bytes, u32 repeats) {
    const u64 step = threads();
    u64 count = bytes / 16;
    for (u32 repeat = 0; repeat < repeats; repeat++) {
        uint4 held[DEPTH];
        u64 i = thread();
        for (; i + (DEPTH - 1) * step < count; i += DEPTH * step) {
#pragma unroll
            for (int k = 0; k < DEPTH; k++) held[k] = src[i + k * step];
#pragma unroll
            for (int k = 0; k < DEPTH; k++) dst[i + k * step] = held[k];
        }
#pragma unroll
        for (int k = 0; k < DEPTH; k++)
            if (i + k * step < count) held[k] = src[i + k * step];
#pragma unroll
        for (int k = 0; k < DEPTH; k++)
            if (i + k * step < count) dst[i + k * step] = held[k];
        u64 last = count * 16 + thread();
        if (last < bytes) ((char *)dst)[last] = ((const char *)src)[last];
    }
}

#define BOTH_DEPTH 4

// Copies `bytes` both ways at once, `repeats` times over: from `src` to `dst` and from `back_src` to `back_dst`, as
// `copy` does. Each thread alternates, so that neither way gets ahead: two kernels side by side drift apart, and the one
// that is ahead takes what the other then lacks.
extern "C" __global__ void __launch_bounds__(128)
    copy_both(uint4 *dst, const uint4 *src, uint4 *back_dst, const uint4 *back_src, u64 bytes, u32 repeats) {
    const u64 step = threads();
    u64 count = bytes / 16;
    for (u32 repeat = 0; repeat < repeats; repeat++) {
        uint4 held[BOTH_DEPTH], back[BOTH_DEPTH];
        u64 i = thread();
        for (; i + (BOTH_DEPTH - 1) * step < count; i += BOTH_DEPTH * step) {
#pragma unroll
            for (int k = 0; k < BOTH_DEPTH; k++) {
                held[k] = src[i + k * step];
                back[k] = back_src[i + k * step];
            }
#pragma unroll
            for (int k = 0; k < BOTH_DEPTH; k++) {
                dst[i + k * step] = held[k];
                back_dst[i + k * step] = back[k];
            }
        }
        for (; i < count; i += step) {
            dst[i] = src[i];
            back_dst[i] = back_src[i];
        }
        u64 last = count * 16 + thread();
        if (last < bytes) {
            ((char *)dst)[last] = ((const char *)src)[last];
            ((char *)back_dst)[last] = ((const char *)back_src)[last];
        }
    }
}
