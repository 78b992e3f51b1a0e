#!/usr/bin/env python3
"""Writes crates/tensors/testdata/files/*: a tiny ViT and a tiny ResNet in the formats of several libraries.

    python3 -m venv venv && venv/bin/pip install torch timm numpy safetensors torchvision transformers
    venv/bin/python scripts/make_model_files.py
    venv/bin/python scripts/make_model_files.py --large FOLDER

Before it writes a file, it checks that the library's own model computes the same logits as timm's, so that both files
hold the same model. With --large it instead writes models of the usual sizes with random weights, each with the
gradient of one picture, for `UNMASK_MODEL_FILES=FOLDER cargo xtask test --test any_model -- --ignored`.
"""

import argparse
from collections import OrderedDict
from pathlib import Path

import numpy as np
import safetensors.torch
import timm
import torch
from timm.models.vision_transformer import VisionTransformer

OUT = Path(__file__).resolve().parent.parent / "crates" / "tensors" / "testdata" / "files"
IMAGE, PATCH, DIM, DEPTH, HEADS, CLASSES = 8, 4, 6, 2, 2, 3


def fill(model, seed=1):
    """Values that f16 and bf16 represent exactly, different in every tensor."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if tensor.is_floating_point():
                values = torch.randint(-64, 65, tensor.shape, generator=generator) / 128
                tensor.copy_(values.abs() + 0.25 if name.endswith("running_var") else values)
    return model.eval()


def same(ours, theirs, images):
    with torch.no_grad():
        expected, found = ours(images), theirs(images)
    found = getattr(found, "logits", found)
    assert torch.allclose(expected, found, atol=1e-5), (expected, found)


def thirds(tensor):
    return tensor.chunk(3, 0)


def torchvision_state(state):
    fronts = {
        "cls_token": "class_token",
        "pos_embed": "encoder.pos_embedding",
        "patch_embed.proj.": "conv_proj.",
        "norm.": "encoder.ln.",
        "head.": "heads.head.",
        "norm1.": "ln_1.",
        "norm2.": "ln_2.",
        "attn.qkv.": "self_attention.in_proj_",
        "attn.proj.": "self_attention.out_proj.",
        "mlp.fc1.": "mlp.0.",
        "mlp.fc2.": "mlp.3.",
    }
    return renamed(state, fronts, "encoder.layers.encoder_layer_")


def renamed(state, fronts, blocks):
    made = OrderedDict()
    for name, tensor in state.items():
        place = ""
        if name.startswith("blocks."):
            _, number, name = name.split(".", 2)
            place = f"{blocks}{number}."
        front = next(front for front in fronts if name.startswith(front))
        made[place + fronts[front] + name[len(front) :]] = tensor
    return made


def hugging_face_state(state):
    """The names of transformers 5 in memory; its files have those of version 4."""
    made = OrderedDict()
    fronts = {
        "cls_token": "vit.embeddings.cls_token",
        "pos_embed": "vit.embeddings.position_embeddings",
        "patch_embed.proj.": "vit.embeddings.patch_embeddings.projection.",
        "norm.": "vit.layernorm.",
        "head.": "classifier.",
        "norm1.": "layernorm_before.",
        "norm2.": "layernorm_after.",
        "attn.proj.": "attention.o_proj.",
        "mlp.": "mlp.",
    }
    for name, tensor in state.items():
        if ".attn.qkv." not in name:
            made |= renamed({name: tensor}, fronts, "vit.layers.")
            continue
        _, number, _, _, kind = name.split(".")
        for which, third in zip("qkv", thirds(tensor)):
            made[f"vit.layers.{number}.attention.{which}_proj.{kind}"] = third.contiguous()
    return made


def mixed(state):
    """Every number type, views into a shared storage, and tensors whose last dimension is not contiguous."""
    types = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
    made = OrderedDict()
    for index, (name, tensor) in enumerate(state.items()):
        tensor = tensor.to(types[index % 4])
        if tensor.dim() > 1:
            tensor = tensor.transpose(-1, -2).contiguous().transpose(-1, -2)
        elif index % 2:
            tensor = torch.cat([torch.full_like(tensor, 9.0), tensor])[len(tensor) :]
        made[f"module.{name}"] = torch.nn.Parameter(tensor) if index % 3 == 0 else tensor
    return made


def tiny():
    OUT.mkdir(parents=True, exist_ok=True)
    model = fill(
        VisionTransformer(
            img_size=IMAGE, patch_size=PATCH, embed_dim=DIM, depth=DEPTH, num_heads=HEADS, num_classes=CLASSES
        )
    )
    state = model.state_dict()
    images = torch.rand(2, 3, IMAGE, IMAGE, generator=torch.Generator().manual_seed(2))
    safetensors.torch.save_file(state, OUT / "timm.safetensors")
    torch.save(state, OUT / "timm.pt")
    saved = {"epoch": 3, "lr": 0.1, "best": None, "name": "tiny", "state_dict": mixed(state)}
    torch.save(saved, OUT / "mixed.pt")
    arrays = {name: np.asfortranarray(tensor.numpy()) for name, tensor in state.items()}
    np.savez_compressed(OUT / "timm.npz", **arrays)

    from torchvision.models import VisionTransformer as Torchvision

    theirs = Torchvision(IMAGE, PATCH, DEPTH, HEADS, DIM, 4 * DIM, num_classes=CLASSES).eval()
    theirs.load_state_dict(torchvision_state(state))
    same(model, theirs, images)
    torch.save(theirs.state_dict(), OUT / "torchvision.pt")

    import transformers

    config = transformers.ViTConfig(
        image_size=IMAGE,
        patch_size=PATCH,
        hidden_size=DIM,
        num_hidden_layers=DEPTH,
        num_attention_heads=HEADS,
        intermediate_size=4 * DIM,
        num_labels=CLASSES,
        layer_norm_eps=1e-6,
    )
    theirs = transformers.ViTForImageClassification(config).eval()
    theirs.load_state_dict(hugging_face_state(state))
    same(model, theirs, images)
    safetensors.torch.save_file(theirs.state_dict(), OUT / "hugging_face_5.safetensors")
    theirs.save_pretrained(OUT / "saved")
    (OUT / "saved" / "model.safetensors").rename(OUT / "hugging_face_4.safetensors")
    (OUT / "saved" / "config.json").unlink()
    (OUT / "saved").rmdir()

    distilled = fill(
        timm.models.deit.VisionTransformerDistilled(
            img_size=IMAGE, patch_size=PATCH, embed_dim=DIM, depth=1, num_heads=HEADS, num_classes=CLASSES
        )
    )
    torch.save(distilled.state_dict(), OUT / "distilled.pt")
    torch.save(model, OUT / "whole_model.pt")
    torch.save([tensor for tensor in state.values()][:2], OUT / "list.pt")
    torch.save(state, OUT / "before_1_6.pt", _use_new_zipfile_serialization=False)
    for path in sorted(OUT.iterdir()):
        print(f"{path.name}: {path.stat().st_size} bytes")


def large(folder):
    folder.mkdir(parents=True, exist_ok=True)
    models = {
        "deit_tiny": timm.create_model("deit_tiny_patch16_224", num_classes=1000),
        "deit_small_distilled": timm.create_model("deit_small_distilled_patch16_224", num_classes=1000),
        "vit_base": timm.create_model("vit_base_patch16_224", num_classes=1000),
        "vit_small_patch32": timm.create_model("vit_small_patch32_224", num_classes=1000),
        "vit_small_64": timm.create_model("vit_small_patch16_224", img_size=64, patch_size=8, num_classes=1000),
        "vit_small_no_head": timm.create_model("vit_small_patch32_224", num_classes=0),
        "vit_small_pooled": timm.create_model("vit_small_patch32_224", num_classes=10, global_pool="avg"),
        "resnet50": timm.create_model("resnet50", num_classes=1000),
    }
    mean, std = (torch.tensor(it).reshape(1, 3, 1, 1) for it in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))
    for name, model in models.items():
        side = 64 if name.endswith("_64") else 224
        y, x = torch.meshgrid(torch.linspace(0, 1, side), torch.linspace(0, 1, side), indexing="ij")
        image = torch.stack([x, y, (8 * x).sin() * (6 * y).cos() / 2 + 0.5]).unsqueeze(0)
        image = (image * 255).round() / 255
        safetensors.torch.save_file({"image": image[0]}, folder / f"truth_{side}.safetensors")
        output = model.eval()((image - mean) / std)
        if name.endswith("no_head"):
            loss = output.square().mean()
        else:
            loss = torch.nn.functional.cross_entropy(output, torch.tensor([3]))
        loss.backward()
        gradients = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
        torch.save(gradients, folder / f"{name}.gradients.pt")
        torch.save(model.state_dict(), folder / f"{name}.pt")
        print(name, sum(p.numel() for p in model.parameters()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--large", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    if arguments.large:
        large(arguments.large)
    else:
        tiny()
