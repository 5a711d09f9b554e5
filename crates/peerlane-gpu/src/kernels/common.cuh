// What the kernels share. They include nothing of CUDA's, so that NVRTC alone compiles them.
#pragma once

typedef unsigned int u32;
typedef unsigned long long u64;

static __device__ u64 thread() { return (u64)blockIdx.x * blockDim.x + threadIdx.x; }
static __device__ u64 threads() { return (u64)gridDim.x * blockDim.x; }

// Nanoseconds of the GPU's own clock, which no change of frequency bends.
static __device__ u64 now_ns() {
    u64 t;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t)::"memory");
    return t;
}
