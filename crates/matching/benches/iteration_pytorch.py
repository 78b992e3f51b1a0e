#!/usr/bin/env python3
"""Measures one token matching iteration of PyTorch on the CPU, with exact second derivatives, for `iteration.rs`.

    cargo xtask bench-peers --only matching

For each line "MODEL BATCH STEPS" on stdin, prints a line with the milliseconds of each iteration.
"""

import argparse
import sys
import time
from pathlib import Path

import timm
import torch

# PyTorch's fused attention can be differentiated only once. Models read this setting when they are built.
timm.layers.set_fused_attn(False)

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "scripts"))
from make_parity import build  # noqa: E402

LABEL = 3
STEP, SMOOTHNESS = 0.1, 0.003
# Uncounted iterations: the first ones allocate.
WARM_UP = 2
# The parameters that token matching differentiates: up to block 0.
EARLY = ("cls_token", "pos_embed", "patch_embed.", "blocks.0.")


def distance(found, sent):
    """1 - cos, per row for matrices."""
    return 1 - torch.nn.functional.cosine_similarity(found, sent, dim=-1)


def objective(found, sent):
    """The terms of `Objective::tokens`; both sides are gradients by name."""
    others = [name for name in found if name != "pos_embed"]
    flat = lambda gradients: torch.cat([gradients[name].reshape(-1) for name in others])
    patch = "patch_embed.proj.weight"
    return (
        distance(found["pos_embed"][0], sent["pos_embed"][0]).mean()
        + (found[patch] - sent[patch]).square().sum() / sent[patch].square().sum()
        + distance(flat(found), flat(sent))
    )


def variation(x):
    return (x[..., 1:] - x[..., :-1]).abs().mean() + (x[..., 1:, :] - x[..., :-1, :]).abs().mean()


def prepare(name, batch):
    """Returns an iteration on the model as a function."""
    torch.manual_seed(1)
    side, model = build(name)
    early = {key: value for key, value in model.train().named_parameters() if key.startswith(EARLY)}
    # Compute no gradient that the objective ignores.
    model.requires_grad_(False)
    for parameter in early.values():
        parameter.requires_grad_(True)
    labels = torch.full((batch,), LABEL)

    def gradients(x, is_differentiated):
        loss = torch.nn.functional.cross_entropy(model(x), labels)
        return dict(zip(early, torch.autograd.grad(loss, early.values(), create_graph=is_differentiated)))

    picture = (torch.arange(batch * 3 * side * side) % 251 / 250).reshape(batch, 3, side, side)
    sent = gradients((picture - 0.5) / 0.5, False)
    x = torch.zeros_like(picture).requires_grad_(True)
    adam = torch.optim.Adam([x], lr=STEP)

    def iterate():
        distance = objective(gradients(x, True), sent) + SMOOTHNESS * variation(x)
        x.grad = torch.autograd.grad(distance, x)[0].sign()
        adam.step()
        with torch.no_grad():
            x.clamp_(-1, 1)
        return float(distance.detach())

    return iterate


def milliseconds(iterate):
    start = time.perf_counter()
    iterate()
    return (time.perf_counter() - start) * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(f"PyTorch {torch.__version__.split('+')[0]}, timm {timm.__version__}", flush=True)
    for line in sys.stdin:
        name, batch, steps = line.split()
        iterate = prepare(name, int(batch))
        for _ in range(WARM_UP):
            iterate()
        print(*(f"{milliseconds(iterate):.4f}" for _ in range(int(steps))), flush=True)


if __name__ == "__main__":
    main()
