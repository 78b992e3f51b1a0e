"""Prints scikit-image's PSNR and SSIM of the formula pictures in crates/data/src/test_pattern.rs.

    pip install scikit-image
    python scripts/metrics_reference.py > crates/data/src/metrics_reference.in
"""

import numpy as np
from skimage.metrics import peak_signal_noise_ratio, structural_similarity


def pattern(width, height):
    y, x, c = np.meshgrid(np.arange(height), np.arange(width), np.arange(3), indexing="ij")
    wave = 0.5 + 0.3 * np.sin(0.37 * x + 0.11 * c * y) * np.cos(0.23 * y + c)
    return (wave + np.where(x + y > 20 + 5 * c, 0.2, 0.0)).astype(np.float32)


def rippled(width, height, amount):
    image = pattern(width, height).astype(np.float64)
    ripple = amount * np.sin(1.7 * np.arange(image.size)).reshape(image.shape)
    return np.clip(image + ripple, 0, 1).astype(np.float32)


print("[")
for width, height, amount in [(7, 7, 0.1), (16, 16, 0.02), (32, 32, 0.05), (32, 32, 0.3), (61, 45, 0.6), (224, 224, 0.1)]:
    a, b = pattern(width, height).astype(np.float64), rippled(width, height, amount).astype(np.float64)
    psnr = peak_signal_noise_ratio(a, b, data_range=1)
    ssim = structural_similarity(a, b, data_range=1, channel_axis=2)
    print(f"    ({width}, {height}, {amount}, {psnr:.8f}, {ssim:.8f}),")
print("]")
