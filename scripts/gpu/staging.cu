// How the driver stages copies between two GPUs through host memory: rates by size, number of streams and direction.
// Build: nvcc -O2 -o staging staging.cu; output: one line a point, tab-separated.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                             \
    do {                                                                                        \
        cudaError_t status = (call);                                                            \
        if (status != cudaSuccess) {                                                            \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(status));                     \
            exit(1);                                                                            \
        }                                                                                       \
    } while (0)

// A copy of each repetition in each stream: from GPU `from` to the other one.
struct Flow {
    int from;
    cudaStream_t stream;
    char *source, *destination;
};

int main() {
    const size_t most = size_t(512) << 20;
    const int samples = 7;
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    int driver = 0;
    CHECK(cudaDriverGetVersion(&driver));
    printf("# %s, driver API %d, %d copy engines; peer access is not enabled\n", properties.name, driver, properties.asyncEngineCount);
    printf("# flows\tbytes\tus_median\tus_least\tus_most\tGB_s_sum\tsamples\n");
    struct Case {
        const char *name;
        std::vector<int> from;
    };
    const std::vector<Case> cases = {
        {"one way", {0}}, {"one way, 2 streams", {0, 0}}, {"one way, 4 streams", {0, 0, 0, 0}},
        {"both ways", {0, 1}}, {"both ways, 2 streams each", {0, 1, 0, 1}},
    };
    std::vector<char *> buffers[2];
    for (int gpu = 0; gpu < 2; gpu++) {
        CHECK(cudaSetDevice(gpu));
        for (int i = 0; i < 8; i++) {
            char *buffer;
            CHECK(cudaMalloc(&buffer, most));
            CHECK(cudaMemset(buffer, i, most));
            buffers[gpu].push_back(buffer);
        }
        CHECK(cudaDeviceSynchronize());
    }
    for (const Case &one : cases) {
        std::vector<Flow> flows;
        int used[2] = {0, 0};
        for (int from : one.from) {
            Flow flow{from, nullptr, buffers[from][used[from]], buffers[1 - from][4 + used[from]]};
            used[from]++;
            CHECK(cudaSetDevice(from));
            CHECK(cudaStreamCreateWithFlags(&flow.stream, cudaStreamNonBlocking));
            flows.push_back(flow);
        }
        std::vector<size_t> sizes;
        for (size_t size = 16; size <= most; size *= size < (64 << 10) ? 16 : 2) sizes.push_back(size);
        // steps of pieces show in between powers of two
        for (size_t size = size_t(256) << 10; size <= (size_t(8) << 20); size += size_t(256) << 10) sizes.push_back(size);
        std::sort(sizes.begin(), sizes.end());
        sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
        for (size_t size : sizes) {
            const int copies = int(std::min<size_t>(64, std::max<size_t>(2, (size_t(256) << 20) / size)));
            std::vector<double> times;
            for (int sample = 0; sample < samples + 1; sample++) {
                cudaEvent_t begin, end;
                CHECK(cudaSetDevice(flows[0].from));
                CHECK(cudaEventCreate(&begin));
                CHECK(cudaEventCreate(&end));
                CHECK(cudaEventRecord(begin, flows[0].stream));
                for (size_t i = 1; i < flows.size(); i++) CHECK(cudaStreamWaitEvent(flows[i].stream, begin, 0));
                for (int copy = 0; copy < copies; copy++)
                    for (const Flow &flow : flows)
                        CHECK(cudaMemcpyPeerAsync(flow.destination, 1 - flow.from, flow.source, flow.from, size, flow.stream));
                for (size_t i = 1; i < flows.size(); i++) {
                    cudaEvent_t done;
                    CHECK(cudaSetDevice(flows[i].from));
                    CHECK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
                    CHECK(cudaEventRecord(done, flows[i].stream));
                    CHECK(cudaStreamWaitEvent(flows[0].stream, done, 0));
                }
                CHECK(cudaSetDevice(flows[0].from));
                CHECK(cudaEventRecord(end, flows[0].stream));
                CHECK(cudaEventSynchronize(end));
                float ms;
                CHECK(cudaEventElapsedTime(&ms, begin, end));
                // the first warms up
                if (sample) times.push_back(1e3 * ms / copies);
            }
            std::sort(times.begin(), times.end());
            const double median = times[times.size() / 2];
            printf("%s\t%zu\t%.3f\t%.3f\t%.3f\t%.3f\t%d\n", one.name, size, median, times.front(), times.back(),
                   flows.size() * size / median / 1e3, samples);
        }
        fflush(stdout);
    }
    // what each stage takes alone: pinned memory of the host
    char *pinned;
    CHECK(cudaHostAlloc(&pinned, most, cudaHostAllocDefault));
    for (int gpu = 0; gpu < 2; gpu++) {
        CHECK(cudaSetDevice(gpu));
        for (int up = 0; up < 2; up++) {
            cudaEvent_t begin, end;
            CHECK(cudaEventCreate(&begin));
            CHECK(cudaEventCreate(&end));
            float ms;
            for (int warm = 0; warm < 2; warm++) {
                CHECK(cudaEventRecord(begin));
                for (int i = 0; i < 4; i++)
                    CHECK(cudaMemcpyAsync(up ? pinned : buffers[gpu][0], up ? buffers[gpu][0] : pinned, most, cudaMemcpyDefault));
                CHECK(cudaEventRecord(end));
                CHECK(cudaEventSynchronize(end));
                CHECK(cudaEventElapsedTime(&ms, begin, end));
            }
            printf("%s GPU%d\t%zu\t%.3f\t\t\t%.3f\t1\n", up ? "to host from" : "from host to", gpu, most, 1e3 * ms / 4, 4 * most / ms / 1e6);
        }
    }
    return 0;
}
