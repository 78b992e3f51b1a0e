#!/usr/bin/env python3
"""Makes crates/model/testdata/parity/*.json: what PyTorch and timm compute for every preset, in float64.

    python3 -m venv venv && venv/bin/pip install torch timm numpy
    venv/bin/python scripts/make_parity.py

No weights are stored: both sides draw every value from the name of its tensor and its position (see `draw`). For each
gradient the file holds the norm and the inner products with two more vectors drawn in the same way. A permutation,
transposition or sign change would alter them.
"""

import json
import math
from pathlib import Path

import numpy as np
import timm
import torch
from timm.models.resnet import BasicBlock
from timm.models.vision_transformer import VisionTransformer

OUT = Path(__file__).resolve().parent.parent / "crates" / "model" / "testdata" / "parity"
CLASSES = 10
VITS = {
    "vit_pico_patch4_16": (16, 4, 48, 2, 3),
    "vit_nano_patch4_32": (32, 4, 96, 4, 3),
    "vit_lab_patch4_32": (32, 4, 192, 4, 3),
    "vit_nano_patch8_32": (32, 8, 96, 4, 3),
    "vit_lab_patch8_32": (32, 8, 192, 4, 3),
}


def draw(name, count):
    """`count` values in [-1, 1), multiples of 2^-23: splitmix64 seeded with the FNV-1a hash of `name`."""
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = (seed ^ byte) * 0x100000001B3 % 2**64
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return (z >> np.uint64(40)).astype(np.float64) / 2**23 - 1


def value(name, shape):
    """A parameter or running statistic. Every factor is a power of two, so that f32 represents it exactly."""
    u = torch.from_numpy(draw(name, math.prod(shape))).reshape(shape)
    if name.endswith("running_var"):
        return 1 + u / 2
    if len(shape) == 1 and name.endswith("weight"):
        return (1 if "norm" in name else 0.5) + u / 4
    if len(shape) == 1:
        return u / 8
    if name in ("cls_token", "pos_embed"):
        return u / 4
    fan_in = math.prod(shape[1:])
    return u * 2.0 ** math.floor(math.log2(math.sqrt(6 / fan_in)))


class ResnetNano(torch.nn.Module):
    """A 3 x 3 stem and one of timm's basic blocks for each of 16, 32 and 64 channels."""

    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(16)
        for stage, (inputs, outputs) in enumerate([(16, 16), (16, 32), (32, 64)]):
            shortcut = None
            if inputs != outputs:
                conv = torch.nn.Conv2d(inputs, outputs, 1, stride=2, bias=False)
                shortcut = torch.nn.Sequential(conv, torch.nn.BatchNorm2d(outputs))
            block = BasicBlock(inputs, outputs, stride=2 if shortcut else 1, downsample=shortcut)
            setattr(self, f"layer{stage + 1}", torch.nn.Sequential(block))
        self.fc = torch.nn.Linear(64, CLASSES)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        for layer in (self.layer1, self.layer2, self.layer3):
            x = layer(x)
        return self.fc(x.mean((2, 3)))


class Lenet(torch.nn.Module):
    """The small network of Deep Leakage from Gradients, for 32 x 32 pixels."""

    def __init__(self, width):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(3, width, 5, padding=2, stride=2)
        self.conv2 = torch.nn.Conv2d(width, width, 5, padding=2, stride=2)
        self.conv3 = torch.nn.Conv2d(width, width, 5, padding=2)
        self.fc = torch.nn.Linear(width * 64, CLASSES)

    def forward(self, x):
        for conv in (self.conv1, self.conv2, self.conv3):
            x = torch.sigmoid(conv(x))
        return self.fc(x.flatten(1))


def build(preset):
    if preset == "lenet_width12_32":
        return 32, Lenet(12)
    if preset in VITS:
        side, patch, dim, depth, heads = VITS[preset]
        return side, VisionTransformer(
            img_size=side, patch_size=patch, embed_dim=dim, depth=depth, num_heads=heads, num_classes=CLASSES
        )
    if preset == "resnet_nano":
        return 32, ResnetNano()
    return 224, timm.create_model(preset, num_classes=CLASSES)


def digest(name, tensor):
    """The norm, and two inner products."""
    flat = tensor.detach().double().reshape(-1)
    products = [float(flat @ torch.from_numpy(draw(f"{probe}:{name}", flat.numel()))) for probe in "ab"]
    return [round_to(number) for number in (float(flat.norm()), *products)]


def round_to(number):
    return float(f"{number:.9e}")


def reference(preset, labels):
    side, model = build(preset)
    model = model.double()
    model.load_state_dict(
        {
            name: tensor if name.endswith("num_batches_tracked") else value(name, tensor.shape)
            for name, tensor in model.state_dict().items()
        }
    )
    images = torch.from_numpy((draw("images", len(labels) * 3 * side * side) + 1) / 2)
    x = (images.reshape(len(labels), 3, side, side) - 0.5) / 0.5
    with torch.no_grad():
        evaluated = model.eval()(x)
    logits = model.train()(x)
    loss = torch.nn.functional.cross_entropy(logits, torch.tensor(labels))
    loss.backward()
    return {
        "model": preset,
        "labels": labels,
        "evaluation_logits": [round_to(float(logit)) for logit in evaluated.reshape(-1)],
        "loss": round_to(float(loss.detach())),
        "gradients": {name: digest(name, parameter.grad) for name, parameter in model.named_parameters()},
        "statistics": {name: digest(name, buffer) for name, buffer in model.named_buffers() if "running" in name},
    }


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    cases = {preset: [3, 7] for preset in VITS} | {
        "vit_tiny_patch16_224": [3],
        "vit_small_patch16_224": [3],
        "vit_small_patch32_224": [3],
        "resnet_nano": [3, 7, 0],
        "resnet18": [3, 7],
        "resnet34": [3, 7],
        "resnet50": [3, 7],
        "lenet_width12_32": [3, 7],
    }
    for preset, labels in cases.items():
        made = reference(preset, labels)
        path = OUT / f"{preset}.json"
        # One line for each tensor, so that a diff shows which one changed.
        lines = json.dumps(made).replace('"gradients": {', '"gradients": {\n').replace("], ", "],\n")
        path.write_text(lines + "\n")
        print(f"{path.name}: {path.stat().st_size} bytes, loss {made['loss']:.9f}")


if __name__ == "__main__":
    main()
