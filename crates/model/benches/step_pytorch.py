#!/usr/bin/env python3
"""Measures one training step of PyTorch (loss, gradient, all gradients as one vector) on the CPU, for `step.rs`.

    cargo xtask bench-peers                        both in turn
    ~/.cache/unmask/tools/pytorch/bin/python crates/model/benches/step_pytorch.py --threads 2 [MODEL...]

With `--serve`, answers each line "MODEL BATCH STEPS" on stdin with a line with the milliseconds of each step.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

import timm
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "scripts"))
from make_parity import build  # noqa: E402

CASES = [
    ("vit_nano_patch4_32", 1),
    ("vit_nano_patch4_32", 16),
    ("vit_lab_patch4_32", 1),
    ("vit_tiny_patch16_224", 1),
    ("vit_small_patch16_224", 1),
    ("resnet_nano", 16),
    ("resnet34", 1),
]
SECONDS = 4
# Uncounted steps: the first ones allocate.
WARM_UP = 2


def prepare(name, batch):
    """Returns a training step of the model as a function."""
    torch.manual_seed(1)
    side, model = build(name)
    parameters = list(model.train().parameters())
    pixels = torch.arange(batch * 3 * side * side) % 251 / 250
    images = pixels.reshape(batch, 3, side, side)
    labels = torch.arange(batch) % 10

    def step():
        loss = torch.nn.functional.cross_entropy(model((images - 0.5) / 0.5), labels)
        gradients = torch.autograd.grad(loss, parameters)
        return float(loss.detach()), torch.cat([gradient.reshape(-1) for gradient in gradients])

    return step


def milliseconds(step):
    start = time.perf_counter()
    step()
    return (time.perf_counter() - start) * 1e3


def serve():
    print(f"PyTorch {torch.__version__.split('+')[0]}, timm {timm.__version__}", flush=True)
    prepared = None
    for line in sys.stdin:
        name, batch, steps = line.split()
        if prepared is None or prepared[0] != (name, batch):
            prepared = ((name, batch), prepare(name, int(batch)))
        step = prepared[1]
        for _ in range(WARM_UP):
            step()
        print(*(f"{milliseconds(step):.4f}" for _ in range(int(steps))), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("models", nargs="*")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.serve:
        serve()
        return
    for name, batch in CASES:
        if arguments.models and not any(word in name for word in arguments.models):
            continue
        step = prepare(name, batch)
        for _ in range(WARM_UP):
            step()
        times = []
        begin, used = time.perf_counter(), time.process_time()
        while time.perf_counter() - begin < SECONDS:
            times.append(milliseconds(step))
        median, fastest = statistics.median(times), min(times)
        processor = (time.process_time() - used) * 1e3 / len(times)
        print(
            f"{name}, batch {batch}: median {median:.2f} ms, fastest {fastest:.2f} ms of {len(times)}; "
            f"processor time {processor:.2f} ms",
            flush=True,
        )


if __name__ == "__main__":
    main()
