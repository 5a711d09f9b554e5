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

// A word that kernels of two GPUs share. `ordered`: after all that was written before it, and before all that is read after it.
static __device__ void send(u32 *flag, u32 value, u32 ordered) {
    if (ordered) asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
    else asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}

static __device__ u32 receive(const u32 *flag, u32 ordered) {
    u32 value;
    if (ordered) asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
    else asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
    return value;
}
