#!/usr/bin/env python3
"""Measures what decides whether a search sees through unknown masks: weights, width, pixels or objective.

    python3 -m venv venv && venv/bin/pip install torch numpy pillow scikit-image
    venv/bin/python scripts/naive_search.py                # 3 minutes on one core
    venv/bin/python scripts/naive_search.py --steps 100    # a short run

Attacks the LeNet of Deep Leakage from Gradients with Inverting Gradients and PyTorch's exact second derivatives, on the
six sample photographs with label 3. Prints the mean SSIM and the number of pictures that reach 0.5. The attacker treats
dropped values as zeros, except in the last column, where it knows the mask. `moved` is the share of the gradient that
depends on the picture: ||g(x) - g(grey)|| / ||g(x)|| at the same label, mean over the photographs. At usual weights a
mask's zeros drown it.
"""

import argparse
import math
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from skimage.metrics import structural_similarity
from torch.func import grad, vmap
from torch.nn import functional

SAMPLES = Path(__file__).resolve().parent.parent / "www" / "samples"
PHOTOGRAPHS = ["astronaut.png", "cat.png", "coffee.png", "rocket.png", "cameraman.jpg", "hubble.jpg"]
CLASSES, LABEL = 10, 3
RATES = [0.0, 0.2, 0.5, 0.8]


def photographs(side):
    read = [Image.open(SAMPLES / name).convert("RGB").resize((side, side), Image.Resampling.LANCZOS) for name in PHOTOGRAPHS]
    return torch.stack([torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1) / 255 for image in read])


def drawn(width, side, is_wide, seed=1):
    """Weights in order: three convolutions and the head, each with its bias."""
    generator = torch.Generator().manual_seed(seed)
    features = width * math.ceil(math.ceil(side / 2) / 2) ** 2
    layers = [(width, 3, 5, 5), (width, width, 5, 5), (width, width, 5, 5), (CLASSES, features)]
    weights = []
    for shape in layers:
        bound = 0.5 if is_wide else 1 / math.sqrt(math.prod(shape[1:]))
        weights += [(2 * torch.rand(part, generator=generator) - 1) * bound for part in (shape, shape[:1])]
    return weights


def loss(weights, image):
    x = image[None] * 2 - 1
    for layer, stride in enumerate((2, 2, 1)):
        x = torch.sigmoid(functional.conv2d(x, weights[2 * layer], weights[2 * layer + 1], stride=stride, padding=2))
    return functional.cross_entropy(x.flatten(1) @ weights[6].T + weights[7], torch.tensor([LABEL]))


def gradients(weights, images):
    """Returns `[pictures, P]`."""
    parts = vmap(grad(loss), in_dims=(None, 0))(weights, images)
    return torch.cat([part.reshape(len(images), -1) for part in parts], 1)


def distance(found, sent, objective):
    if objective == "cosine":
        return 1 - functional.cosine_similarity(found, sent, dim=1)
    return ((found - sent) ** 2).sum(1) / (sent**2).sum(1)


def search(weights, images, rate, objective, steps, knows_mask, weight):
    generator = torch.Generator().manual_seed(7)
    whole = gradients(weights, images)
    mask = (torch.rand(whole.shape, generator=generator) >= rate).float()
    sent = whole * mask
    x = (0.5 + 0.25 * torch.randn(images.shape, generator=generator)).clamp(0, 1).requires_grad_(True)
    adam = torch.optim.Adam([x], lr=0.05)
    smoothness = weight
    for step in range(steps):
        adam.param_groups[0]["lr"] = 0.05 * 0.1 ** sum(8 * step >= eighths * steps for eighths in (3, 5, 7))
        found = gradients(weights, x)
        rough = (x[..., 1:] - x[..., :-1]).abs().mean((1, 2, 3)) + (x[..., 1:, :] - x[..., :-1, :]).abs().mean((1, 2, 3))
        goal = distance(found * mask if knows_mask else found, sent, objective)
        # If a start leaves little to explain, smoothness must not dominate the objective.
        smoothness = 0.002 * (goal.detach() / 0.1).clamp(max=1) if smoothness is None else smoothness
        goal = goal + smoothness * rough
        x.grad = torch.autograd.grad(goal.sum(), x)[0].sign()
        adam.step()
        with torch.no_grad():
            x.clamp_(0, 1)
    pairs = zip(x.detach().permute(0, 2, 3, 1).numpy(), images.permute(0, 2, 3, 1).numpy())
    return [structural_similarity(a, b, data_range=1, channel_axis=2) for a, b in pairs]


def moved(weights, images):
    own, grey = gradients(weights, images), gradients(weights, torch.full_like(images, 0.5))
    return float(((own - grey).norm(dim=1) / own.norm(dim=1)).mean())


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--steps", type=int, default=300)
    arguments.add_argument("--smoothness", type=float, help="weight of total variation; default: by the start")
    arguments = arguments.parse_args()
    steps, weight = arguments.steps, arguments.smoothness
    torch.set_num_threads(1)
    cell = lambda ssim: f"{np.mean(ssim):.2f} ({sum(value >= 0.5 for value in ssim)})"
    print("| weights | width | pixels | moved | objective | " + " | ".join(f"R = {rate:g}" for rate in RATES) + " | R = 0.8, mask known |")
    print("|---" * (6 + len(RATES)) + "|")
    for is_wide in (False, True):
        for side in (32, 16):
            images = photographs(side)
            for width in (12, 32):
                weights = drawn(width, side, is_wide)
                share = moved(weights, images)
                for objective in ("cosine", "distance"):
                    naive = [search(weights, images, rate, objective, steps, False, weight) for rate in RATES]
                    aware = search(weights, images, RATES[-1], objective, steps, True, weight)
                    row = [["usual", "wide"][is_wide], width, f"{side} x {side}", f"{share:.3f}", objective]
                    print("| " + " | ".join(map(str, row + [cell(ssim) for ssim in naive + [aware]])) + " |", flush=True)


if __name__ == "__main__":
    main()
