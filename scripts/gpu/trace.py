#!/usr/bin/env python3
"""Records traces of a small training job: PyTorch, one process a GPU, NCCL. For `peerlane simulate -w FOLDER`.

usage: trace.py FOLDER [GPUS [MODE...]]
  FOLDER  for the traces: MODE/kineto.RANK.json.gz, MODE/execution.RANK.json.gz, and times.json
  GPUS    ranks, one a GPU (2)
  MODE    ddp, fsdp (both)

Of each mode: the median time of a step of the model alone, the same with communication, both without the profiler, then two
profiled steps. Needs PyTorch 2.6 or later with CUDA and NCCL.
"""
import contextlib
import gzip
import json
import os
import pathlib
import shutil
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile, record_function, schedule

LAYERS, WIDTH, HEADS, TOKENS, BATCH = 8, 2048, 16, 1024, 4
WARM_UP, TIMED, PROFILED = 5, 20, 2


def model():
    torch.manual_seed(1)
    layer = nn.TransformerEncoderLayer(
        WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True, device="cuda", dtype=torch.bfloat16
    )
    return nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)


def wrapped(mode):
    inner = model()
    if mode == "ddp":
        return DistributedDataParallel(inner, device_ids=[torch.cuda.current_device()])
    if mode == "fsdp":
        for layer in inner.layers:
            fully_shard(layer)
        return fully_shard(inner)
    return inner


def stepper(mode):
    net = wrapped(mode)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    data = torch.randn(BATCH, TOKENS, WIDTH, device="cuda", dtype=torch.bfloat16)

    def step():
        net(data).float().pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def timed(step):
    """Milliseconds of each step, after some that warm up."""
    for _ in range(WARM_UP):
        step()
    times = []
    for _ in range(TIMED):
        torch.cuda.synchronize()
        dist.barrier()
        torch.cuda.synchronize()
        began = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - began) * 1e3)
    return times


def packed(path):
    """Packs a file in place; its name gets .gz."""
    with open(path, "rb") as plain, gzip.GzipFile(f"{path}.gz", "wb", mtime=0) as out:
        shutil.copyfileobj(plain, out)
    path.unlink()


def recorded(step, folder, rank):
    plain = folder / f"kineto.{rank}.json"
    execution = folder / f"execution.{rank}.json"
    observer = ExecutionTraceObserver().register_callback(str(execution))
    when = schedule(wait=0, warmup=1, active=PROFILED)
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
        schedule=when,
        record_shapes=True,
        execution_trace_observer=observer,
        on_trace_ready=lambda done: done.export_chrome_trace(str(plain)),
    ) as profiler:
        for _ in range(1 + PROFILED):
            with record_function("## step ##"):
                step()
                torch.cuda.synchronize()
            profiler.step()
    with contextlib.suppress(Exception):  # a profiler that has unregistered it already
        observer.unregister_callback()
    for path in (plain, execution):
        if path.exists():
            packed(path)


def rank_main(rank, gpus, out, modes):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=gpus, device_id=torch.device("cuda", rank))
    alone = timed(stepper("alone"))
    found = {
        "torch": torch.__version__,
        "nccl": ".".join(map(str, torch.cuda.nccl.version())),
        "gpu": torch.cuda.get_device_name(),
        "gpus": gpus,
        "parameters": sum(p.numel() for p in model().parameters()),
        "alone_ms": alone,
    }
    for mode in modes:
        folder = out / mode
        folder.mkdir(parents=True, exist_ok=True)
        step = stepper(mode)
        found[f"{mode}_ms"] = timed(step)
        recorded(step, folder, rank)
        del step
        torch.cuda.empty_cache()
    if rank == 0:
        (out / "times.json").write_text(json.dumps(found, indent=1) + "\n")
        for name, times in found.items():
            if name.endswith("_ms"):
                middle, least, most = statistics.median(times), min(times), max(times)
                print(f"{name[:-3]}: a step takes {middle:.3f} ms (median; {least:.3f} to {most:.3f}, n = {len(times)})")
            else:
                print(f"{name}: {times}")
    dist.barrier()
    dist.destroy_process_group()


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    out = pathlib.Path(sys.argv[1])
    gpus = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    modes = sys.argv[3:] or ["ddp", "fsdp"]
    if any(mode not in ("ddp", "fsdp") for mode in modes):
        sys.exit(f"{' '.join(modes)}: a mode is ddp or fsdp")
    if torch.cuda.device_count() < gpus:
        sys.exit(f"{gpus} GPUs wanted, and PyTorch sees {torch.cuda.device_count()}")
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29541")
    mp.spawn(rank_main, args=(gpus, out, modes), nprocs=gpus)


if __name__ == "__main__":
    main()
