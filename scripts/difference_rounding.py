#!/usr/bin/env python3
"""Measures how rounded weights harm an attack on their unmasked difference: PSNR in dB of G_pos^T X = G_E.

    venv/bin/python scripts/difference_rounding.py      # with the venv of scripts/completion_gradients.py

For four photographs it attacks a gradient; the difference of the weights before and after 1, 5 and 20 steps of SGD at
0.01; that of five steps in float64; and that of five steps in float32 again, first with each equation weighted by the
rounding of its weights, then with a Wiener filter that uses the prior of patches (correlation 0.98 of neighbouring
pixels, 0.95 of channels) and the actual noise.
"""

import copy

import numpy as np
import torch

import completion_gradients as made

PHOTOGRAPHS = ["cat", "coffee", "rocket", "hubble"]
SIDE, PATCH = 32, 8


def rows(tensors, name):
    found = tensors[name].detach().double().numpy()
    return found.reshape(-1, found.shape[-1])[1:] if name == "pos_embed" else found.reshape(found.shape[0], -1)


def patches(image):
    values = image.numpy() / 127.5 - 1
    cut = [values[y : y + PATCH, x : x + PATCH] for y in range(0, SIDE, PATCH) for x in range(0, SIDE, PATCH)]
    return np.stack([one.transpose(2, 0, 1).reshape(-1) for one in cut])


def psnr(found, truth):
    return min(99.0, -10 * np.log10(np.mean((found.clip(-1, 1) - truth) ** 2) / 4 + 1e-30))


def least_squares(tensors):
    return np.linalg.lstsq(rows(tensors, "pos_embed").T, rows(tensors, "patch_embed.proj.weight"), rcond=None)[0]


def weighed(tensors, before):
    """Equations g_dl = sum_s p_sd x_sl, with the variance by rounding: ulp(E_dl)^2 + sum_s ulp(P_sd)^2 x_sl^2."""
    position, patch = rows(tensors, "pos_embed").T, rows(tensors, "patch_embed.proj.weight")
    ulp = {name: np.spacing(np.abs(rows(before, name)).astype(np.float32)).astype(float) for name in made.READ[:2]}
    found = least_squares(tensors)
    for _ in range(2):
        variance = ulp["patch_embed.proj.weight"] ** 2 + (ulp["pos_embed"].T ** 2) @ found**2
        each = [1 / np.sqrt(column)[:, None] for column in variance.T]
        found = np.stack([np.linalg.lstsq(position * w, patch[:, l] * w[:, 0], rcond=None)[0] for l, w in enumerate(each)], 1)
    return found


def filtered(tensors, truth):
    position, patch = rows(tensors, "pos_embed"), rows(tensors, "patch_embed.proj.weight")
    noise = np.mean((patch - position.T @ truth) ** 2)
    near = 0.98 ** np.abs(np.subtract.outer(np.arange(PATCH), np.arange(PATCH)))
    prior = 0.25 * np.kron(np.where(np.eye(3), 1, 0.95), np.kron(near, near))
    (sizes, u), (variances, q) = np.linalg.eigh(position @ position.T), np.linalg.eigh(prior)
    along = u.T @ (position @ patch) @ q
    return u @ (variances * along / (variances * sizes[:, None] + noise)) @ q.T


def difference(model, image, steps):
    made.STEPS = steps
    return made.difference(model, image)


def main():
    torch.set_num_threads(1)
    print("model, photograph: gradient | 1, 5, 20 steps | 5 in f64 | 5 weighed | 5 filtered | noise of 5, relative")
    for name in ["vit_nano_patch8_32", "vit_lab_patch8_32"]:
        model = made.initial(name)
        before = {name: p.detach().clone() for name, p in model.named_parameters()}
        for photograph in PHOTOGRAPHS:
            image = made.photographs(SIDE)[photograph]
            truth = patches(image)
            five = difference(model, image, 5)
            few = [psnr(least_squares(difference(model, image, steps)), truth) for steps in (1, 5, 20)]
            found = [
                psnr(least_squares(made.gradient(model, image)), truth),
                *few,
                psnr(least_squares(difference(copy.deepcopy(model).double(), image, 5)), truth),
                psnr(weighed(five, before), truth),
                psnr(filtered(five, truth), truth),
            ]
            patch = rows(five, "patch_embed.proj.weight")
            noise = np.sqrt(np.mean((patch - rows(five, "pos_embed").T @ truth) ** 2) / np.mean(patch**2))
            print(f"{name}, {photograph}: " + ", ".join(f"{value:.1f}" for value in found) + f" dB; {noise:.1e}")


if __name__ == "__main__":
    main()
