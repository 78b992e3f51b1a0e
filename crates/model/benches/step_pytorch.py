#!/usr/bin/env python3
"""Time of one training step (loss, gradient, all gradients as one vector) of PyTorch on the CPU, for `step.rs`.

    python3 -m venv venv && venv/bin/pip install torch timm numpy
    venv/bin/python crates/model/benches/step_pytorch.py --threads 2 [MODEL...]
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("models", nargs="*")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    for name, batch in CASES:
        if arguments.models and not any(word in name for word in arguments.models):
            continue
        side, model = build(name)
        parameters = list(model.train().parameters())
        pixels = torch.arange(batch * 3 * side * side) % 251 / 250
        images = pixels.reshape(batch, 3, side, side)
        labels = torch.arange(batch) % 10

        def step():
            loss = torch.nn.functional.cross_entropy(model((images - 0.5) / 0.5), labels)
            gradients = torch.autograd.grad(loss, parameters)
            return float(loss.detach()), torch.cat([gradient.reshape(-1) for gradient in gradients])

        step()
        step()
        milliseconds = []
        begin, used = time.perf_counter(), time.process_time()
        while time.perf_counter() - begin < SECONDS:
            start = time.perf_counter()
            step()
            milliseconds.append((time.perf_counter() - start) * 1e3)
        median, fastest = statistics.median(milliseconds), min(milliseconds)
        processor = (time.process_time() - used) * 1e3 / len(milliseconds)
        print(
            f"{name}, batch {batch}: median {median:.2f} ms, fastest {fastest:.2f} ms of {len(milliseconds)}; "
            f"processor time {processor:.2f} ms",
            flush=True,
        )


if __name__ == "__main__":
    main()
