#!/usr/bin/env python3
"""Repeats a FedSGD run of `unmask train` with a plain PyTorch loop and compares the loss of every round.

    unmask train --config FILE.toml --set data=cifar10 --set augment=false --write-order --out RUN
    python3 -m venv venv && venv/bin/pip install torch timm safetensors numpy
    venv/bin/python scripts/train_reference.py RUN CIFAR_FOLDER

It reads run.json (model, optimiser), start.safetensors (the initial weights), order.csv (which client trained on which
pictures) and metrics.csv (the losses) from RUN, and the official binary files from CIFAR_FOLDER. Exit code 1 if a loss
differs by more than --tolerance, or the final weights by more than --weights, relative to their norm.
"""

import argparse
import csv
import json
import sys
from collections import defaultdict
from pathlib import Path

import numpy
import torch
from safetensors.torch import load_file
from timm.models.vision_transformer import VisionTransformer

SIZES = {
    "vit_pico_patch4_16": (16, 4, 48, 2, 3),
    "vit_nano_patch4_32": (32, 4, 96, 4, 3),
    "vit_lab_patch4_32": (32, 4, 192, 4, 3),
}


def vit(name):
    image, patch, dim, depth, heads = SIZES[name]
    return VisionTransformer(
        img_size=image, patch_size=patch, embed_dim=dim, depth=depth, num_heads=heads, num_classes=10, qkv_bias=True
    )


def cifar10(folder):
    """All training pictures [50000, 3, 32, 32] normalised to [-1, 1], and labels."""
    records = [numpy.fromfile(folder / f"data_batch_{batch}.bin", dtype=numpy.uint8) for batch in range(1, 6)]
    records = torch.from_numpy(numpy.concatenate(records).reshape(-1, 3073))
    images = records[:, 1:].reshape(-1, 3, 32, 32)
    return images, records[:, 0].long()


def optimiser(kind, parameters):
    name, rate = kind.split(":")
    return {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[name](parameters, lr=float(rate))


def rounds(path):
    """Per round, the pictures of each client."""
    order = defaultdict(lambda: defaultdict(list))
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            order[int(row["round"])][int(row["client"])].append(int(row["picture"]))
    return [list(order[number].values()) for number in sorted(order)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("cifar", type=Path)
    parser.add_argument("--tolerance", type=float, default=1e-3, help="largest difference of a round's loss")
    parser.add_argument("--weights", type=float, default=1e-3, help="largest relative difference of the weights")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    config = json.loads((arguments.run / "run.json").read_text())["config"]
    if config["rule"] != "fedsgd" or config["defence"] != "none" or config["augment"]:
        sys.exit("this script only repeats FedSGD without a defence and without augmentation")
    model = vit(config["model"])
    model.load_state_dict(load_file(arguments.run / "start.safetensors"))
    images, labels = cifar10(arguments.cifar)
    step = optimiser(config["optimiser"], model.parameters())
    losses = []
    for clients in rounds(arguments.run / "order.csv"):
        step.zero_grad()
        mean = 0.0
        for pictures in clients:
            batch = images[pictures].float() / 255
            loss = torch.nn.functional.cross_entropy(model((batch - 0.5) / 0.5), labels[pictures])
            (loss / len(clients)).backward()
            mean += loss.item() / len(clients)
        step.step()
        losses.append(mean)
    with open(arguments.run / "metrics.csv", newline="") as file:
        ours = [float(row["loss"]) for row in csv.DictReader(file) if row["loss"]]
    worst = max(range(len(losses)), key=lambda i: abs(losses[i] - ours[i]))
    difference = abs(losses[worst] - ours[worst])
    final = load_file(arguments.run / "model.safetensors")
    moved = torch.cat([(parameter.detach() - final[name]).flatten() for name, parameter in model.named_parameters()])
    weights = (moved.norm() / torch.cat([value.flatten() for value in final.values()]).norm()).item()
    print(f"{len(losses)} rounds, {config['optimiser']}: loss {losses[0]:.4f} to {losses[-1]:.4f}")
    print(f"largest difference of a loss {difference:.1e} (round {worst + 1}); final weights differ by {weights:.1e}")
    return 0 if difference <= arguments.tolerance and weights <= arguments.weights else 1


if __name__ == "__main__":
    sys.exit(main())
