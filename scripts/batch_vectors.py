#!/usr/bin/env python3
"""Makes the vectors to test and measure the attack `batch`: gradients of batches of photographs, by PyTorch and timm.

    python3 -m venv venv && venv/bin/pip install torch timm safetensors scikit-image
    venv/bin/python scripts/batch_vectors.py            # the committed ones: two photographs on a small model
    venv/bin/python scripts/batch_vectors.py --measure  # data/batch: presets, fresh and trained on CIFAR-10

The committed file holds, for every tensor that the attack reads, its gradient in float32 and float64 (`NAME.f32`,
`NAME.f64`), and `pictures` `[2, 16, 16, 3]` as u8. The weights are not in it: `weight` below computes them from their
names, and the test does the same.

With --measure, `MODEL-START-B-NUMBER.gradients.safetensors` holds all gradients of a batch of B in float32, and
`MODEL-START-NUMBER.weights.safetensors` the weights, both with timm's names, as `unmask invert` reads them, beside the
pictures as PNG.
"""

import argparse
import copy
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file

from completion_gradients import MODELS, ROOT, SAMPLES, TRAINING, cifar10, model_input, square, train
from make_reference import vit

COMMITTED = ROOT / "crates" / "attack" / "tests" / "data" / "batch.safetensors"
DATA = ROOT / "data" / "batch"
SMALL = (16, 8, 20, 2, 2)
PICTURES, LABELS = ["astronaut.png", "cat.png"], [3, 8]
BATCHES = 20
MEASURED = {
    "vit_nano_patch8_32": ([2, 3, 4], BATCHES),
    "vit_lab_patch8_32": ([2, 3, 4, 6], BATCHES),
    "vit_small_patch32_224": ([2, 4], 3),
    "vit_base_patch32_224": ([4], 1),
}


def weight(name, shape):
    """Weights as fresh models have them, from a hash of the name (FNV-1a) and of each value's index (SplitMix64)."""
    state = 0xCBF29CE484222325
    for byte in name.encode():
        state = (state ^ byte) * 0x100000001B3 % 2**64
    count = int(np.prod(shape))
    with np.errstate(over="ignore"):
        x = np.uint64(state) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x ^= x >> np.uint64(31)
    uniform = (x >> np.uint64(40)).astype(np.float64) / 2**23 - 1
    if "norm" in name:
        values = (1 if name.endswith("weight") else 0) + 0.1 * uniform
    elif name.endswith("bias") or len(shape) == 3:
        values = 0.1 * uniform
    else:
        values = uniform * np.sqrt(3 / np.prod(shape[1:]))
    return torch.from_numpy(values.astype(np.float32).reshape(shape))


def gradients(model, pictures, labels):
    """The mean gradient of `pictures` `[B, side, side, 3]`, u8, in the precision of the model."""
    inputs = model_input(pictures.permute(0, 3, 1, 2)).to(model.pos_embed.dtype)
    model.zero_grad()
    torch.nn.functional.cross_entropy(model(inputs), torch.tensor(labels)).backward()
    return {name: p.grad.clone() for name, p in model.named_parameters()}


def read_by_attack(name, depth):
    block = "blocks.0."
    parts = ["attn.qkv.weight", "attn.qkv.bias", "attn.proj.weight", "mlp.fc1.weight", "mlp.fc1.bias", "mlp.fc2.weight"]
    names = ["pos_embed", "patch_embed.proj.weight", f"blocks.{depth - 1}.mlp.fc1.weight"]
    return name in names + [block + part for part in parts]


def committed():
    model = vit(SMALL, False)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weight(name, tuple(parameter.shape)).double())
    pictures = torch.stack([square(ROOT / "www" / "samples" / file, SMALL[0]) for file in PICTURES])
    tensors = {"pictures": pictures}
    for precision, of in {"f64": model, "f32": copy.deepcopy(model).float()}.items():
        found = gradients(of, pictures, LABELS)
        tensors |= {f"{name}.{precision}": g for name, g in found.items() if read_by_attack(name, SMALL[3])}
    save(COMMITTED, tensors)


def save(path, tensors):
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, path)
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size} bytes")


def photographs(side):
    """The samples, and at 32 pixels twelve pictures of CIFAR-10's test set."""
    found = [square(ROOT / "www" / "samples" / file, side) for file in sorted(SAMPLES)]
    if side == 32:
        found += [picture.permute(1, 2, 0) for picture in cifar10("test_batch")[1][:12]]
    return found


def measure(name, start):
    sizes, batches = MEASURED[name]
    known = photographs(MODELS[name][0])
    for index, picture in enumerate(known):
        DATA.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture.numpy()).save(DATA / f"{MODELS[name][0]}-{index}.png")
    trained = None
    if start == "trained":
        torch.manual_seed(0)
        trained = vit(MODELS[name], False).float()
        train(trained, name)
        save(DATA / f"{name}-{start}.weights.safetensors", dict(trained.named_parameters()))
    for number in range(batches):
        model = trained
        if model is None:
            torch.manual_seed(number)
            model = vit(MODELS[name], False).float()
            save(DATA / f"{name}-{start}-{number}.weights.safetensors", dict(model.named_parameters()))
        for size in sizes:
            chosen = [(number * 5 + k * 7) % len(known) for k in range(size)]
            labels = [(3 * number + 7 * k) % 10 for k in range(size)]
            found = gradients(model, torch.stack([known[index] for index in chosen]), labels)
            names = "_".join(str(index) for index in chosen)
            save(DATA / f"{name}-{start}-{number}-{names}.gradients.safetensors", found)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--measure", action="store_true", help="make those of the measured tables instead")
    parser.add_argument("--model", choices=MEASURED, action="append", help="only of this model (may be repeated)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.measure:
        for name in arguments.model or MEASURED:
            for start in ["fresh", "trained"] if name in TRAINING and "small" not in name else ["fresh"]:
                measure(name, start)
    else:
        committed()
