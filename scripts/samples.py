"""Writes www/samples from the photographs in scikit-image's wheel.

    pip install scikit-image
    python scripts/samples.py
"""

import pathlib

import numpy as np
import skimage
from PIL import Image

SIDE = 224
source = pathlib.Path(skimage.__file__).parent / "data"
target = pathlib.Path(__file__).parent.parent / "www" / "samples"
target.mkdir(parents=True, exist_ok=True)

for file, name in [
    ("astronaut.png", "astronaut.png"),
    ("chelsea.png", "cat.png"),
    ("coffee.png", "coffee.png"),
    ("rocket.jpg", "rocket.png"),
    ("camera.png", "cameraman.jpg"),
    ("hubble_deep_field.jpg", "hubble.jpg"),
]:
    image = Image.open(source / file).convert("RGB")
    if file == "astronaut.png":
        box = (90, 0, 350, 260)  # the face
    else:
        side = min(image.size)
        left, top = (image.width - side) // 2, (image.height - side) // 2
        box = (left, top, left + side, top + side)
    image = image.crop(box).resize((SIDE, SIDE), Image.Resampling.LANCZOS)
    image.save(target / name, optimize=True, quality=88)
