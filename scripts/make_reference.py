#!/usr/bin/env python3
"""Makes crates/model/testdata/pico_{standard,april}.safetensors with timm and torch in float64.

    python3 -m venv venv && venv/bin/pip install torch timm safetensors
    venv/bin/python scripts/make_reference.py

Each file holds `weights.*` and `gradients.*` under timm's names, `input` ([batch, 3, 16, 16] in [0, 1]), `labels`,
`logits` and `loss`. Weights are rounded to f32 before the float64 run, so that both sides use the same ones; results
are rounded to f32 afterwards.
"""

from pathlib import Path

import torch
from safetensors.torch import save_file
from timm.models.vision_transformer import VisionTransformer

OUT = Path(__file__).resolve().parent.parent / "crates" / "model" / "testdata"
LABELS = [3, 7]


PICO = (16, 4, 48, 2, 3)


def vit(size, april_block):
    """A model of (image, patch, dim, depth, heads); with `april_block`, block 0 has no LayerNorm before attention and no
    residuals."""
    side, patch, dim, depth, heads = size
    model = VisionTransformer(
        img_size=side, patch_size=patch, embed_dim=dim, depth=depth, num_heads=heads, num_classes=10
    ).double()
    if april_block:
        block = model.blocks[0]
        block.norm1 = torch.nn.Identity()

        def forward(x, **_):
            return block.mlp(block.norm2(block.attn(x)))

        block.forward = forward
    return model


def randomise(model, generator):
    """Draws every parameter at random: timm's zero biases and unit norms would hide mistakes, and its small q and k
    weights leave attention nearly uniform."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            if "norm" in name and name.endswith("weight"):
                value = 1 + 0.2 * noise
            elif name.endswith("attn.qkv.weight"):
                value = 0.2 * noise
            elif parameter.dim() > 1:
                value = 0.08 * noise
            else:
                value = 0.1 * noise
            parameter.copy_(value.float().double())


def images(count):
    """Smooth, asymmetric colour patterns."""
    y, x = torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="ij")
    planes = [
        [0.5 + 0.5 * torch.sin(0.31 * (i + 1) * x + 0.23 * (c + 1) * y + 1.7 * c + i) for c in range(3)]
        for i in range(count)
    ]
    return torch.stack([torch.stack(image) for image in planes])


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    for april_block in [False, True]:
        model = vit(PICO, april_block)
        randomise(model, torch.Generator().manual_seed(20 + april_block))
        image = images(len(LABELS))
        logits = model((image.double() - 0.5) / 0.5)
        loss = torch.nn.functional.cross_entropy(logits, torch.tensor(LABELS))
        loss.backward()
        tensors = {
            "input": image,
            "labels": torch.tensor(LABELS, dtype=torch.float32),
            "logits": logits.detach().float(),
            "loss": loss.detach().reshape(1).float(),
        }
        for name, parameter in model.named_parameters():
            tensors[f"weights.{name}"] = parameter.detach().float()
            tensors[f"gradients.{name}"] = parameter.grad.float()
        path = OUT / f"pico_{'april' if april_block else 'standard'}.safetensors"
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)
        print(f"{path.name}: {len(tensors)} tensors, {path.stat().st_size} bytes, loss {loss.item():.9f}")


if __name__ == "__main__":
    main()
