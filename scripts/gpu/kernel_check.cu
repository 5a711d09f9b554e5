// Does each shipped kernel do what it says, and how fast? Runs the PTX that ships, on one GPU or two.
// Usage: kernel_check PTX_FOLDER [GPUS] [brief]. `brief` leaves out what only times, for compute-sanitizer,
// which also may run kernels one after the other: waits that then end by their limit are not errors there.
#include <cstring>

#include "harness.cuh"

static int failures = 0;
static bool brief = false;

static void expect(bool good, const char *what) {
    if (!good) failures++;
    if (!good || !brief) printf("%s\t%s\n", good ? "ok" : "FAILED", what);
}

struct Kernels {
    CUfunction fill, verify, copy, copy_bulk, build_ring, chase, pingpong, gate, touch_read, touch_write;
};

static Kernels kernels[2];
static cudaStream_t streams[2];
static int gpus = 1, sms;

// The pattern once more, on the CPU.
static u32 pattern_word(u32 seed, u64 index) {
    u32 x = seed + (u32)(index >> 32) * 0x85ebca6bu;
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    x = (x ^ x >> 16) + (u32)index * 0x9e3779b9u;
    return x ^ x >> 16;
}

static void on(int d) { CALL(cudaSetDevice(d)); }
static void wait(int d) {
    on(d);
    CALL(cudaStreamSynchronize(streams[d]));
}

static void fill(int d, void *p, u64 words, u32 seed, u32 flip) {
    on(d);
    launch(kernels[d].fill, sms * 4, 512, 0, streams[d], p, words, seed, flip);
    wait(d);
}

struct Found {
    u64 count, lowest;
};

static Found verify(int d, const void *p, u64 words, u32 seed) {
    u64 got[2], *found;
    on(d);
    CALL(cudaMalloc(&found, 16));
    CALL(cudaMemset(found, 0, 16));
    wait(d);
    CALL(cudaDeviceSynchronize());
    launch(kernels[d].verify, sms * 4, 512, 0, streams[d], p, words, seed, found);
    wait(d);
    CALL(cudaMemcpy(got, found, 16, cudaMemcpyDefault));
    CALL(cudaFree(found));
    return {got[0], ~got[1]};
}

template <class F>
double milliseconds(int d, F body) {
    cudaEvent_t begin, end;
    float ms;
    on(d);
    CALL(cudaEventCreate(&begin));
    CALL(cudaEventCreate(&end));
    CALL(cudaEventRecord(begin, streams[d]));
    body();
    CALL(cudaEventRecord(end, streams[d]));
    CALL(cudaEventSynchronize(end));
    CALL(cudaEventElapsedTime(&ms, begin, end));
    CALL(cudaEventDestroy(begin));
    CALL(cudaEventDestroy(end));
    return ms;
}

static void check_pattern() {
    on(0);
    for (u64 words : {1ull, 3ull, 4ull, 5ull, 1023ull, 300007ull}) {
        u32 *p;
        CALL(cudaMalloc(&p, words * 4 + 16));
        CALL(cudaMemset(p, 0x5a, words * 4 + 16));
        fill(0, p, words, 77, 0);
        std::vector<u32> got(words + 4);
        CALL(cudaMemcpy(got.data(), p, got.size() * 4, cudaMemcpyDefault));
        bool same = true;
        for (u64 i = 0; i < words; i++) same &= got[i] == pattern_word(77, i);
        for (u64 i = words; i < words + 4; i++) same &= got[i] == 0x5a5a5a5a;
        expect(same, "fill writes the CPU's pattern and nothing beyond");
        Found f = verify(0, p, words, 77);
        expect(f.count == 0 && f.lowest == ~0ull, "verify accepts it");
        fill(0, p, words, 77, ~0u);
        f = verify(0, p, words, 77);
        expect(f.count == words && f.lowest == 0, "verify finds each poisoned word");
        fill(0, p, words, 77, 0);
        u32 bad = pattern_word(77, words - 1) ^ 4;
        CALL(cudaMemcpy(p + words - 1, &bad, 4, cudaMemcpyDefault));
        CALL(cudaMemcpy(p + words / 2, &bad, 4, cudaMemcpyDefault));
        f = verify(0, p, words, 77);
        expect(f.count == (words > 1 ? 2 : 1) && f.lowest == words / 2, "verify counts two wrong words and names the first");
        CALL(cudaFree(p));
    }
}

static void check_copy(int d, int from, int to, CUfunction kernel, u32 blocks, u32 threads, u32 shared, const char *what) {
    std::vector<u64> sizes = {4, 8, 16, 20, 4096, (1 << 20) + 12};
    if (!brief) sizes.push_back((64 << 20) + 4);
    bool good = true;
    for (u64 bytes : sizes)
        for (u32 repeats : {1u, 3u}) {
            char *src, *dst;
            on(from);
            CALL(cudaMalloc(&src, bytes));
            on(to);
            CALL(cudaMalloc(&dst, bytes + 64));
            fill(from, src, bytes / 4, (u32)bytes + repeats, 0);
            fill(to, dst, bytes / 4 + 16, (u32)bytes + repeats, ~0u);
            on(d);
            launch(kernel, blocks, threads, shared, streams[d], dst, src, bytes, repeats);
            wait(d);
            Found f = verify(to, dst, bytes / 4 + 16, (u32)bytes + repeats);
            good &= f.count == 16 && f.lowest == bytes / 4;
            CALL(cudaFree(src));
            CALL(cudaFree(dst));
        }
    expect(good, what);
}

static void check_chase(int d, int owner, const char *what) {
    u64 bytes = 2 << 20, stride = 128;
    char *ring;
    u64 *result, got[3];
    int builder = owner < 0 ? d : owner;
    on(builder);
    if (owner < 0) CALL(cudaHostAlloc(&ring, bytes, cudaHostAllocPortable | cudaHostAllocMapped));
    else CALL(cudaMalloc(&ring, bytes));
    launch(kernels[builder].build_ring, 64, 256, 0, streams[builder], ring, bytes, stride);
    wait(builder);
    on(d);
    CALL(cudaMalloc(&result, 24));
    auto run = [&](u64 steps, u32 chosen) {
        launch(kernels[d].chase, sms, 1, 0, streams[d], result, steps, chosen);
        wait(d);
        CALL(cudaMemcpy(got, result, 24, cudaMemcpyDefault));
    };
    u64 start = (u64)ring;
    CALL(cudaMemset(result, 0, 24));
    CALL(cudaMemcpy(result, &start, 8, cudaMemcpyDefault));
    // one load more than are timed
    run(1000, 0);
    bool good = got[0] == start + 1001 * stride;
    run(bytes / stride, (u32)sms - 1);
    good &= got[0] == start + 1002 * stride;
    expect(good, "chase goes round the ring");
    if (!brief) {
        std::vector<double> ns, cycles;
        for (int block = 0; block < sms; block++) {
            run(2000, block);
            ns.push_back(got[1] / 2000.0);
            cycles.push_back(got[2] / 2000.0);
        }
        Median m = median(ns), c = median(cycles);
        double mean = 0;
        for (double x : ns) mean += x / ns.size();
        printf("chase\t%s\t%.1f ns median of %d multiprocessors, mean %.1f, least %.1f, most %.1f; %.0f cycles\n", what, m.value, sms,
               mean, *std::min_element(ns.begin(), ns.end()), *std::max_element(ns.begin(), ns.end()), c.value);
        // As nvbandwidth counts: events around launches of the whole grid, each with one working block.
        double total = 0;
        for (int block = 0; block < sms; block++) {
            total += milliseconds(d, [&] { launch(kernels[d].chase, sms, 1, 0, streams[d], result, (u64)7575, (u32)block); });
        }
        printf("chase\t%s\t%.1f ns by events, 7575 loads on each of %d multiprocessors\n", what, total * 1e6 / 7575 / sms, sms);
    }
    CALL(cudaFree(result));
    if (owner < 0) CALL(cudaFreeHost(ring));
    else CALL(cudaFree(ring));
}

static void check_pingpong() {
    u32 *flags[2];
    u64 *results[2], got[2][4];
    int second = gpus - 1;
    cudaStream_t other;
    for (int side = 0; side < 2; side++) {
        on(side ? second : 0);
        CALL(cudaMalloc(&flags[side], 128));
        CALL(cudaMalloc(&results[side], 32));
    }
    CALL(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    auto clear = [&] {
        for (int side = 0; side < 2; side++) {
            CALL(cudaMemset(flags[side], 0, 128));
            CALL(cudaMemset(results[side], 0, 32));
        }
        for (int d = 0; d < gpus; d++) {
            on(d);
            CALL(cudaDeviceSynchronize());
        }
    };
    auto start = [&](int side, u32 ordered, u32 warmup, u32 rounds, u64 limit) {
        on(side ? second : 0);
        launch(kernels[side ? second : 0].pingpong, 1, 1, 0, side ? other : streams[0], flags[side], flags[1 - side], (u32)(side == 0),
               ordered, warmup, rounds, limit, results[side]);
    };
    auto finish = [&] {
        wait(0);
        on(second);
        CALL(cudaStreamSynchronize(other));
        for (int side = 0; side < 2; side++) CALL(cudaMemcpy(got[side], results[side], 32, cudaMemcpyDefault));
    };
    for (u32 ordered = 0; ordered < 2; ordered++) {
        u32 rounds = brief ? 20 : 10000;
        std::vector<double> ns;
        bool good = true;
        for (int i = 0; i < (brief ? 1 : 11); i++) {
            clear();
            start(0, ordered, 10, rounds, 500000000);
            start(1, ordered, 10, rounds, 500000000);
            finish();
            bool both = got[0][0] == rounds && got[1][0] == rounds && !got[0][3] && !got[1][3];
            if (brief && !both) printf("note\tping-pong ended by its limit\n");
            good &= brief || both;
            ns.push_back(got[0][1] / (double)rounds);
        }
        expect(good, "ping-pong finishes its rounds");
        Median m = median(ns);
        if (!brief)
            printf("pingpong\tGPU0-GPU%d %s\t%.1f ns a round trip [%.1f, %.1f], n=11 of %u rounds\n", second,
                   ordered ? "release/acquire" : "relaxed", m.value, m.low, m.high, rounds);
    }
    clear();
    double ms = milliseconds(0, [&] { start(0, 1, 1, 10, 20000000); });
    finish();
    expect(got[0][0] == 0 && got[0][3] == 1 && (brief || (ms > 15 && ms < 60)), "ping-pong alone gives up at its limit");
    // With the answer already there it needs no other kernel.
    clear();
    u32 one = 1;
    CALL(cudaMemcpy(flags[0], &one, 4, cudaMemcpyDefault));
    start(0, 1, 1, 0, 500000000);
    finish();
    expect(got[0][3] == 0, "ping-pong reads a flag that is there");
    for (int side = 0; side < 2; side++) {
        CALL(cudaFree(flags[side]));
        CALL(cudaFree(results[side]));
    }
}

static void check_gate() {
    volatile u32 *flag;
    on(0);
    CALL(cudaHostAlloc((void **)&flag, 64, cudaHostAllocPortable | cudaHostAllocMapped));
    flag[0] = 0xfffffffe;
    flag[1] = 0;
    double ms = milliseconds(0, [&] { launch(kernels[0].gate, 1, 1, 0, streams[0], (u64)flag, 1u, (u64)20000000, (u64)(flag + 1)); });
    expect(flag[1] == 1 && (brief || (ms > 15 && ms < 60)), "gate gives up at its limit and says so");
    flag[1] = 0;
    launch(kernels[0].gate, 1, 1, 0, streams[0], (u64)flag, 0xfffffff0u, (u64)500000000, (u64)(flag + 1));
    wait(0);
    expect(flag[1] == 0, "gate lets through what is open");
    launch(kernels[0].gate, 1, 1, 0, streams[0], (u64)flag, 1u, (u64)500000000, (u64)(flag + 1));
    flag[0] = 2; // past 1, across the wrap
    wait(0);
    if (brief && flag[1]) printf("note\tgate ended by its limit\n");
    expect(brief || flag[1] == 0, "gate opens");
    CALL(cudaFreeHost((void *)flag));
}

static void check_touch(bool managed) {
    u64 words = 262144 + 3;
    u32 *p;
    u64 *sum, got;
    on(0);
    if (managed) CALL(cudaMallocManaged(&p, words * 4));
    else CALL(cudaMalloc(&p, words * 4));
    CALL(cudaMalloc(&sum, 8));
    for (u64 stride : {1ull, 1024ull}) {
        fill(0, p, words, 5, 0);
        u64 want = 0;
        for (u64 i = 0; i < words; i += stride) want += pattern_word(5, i);
        CALL(cudaMemset(sum, 0, 8));
        CALL(cudaDeviceSynchronize());
        launch(kernels[0].touch_read, sms * 2, 512, 0, streams[0], p, words, stride, sum);
        wait(0);
        CALL(cudaMemcpy(&got, sum, 8, cudaMemcpyDefault));
        expect(got == want, managed ? "touch_read, managed" : "touch_read");
        launch(kernels[0].touch_write, sms * 2, 512, 0, streams[0], p, words, stride, 9u);
        wait(0);
        std::vector<u32> all(words);
        CALL(cudaMemcpy(all.data(), p, words * 4, cudaMemcpyDefault));
        bool good = true;
        for (u64 i = 0; i < words; i++) good &= all[i] == (i % stride ? pattern_word(5, i) : 9);
        expect(good, managed ? "touch_write, managed" : "touch_write");
    }
    CALL(cudaFree(p));
    CALL(cudaFree(sum));
}

static void time_pattern() {
    u64 bytes = 1ull << 30, *found;
    u32 *p;
    on(0);
    CALL(cudaMalloc(&p, bytes));
    CALL(cudaMalloc(&found, 16));
    CALL(cudaMemset(found, 0, 16));
    CALL(cudaDeviceSynchronize());
    for (u32 per_sm : {1u, 2u, 4u}) {
        std::vector<double> fills, verifies;
        for (int i = 0; i < 12; i++) {
            double f = milliseconds(0, [&] { launch(kernels[0].fill, sms * per_sm, 512, 0, streams[0], p, bytes / 4, 3u, 0u); });
            double v = milliseconds(0, [&] { launch(kernels[0].verify, sms * per_sm, 512, 0, streams[0], p, bytes / 4, 3u, found); });
            if (i == 0) continue;
            fills.push_back(bytes / f / 1e6);
            verifies.push_back(bytes / v / 1e6);
        }
        Median f = median(fills), v = median(verifies);
        printf("pattern\t1 GiB, %u blocks a multiprocessor\tfill %.0f GB/s [%.0f, %.0f], verify %.0f [%.0f, %.0f], n=11\n", per_sm,
               f.value, f.low, f.high, v.value, v.low, v.high);
    }
    CALL(cudaFree(p));
    CALL(cudaFree(found));
}

int main(int argc, char **argv) {
    must(argc > 1, "usage", "kernel_check PTX_FOLDER [GPUS] [brief]", __LINE__);
    gpus = argc > 2 ? std::min(2, atoi(argv[2])) : 2;
    brief = argc > 3 && !strcmp(argv[3], "brief");
    setvbuf(stdout, nullptr, _IOLBF, 0);
    cudaDeviceProp device;
    CALL(cudaGetDeviceProperties(&device, 0));
    sms = device.multiProcessorCount;
    const int bulk_shared = 65536;
    for (int d = 0; d < gpus; d++) {
        on(d);
        if (gpus > 1) CALL(cudaDeviceEnablePeerAccess(1 - d, 0));
        CALL(cudaStreamCreateWithFlags(&streams[d], cudaStreamNonBlocking));
        auto get = [&](const char *file, const char *name) { return load_ptx(argv[1], file, name); };
        kernels[d] = {get("pattern.sm_70", "fill"),     get("pattern.sm_70", "verify"),  get("copy.sm_70", "copy"),
                      nullptr,                          get("chase.sm_70", "build_ring"), get("chase.sm_70", "chase"),
                      get("pingpong.sm_70", "pingpong"), get("gate.sm_70", "gate"),       get("touch.sm_70", "touch_read"),
                      get("touch.sm_70", "touch_write")};
        if (device.major >= 9) {
            kernels[d].copy_bulk = get("copy_bulk.sm_90", "copy_bulk");
            DRIVER(cuFuncSetAttribute(kernels[d].copy_bulk, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bulk_shared));
        }
    }
    check_pattern();
    check_copy(0, 0, 0, kernels[0].copy, sms, 512, 0, "copy, local");
    if (gpus > 1) check_copy(0, 0, 1, kernels[0].copy, sms, 512, 0, "copy, remote write");
    if (gpus > 1) check_copy(1, 0, 1, kernels[1].copy, sms, 512, 0, "copy, remote read");
    if (kernels[0].copy_bulk) {
        check_copy(0, 0, 0, kernels[0].copy_bulk, sms, 32, bulk_shared, "copy_bulk, local");
        if (gpus > 1) check_copy(0, 0, 1, kernels[0].copy_bulk, sms, 32, bulk_shared, "copy_bulk, remote write");
        if (gpus > 1) check_copy(1, 0, 1, kernels[1].copy_bulk, sms, 32, bulk_shared, "copy_bulk, remote read");
    }
    check_chase(0, 0, "GPU0's own memory");
    if (gpus > 1) check_chase(0, 1, "GPU1's memory from GPU0");
    if (gpus > 1) check_chase(1, 0, "GPU0's memory from GPU1");
    check_chase(0, -1, "host memory from GPU0");
    check_pingpong();
    check_gate();
    check_touch(false);
    check_touch(true);
    if (!brief) time_pattern();
    printf("%d failures\n", failures);
    return failures ? 1 : 0;
}
