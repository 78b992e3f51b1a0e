#!/usr/bin/env python3
"""Makes the reference vectors of the attacks with timm and torch in float64, for scikit-image's astronaut.

    python3 -m venv venv && venv/bin/pip install torch timm safetensors scikit-image
    venv/bin/python scripts/make_vectors.py          # the committed ones
    venv/bin/python scripts/make_vectors.py --lab    # the complete ones of vit_lab_patch4_32, 46 MB in data/vectors

A case is a folder with `weights` (f32), `gradients_f64`, `mask_r*` (u8, 1 = kept; hides a share r), `expected` (the
photograph and the results of the closed forms for gradients and masks, `[side, side, 3]` in [0, 1]) and `info.json`
(PSNR and SSIM of the results, label, loss), under timm's names. `matching.safetensors` holds a gradient, a mask that
hides half of it and a start `x0`. For each, with and without the mask, it holds the terms of token matching at `x0`,
d(their sum)/dx, and x after ten steps of sign-Adam.

The committed cases hold only the tensors that an attack reads. `gradients` is `gradients_f64` rounded to f32, and is
left out of cases that hold `gradients_f64`.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import skimage
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from skimage.metrics import peak_signal_noise_ratio, structural_similarity
from skimage.transform import resize

from make_reference import PICO, vit

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = ROOT / "www" / "samples"
ATTACK = ROOT / "crates" / "attack" / "tests" / "data"
LABEL = 3
RATES = [0.2, 0.5, 0.8]
POSITION, PATCH, PATCH_BIAS = "pos_embed", "patch_embed.proj.weight", "patch_embed.proj.bias"
QKV = "blocks.0.attn.qkv.weight"
CLOSED_FORMS = ["cls_token", POSITION, PATCH, PATCH_BIAS, QKV, "blocks.0.attn.qkv.bias"]
# The attacks discard singular values up to this share of the largest.
CUTOFF = {torch.float64: 1e-14, torch.float32: 2.0**-25}


def initial(size, april_block, seed=0):
    """timm's own initial values, seeded, rounded to f32 so that both sides use the same."""
    torch.manual_seed(seed)
    model = vit(size, april_block)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.float().double())
    return model


def names(size, april_block):
    return [name for name, _ in vit(size, april_block).named_parameters()]


def photograph(side):
    """The face, `[side, side, 3]` in [0, 1]."""
    return torch.from_numpy(resize(skimage.data.astronaut()[:260, 90:350], (side, side), anti_aliasing=True)).float()


def model_input(image):
    return ((image.double() - 0.5) / 0.5).permute(2, 0, 1)[None]


def gradient(model, image):
    """Logits, loss, and the gradients by name."""
    model.zero_grad()
    logits = model(model_input(image))
    loss = torch.nn.functional.cross_entropy(logits, torch.tensor([LABEL]))
    loss.backward()
    return logits.detach(), loss.item(), {name: p.grad.clone() for name, p in model.named_parameters()}


def masks(model, rate):
    generator = torch.Generator().manual_seed(100)
    return {
        name: (torch.rand(p.shape, generator=generator, dtype=torch.float64) >= rate).double()
        for name, p in model.named_parameters()
    }


def least_squares(a, b, cutoff):
    return torch.linalg.lstsq(a, b, rcond=cutoff, driver="gelsd").solution


def unpatched(patches, patch):
    """Patches `[S, 3 P P]` in [-1, 1] as a picture."""
    grid = int(len(patches) ** 0.5)
    image = patches.reshape(grid, grid, 3, patch, patch).permute(0, 3, 1, 4, 2)
    return (image.reshape(grid * patch, grid * patch, 3) * 0.5 + 0.5).clamp(0, 1).float()


def embedding_inversion(gradients, patch, cutoff):
    """G_E = G_pos^T X."""
    return unpatched(least_squares(gradients[POSITION][0, 1:].T, gradients[PATCH].flatten(1), cutoff), patch)


def april(weights, gradients, patch, cutoff):
    """A^T z = sum of W^T dW over q, k and v; then inverts the patch embedding. For f32 the noise sets the cutoff."""
    if cutoff == CUTOFF[torch.float32]:
        return april_filtered(weights, gradients, patch, cutoff)
    b = weights[QKV].T @ gradients[QKV]
    tokens = least_squares(gradients[POSITION][0].T, b, cutoff)
    embedded = (tokens - weights[POSITION][0])[1:] - weights[PATCH_BIAS]
    return unpatched(least_squares(weights[PATCH].flatten(1), embedded.T, CUTOFF[torch.float64]).T, patch)


def april_filtered(weights, gradients, patch, rounding):
    """M X E^T = R + noise by a Wiener filter, as in `crates/attack/src/wiener.rs`; D >= L."""
    a, weight = gradients[POSITION][0], weights[PATCH].flatten(1)
    b = weights[QKV].T @ gradients[QKV]
    known = weights[POSITION][0].clone()
    known[1:] += weights[PATCH_BIAS]
    tall, scale = a[1:].T, b.square().mean().sqrt()
    unit = a[0] / a[0].norm()
    m, r = (v - unit[:, None] * (unit @ v) for v in (tall, b - a.T @ known))
    (u, s, vh), (p, t, qh) = (torch.linalg.svd(v, full_matrices=False) for v in (m, weight))
    free = (len(r) - 1 - len(s)) * r.shape[1]
    measured = (r - u @ (u.T @ r)).norm() / free**0.5
    noise = max(rounding * scale, measured if measured < scale / 64 else 0)
    signal, factor = u.T @ r @ p, torch.outer(s, t)
    candidates = torch.tensor([10 ** (step / 8) for step in range(-40, 17)], dtype=torch.float64).square()
    power = factor**2 * candidates[:, None, None] + noise**2
    pools = []
    for cost in (power.log() + signal**2 / power).sum(2).T:
        pools.append((cost, 1))
        while len(pools) > 1 and pools[-1][0].argmin() >= pools[-2][0].argmin():
            (below, more), (above, rows) = pools.pop(), pools.pop()
            pools.append((above + below, rows + more))
    variance = torch.cat([candidates[cost.argmin()].repeat(rows) for cost, rows in pools])[:, None]
    filtered = signal * factor * variance / (factor**2 * variance + noise**2)
    return unpatched(vh.T @ filtered @ qh, patch)


def case(folder, size, april_block, *, weights=None, gradients=(), rounded=(), rates=RATES, seed=0):
    """Writes one case: the named tensors of weights and masks, or all; gradients in f64, and rounded to f32."""
    side, patch = size[:2]
    model, image = initial(size, april_block, seed), photograph(side)
    logits, loss, whole = gradient(model, image)
    plain = {name: parameter.detach() for name, parameter in model.named_parameters()}

    def attacked(found, mask=None, dtype=torch.float64):
        seen = {name: value.to(dtype).double() * (mask[name] if mask else 1) for name, value in found.items()}
        return {
            "embedding": embedding_inversion(seen, patch, CUTOFF[dtype]),
            "april": april(plain, seen, patch, CUTOFF[dtype]),
        }

    expected = attacked(whole)
    expected |= {f"{name}_f32": made for name, made in attacked(whole, dtype=torch.float32).items()}
    for rate in rates:
        mask = masks(model, rate)
        expected |= {f"naive_{name}_r{rate}": made for name, made in attacked(whole, mask).items()}
        kept = {name: mask[name].to(torch.uint8) for name in (gradients if weights else mask)}
        write(folder / f"mask_r{rate}.safetensors", kept)
    scores = {
        "psnr": lambda made: min(99.0, peak_signal_noise_ratio(image.double().numpy(), made, data_range=1)),
        "ssim": lambda made: structural_similarity(image.double().numpy(), made, data_range=1, channel_axis=2),
    }
    with np.errstate(divide="ignore"):
        scored = {
            score: {name: round(float(of(made.double().numpy())), 6) for name, made in expected.items()}
            for score, of in scores.items()
        }
    info = {"label": LABEL, "loss": loss, "april_block": april_block} | scored
    write(folder / "weights.safetensors", {name: plain[name].float() for name in weights or plain})
    if gradients:
        write(folder / "gradients_f64.safetensors", {name: whole[name] for name in gradients})
    if rounded:
        write(folder / "gradients.safetensors", {name: whole[name].float() for name in rounded})
    write(folder / "expected.safetensors", {"image": image, "logits": logits} | expected)
    (folder / "info.json").write_text(json.dumps(info, indent=1) + "\n")


def classroom(size, seed, april_block=True):
    """A model initialised like a room's in `crates/core/src/init.rs`, in f32."""
    model, generator = vit(size, april_block), torch.Generator().manual_seed(seed)

    def normal(shape, std):
        return std * torch.nn.init.trunc_normal_(torch.empty(shape), a=-4, b=4, generator=generator)

    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.startswith("patch_embed."):
                value = (2 * torch.rand(p.shape, generator=generator) - 1) / (3 * size[1] ** 2) ** 0.5
            elif name == "cls_token":
                value = normal(p.shape, 1e-6)
            elif "norm" in name:
                value = torch.full(p.shape, float(name.endswith("weight")))
            elif name.endswith("bias"):
                value = torch.zeros(p.shape)
            else:
                value = normal(p.shape, 0.12 if name == QKV and april_block else 0.02)
            p.copy_(value)
    return model.float()


def samples(folder, size, pictures, seed):
    """The classroom's photographs: the weights once, then each photograph with the gradients that APRIL reads."""
    model = classroom(size, seed)
    plain = {name: parameter.detach() for name, parameter in model.named_parameters()}
    write(folder / "weights.safetensors", {name: plain[name] for name in [POSITION, PATCH, PATCH_BIAS, QKV]})
    for path in pictures:
        photo = Image.open(path).convert("RGB").resize((size[0], size[0]), Image.Resampling.LANCZOS)
        image = torch.from_numpy(np.array(photo)).float() / 255
        model.zero_grad()
        logits = model(((image - 0.5) / 0.5).permute(2, 0, 1)[None])
        torch.nn.functional.cross_entropy(logits, torch.tensor([LABEL])).backward()
        found = {name: dict(model.named_parameters())[name].grad.detach() for name in [POSITION, QKV]}
        exact = [{name: value.double() for name, value in of.items()} for of in (plain, found)]
        made = april(*exact, size[1], CUTOFF[torch.float32])
        write(folder / f"{path.stem}.safetensors", found | {"image": image, "april_f32": made})


def matching(path, model, side):
    """Token matching by second derivatives, which fused attention does not support."""
    for block in model.blocks:
        block.attn.fused_attn = False
    generator = torch.Generator().manual_seed(42)
    x0 = 0.3 * torch.randn((1, 3, side, side), generator=generator, dtype=torch.float64)
    names = [n for n, _ in model.named_parameters() if not n.startswith(("norm.", "head.", "blocks."))]
    names += [n for n, _ in model.named_parameters() if n.startswith("blocks.0.")]
    parameters = [dict(model.named_parameters())[name] for name in names]

    def gradients(x):
        loss = torch.nn.functional.cross_entropy(model(x), torch.tensor([LABEL]))
        return dict(zip(names, torch.autograd.grad(loss, parameters, create_graph=True)))

    # A client sends values rounded to f32.
    sent = {name: g.detach().float() for name, g in gradients(model_input(photograph(side))).items()}
    generator = torch.Generator().manual_seed(1)
    half = {name: (torch.rand(g.shape, generator=generator, dtype=torch.float64) >= 0.5) for name, g in sent.items()}
    tensors = {"x0": x0} | {f"gradient/{name}": g for name, g in sent.items()}
    tensors |= {f"mask/{name}": mask.to(torch.uint8) for name, mask in half.items()}

    def terms(x, mask):
        own = {name: g * mask[name] for name, g in gradients(x).items()}
        given = {name: g.double() * mask[name] for name, g in sent.items()}
        cosine = torch.nn.functional.cosine_similarity
        token = (1 - cosine(own[POSITION][0], given[POSITION][0], dim=1)).mean()
        patch = (own[PATCH] - given[PATCH]).square().sum() / given[PATCH].square().sum()
        rest = [name for name in names if name != POSITION]
        rest = 1 - cosine(*(torch.cat([of[name].flatten() for name in rest]) for of in (own, given)), dim=0)
        return torch.stack([token, patch, rest])

    for rate, mask in [("r0.0", {name: torch.ones_like(m) for name, m in half.items()}), ("r0.5", half)]:
        x = x0.clone().requires_grad_()
        adam = torch.optim.Adam([x], lr=0.1)
        for step in range(10):
            found = terms(x, mask)
            (slope,) = torch.autograd.grad(found.sum(), x)
            if step == 0:
                tensors |= {f"{rate}/loss": found.detach(), f"{rate}/dx": slope}
            x.grad = slope.sign()
            adam.step()
            with torch.no_grad():
                x.clamp_(-1, 1)
        tensors[f"{rate}/x_after_10"] = x.detach()
    write(path, tensors)


def write(path, tensors):
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)
    print(f"{path.relative_to(ROOT)}: {len(tensors)} tensors, {path.stat().st_size} bytes")


def committed():
    reads = [POSITION, PATCH, PATCH_BIAS, QKV]
    # Of the first seeds, the one with the best picture from f32 after a singular value was discarded.
    case(ATTACK / "pico_april", PICO, True, weights=reads, gradients=[POSITION, PATCH, QKV], seed=10)
    case(ATTACK / "pico_standard", PICO, False, weights=reads, gradients=[POSITION, QKV], rates=[])
    # The pictures that a fixed cutoff of singular values loses.
    samples(ATTACK / "pico_dark", PICO, [SAMPLES / "rocket.png", SAMPLES / "hubble.jpg"], seed=4)
    model = vit(PICO, False)
    weights = load_file(ROOT / "crates" / "model" / "testdata" / "pico_standard.safetensors")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weights[f"weights.{name}"])
    matching(ROOT / "crates" / "matching" / "testdata" / "matching.safetensors", model, 16)


def lab():
    size, folder = (32, 4, 192, 4, 3), ROOT / "data" / "vectors"
    for april_block in [False, True]:
        name = f"vit_lab_patch4_32_{'april' if april_block else 'standard'}_astronaut"
        case(folder / name, size, april_block, gradients=CLOSED_FORMS, rounded=names(size, april_block))
    for name, size in [("vit_nano_patch4_32", (32, 4, 96, 4, 3)), ("vit_lab_patch4_32", size)]:
        samples(folder / f"{name}_april_samples", size, sorted(SAMPLES.glob("*.[pj]*g")), seed=1)
    matching(folder / "vit_lab_patch4_32_matching" / "matching.safetensors", initial(size, False), 32)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--lab", action="store_true", help="write the complete vectors of vit_lab_patch4_32 instead")
    torch.set_num_threads(1)
    lab() if parser.parse_args().lab else committed()
