#!/usr/bin/env python3
"""A token of models of public sizes on the GPUs of one machine with tensor parallelism, with its all-reduces and without; and
all-to-alls with a process for each GPU. Needs PyTorch with NCCL. Prints one JSON document.

    scripts/gpu/decode.py [MODEL...] > decode.json

MODEL is llama-3-8b (where none is given), qwen-2.5-7b or qwen-2.5-32b.
"""

import json
import os
import sys
import typing

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F

CONTEXT = 2048


class Model(typing.NamedTuple):
    """Sizes of a model, by its configuration's names."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int


MODELS = {
    "llama-3-8b": Model(4096, 32, 32, 8, 14336, 128256),
    "qwen-2.5-7b": Model(3584, 28, 28, 4, 18944, 152064),
    "qwen-2.5-32b": Model(5120, 64, 40, 8, 27648, 152064),
}


class Layer:
    """One layer's part on one GPU. Weights are random: only their size matters."""

    def __init__(self, model, world, batch):
        def w(rows, columns):
            return torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16) * 0.01

        self.heads, self.kv = model.heads // world, model.kv_heads // world
        self.hidden, self.head = model.hidden, model.hidden // model.heads
        self.qkv = w((self.heads + 2 * self.kv) * self.head, self.hidden)
        self.out = w(self.hidden, self.heads * self.head)
        self.up = w(2 * model.ffn // world, self.hidden)
        self.down = w(self.hidden, model.ffn // world)
        shape = (batch, self.kv, CONTEXT, self.head)
        self.k = torch.randn(shape, device="cuda", dtype=torch.bfloat16)
        self.v = torch.randn(shape, device="cuda", dtype=torch.bfloat16)

    def step(self, x, reduce):
        batch = x.shape[0]
        h = F.rms_norm(x, (self.hidden,))
        q = (h @ self.qkv.t())[:, : self.heads * self.head].view(batch, self.heads, 1, self.head)
        a = F.scaled_dot_product_attention(q, self.k, self.v, enable_gqa=True).reshape(batch, -1)
        x = x + reduce(a @ self.out.t())
        gate, up = (F.rms_norm(x, (self.hidden,)) @ self.up.t()).chunk(2, dim=-1)
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


def reduced(t):
    dist.all_reduce(t)
    return t


def decoded(name, world):
    """Tokens of one model by batch: whole, without all-reduces, and one all-reduce."""
    model, found = MODELS[name], []
    head = torch.randn(model.vocab // world, model.hidden, device="cuda", dtype=torch.bfloat16)
    for batch in [1, 8, 64]:
        layers = [Layer(model, world, batch) for _ in range(model.layers)]
        x = torch.randn(batch, model.hidden, device="cuda", dtype=torch.bfloat16)

        def token(reduce):
            y = x
            for layer in layers:
                y = layer.step(y, reduce)
            return y @ head.t()

        whole = replayed(lambda: token(reduced))
        alone = replayed(lambda: token(lambda t: t))
        message = torch.randn(batch, model.hidden, device="cuda", dtype=torch.bfloat16)
        one = replayed(lambda: [reduced(message) for _ in range(64)]) / 64
        size = batch * model.hidden * 2
        found.append({"model": name, "batch": batch, "bytes": size, "token_us": whole, "without_us": alone, "all_reduce_us": one})
        del layers
        torch.cuda.empty_cache()
    return found


def rank_main(rank, world, models, results):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511"}
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=world)
    gpu, nccl = torch.cuda.get_device_name(), torch.cuda.nccl.version()
    out = {"gpus": world, "gpu": gpu, "nccl": nccl, "decode": [], "all_to_all": []}
    with torch.no_grad():
        for name in models:
            out["decode"] += decoded(name, world)
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
    models = sys.argv[1:] or ["llama-3-8b"]
    if any(name not in MODELS for name in models):
        sys.exit(__doc__)
    context = mp.get_context("spawn")
    results = context.SimpleQueue()
    mp.spawn(rank_main, (world, models, results), nprocs=world, join=False)
    json.dump(results.get(), sys.stdout, indent=1)
    print()
