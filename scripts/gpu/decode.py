#!/usr/bin/env python3
"""A token of a Llama-3-8B-like model on the GPUs of one machine with tensor parallelism, with its all-reduces and without; and
all-to-alls with a process for each GPU. Needs PyTorch with NCCL. Prints one JSON document.

    scripts/gpu/decode.py > decode.json
"""

import json
import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F

HIDDEN, LAYERS, HEADS, KV_HEADS, FFN, VOCAB, CONTEXT = 4096, 32, 32, 8, 14336, 128256, 2048


class Layer:
    """One layer's part on one GPU. Weights are random: only their size matters."""

    def __init__(self, world, batch):
        def w(rows, columns):
            return torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16) * 0.01

        self.heads, self.kv = HEADS // world, KV_HEADS // world
        self.head = HIDDEN // HEADS
        self.qkv = w((self.heads + 2 * self.kv) * self.head, HIDDEN)
        self.out = w(HIDDEN, self.heads * self.head)
        self.up = w(2 * FFN // world, HIDDEN)
        self.down = w(HIDDEN, FFN // world)
        shape = (batch, self.kv, CONTEXT, self.head)
        self.k = torch.randn(shape, device="cuda", dtype=torch.bfloat16)
        self.v = torch.randn(shape, device="cuda", dtype=torch.bfloat16)

    def step(self, x, reduce):
        batch = x.shape[0]
        h = F.rms_norm(x, (HIDDEN,))
        q = (h @ self.qkv.t())[:, : self.heads * self.head].view(batch, self.heads, 1, self.head)
        a = F.scaled_dot_product_attention(q, self.k, self.v, enable_gqa=True).reshape(batch, -1)
        x = x + reduce(a @ self.out.t())
        gate, up = (F.rms_norm(x, (HIDDEN,)) @ self.up.t()).chunk(2, dim=-1)
        return x + reduce((F.silu(gate) * up) @ self.down.t())


def replayed(fn, times=50):
    """Microseconds of one replay of a graph of `fn`: the median of five."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            fn()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        fn()
    return timed(graph.replay, times)


def timed(fn, times):
    found = []
    for _ in range(6):
        dist.barrier()
        torch.cuda.synchronize()
        begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
        begin.record()
        for _ in range(times):
            fn()
        end.record()
        torch.cuda.synchronize()
        found.append(begin.elapsed_time(end) * 1e3 / times)
    return sorted(found[1:])[2]


def rank_main(rank, world, results):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511"}
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=world)
    out = {"gpus": world, "gpu": torch.cuda.get_device_name(), "nccl": torch.cuda.nccl.version(), "decode": [], "all_to_all": []}

    def reduced(t):
        dist.all_reduce(t)
        return t

    with torch.no_grad():
        head = torch.randn(VOCAB // world, HIDDEN, device="cuda", dtype=torch.bfloat16)
        for batch in [1, 8, 64]:
            layers = [Layer(world, batch) for _ in range(LAYERS)]
            x = torch.randn(batch, HIDDEN, device="cuda", dtype=torch.bfloat16)

            def token(reduce):
                y = x
                for layer in layers:
                    y = layer.step(y, reduce)
                return y @ head.t()

            whole = replayed(lambda: token(reduced))
            alone = replayed(lambda: token(lambda t: t))
            message = torch.randn(batch, HIDDEN, device="cuda", dtype=torch.bfloat16)
            one = replayed(lambda: [reduced(message) for _ in range(64)]) / 64
            out["decode"].append({"batch": batch, "bytes": batch * HIDDEN * 2, "token_us": whole, "without_us": alone, "all_reduce_us": one})
            del layers
            torch.cuda.empty_cache()
        for log in range(8, 31, 2):
            t = torch.empty(2**log // 4, device="cuda")
            u = torch.empty_like(t)
            out["all_to_all"].append({"bytes": 2**log, "us": timed(lambda: dist.all_to_all_single(u, t), 20)})
    if rank == 0:
        results.put(out)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    world = torch.cuda.device_count()
    if world < 2:
        sys.exit("decode.py needs two GPUs or more")
    context = mp.get_context("spawn")
    results = context.SimpleQueue()
    mp.spawn(rank_main, (world, results), nprocs=world, join=False)
    json.dump(results.get(), sys.stdout, indent=1)
    print()
