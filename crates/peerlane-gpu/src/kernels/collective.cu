// Numbers for collectives whose results can be foretold: small whole ones, so that sums are exact in any order.

#include "common.cuh"

// Element i becomes i mod 64 + rank.
extern "C" __global__ void __launch_bounds__(512) numbers(float *buffer, u64 count, u32 rank) {
    for (u64 i = thread(); i < count; i += threads()) buffer[i] = (float)(u32)(i % 64) + (float)rank;
}

// Counts the elements that are not factor * ((offset + i mod part) mod 64) + add + step * (i div part): adds their
// number to found[0] and raises found[1] to the complement of the lowest one's index, as `verify` does.
extern "C" __global__ void __launch_bounds__(512) verify_numbers(const float *buffer, u64 count, u32 factor, u32 add,
                                                                 u64 part, u64 offset, u32 step, u64 *found) {
    u64 wrong = 0, lowest = ~0ull;
    for (u64 i = thread(); i < count; i += threads()) {
        u64 block = i / part, within = i - block * part;
        float want = (float)(factor * (u32)((offset + within) % 64) + add + step * (u32)block);
        if (buffer[i] == want) continue;
        wrong++;
        if (i < lowest) lowest = i;
    }
    if (wrong != 0) {
        atomicAdd(&found[0], wrong);
        atomicMax(&found[1], ~lowest);
    }
}
