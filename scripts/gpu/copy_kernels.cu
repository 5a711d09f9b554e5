// Which kernel copies fastest between two GPUs, to and from the host, and locally: every variant (lines
// `all`), then in turns the best of each case, the copy engine and the kernels that ship (lines `best`),
// transfers halved between both GPUs (`halved`), and small copies (`small`).
// Usage: copy_kernels PTX_FOLDER [SECONDS]
//
// Each sample is one launch that copies the buffer several times (so launch and tail are paid once, as in
// nvbandwidth), held by a gate until everything is enqueued; the rate of several at once is all their
// bytes over the longest time. Every variant's result is verified by content once per case.
#include <chrono>
#include <functional>
#include <map>

#include "harness.cuh"

enum Load { PLAIN, NC, NC_KEEP_OUT, NC_KEEP_OUT_256, STREAM, SYSTEM };
enum Store { ST_PLAIN, ST_STREAM, ST_THROUGH, ST_KEEP_OUT };
enum Order { GRID, TILE };

template <int HINT>
__device__ uint4 load(const uint4 *p) {
    uint4 v;
#define LOAD(op) asm volatile(op " {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p) : "memory")
    if (HINT == PLAIN) v = *p;
    if (HINT == NC) LOAD("ld.global.nc.v4.u32");
    if (HINT == NC_KEEP_OUT) LOAD("ld.global.nc.L1::no_allocate.v4.u32");
    if (HINT == NC_KEEP_OUT_256) LOAD("ld.global.nc.L1::no_allocate.L2::256B.v4.u32");
    if (HINT == STREAM) LOAD("ld.global.cs.v4.u32");
    if (HINT == SYSTEM) LOAD("ld.relaxed.sys.global.v4.u32");
    return v;
}

template <int HINT>
__device__ void store(uint4 *p, uint4 v) {
#define STORE(op) asm volatile(op " [%0], {%1,%2,%3,%4};" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory")
    if (HINT == ST_PLAIN) *p = v;
    if (HINT == ST_STREAM) STORE("st.global.cs.v4.u32");
    if (HINT == ST_THROUGH) STORE("st.global.wt.v4.u32");
    if (HINT == ST_KEEP_OUT) STORE("st.global.L1::no_allocate.v4.u32");
}

// GRID: a thread's DEPTH loads are a whole grid apart. TILE: a block's are one contiguous tile.
template <int DEPTH, int ORDER, int LOAD_HINT, int STORE_HINT>
__global__ void variant(uint4 *dst, const uint4 *src, u64 count, u32 repeats) {
    u64 step = ORDER == GRID ? (u64)gridDim.x * blockDim.x : blockDim.x;
    u64 advance = (u64)gridDim.x * blockDim.x * DEPTH;
    u64 first = ORDER == GRID ? (u64)blockIdx.x * blockDim.x + threadIdx.x
                              : (u64)blockIdx.x * blockDim.x * DEPTH + threadIdx.x;
    for (u32 r = 0; r < repeats; r++) {
        uint4 held[DEPTH];
        u64 i = first;
        for (; i + (DEPTH - 1) * step < count; i += advance) {
#pragma unroll
            for (int k = 0; k < DEPTH; k++) held[k] = load<LOAD_HINT>(src + i + k * step);
#pragma unroll
            for (int k = 0; k < DEPTH; k++) store<STORE_HINT>(dst + i + k * step, held[k]);
        }
#pragma unroll
        for (int k = 0; k < DEPTH; k++)
            if (i + k * step < count) held[k] = load<LOAD_HINT>(src + i + k * step);
#pragma unroll
        for (int k = 0; k < DEPTH; k++)
            if (i + k * step < count) store<STORE_HINT>(dst + i + k * step, held[k]);
    }
}

__device__ u32 shared_address(const void *p) { return (u32)__cvta_generic_to_shared(p); }

__device__ void bulk_load(char *to, const char *from, u32 bytes, u64 *arrived) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(arrived)), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(arrived)) : "memory");
}

__device__ void bulk_await(u64 *arrived, u32 parity) {
    u32 done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(shared_address(arrived)), "r"(parity) : "memory");
}

// Bulk asynchronous copies through a ring of STAGES chunks of shared memory, LAG of them being stored from.
template <int STAGES, int LAG>
__global__ void __launch_bounds__(32) bulk(char *dst, const char *src, u64 bytes, u32 repeats, u32 chunk) {
    extern __shared__ __align__(128) char ring[];
    __shared__ u64 arrived[STAGES];
    if (threadIdx.x != 0) return;
    for (int s = 0; s < STAGES; s++)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&arrived[s])) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    u64 start = (u64)blockIdx.x * chunk, advance = (u64)gridDim.x * chunk;
    if (start >= bytes) return;
    u64 mine = (bytes - start + advance - 1) / advance, total = mine * repeats;
    u64 in = 0, in_at = start, out_at = start;
    auto length = [&](u64 at) { return (u32)(bytes - at < chunk ? bytes - at : chunk); };
    auto next = [&]() {
        bulk_load(ring + in % STAGES * chunk, src + in_at, length(in_at), &arrived[in % STAGES]);
        in++;
        in_at = in_at + advance < bytes ? in_at + advance : start;
    };
    while (in < total && in < STAGES - LAG) next();
    for (u64 out = 0; out < total; out++) {
        if (in < total) {
            asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(LAG - 1) : "memory");
            next();
        }
        bulk_await(&arrived[out % STAGES], out / STAGES & 1);
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(dst + out_at),
                     "r"(shared_address(ring + out % STAGES * chunk)), "r"(length(out_at)) : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        out_at = out_at + advance < bytes ? out_at + advance : start;
    }
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

const u32 BULK_SHARED = 65536; // of copy_bulk

struct Way {
    std::string name;
    bool bulk;
    std::function<void(void *, const void *, u64, u32, int device, cudaStream_t)> start;
};

struct Leg {
    int device; // that runs the kernel
    void *dst;
    const void *src;
    int dst_owner, src_owner; // that verify and fill
};

struct Case {
    std::string name;
    std::vector<Leg> legs;
    u64 bytes;
    u32 repeats;
};

static std::string folder;
static cudaStream_t streams[2][2];
static cudaEvent_t begins[2][2], ends[2][2];
static CUfunction gate_of[2], fill_of[2], verify_of[2], copy_of[2], copy_bulk_of[2];
static volatile u32 *flag;
static u64 *found[2];
static u32 seed = 1, opened = 0;
static int sms;

// GB/s of one sample of a case.
static double sample(const Way &way, const Case &c) {
    opened++;
    int used[2] = {0, 0};
    std::vector<std::pair<int, int>> at;
    for (auto &leg : c.legs) {
        int d = leg.device, s = used[d]++;
        at.push_back({d, s});
        CALL(cudaSetDevice(d));
        launch(gate_of[d], 1, 1, 0, streams[d][s], (u64)flag, opened, (u64)2000000000, (u64)(flag + 1));
        CALL(cudaEventRecord(begins[d][s], streams[d][s]));
        way.start(leg.dst, leg.src, c.bytes, c.repeats, d, streams[d][s]);
        CALL(cudaEventRecord(ends[d][s], streams[d][s]));
    }
    *flag = opened;
    float longest = 0;
    for (auto [d, s] : at) {
        float ms;
        CALL(cudaEventSynchronize(ends[d][s]));
        CALL(cudaEventElapsedTime(&ms, begins[d][s], ends[d][s]));
        longest = std::max(longest, ms);
    }
    must(flag[1] == 0, "gate", "gave up", __LINE__);
    return (double)c.bytes * c.repeats * c.legs.size() / longest / 1e6;
}

static bool copies_right(const Way &way, const Case &c) {
    seed++;
    u32 leg_seed = seed * 16;
    for (auto &leg : c.legs) {
        leg_seed++;
        CALL(cudaSetDevice(leg.src_owner));
        launch(fill_of[leg.src_owner], sms * 4, 512, 0, 0, (u64)leg.src, c.bytes / 4, leg_seed, 0u);
        CALL(cudaStreamSynchronize(0));
        CALL(cudaSetDevice(leg.dst_owner));
        launch(fill_of[leg.dst_owner], sms * 4, 512, 0, 0, (u64)leg.dst, c.bytes / 4, leg_seed, ~0u);
        CALL(cudaStreamSynchronize(0));
    }
    sample(way, c);
    leg_seed = seed * 16;
    bool right = true;
    for (auto &leg : c.legs) {
        leg_seed++;
        int d = leg.dst_owner;
        CALL(cudaSetDevice(d));
        u64 got[2];
        CALL(cudaMemset(found[d], 0, 16));
        launch(verify_of[d], sms * 4, 512, 0, 0, (u64)leg.dst, c.bytes / 4, leg_seed, (u64)found[d]);
        CALL(cudaMemcpy(got, found[d], 16, cudaMemcpyDefault));
        if (got[0]) printf("WRONG %s %s: %llu words, first %llu\n", way.name.c_str(), c.name.c_str(), got[0], ~got[1]);
        right &= got[0] == 0;
    }
    return right;
}

static std::vector<Way> ways;

template <int DEPTH, int ORDER, int L, int S>
void plain(std::vector<std::pair<int, int>> shapes) {
    static const char *loads[] = {"ld", "ld.nc", "ld.nc.na", "ld.nc.na.256B", "ld.cs", "ld.sys"};
    static const char *stores[] = {"st", "st.cs", "st.wt", "st.na"};
    for (auto &shape : shapes) {
        int per_sm = shape.first, threads = shape.second, fit = 0;
        auto kernel = variant<DEPTH, ORDER, L, S>;
        CALL(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fit, kernel, threads, 0));
        int blocks = per_sm > 0 ? per_sm * sms : -per_sm;
        if (fit < std::max(per_sm, 1)) continue;
        char name[100];
        snprintf(name, sizeof name, "%-4s x%-2d %4dthr %4dblk %s %s", ORDER == GRID ? "grid" : "tile", DEPTH, threads, blocks,
                 loads[L], stores[S]);
        ways.push_back({name, false,
                        [=](void *d, const void *s, u64 bytes, u32 repeats, int, cudaStream_t stream) {
                            kernel<<<blocks, threads, 0, stream>>>((uint4 *)d, (const uint4 *)s, bytes / 16, repeats);
                            CALL(cudaGetLastError());
                        }});
    }
}

template <int STAGES, int LAG>
void bulks(std::vector<u32> chunks, std::vector<int> grids) {
    for (u32 chunk : chunks) {
        int fit = 0;
        auto kernel = bulk<STAGES, LAG>;
        size_t shared = (size_t)STAGES * chunk;
        if (shared > 220 * 1024) continue;
        for (int d = 0; d < 2; d++) {
            CALL(cudaSetDevice(d));
            CALL(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 220 * 1024));
        }
        CALL(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fit, kernel, 32, shared));
        for (int grid : grids) {
            if (grid > fit * sms) continue;
            char name[100];
            snprintf(name, sizeof name, "bulk %2d stages, %d stored, %5u B, %4d blk", STAGES, LAG, chunk, grid);
            ways.push_back({name, true,
                            [=](void *d, const void *s, u64 bytes, u32 repeats, int, cudaStream_t stream) {
                                kernel<<<grid, 32, shared, stream>>>((char *)d, (const char *)s, bytes, repeats, chunk);
                                CALL(cudaGetLastError());
                            }});
        }
    }
}

static void list_ways() {
    using S = std::vector<std::pair<int, int>>;
    S all = {{1, 256}, {1, 512}, {1, 1024}, {2, 256}, {2, 512}, {2, 1024}, {4, 256}, {4, 512}, {8, 256}};
    plain<1, GRID, PLAIN, ST_PLAIN>(all);
    plain<4, GRID, PLAIN, ST_PLAIN>(all);
    plain<8, GRID, PLAIN, ST_PLAIN>(all);
    plain<12, GRID, PLAIN, ST_PLAIN>(all);
    plain<16, GRID, PLAIN, ST_PLAIN>(all);
    plain<4, TILE, PLAIN, ST_PLAIN>(all);
    plain<8, TILE, PLAIN, ST_PLAIN>(all);
    plain<12, TILE, PLAIN, ST_PLAIN>(all);
    plain<16, TILE, PLAIN, ST_PLAIN>(all);
    // Few multiprocessors: how many a copy needs.
    S few = {{-4, 1024}, {-8, 1024}, {-16, 1024}, {-32, 1024}, {-64, 1024}, {-4, 512}, {-8, 512}, {-16, 512}, {-32, 512}, {-64, 512}, {-96, 512}};
    plain<8, GRID, PLAIN, ST_PLAIN>(few);
    plain<8, TILE, PLAIN, ST_PLAIN>(few);
    S hinted = {{1, 512}, {2, 256}, {2, 512}, {1, 1024}};
    plain<4, GRID, NC, ST_PLAIN>(hinted);
    plain<8, GRID, NC, ST_PLAIN>(hinted);
    plain<8, GRID, NC_KEEP_OUT, ST_PLAIN>(hinted);
    plain<8, GRID, NC_KEEP_OUT_256, ST_PLAIN>(hinted);
    plain<8, GRID, STREAM, ST_PLAIN>(hinted);
    plain<8, GRID, SYSTEM, ST_PLAIN>(hinted);
    plain<8, GRID, PLAIN, ST_STREAM>(hinted);
    plain<8, GRID, PLAIN, ST_THROUGH>(hinted);
    plain<8, GRID, PLAIN, ST_KEEP_OUT>(hinted);
    plain<8, GRID, NC_KEEP_OUT, ST_STREAM>(hinted);
    plain<4, GRID, NC_KEEP_OUT, ST_KEEP_OUT>(hinted);
    plain<4, TILE, NC_KEEP_OUT, ST_KEEP_OUT>(hinted);
    plain<8, TILE, NC_KEEP_OUT, ST_PLAIN>(hinted);
    plain<8, TILE, NC_KEEP_OUT_256, ST_PLAIN>(hinted);
    plain<8, TILE, SYSTEM, ST_PLAIN>(hinted);
    plain<8, TILE, PLAIN, ST_STREAM>(hinted);
    plain<8, TILE, PLAIN, ST_THROUGH>(hinted);
    plain<8, TILE, PLAIN, ST_KEEP_OUT>(hinted);
    plain<8, TILE, NC_KEEP_OUT, ST_STREAM>(hinted);
    std::vector<int> grids = {4, 8, 16, 32, 66, 132, 264};
    bulks<4, 2>({1024, 2048, 4096, 8192, 16384, 32768}, grids);
    bulks<8, 4>({1024, 2048, 4096, 8192, 16384}, grids);
    bulks<8, 2>({4096, 8192, 16384}, {16, 32, 66, 132});
    bulks<8, 6>({4096, 8192, 16384}, {16, 32, 66, 132});
    bulks<16, 8>({512, 1024, 2048, 4096, 8192}, {8, 16, 32, 66, 132, 264});
    bulks<32, 16>({512, 1024, 2048, 4096}, {8, 16, 32, 66, 132, 264});
}

// nvbandwidth 0.8's shape, written anew: 512 threads and one block a multiprocessor, twelve loads a grid
// apart, what is left one by one.
__global__ void twelve(uint4 *dst, const uint4 *src, u64 count, u32 repeats) {
    u64 t = (u64)gridDim.x * blockDim.x, from = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    for (u32 r = 0; r < repeats; r++) {
        u64 i = from;
        for (; i + 11 * t < count; i += 12 * t) {
            uint4 held[12];
#pragma unroll
            for (int k = 0; k < 12; k++) held[k] = src[i + k * t];
#pragma unroll
            for (int k = 0; k < 12; k++) dst[i + k * t] = held[k];
        }
#pragma unroll 1
        for (; i < count; i += t) dst[i] = src[i];
    }
}

// What runs beside the variants in the second round.
static std::vector<Way> references() {
    auto engine = [](void *d, const void *s, u64 bytes, u32 repeats, int, cudaStream_t stream) {
        for (u32 r = 0; r < repeats; r++) CALL(cudaMemcpyAsync(d, s, bytes, cudaMemcpyDefault, stream));
    };
    auto nvb = [](void *d, const void *s, u64 bytes, u32 repeats, int, cudaStream_t stream) {
        twelve<<<sms, 512, 0, stream>>>((uint4 *)d, (const uint4 *)s, bytes / 16, repeats);
        CALL(cudaGetLastError());
    };
    auto copy = [](void *d, const void *s, u64 bytes, u32 repeats, int device, cudaStream_t stream) {
        launch(copy_of[device], sms, 512, 0, stream, d, s, bytes, repeats);
    };
    auto copy_bulk = [](void *d, const void *s, u64 bytes, u32 repeats, int device, cudaStream_t stream) {
        launch(copy_bulk_of[device], sms, 32, BULK_SHARED, stream, d, s, bytes, repeats);
    };
    return {{"copy engine", false, engine},
            {"nvbandwidth's shape", false, nvb},
            {"shipped copy", false, copy},
            {"shipped copy_bulk", true, copy_bulk}};
}

int main(int argc, char **argv) {
    must(argc > 1, "usage", "copy_kernels PTX_FOLDER [SECONDS]", __LINE__);
    folder = argv[1];
    double budget = argc > 2 ? atof(argv[2]) : 120;
    auto began = std::chrono::steady_clock::now();
    auto spent = [&]() { return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count(); };
    setvbuf(stdout, nullptr, _IOLBF, 0);

    const u64 MiB = 1 << 20, biggest = 512 * MiB;
    char *a[2], *b[2], *host[2];
    u32 *shared_flag;
    CALL(cudaHostAlloc(&shared_flag, 4096, cudaHostAllocPortable | cudaHostAllocMapped));
    shared_flag[0] = shared_flag[1] = 0;
    flag = shared_flag;
    for (int d = 0; d < 2; d++) {
        CALL(cudaSetDevice(d));
        CALL(cudaDeviceEnablePeerAccess(1 - d, 0));
        CALL(cudaMalloc(&a[d], biggest));
        CALL(cudaMalloc(&b[d], biggest));
        CALL(cudaMalloc(&found[d], 16));
        CALL(cudaHostAlloc(&host[d], 64 * MiB, cudaHostAllocPortable | cudaHostAllocMapped));
        for (int s = 0; s < 2; s++) {
            CALL(cudaStreamCreateWithFlags(&streams[d][s], cudaStreamNonBlocking));
            CALL(cudaEventCreate(&begins[d][s]));
            CALL(cudaEventCreate(&ends[d][s]));
        }
        gate_of[d] = load_ptx(folder, "gate.sm_70", "gate");
        fill_of[d] = load_ptx(folder, "pattern.sm_70", "fill");
        verify_of[d] = load_ptx(folder, "pattern.sm_70", "verify");
        copy_of[d] = load_ptx(folder, "copy.sm_70", "copy");
        copy_bulk_of[d] = load_ptx(folder, "copy_bulk.sm_90", "copy_bulk");
        DRIVER(cuFuncSetAttribute(copy_bulk_of[d], CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, BULK_SHARED));
    }
    cudaDeviceProp device;
    CALL(cudaGetDeviceProperties(&device, 0));
    sms = device.multiProcessorCount;
    printf("%s, %d multiprocessors\n", device.name, sms);

    auto cases = [&](u64 bytes, u32 repeats) {
        return std::vector<Case>{
            {"write", {{0, b[1], a[0], 1, 0}}, bytes, repeats},
            {"read", {{1, b[1], a[0], 1, 0}}, bytes, repeats},
            {"both ways, writes", {{0, b[1], a[0], 1, 0}, {1, b[0], a[1], 0, 1}}, bytes, repeats},
            {"both ways, reads", {{1, b[1], a[0], 1, 0}, {0, b[0], a[1], 0, 1}}, bytes, repeats},
        };
    };
    auto near = [&](u64 bytes, u32 repeats) {
        return std::vector<Case>{
            {"host to device", {{0, b[0], host[0], 0, 0}}, bytes, repeats},
            {"device to host", {{0, host[1], a[0], 0, 0}}, bytes, repeats},
            {"host, both ways", {{0, b[0], host[0], 0, 0}, {0, host[1], a[0], 0, 0}}, bytes, repeats},
            {"local", {{0, b[0], a[0], 0, 0}}, 256 * MiB, 5},
        };
    };

    list_ways();
    std::vector<Way> beside = references();
    printf("%zu variants, %.1f s\n", ways.size(), spent());

    // First round: every variant, few samples. Lines: case, GB/s median of the samples, variant.
    std::map<std::string, std::vector<std::pair<double, const Way *>>> seen;
    int wrong = 0;
    auto first_round = [&](const std::vector<Case> &list, int samples, double until) {
        // Variants outside, cases inside: a budget that ends early leaves whole rows.
        for (auto &way : ways) {
            if (spent() > until) {
                printf("out of time at %s\n", way.name.c_str());
                break;
            }
            for (auto &c : list) {
                wrong += !copies_right(way, c);
                std::vector<double> x;
                // Those that would take over 20 ms a sample (few blocks) get two.
                for (int i = 0; i < samples; i++) {
                    x.push_back(sample(way, c));
                    if (i == 1 && x[1] * 20e6 < c.bytes * c.repeats * c.legs.size()) break;
                }
                double m = median(x).value;
                seen[c.name].push_back({m, &way});
                printf("all\t%s\t%.1f\t%s\n", c.name.c_str(), m, way.name.c_str());
            }
        }
    };
    first_round(cases(256 * MiB, 5), 5, budget * 0.6);
    first_round(near(64 * MiB, 2), 3, budget * 0.8);
    printf("first round done, %.1f s, %d wrong\n", spent(), wrong);

    // Some ways of a case in turns, so that what drifts falls on all alike.
    auto in_turns = [&](const char *tag, const Case &c, const std::vector<const Way *> &chosen, int samples) {
        std::vector<std::vector<double>> x(chosen.size());
        for (int i = -1; i < samples; i++)
            for (size_t k = 0; k < chosen.size(); k++) {
                double rate = sample(*chosen[k], c);
                if (i >= 0) x[k].push_back(rate);
            }
        for (size_t k = 0; k < chosen.size(); k++) {
            Median m = median(x[k]);
            double us = (double)c.bytes * c.repeats * c.legs.size() / m.value / 1e3;
            printf("%s\t%s\t%llu KiB x %u\t%.1f GB/s\t[%.1f, %.1f]\tn=%d\t%.2f us\t%s\n", tag, c.name.c_str(), c.bytes >> 10,
                   c.repeats, m.value, m.low, m.high, samples, us, chosen[k]->name.c_str());
        }
    };

    // Second round: the best with loads and stores, the best bulk ones, and what they are compared with.
    auto second_round = [&](const std::vector<Case> &list, int samples) {
        for (auto &c : list) {
            auto &all = seen[c.name];
            std::sort(all.begin(), all.end(), [](auto &x, auto &y) { return x.first > y.first; });
            std::vector<const Way *> chosen;
            for (auto &w : beside) chosen.push_back(&w);
            int left[2] = {3, 2};
            for (auto &[rate, way] : all)
                if (left[way->bulk]-- > 0) chosen.push_back(way);
            in_turns("best", c, chosen, samples);
            if (spent() > budget) return;
        }
    };
    second_round(cases(256 * MiB, 5), 21);
    second_round(cases(64 * MiB, 20), 21);
    second_round(cases(64 * MiB, 1), 21);
    second_round(cases(512 * MiB, 16), 7);
    second_round(near(64 * MiB, 2), 11);

    std::vector<const Way *> shipped;
    for (auto &w : beside) shipped.push_back(&w);
    for (auto &w : beside)
        for (auto &c : cases(256 * MiB, 1)) wrong += !copies_right(w, c);

    // One half written by its owner, the other read by its receiver, at once.
    const u64 half = 128 * MiB;
    for (auto &c : {Case{"one way, halves written and read", {{0, b[1], a[0], 1, 0}, {1, b[1] + half, a[0] + half, 1, 0}}, half, 5},
                    Case{"both ways, halves written and read",
                         {{0, b[1], a[0], 1, 0}, {1, b[1] + half, a[0] + half, 1, 0}, {1, b[0], a[1], 0, 1}, {0, b[0] + half, a[1] + half, 0, 1}},
                         half, 5}})
        in_turns("halved", c, shipped, 11);

    for (u64 bytes = 4096; bytes <= 16 * MiB; bytes *= 4)
        for (auto &c : cases(bytes, 1))
            if (c.legs.size() == 1) in_turns("small", c, shipped, 21);
    printf("done, %.1f s, %d wrong\n", spent(), wrong);
    return wrong ? 1 : 0;
}
