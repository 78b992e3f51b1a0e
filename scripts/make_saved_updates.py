#!/usr/bin/env python3
"""Writes crates/tensors/testdata/saved/*: the tiny ViT of testdata/files as people really save updates.

    python3 -m venv venv && venv/bin/pip install torch numpy safetensors
    venv/bin/python scripts/make_saved_updates.py

Lists without names, checkpoints with other objects beside the tensors, gradients and weights in one file, a name whose
length once confused a zip reader, and JAX's bfloat16 in NumPy's form. `both.pt` holds the values as weights, and twice
the values as gradients.
"""

import argparse
from pathlib import Path

import numpy as np
import safetensors.torch
import torch

DATA = Path(__file__).resolve().parent.parent / "crates" / "tensors" / "testdata"
OUT = DATA / "saved"
# timm's order of the parameters; safetensors sorts them by name.
FRONT = ["cls_token", "pos_embed", "patch_embed.proj.weight", "patch_embed.proj.bias"]
BLOCK = ["norm1", "attn.qkv", "attn.proj", "norm2", "mlp.fc1", "mlp.fc2"]


def in_order(state):
    layers = [f"blocks.{i}.{layer}" for i in range(2) for layer in BLOCK] + ["norm", "head"]
    names = FRONT + [f"{layer}.{which}" for layer in layers for which in ("weight", "bias")]
    assert sorted(names) == sorted(state), set(names) ^ set(state)
    return {name: state[name] for name in names}


def main():
    OUT.mkdir(exist_ok=True)
    state = in_order(safetensors.torch.load_file(DATA / "files" / "timm.safetensors"))
    values = list(state.values())
    optimizer = torch.optim.Adam([torch.nn.Parameter(values[0].clone())])
    optimizer.param_groups[0]["params"][0].grad = values[0].clone()
    optimizer.step()
    torch.save(tuple(values), OUT / "autograd_grad.pt")
    torch.save({"gradients": [values], "labels": torch.tensor([1])}, OUT / "shared_data.pt")
    torch.save({"gradients": {name: 2 * value for name, value in state.items()}, "weights": state}, OUT / "both.pt")
    beside = {
        "args": argparse.Namespace(lr=0.1, classes={"a", "b"}),
        "path": Path("runs/1"),
        "shape": torch.Size([3, 8, 8]),
        "dtype": torch.float32,
        "optimizer": optimizer.state_dict(),
        "state_dict": state,
    }
    torch.save(beside, OUT / "checkpoint.pt")
    torch.save(state, OUT / "gradients_of_client_1.pt")
    halves = {name: value.to(torch.bfloat16).view(torch.int16).numpy().view("V2") for name, value in state.items()}
    np.savez(OUT / "jax_bf16.npz", **halves)


main()
