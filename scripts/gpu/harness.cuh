// What the programs of this folder share: checked calls, kernels loaded from the PTX that ships, statistics.
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

typedef unsigned int u32;
typedef unsigned long long u64;

inline void must(bool good, const char *what, const char *why, int line) {
    if (good) return;
    fprintf(stderr, "line %d: %s: %s\n", line, what, why);
    exit(2);
}
#define CALL(x)                                                                          \
    do {                                                                                 \
        cudaError_t e_ = (x);                                                            \
        must(e_ == cudaSuccess, #x, cudaGetErrorString(e_), __LINE__);                   \
    } while (0)
#define DRIVER(x)                                                                        \
    do {                                                                                 \
        CUresult e_ = (x);                                                               \
        must(e_ == CUDA_SUCCESS, #x, std::to_string((int)e_).c_str(), __LINE__);         \
    } while (0)

// A function of `folder`/`file`.ptx, loaded into the current device's primary context.
inline CUfunction load_ptx(const std::string &folder, const char *file, const char *name) {
    std::ifstream in(folder + "/" + file + ".ptx");
    must((bool)in, file, "no such PTX", __LINE__);
    std::stringstream text;
    text << in.rdbuf();
    CUmodule module;
    CUfunction function;
    CALL(cudaFree(nullptr));
    DRIVER(cuModuleLoadData(&module, text.str().c_str()));
    DRIVER(cuModuleGetFunction(&function, module, name));
    return function;
}

template <class... Args>
void launch(CUfunction f, u32 blocks, u32 threads, u32 shared, cudaStream_t stream, Args... args) {
    void *list[] = {&args...};
    DRIVER(cuLaunchKernel(f, blocks, 1, 1, threads, 1, 1, shared, (CUstream)stream, list, nullptr));
}

struct Median {
    double value, low, high; // the median and its 95 % interval by order statistics (the range below 6 samples)
};

inline Median median(std::vector<double> x) {
    std::sort(x.begin(), x.end());
    int n = (int)x.size();
    double value = n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
    int k = std::max(0, (int)std::floor((n - 1.96 * std::sqrt((double)n)) / 2));
    return {value, x[std::min(k, n - 1)], x[std::max(0, n - 1 - k)]};
}
