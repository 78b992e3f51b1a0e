#!/usr/bin/env python3
"""Computes the gradients for the measurements of low-rank completion, with timm and torch, in float32 by default.

    python3 -m venv venv && venv/bin/pip install torch timm safetensors scikit-image
    venv/bin/python scripts/completion_gradients.py           # the committed one: vit_nano_patch8_32, a photograph
    venv/bin/python scripts/completion_gradients.py --all     # those of the measured tables, 150 MB in data/completion

A file holds one update of one model on one photograph, `MODEL-START-UPDATE-PHOTOGRAPH.safetensors`: the gradients of
both embeddings under timm's names, and `image` ([side, side, 3], u8).

START is `fresh`, timm's own initial weights, or `trained` on CIFAR-10. UPDATE is one of

    sgd         one gradient
    sgd64       the same, computed and written in float64
    avg         the weights before five steps of SGD on the photograph at a rate of 0.01, minus the weights after, as a
                client of federated averaging would have them
    avg64       the same in float64
    slow, fast  eight gradients in a row, each at the weights after the previous gradient's step of SGD, at rates of
                0.01 and 0.1; the tensors are called `NAME.0` to `NAME.7`
"""

import argparse
import copy
from pathlib import Path

import numpy as np
import skimage
import torch
from PIL import Image
from safetensors.torch import save_file

from make_reference import vit

ROOT = Path(__file__).resolve().parent.parent
COMMITTED = ROOT / "crates" / "attack" / "tests" / "data" / "completion"
DATA = ROOT / "data" / "completion"
CIFAR10 = Path.home() / ".cache" / "unmask" / "cifar10"
# Image side, patch, dimensions, depth, heads.
MODELS = {
    "vit_nano_patch4_32": (32, 4, 96, 4, 3),
    "vit_lab_patch4_32": (32, 4, 192, 4, 3),
    "vit_nano_patch8_32": (32, 8, 96, 4, 3),
    "vit_lab_patch8_32": (32, 8, 192, 4, 3),
    "vit_small_patch32_224": (224, 32, 384, 12, 6),
    "vit_base_patch32_224": (224, 32, 768, 12, 12),
}
# Steps, and pictures per step; the larger model takes seconds for each step.
TRAINING = {"vit_nano_patch8_32": (600, 64), "vit_lab_patch8_32": (600, 64), "vit_small_patch32_224": (100, 8)}
# Models whose gradients in float64 would take hundreds of megabytes.
LARGE = ["vit_base_patch32_224"]
READ = ["pos_embed", "patch_embed.proj.weight", "patch_embed.proj.bias"]
SAMPLES = ["astronaut.png", "cat.png", "coffee.png", "rocket.png", "cameraman.jpg", "hubble.jpg"]
SCIKIT_IMAGE = ["coins.png", "moon.png", "brick.png", "grass.png", "gravel.png", "retina.jpg", "ihc.png", "motorcycle_left.png"]
CIFAR10_TEST = 6
LABEL = 3
STEPS, RATE = 5, 0.01
ROUNDS, MOVING = 8, {"slow": 0.01, "fast": 0.1}


def cifar10(file):
    """Labels, and pictures `[N, 3, 32, 32]` as u8."""
    records = torch.from_numpy(np.fromfile(CIFAR10 / f"{file}.bin", dtype=np.uint8).reshape(-1, 3073).copy())
    return records[:, 0].long(), records[:, 1:].reshape(-1, 3, 32, 32)


def square(path, side):
    """The centre of a picture, `[side, side, 3]` as u8."""
    image = Image.open(path).convert("RGB")
    least = min(image.size)
    left, top = (image.width - least) // 2, (image.height - least) // 2
    image = image.crop((left, top, left + least, top + least)).resize((side, side), Image.Resampling.LANCZOS)
    return torch.from_numpy(np.array(image))


def photographs(side):
    """Twenty photographs if CIFAR-10 fits the model's side, otherwise fourteen."""
    library = Path(skimage.__file__).parent / "data"
    found = {Path(file).stem: square(ROOT / "www" / "samples" / file, side) for file in SAMPLES}
    found |= {Path(file).stem: square(library / file, side) for file in SCIKIT_IMAGE}
    if side == 32 and CIFAR10.exists():
        pictures = cifar10("test_batch")[1][:CIFAR10_TEST]
        found |= {f"cifar{i}": picture.permute(1, 2, 0) for i, picture in enumerate(pictures)}
    return found


def model_input(pictures):
    """Converts u8 to `[N, 3, side, side]` in [-1, 1]."""
    return (pictures.float() / 255 - 0.5) / 0.5


def loss_of(model, image):
    pictures = model_input(image.permute(2, 0, 1)[None]).to(model.pos_embed.dtype)
    return torch.nn.functional.cross_entropy(model(pictures), torch.tensor([LABEL]))


def gradient(model, image):
    model.zero_grad()
    loss_of(model, image).backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if name in READ}


def difference(model, image):
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimiser = torch.optim.SGD(model.parameters(), lr=RATE)
    for _ in range(STEPS):
        optimiser.zero_grad()
        loss_of(model, image).backward()
        optimiser.step()
    with torch.no_grad():
        found = {name: before[name] - p for name, p in model.named_parameters() if name in READ}
        for name, parameter in model.named_parameters():
            parameter.copy_(before[name])
    return found


def rounds(model, image, rate):
    """Gradients of ROUNDS rounds, with a step of the model between them."""
    moving = copy.deepcopy(model)
    optimiser = torch.optim.SGD(moving.parameters(), lr=rate)
    found = {}
    for number in range(ROUNDS):
        found |= {f"{name}.{number}": values for name, values in gradient(moving, image).items()}
        optimiser.step()
    return found


def initial(name):
    torch.manual_seed(0)
    return vit(MODELS[name], False).float()


def train(model, name):
    steps, batch = TRAINING[name]
    labels, pictures = cifar10("data_batch_1")
    generator = torch.Generator().manual_seed(0)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3 if batch > 8 else 1e-4)
    for _ in range(steps):
        chosen = torch.randint(len(labels), (batch,), generator=generator)
        seen = model_input(pictures[chosen])
        if MODELS[name][0] != 32:
            seen = torch.nn.functional.interpolate(seen, size=MODELS[name][0], mode="bilinear")
        loss = torch.nn.functional.cross_entropy(model(seen), labels[chosen])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    print(f"{name}: loss {loss.item():.3f} after {steps} steps of {batch}")


def write(folder, name, tensors):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.safetensors"
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size} bytes")


def small(name):
    return MODELS[name][0] == 32


def all_of(name, names, starts):
    model = initial(name)
    for start in starts:
        if start == "trained":
            train(model, name)
        for photograph, image in photographs(MODELS[name][0]).items():
            if names and photograph not in names:
                continue
            write(DATA, f"{name}-{start}-sgd-{photograph}", gradient(model, image) | {"image": image})
            if name not in LARGE:
                double = copy.deepcopy(model).double()
                write(DATA, f"{name}-{start}-sgd64-{photograph}", gradient(double, image) | {"image": image})
            if small(name) and start == "fresh" and photograph in SHOWN:
                for update, rate in MOVING.items():
                    write(DATA, f"{name}-{start}-{update}-{photograph}", rounds(model, image, rate) | {"image": image})
            if photograph in SHOWN:
                write(DATA, f"{name}-{start}-avg-{photograph}", difference(model, image) | {"image": image})
                if name not in LARGE:
                    write(DATA, f"{name}-{start}-avg64-{photograph}", difference(double, image) | {"image": image})


SHOWN = ["cat", "coffee", "rocket"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true", help="compute those of the measured tables instead")
    parser.add_argument("--model", choices=MODELS, action="append", help="only of this model (may be repeated)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.all:
        for name in arguments.model or MODELS:
            all_of(name, None if small(name) and MODELS[name][1] == 8 else SHOWN, ["fresh", "trained"] if name in TRAINING else ["fresh"])
    else:
        image = photographs(32)["cat"]
        tensors = gradient(initial("vit_nano_patch8_32"), image) | {"image": image}
        write(COMMITTED, "vit_nano_patch8_32-fresh-sgd-cat", tensors)
