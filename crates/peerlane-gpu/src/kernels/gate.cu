// Holds a stream until the host opens it, where the driver's own wait on a memory value is not available.

#include "common.cuh"

// One thread. Returns once `*flag`, in pinned host memory, has reached `value` (as a counter that may wrap,
// the rule of cuStreamWaitValue32), or after `limit_ns`, when it sets `*late` to 1: a host that died
// or erred must not leave the GPU spinning. No sleep between polls, so that all gates open within one poll.
extern "C" __global__ void gate(const u32 *flag, u32 value, u64 limit_ns, u32 *late) {
    u64 deadline = now_ns() + limit_ns;
    for (;;) {
        u32 seen;
        asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
        if ((int)(seen - value) >= 0) return;
        if (now_ns() > deadline) {
            *late = 1;
            return;
        }
    }
}
