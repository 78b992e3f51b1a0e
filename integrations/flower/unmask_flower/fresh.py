"""Initial weights of a Vision Transformer under timm's names, without PyTorch."""

import numpy as np


def fresh_vit(
    seed: int, *, side: int = 32, patch: int = 4, dim: int = 96, depth: int = 4, classes: int = 10
) -> dict[str, np.ndarray]:
    """Arrays of a ViT, initialised like timm's and in timm's order; by default vit_nano_patch4_32.

    The shapes do not give the number of heads: nodes use the preset's.
    """
    random = np.random.default_rng(seed)
    tokens = (side // patch) ** 2

    def normal(*shape: int, sd: float = 0.02) -> np.ndarray:
        return (sd * np.clip(random.standard_normal(shape), -2, 2)).astype(np.float32)

    def linear(name: str, rows: int, columns: int) -> dict[str, np.ndarray]:
        return {f"{name}.weight": normal(rows, columns), f"{name}.bias": np.zeros(rows, np.float32)}

    def norm(name: str) -> dict[str, np.ndarray]:
        return {f"{name}.weight": np.ones(dim, np.float32), f"{name}.bias": np.zeros(dim, np.float32)}

    bound = 1 / np.sqrt(3 * patch * patch)
    arrays = {
        "cls_token": normal(1, 1, dim, sd=1e-6),
        "pos_embed": normal(1, tokens + 1, dim),
        "patch_embed.proj.weight": random.uniform(-bound, bound, (dim, 3, patch, patch)).astype(np.float32),
        "patch_embed.proj.bias": random.uniform(-bound, bound, dim).astype(np.float32),
    }
    for block in (f"blocks.{number}" for number in range(depth)):
        arrays |= norm(f"{block}.norm1")
        arrays |= linear(f"{block}.attn.qkv", 3 * dim, dim) | linear(f"{block}.attn.proj", dim, dim)
        arrays |= norm(f"{block}.norm2")
        arrays |= linear(f"{block}.mlp.fc1", 4 * dim, dim) | linear(f"{block}.mlp.fc2", dim, 4 * dim)
    return arrays | norm("norm") | linear("head", classes, dim)
