#!/usr/bin/env python3
"""Measures the difficulty of the generated data set with a linear model and vit_nano_patch4_32, in PyTorch and timm.

    python3 -m venv venv && venv/bin/pip install torch timm
    cargo run --release -p unmask-data --features datasets --example generated_records -- /tmp/generated 1
    venv/bin/python scripts/generated_reference.py /tmp/generated

Prints the accuracy on the 2000 test pictures after every epoch over the 10000 training pictures. A second argument sets
the number of epochs.
"""

import sys
import time
from pathlib import Path

import torch
from timm.models.vision_transformer import VisionTransformer

EPOCHS = int(sys.argv[2]) if len(sys.argv) > 2 else 20
BATCH = 32
RATE = 1e-3


def load(path):
    """CIFAR-10's records: images [n, 3, 32, 32] in [-1, 1], labels [n]."""
    records = torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8).reshape(-1, 3073)
    images = records[:, 1:].reshape(-1, 3, 32, 32).float() / 255
    return (images - 0.5) / 0.5, records[:, 0].long()


def accuracy(model, images, labels):
    model.eval()
    with torch.no_grad():
        right = sum(
            (model(x).argmax(1) == y).sum().item() for x, y in zip(images.split(500), labels.split(500))
        )
    model.train()
    return right / len(labels)


def train(name, model, rate, train_set, test_set):
    images, labels = train_set
    optimiser = torch.optim.Adam(model.parameters(), lr=rate)
    started = time.time()
    for epoch in range(1, EPOCHS + 1):
        for batch in torch.randperm(len(labels)).split(BATCH):
            optimiser.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(images[batch]), labels[batch])
            loss.backward()
            optimiser.step()
        print(f"{name} epoch {epoch}: loss {loss.item():.3f}, test accuracy {accuracy(model, *test_set):.3f}, "
              f"{time.time() - started:.0f} s", flush=True)


def main():
    folder = Path(sys.argv[1])
    torch.manual_seed(1)
    torch.set_num_threads(1)
    sets = load(folder / "train.bin"), load(folder / "test.bin")
    linear = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 10))
    train("linear", linear, 1e-4, *sets)
    vit = VisionTransformer(img_size=32, patch_size=4, embed_dim=96, depth=4, num_heads=3, num_classes=10)
    train("vit_nano_patch4_32", vit, RATE, *sets)


if __name__ == "__main__":
    main()
