#!/usr/bin/env python3
"""Does the work of `unmask train` in a plain PyTorch loop, and times it: FedSGD under random binary masks.

    cargo xtask bench-peers --only train

In each round every client computes the loss and gradient of its batch and drops a share of the values under a new mask.
The server then takes a step of Adam along the sum of the received values over the number of senders, value by value.
Prints the versions and the seconds of the rounds. As in `run.json`, they include neither the start of Python nor the
reading of pictures. Without --cifar10 the pictures are noise, with the number and size of the generated ones, because
the time does not depend on their content. `train_reference.py` compares losses, and has no masks.
"""

import argparse
import time
import tomllib
from pathlib import Path

import numpy
import timm
import torch
from train_reference import cifar10, vit

GENERATED = 10000


def batches(shard, size, generator):
    """Endless batches of the client's pictures, reshuffled after each pass."""
    left = torch.empty(0, dtype=torch.long)
    while True:
        while len(left) < size:
            left = torch.cat([left, shard[torch.randperm(len(shard), generator=generator)]])
        yield left[:size]
        left = left[size:]


def pictures(folder):
    """Pictures [n, 3, 32, 32] in 0..255, and labels [n]."""
    if folder:
        return cifar10(folder)
    generator = torch.Generator().manual_seed(1)
    noise = torch.randint(0, 256, (GENERATED, 3, 32, 32), dtype=torch.uint8, generator=generator)
    return noise, torch.randint(0, 10, (GENERATED,), generator=generator)


def settings(path):
    """Model, clients, batch, R and rate of a config such as configs/masked.toml."""
    config = tomllib.loads(path.read_text())
    (defence, share), (optimiser, rate) = config["defence"].split(":"), config["optimiser"].split(":")
    if (config["rule"], defence, optimiser) != ("fedsgd", "random-binary", "adam"):
        raise SystemExit(f"{path}: this script only repeats FedSGD with Adam under random binary masks")
    return config["model"], config["clients"], config["batch"], float(share), float(rate)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cifar10", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    name, clients, size, share, rate = settings(arguments.config)
    images, labels = pictures(arguments.cifar10)
    model = vit(name).train()
    parameters = list(model.parameters())
    adam = torch.optim.Adam(parameters, lr=rate)
    lengths = [parameter.numel() for parameter in parameters]
    generator = torch.Generator().manual_seed(1)
    shards = torch.randperm(len(labels), generator=generator).chunk(clients)
    orders = [batches(shard, size, generator) for shard in shards]
    losses = []
    start = time.perf_counter()
    for _ in range(arguments.rounds):
        total, senders, loss_of_all = torch.zeros(sum(lengths)), torch.zeros(sum(lengths)), 0.0
        for order in orders:
            batch = next(order)
            x = images[batch].float() / 255
            loss = torch.nn.functional.cross_entropy(model((x - 0.5) / 0.5), labels[batch])
            gradients = torch.autograd.grad(loss, parameters)
            update = torch.cat([gradient.reshape(-1) for gradient in gradients])
            mask = (torch.rand(len(update), generator=generator) >= share).float()
            total += mask * update
            senders += mask
            loss_of_all += loss.item() / clients
        # A value that no client sent does not change: its sum is 0.
        mean = total / senders.clamp(min=1)
        for parameter, part in zip(parameters, mean.split(lengths)):
            parameter.grad = part.view_as(parameter)
        adam.step()
        losses.append(loss_of_all)
    seconds = time.perf_counter() - start
    if not numpy.isfinite(losses).all():
        raise SystemExit("a loss is not finite")
    print(f"PyTorch {torch.__version__.split('+')[0]}, timm {timm.__version__}")
    print(f"{seconds:.4f}")


if __name__ == "__main__":
    main()
