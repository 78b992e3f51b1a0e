"""Shared by the tests: committed vectors, read with only NumPy."""

import json
import sys
from pathlib import Path

import numpy as np

CRATES = Path(__file__).resolve().parents[2]


def safetensors(path):
    """The arrays of a safetensors file, parsed from the format's description."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    kinds = {"F32": "<f4", "F64": "<f8", "U8": "u1"}
    arrays = {}
    for name, entry in header.items():
        if name != "__metadata__":
            start, end = (8 + length + offset for offset in entry["data_offsets"])
            arrays[name] = np.frombuffer(data[start:end], kinds[entry["dtype"]]).reshape(entry["shape"])
    return arrays


def vit_shapes(image, patch, dim, depth, classes):
    """Names and shapes of a ViT's parameters, in the order of timm."""
    shapes = {
        "cls_token": (1, 1, dim),
        "pos_embed": (1, (image // patch) ** 2 + 1, dim),
        "patch_embed.proj.weight": (dim, 3, patch, patch),
        "patch_embed.proj.bias": (dim,),
    }
    for block in range(depth):
        for name, shape in {
            "norm1.weight": (dim,),
            "norm1.bias": (dim,),
            "attn.qkv.weight": (3 * dim, dim),
            "attn.qkv.bias": (3 * dim,),
            "attn.proj.weight": (dim, dim),
            "attn.proj.bias": (dim,),
            "norm2.weight": (dim,),
            "norm2.bias": (dim,),
            "mlp.fc1.weight": (4 * dim, dim),
            "mlp.fc1.bias": (4 * dim,),
            "mlp.fc2.weight": (dim, 4 * dim),
            "mlp.fc2.bias": (dim,),
        }.items():
            shapes[f"blocks.{block}.{name}"] = shape
    return shapes | {
        "norm.weight": (dim,),
        "norm.bias": (dim,),
        "head.weight": (classes, dim),
        "head.bias": (classes,),
    }


def cat():
    """PyTorch's gradients of vit_nano_patch8_32's embeddings, and the picture behind them."""
    arrays = safetensors(CRATES / "attack/tests/data/completion/vit_nano_patch8_32-fresh-sgd-cat.safetensors")
    image = arrays.pop("image")
    return arrays, image


def psnr(found, truth):
    return -10 * np.log10(np.mean((np.asarray(found, np.float64) - truth) ** 2))


def skipped(test, reason):
    """Reports a skipped test to `cargo check-all` and to unittest."""
    print(f"skipped: {test.id()}: {reason}", flush=True)
    sys.stdout.flush()
    test.skipTest(reason)
