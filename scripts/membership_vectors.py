#!/usr/bin/env python3
"""Makes the vectors to test and measure membership by span: class tokens and gradients of batches, by timm in f32.

    venv/bin/python scripts/membership_vectors.py              # the committed ones, of the sample photographs
    venv/bin/python scripts/membership_vectors.py --measure    # data/vectors/membership: 1,000 strangers of CIFAR-10

A file holds `gradient_B` (dl/d(fc1.weight) of the last block `[4 D, D]`, mean over the batch) for batches of several
sizes B, each with the first `members`. It also holds the class tokens that enter that layer, `[n, D]`: of `members`, of
their `mirrored` and `recoloured` copies (red and blue swapped), and of `strangers`. `--measure` needs CIFAR-10 as
fetched by `unmask data cifar10`, and adds models trained on 200 batches of 64 by Adam.
"""

import argparse
import os
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from make_vectors import ATTACK, ROOT, SAMPLES, PICO, classroom, write

CIFAR = Path(os.environ.get("UNMASK_DATA_DIR", Path.home() / ".cache" / "unmask")) / "cifar10"
PRESETS = {"vit_nano_patch4_32": (32, 4, 96, 4, 3), "vit_lab_patch4_32": (32, 4, 192, 4, 3)}


def class_tokens(model, images):
    found = []
    hook = model.blocks[-1].norm2.register_forward_hook(lambda _module, _input, out: found.append(out[:, 0].detach()))
    with torch.no_grad():
        for some in images.split(100):
            model((some - 0.5) / 0.5)
    hook.remove()
    return torch.cat(found)


def gradient(model, images, labels):
    model.zero_grad()
    torch.nn.functional.cross_entropy(model((images - 0.5) / 0.5), labels).backward()
    return model.blocks[-1].mlp.fc1.weight.grad.detach().clone()


def case(path, model, members, labels, strangers, batches):
    copies = {"mirrored": members.flip(3), "recoloured": members.flip(1)}
    tensors = {name: class_tokens(model, of) for name, of in ({"members": members, "strangers": strangers} | copies).items()}
    tensors |= {f"gradient_{batch}": gradient(model, members[:batch], labels[:batch]) for batch in batches}
    write(path, tensors)


def cifar(file):
    raw = np.fromfile(CIFAR / file, np.uint8).reshape(-1, 3073)
    return torch.from_numpy(raw[:, 1:].reshape(-1, 3, 32, 32) / np.float32(255)), torch.from_numpy(raw[:, 0].astype(np.int64))


def trained(model, images, labels):
    optimiser, generator = torch.optim.Adam(model.parameters(), 1e-3), torch.Generator().manual_seed(0)
    for _ in range(200):
        batch = torch.randint(len(images), (64,), generator=generator)
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(model((images[batch] - 0.5) / 0.5), labels[batch]).backward()
        optimiser.step()
    return model


def standard(size, seed):
    """A room's initial weights without the April block, so with timm's norm and residual."""
    return classroom(size, seed, april_block=False)


def committed():
    def photo(name):
        shrunk = Image.open(SAMPLES / name).convert("RGB").resize((PICO[0], PICO[0]), Image.Resampling.LANCZOS)
        return torch.from_numpy(np.array(shrunk)).float().permute(2, 0, 1) / 255

    members = torch.stack([photo(name) for name in ["astronaut.png", "cat.png", "coffee.png", "rocket.png"]])
    strangers = torch.stack([photo(name) for name in ["hubble.jpg", "cameraman.jpg"]])
    labels = torch.tensor([3, 5, 3, 1])
    case(ATTACK / "members.safetensors", standard(PICO, 2), members, labels, strangers, [1, 2, 3, 4])


def measure():
    (images, labels), (others, classes) = cifar("test_batch.bin"), cifar("data_batch_1.bin")
    for name, size in PRESETS.items():
        for state in ["fresh", "trained"]:
            model = standard(size, 1)
            if state == "trained":
                trained(model, others, classes)
            path = ROOT / "data" / "vectors" / "membership" / f"{name}_{state}.safetensors"
            case(path, model, images[2000:2064], labels[2000:2064], images[:1000], [1, 2, 4, 8, 16, 32, 64])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--measure", action="store_true", help="1,000 strangers of CIFAR-10 instead")
    torch.set_num_threads(1)
    measure() if parser.parse_args().measure else committed()
