#!/usr/bin/env python3
"""Takes the batches of `batch_vectors.py --measure` apart with `unmask invert`, and prints the table of docs/batch.md.

    venv/bin/python scripts/batch_table.py [MODEL-START ...]     # such as vit_lab_patch8_32-fresh
    venv/bin/python scripts/batch_table.py --plot                # draws docs/images/batch-precision.svg from the results

A picture counts as back from 60 dB on. A certain picture that differs from every true one in a single byte is wrong.
Results are kept in data/batch/results.json, so that a run that was ended goes on; delete the file to start again.

The plot has a point for each batch: the share of its pictures that came back, over s_N / s_1, the smallest over the
largest singular value of block 0's fc1 gradient that its N tokens leave, with rows of one length.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from safetensors.numpy import load_file

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "data" / "batch"
RESULTS = DATA / "results.json"
PLOT = ROOT / "docs" / "images" / "batch-precision.svg"
BACK = 60.0
# Batches of each size.
MOST = 20
# Colours of the plot.
COLOURS = {"vit_nano_patch8_32-fresh": "#1f6fb2", "vit_nano_patch8_32-trained": "#7fb2dd",
           "vit_lab_patch8_32-fresh": "#b22222", "vit_lab_patch8_32-trained": "#e08a6d"}


def invert(gradients, weights, out):
    command = ["unmask", "invert", "--attack", "batch", "--gradients", gradients, "--weights", weights, "--out", out]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return None, done.stderr.strip()
    report = json.loads((out / "report.json").read_text())
    found = load_file(out / "reconstruction.safetensors")["reconstruction"]
    return report, found.reshape(-1, *found.shape[-3:])


def psnr(found, truth):
    error = np.mean((found.astype(np.float64) - truth / 255) ** 2)
    return 99.0 if error < 1e-12 else min(99.0, -10 * np.log10(error))


def ratio(gradients, size):
    """s_N / s_1 of [dW1 | db1] with rows of one length."""
    found = load_file(gradients)
    weight = found["blocks.0.mlp.fc1.weight"].astype(np.float64)
    both = np.hstack([weight, found["blocks.0.mlp.fc1.bias"].astype(np.float64)[:, None]])
    lengths = np.linalg.norm(both, axis=1, keepdims=True)
    singular = np.linalg.svd(both / np.where(lengths > 0, lengths, 1), compute_uv=False)
    tokens = size * found["pos_embed"].shape[-2]
    return float(singular[tokens - 1] / singular[0])


def measure(start, path, number, pictures):
    weights = DATA / f"{start}-{number}.weights.safetensors"
    if not weights.exists():
        weights = DATA / f"{start}.weights.safetensors"
    side = int(re.search(r"_(\d+)-", path.name).group(1))
    truths = [np.array(Image.open(DATA / f"{side}-{index}.png")) for index in pictures]
    with tempfile.TemporaryDirectory() as folder:
        report, found = invert(path, weights, Path(folder) / "out")
    result = {"ratio": ratio(path, len(pictures)), "db": [0.0] * len(pictures), "certain": 0, "wrong": 0, "seconds": None}
    if report is None:
        print(f"{path.name}: {found}", file=sys.stderr)
        return result
    result["db"] = [float(max(psnr(one, truth) for one in found)) for truth in truths]
    for one in found[: report["certain"]]:
        result["certain"] += 1
        grey = np.round(one * 255).astype(int)
        result["wrong"] += not any(np.array_equal(grey, truth.astype(int)) for truth in truths)
    result["seconds"] = report["seconds"]
    print(f"{path.name}: {[round(db, 1) for db in result['db']]} in {report['seconds']:.1f} s", file=sys.stderr)
    return result


def rows(start, results):
    by_size = {}
    for path in sorted(DATA.glob(f"{start}-*.gradients.safetensors")):
        number, pictures = re.fullmatch(rf"{start}-(\d+)-([\d_]+)\.gradients\.safetensors", path.name).groups()
        by_size.setdefault(len(pictures.split("_")), []).append((path, number, pictures.split("_")))
    for size, batches in sorted(by_size.items()):
        batches = sorted(batches, key=lambda batch: int(batch[1]))[:MOST]
        for batch in batches:
            name = batch[0].name
            if name not in results:
                results[name] = {"start": start, "size": size, **measure(start, *batch)}
                RESULTS.write_text(json.dumps(results, indent=1))
        found = [results[path.name] for path, *_ in batches]
        seconds = [one["seconds"] for one in found if one["seconds"] is not None]
        db = [value for one in found for value in one["db"]]
        median, longest = (np.median(seconds), max(seconds)) if seconds else (np.nan, np.nan)
        print(
            f"| {start} | {size} | {sum(min(one['db']) >= BACK for one in found)} of {len(found)} "
            f"| {sum(value >= BACK for value in db)} of {len(db)} | {sum(one['certain'] for one in found)} "
            f"| {sum(one['wrong'] for one in found)} | {np.median(db):.0f} | {median:.1f} | {longest:.1f} |",
            flush=True,
        )


def plot(results):
    left, width, top, height = 70, 600, 40, 220
    points = [(one, sum(db >= BACK for db in one["db"]) / one["size"]) for one in results.values()]
    powers = [int(np.floor(np.log10(min(one["ratio"] for one, _ in points)))), -1]
    x = lambda ratio: left + width * (np.log10(ratio) - powers[0]) / (powers[1] - powers[0])
    y = lambda share: top + height * (1 - share)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 30} {top + height + 90}" '
        'font-family="system-ui, sans-serif" font-size="13" role="img" '
        'aria-label="Share of the pictures of each batch that came back, over the weakest token\'s strength">',
        f'<rect width="{left + width + 30}" height="{top + height + 90}" fill="#ffffff"/>',
        f'<text x="{left}" y="22" fill="#1d2733" font-weight="600">Share of a batch\'s pictures that came back</text>',
    ]
    for share in (0, 0.5, 1):
        parts.append(f'<path d="M{left} {y(share):.0f}H{left + width}" stroke="#d5dae0"/>')
        parts.append(f'<text x="{left - 10}" y="{y(share) + 4:.0f}" text-anchor="end" fill="#5b6570">{100 * share:.0f} %</text>')
    for power in range(powers[0], powers[1] + 1):
        at = x(10.0**power)
        parts.append(f'<path d="M{at:.0f} {top}V{top + height}" stroke="#d5dae0"/>')
        parts.append(f'<text x="{at:.0f}" y="{top + height + 18}" text-anchor="middle" fill="#5b6570">1e{power}</text>')
    for number, (one, share) in enumerate(sorted(points, key=lambda point: (point[0]["start"], point[0]["ratio"]))):
        # Points of one share stand above one another.
        lift = 3 * (number % 5 - 2)
        parts.append(
            f'<circle cx="{x(one["ratio"]):.1f}" cy="{y(share) + lift:.1f}" r="{1 + one["size"]}" '
            f'fill="{COLOURS[one["start"]]}" fill-opacity="0.6"/>'
        )
    parts.append(
        f'<text x="{left + width / 2}" y="{top + height + 40}" text-anchor="middle" fill="#5b6570">weakest over strongest '
        "singular value of the tokens, s_N / s_1; larger points are larger batches</text>"
    )
    for number, (start, colour) in enumerate(COLOURS.items()):
        at = left + number * width / len(COLOURS)
        parts.append(f'<circle cx="{at:.0f}" cy="{top + height + 66}" r="5" fill="{colour}"/>')
        parts.append(f'<text x="{at + 10:.0f}" y="{top + height + 70}" fill="#1d2733" font-size="11">{start.replace("_patch8_32", "")}</text>')
    PLOT.write_text("\n".join(parts + ["</svg>", ""]))


if __name__ == "__main__":
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if sys.argv[1:] == ["--plot"]:
        plot(results)
        sys.exit()
    print("| model and weights | B | whole batches | pictures back | certain | wrongly certain | median dB | median s | longest s |")
    print("|---|---|---|---|---|---|---|---|---|")
    weights = {path.name.removesuffix(".weights.safetensors") for path in DATA.glob("*.weights.safetensors")}
    for start in sys.argv[1:] or sorted({re.sub(r"-\d+$", "", name) for name in weights}):
        rows(start, results)
