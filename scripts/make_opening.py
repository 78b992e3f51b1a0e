#!/usr/bin/env python3
"""Makes www/opening/strip.png, the animation shown while the page loads, from the shipped lesson. Needs Pillow.

    python scripts/make_opening.py

One row of pictures of 32 x 32: robot 1's photograph, then what APRIL, without the mask, reconstructed from its updates
in four rounds without a mask and in four with a random mask at R = 0.5.
"""

import base64
import gzip
import io
import json
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
CLIENT, ROUNDS, SIDE = 1, 4, 32
UNMASKED, MASKED = "guess", "mask"


def values(node, name):
    """All values under this name, at any depth."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == name:
                yield value
            yield from values(value, name)
    elif isinstance(node, list):
        for value in node:
            yield from values(value, name)


def picture(line):
    return Image.open(io.BytesIO(base64.b64decode(line["png"]))).convert("RGB")


def main():
    scene, original, read = "lobby", None, {UNMASKED: [], MASKED: []}
    with gzip.open(ROOT / "assets/lesson.unmask", "rt") as lines:
        for line in map(json.loads, lines):
            for change in values(line.get("state"), "scene"):
                scene = change.get("to", scene) if isinstance(change, dict) else scene
            shown = line.get("picture")
            if not shown or shown["client"] != CLIENT:
                continue
            if shown["is_original"]:
                original = picture(shown)
            elif "/april/" in shown["address"] and scene in read:
                read[scene].append(picture(shown))
    # The last rounds, because the first round of a scene may have started before its mask.
    row = [original, *read[UNMASKED][-ROUNDS:], *read[MASKED][-ROUNDS:]]
    strip = Image.new("RGB", (SIDE * len(row), SIDE))
    for column, tile in enumerate(row):
        strip.paste(tile, (SIDE * column, 0))
    strip.save(ROOT / "www/opening/strip.png", optimize=True)


if __name__ == "__main__":
    main()
