#!/usr/bin/env python3
"""Takes the batches of `batch_vectors.py --measure` apart with `unmask invert`, and prints the table of docs/batch.md.

    venv/bin/python scripts/batch_table.py [MODEL-START ...]     # such as vit_lab_patch8_32-fresh

A picture counts as back from 60 dB on. A certain picture that differs from every true one in a single byte is wrong.
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
BACK = 60.0
# Batches of each size.
MOST = 20


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


def rows(start):
    by_size = {}
    for path in sorted(DATA.glob(f"{start}-*.gradients.safetensors")):
        number, pictures = re.fullmatch(rf"{start}-(\d+)-([\d_]+)\.gradients\.safetensors", path.name).groups()
        by_size.setdefault(len(pictures.split("_")), []).append((path, number, pictures.split("_")))
    for size, batches in sorted(by_size.items()):
        batches = sorted(batches, key=lambda batch: int(batch[1]))[:MOST]
        whole = back = certain = wrong = 0
        best, seconds = [], []
        for path, number, pictures in batches:
            weights = DATA / f"{start}-{number}.weights.safetensors"
            if not weights.exists():
                weights = DATA / f"{start}.weights.safetensors"
            side = int(re.search(r"_(\d+)-", path.name).group(1))
            truths = [np.array(Image.open(DATA / f"{side}-{index}.png")) for index in pictures]
            with tempfile.TemporaryDirectory() as folder:
                report, found = invert(path, weights, Path(folder) / "out")
            if report is None:
                print(f"{path.name}: {found}", file=sys.stderr)
                best += [0.0] * size
                continue
            here = [max(psnr(one, truth) for one in found) for truth in truths]
            for one in found[: report["certain"]]:
                certain += 1
                wrong += not any(np.array_equal(np.round(one * 255).astype(int), truth.astype(int)) for truth in truths)
            best += here
            seconds.append(report["seconds"])
            whole += min(here) >= BACK
            back += sum(db >= BACK for db in here)
            print(f"{path.name}: {[round(db, 1) for db in here]} in {report['seconds']:.1f} s", file=sys.stderr)
        median, longest = (np.median(seconds), max(seconds)) if seconds else (np.nan, np.nan)
        print(
            f"| {start} | {size} | {whole} of {len(batches)} | {back} of {len(best)} | {certain} | {wrong} "
            f"| {np.median(best):.0f} | {median:.1f} | {longest:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    print("| model and weights | B | whole batches | pictures back | certain | wrongly certain | median dB | median s | longest s |")
    print("|---|---|---|---|---|---|---|---|---|")
    weights = {path.name.removesuffix(".weights.safetensors") for path in DATA.glob("*.weights.safetensors")}
    for start in sys.argv[1:] or sorted({re.sub(r"-\d+$", "", name) for name in weights}):
        rows(start)
