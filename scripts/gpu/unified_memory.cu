// What unified memory moves over the link to host memory: by prefetch, by page faults, by direct access, and with data that does not
// fit into GPU memory. validation/model.md (unified memory) has the numbers of an H100 and an H200.
//   nvcc -O2 -Xcompiler -fopenmp -o unified_memory scripts/gpu/unified_memory.cu && ./unified_memory
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        cudaError_t status = (call);                                                                                   \
        if (status != cudaSuccess) {                                                                                   \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status));                           \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

typedef unsigned long long word;

__global__ void read_all(const uint4 *data, size_t count, word *sum) {
    word mine = 0;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x) {
        uint4 v = data[i];
        mine += v.x + v.y + v.z + v.w;
    }
    atomicAdd(sum, mine);
}

__global__ void update_all(uint4 *data, size_t count) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x)
        data[i].x += 1;
}

// each warp reads pages of 4 KiB in an order that jumps about
__global__ void read_scattered(const uint4 *data, size_t pages, word *sum) {
    word mine = 0;
    size_t warps = (size_t)gridDim.x * blockDim.x / 32, warp = (blockIdx.x * (size_t)blockDim.x + threadIdx.x) / 32;
    for (size_t p = warp; p < pages; p += warps) {
        const uint4 *page = data + (p * 1000003 % pages) * 256;
        for (int i = threadIdx.x % 32; i < 256; i += 32) mine += page[i].x;
    }
    atomicAdd(sum, mine);
}

static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <typename F> static double timed(F what) {
    double start = now();
    what();
    CHECK(cudaDeviceSynchronize());
    return now() - start;
}

static void touch(char *data, size_t size) {
#pragma omp parallel for
    for (size_t i = 0; i < size / 4096; i++) data[i * 4096] = (char)i;
}

static void row(const char *what, double bytes, double seconds) {
    printf("%-58s %8.2f GB %8.3f s %8.2f GB/s\n", what, bytes / 1e9, seconds, bytes / seconds / 1e9);
    fflush(stdout);
}

static void prefetch(void *data, size_t size, bool gpu) {
#if CUDART_VERSION >= 13000
    cudaMemLocation to = {gpu ? cudaMemLocationTypeDevice : cudaMemLocationTypeHost, 0};
    CHECK(cudaMemPrefetchAsync(data, size, to, 0, 0));
#else
    CHECK(cudaMemPrefetchAsync(data, size, gpu ? 0 : cudaCpuDeviceId, 0));
#endif
}

static void in_host_memory(void *data, size_t size) {
#if CUDART_VERSION >= 13000
    CHECK(cudaMemAdvise(data, size, cudaMemAdviseSetPreferredLocation, {cudaMemLocationTypeHost, 0}));
    CHECK(cudaMemAdvise(data, size, cudaMemAdviseSetAccessedBy, {cudaMemLocationTypeDevice, 0}));
#else
    CHECK(cudaMemAdvise(data, size, cudaMemAdviseSetPreferredLocation, cudaCpuDeviceId));
    CHECK(cudaMemAdvise(data, size, cudaMemAdviseSetAccessedBy, 0));
#endif
}

int main() {
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    int blocks = properties.multiProcessorCount * 8, threads = 256;
    printf("%s\n", properties.name);
    word *sum;
    CHECK(cudaMalloc(&sum, sizeof *sum));
    size_t size = 4ull << 30, count = size / sizeof(uint4);
    {
        char *host, *gpu;
        CHECK(cudaMallocHost(&host, size));
        CHECK(cudaMalloc(&gpu, size));
        for (int i = 0; i < 2; i++) {
            row("cudaMemcpy, pinned, to the GPU", size, timed([&] { CHECK(cudaMemcpyAsync(gpu, host, size, cudaMemcpyDefault)); }));
            row("cudaMemcpy, pinned, to the host", size, timed([&] { CHECK(cudaMemcpyAsync(host, gpu, size, cudaMemcpyDefault)); }));
        }
        CHECK(cudaFreeHost(host));
        CHECK(cudaFree(gpu));
    }
    char *data;
    CHECK(cudaMallocManaged(&data, size));
    uint4 *words = (uint4 *)data;
    for (int i = 0; i < 3; i++) {
        touch(data, size);
        row("prefetch to the GPU", size, timed([&] { prefetch(data, size, true); }));
        row("prefetch to the host", size, timed([&] { prefetch(data, size, false); }));
        row("faults, reads in order", size, timed([&] { read_all<<<blocks, threads>>>(words, count, sum); }));
        row("again, now in GPU memory", size, timed([&] { read_all<<<blocks, threads>>>(words, count, sum); }));
        prefetch(data, size, false);
        CHECK(cudaDeviceSynchronize());
        row("faults, updates in order", size, timed([&] { update_all<<<blocks, threads>>>(words, count); }));
        prefetch(data, size, false);
        CHECK(cudaDeviceSynchronize());
        row("faults, reads of scattered pages", size, timed([&] { read_scattered<<<blocks, threads>>>(words, size / 4096, sum); }));
        row("faults of the CPU, 1 byte a page, all threads", size, timed([&] { touch(data, size); }));
    }
    prefetch(data, size, false);
    in_host_memory(data, size);
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < 2; i++)
        row("direct reads of host memory, in order", size, timed([&] { read_all<<<blocks, threads>>>(words, count, sum); }));
    CHECK(cudaFree(data));

    // little memory is left free, so that data does not fit
    size_t left = 8ull << 30, free_bytes, total;
    CHECK(cudaMemGetInfo(&free_bytes, &total));
    char *ballast;
    CHECK(cudaMalloc(&ballast, free_bytes - left));
    CHECK(cudaMemGetInfo(&free_bytes, &total));
    printf("free GPU memory: %.2f GB\n", free_bytes / 1e9);
    for (double factor : {0.9, 1.1, 1.25, 1.5, 2.0}) {
        size_t big = (size_t)(free_bytes * factor) / (64 << 20) * (64 << 20);
        CHECK(cudaMallocManaged(&data, big));
        touch(data, big);
        words = (uint4 *)data;
        for (int pass = 0; pass < 3; pass++) {
            char what[80];
            snprintf(what, sizeof what, "%.2f of memory, reads in order, pass %d", factor, pass);
            row(what, big, timed([&] { read_all<<<blocks, threads>>>(words, big / sizeof(uint4), sum); }));
        }
        for (int pass = 0; pass < 2; pass++) {
            char what[80];
            snprintf(what, sizeof what, "%.2f of memory, updates in order, pass %d", factor, pass);
            row(what, big, timed([&] { update_all<<<blocks, threads>>>(words, big / sizeof(uint4)); }));
        }
        char what[80];
        snprintf(what, sizeof what, "%.2f of memory, updates, prefetched by 64 MiB", factor);
        row(what, big, timed([&] {
                for (size_t at = 0; at < big; at += 64 << 20) {
                    prefetch(data + at, 64 << 20, true);
                    update_all<<<blocks, threads>>>((uint4 *)(data + at), (64 << 20) / sizeof(uint4));
                }
            }));
        if (factor > 1) {
            // what fits is in GPU memory, and the rest is read where it is
            size_t rest = big - (size_t)(free_bytes * 0.95) / (64 << 20) * (64 << 20);
            in_host_memory(data + big - rest, rest);
            prefetch(data + big - rest, rest, false);
            prefetch(data, big - rest, true);
            CHECK(cudaDeviceSynchronize());
            snprintf(what, sizeof what, "%.2f of memory, %.2f GB stay in host memory", factor, rest / 1e9);
            row(what, big, timed([&] { read_all<<<blocks, threads>>>(words, big / sizeof(uint4), sum); }));
        }
        CHECK(cudaFree(data));
    }
}
