// Host memory both ways at once by kernels: two kernels on two streams next to one that alternates, by blocks, by
// copies a launch, and by size. Prints GB/s each way and their sum.
#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

typedef unsigned long long u64;
typedef unsigned u32;

static void must(bool right, const char *what, const char *why) {
    if (right) return;
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

#define CALL(call)                                                   \
    do {                                                             \
        cudaError_t error_ = (call);                                 \
        must(error_ == cudaSuccess, #call, cudaGetErrorString(error_)); \
    } while (0)
#define DRIVER(call)                                       \
    do {                                                   \
        CUresult error_ = (call);                          \
        const char *why_ = "";                             \
        if (error_) cuGetErrorString(error_, &why_);       \
        must(error_ == CUDA_SUCCESS, #call, why_);         \
    } while (0)

static CUfunction load(const std::string &folder, const char *file, const char *name) {
    std::ifstream in(folder + "/" + file + ".ptx");
    std::stringstream text;
    text << in.rdbuf();
    must(!text.str().empty(), file, "cannot be read");
    CUmodule module;
    CUfunction function;
    DRIVER(cuModuleLoadData(&module, text.str().c_str()));
    DRIVER(cuModuleGetFunction(&function, module, name));
    return function;
}

// Rates of two ways over the time in which both run: from the later first mark to the earlier last one.
static std::pair<double, double> together(const std::vector<double> (&passed)[2], double bytes) {
    double from = std::max(passed[0].front(), passed[1].front()), to = std::min(passed[0].back(), passed[1].back());
    double rate[2];
    for (int way = 0; way < 2; way++) {
        auto at = [&](double time) {
            const std::vector<double> &x = passed[way];
            size_t i = 0;
            while (i + 2 < x.size() && x[i + 1] < time) i++;
            return i + (time - x[i]) / (x[i + 1] - x[i]);
        };
        rate[way] = (at(to) - at(from)) * bytes / (to - from) / 1e9;
    }
    return {rate[0], rate[1]};
}

int main(int argc, char **argv) {
    must(argc > 1, "usage", "host_ways PTX_FOLDER [TURNS]");
    const std::string folder = argv[1];
    const int turns = argc > 2 ? atoi(argv[2]) : 3;
    const u64 MiB = 1 << 20, most = 256 * MiB;
    CALL(cudaSetDevice(0));
    CALL(cudaFree(0));
    char *gpu[2], *host[2];
    for (int i = 0; i < 2; i++) {
        CALL(cudaMalloc(&gpu[i], most));
        CALL(cudaHostAlloc(&host[i], most, cudaHostAllocMapped));
    }
    const u32 bulk_shared = 16 * 4096;
    CUfunction bulk = load(folder, "copy_bulk.sm_90", "copy_bulk"), both = load(folder, "copy.sm_70", "copy_both");
    DRIVER(cuFuncSetAttribute(bulk, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bulk_shared));
    cudaStream_t streams[2];
    for (auto &stream : streams) CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));

    // blocks from the host and to it; of one kernel, blocks and threads
    struct Way {
        bool one;
        u32 first, second;
    };
    std::vector<Way> ways;
    for (auto [from, to] : std::vector<std::pair<u32, u32>>{{12, 12}, {24, 12}, {24, 24}, {66, 66}, {132, 132}})
        ways.push_back({false, from, to});
    for (u32 blocks : {8, 16, 32, 66, 132}) ways.push_back({true, blocks, 128});

    for (int turn = 0; turn < turns; turn++)
        for (u64 bytes : {16 * MiB, 64 * MiB, 256 * MiB})
            for (u32 repeats : {1u, 4u, 16u, 64u})
                for (const Way &way : ways) {
                    if (bytes * repeats > 4096 * MiB) continue;
                    const int marks = std::clamp<int>(4096 * MiB / (bytes * repeats), 3, 60);
                    cudaEvent_t zero;
                    CALL(cudaEventCreate(&zero));
                    std::vector<cudaEvent_t> events[2];
                    for (auto &list : events) {
                        list.resize(marks);
                        for (auto &event : list) CALL(cudaEventCreate(&event));
                    }
                    CALL(cudaDeviceSynchronize());
                    CALL(cudaEventRecord(zero, streams[0]));
                    CALL(cudaStreamWaitEvent(streams[1], zero, 0));
                    for (int mark = 0; mark < marks; mark++) {
                        u64 size = bytes;
                        u32 again = repeats;
                        if (way.one) {
                            void *arguments[] = {&gpu[0], &host[0], &host[1], &gpu[1], &size, &again};
                            DRIVER(cuLaunchKernel(both, way.first, 1, 1, way.second, 1, 1, 0, streams[0], arguments, 0));
                            for (int i = 0; i < 2; i++) CALL(cudaEventRecord(events[i][mark], streams[0]));
                            continue;
                        }
                        void *in[] = {&gpu[0], &host[0], &size, &again}, *out[] = {&host[1], &gpu[1], &size, &again};
                        DRIVER(cuLaunchKernel(bulk, way.first, 1, 1, 32, 1, 1, bulk_shared, streams[0], in, 0));
                        CALL(cudaEventRecord(events[0][mark], streams[0]));
                        DRIVER(cuLaunchKernel(bulk, way.second, 1, 1, 32, 1, 1, bulk_shared, streams[1], out, 0));
                        CALL(cudaEventRecord(events[1][mark], streams[1]));
                    }
                    CALL(cudaDeviceSynchronize());
                    std::vector<double> passed[2];
                    for (int i = 0; i < 2; i++)
                        for (auto event : events[i]) {
                            float ms;
                            CALL(cudaEventElapsedTime(&ms, zero, event));
                            passed[i].push_back(ms * 1e-3);
                            CALL(cudaEventDestroy(event));
                        }
                    CALL(cudaEventDestroy(zero));
                    auto [in, out] = together(passed, (double)bytes * repeats);
                    printf("%d\t%s\t%u\t%u\t%llu MiB x %u\t%.2f\t%.2f\t%.2f\n", turn, way.one ? "one kernel" : "two kernels",
                           way.first, way.second, bytes / MiB, repeats, in, out, in + out);
                }
}
