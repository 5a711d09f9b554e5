// Copies memory by bulk asynchronous copies through shared memory (sm_90): one thread a block moves
// all data, in chunks, without passing it through registers.

#include "common.cuh"

static __device__ u32 shared_address(const void *p) { return (u32)__cvta_generic_to_shared(p); }

static __device__ void load(char *to, const char *from, u32 bytes, u64 *arrived) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(arrived)), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(arrived)) : "memory");
}

static __device__ void await(u64 *arrived, u32 parity) {
    u32 done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(shared_address(arrived)), "r"(parity) : "memory");
}

static __device__ void store(char *to, const char *from, u32 bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(shared_address(from)), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// 64 KiB in flight a multiprocessor; larger chunks or more stages were no faster, fewer were slower locally.
#define STAGES 16
#define CHUNK 4096

// Arguments and rules as those of `copy`. STAGES * CHUNK bytes of dynamic shared memory; of a block's
// threads only the first works, since one can issue far more than the links carry.
// A ring of stages: half of them are being loaded and half stored at any moment. Loads complete on a
// stage's barrier, stores in order, as groups; a stage is loaded anew once its store has read it.
extern "C" __global__ void __launch_bounds__(32) copy_bulk(char *dst, const char *src, u64 bytes, u32 repeats) {
    extern __shared__ __align__(128) char ring[];
    __shared__ u64 arrived[STAGES];
    if (threadIdx.x != 0) return;
    for (int s = 0; s < STAGES; s++)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&arrived[s])) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");

    u64 whole = bytes / 16 * 16, start = (u64)blockIdx.x * CHUNK, advance = (u64)gridDim.x * CHUNK;
    u64 mine = whole > start ? (whole - start + advance - 1) / advance : 0, total = mine * repeats;
    u64 in = 0, in_at = start, out_at = start;
    auto length = [&](u64 at) { return (u32)(whole - at < CHUNK ? whole - at : CHUNK); };
    auto following = [&](u64 at) { return at + advance < whole ? at + advance : start; };
    auto next = [&]() {
        u32 stage = in % STAGES;
        load(ring + stage * CHUNK, src + in_at, length(in_at), &arrived[stage]);
        in_at = following(in_at);
        in++;
    };
    while (in < total && in < STAGES / 2) next();
    for (u64 out = 0; out < total; out++) {
        if (in < total) {
            // The stage to load into was stored from STAGES / 2 turns ago.
            asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(STAGES / 2 - 1) : "memory");
            next();
        }
        u32 stage = out % STAGES;
        await(&arrived[stage], out / STAGES & 1);
        store(dst + out_at, ring + stage * CHUNK, length(out_at));
        out_at = following(out_at);
    }
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    if (blockIdx.x == 0)
        for (u64 i = whole; i < bytes; i++) dst[i] = src[i];
}
