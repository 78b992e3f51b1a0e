#!/usr/bin/env python3
"""Draws docs/images/batch-limits.svg: for every ViT, the most pictures that counting lets the attack `batch` take apart.

    python3 scripts/batch_limits.py

The limit is the largest B with B (S + 1) < D, B S < D and B S < L. The points are from the measured table in
docs/batch.md, for gradients in f32 at fresh weights.
"""

from pathlib import Path

from completion_limits import MODELS as COMPLETED

OUT = Path(__file__).resolve().parent.parent / "docs" / "images" / "batch-limits.svg"
MODELS = COMPLETED
# Pictures in a batch, and share of them that came back at 60 dB or more.
MEASURED = {
    "vit_nano_patch8_32": [(2, 40 / 40), (3, 60 / 60), (4, 75 / 80)],
    "vit_small_patch32_224": [(2, 6 / 6)],
    "vit_lab_patch8_32": [(2, 40 / 40), (3, 60 / 60), (4, 80 / 80), (6, 35 / 36)],
}
LEFT, WIDTH, TOP, ROW, MOST = 200, 560, 44, 30, 16


def limit(side, patch, dim):
    """The most pictures; 0 if not even one fits."""
    patches, values = (side // patch) ** 2, 3 * patch * patch
    return min((dim - 1) // (patches + 1), (min(dim, values) - 1) // patches)


def main():
    x = lambda pictures: LEFT + WIDTH * pictures / MOST
    bottom = TOP + ROW * len(MODELS)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 40} {bottom + 70}" '
        'font-family="system-ui, sans-serif" font-size="13" role="img" '
        'aria-label="The most pictures that counting lets the attack on batches take apart, by model">',
        f'<rect width="{LEFT + WIDTH + 40}" height="{bottom + 70}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="24" fill="#1d2733" font-weight="600">Pictures in an update, or clients in a sum, that mixing does not protect</text>',
    ]
    for pictures in range(0, MOST + 1, 2):
        at = x(pictures)
        parts.append(f'<path d="M{at:.0f} {TOP - 6}V{bottom}" stroke="#d5dae0"/>')
        parts.append(f'<text x="{at:.0f}" y="{bottom + 18}" text-anchor="middle" fill="#5b6570">{pictures}</text>')
    for row, (name, size) in enumerate(MODELS.items()):
        y, most = TOP + ROW * row, limit(*size)
        parts.append(f'<text x="{LEFT - 10}" y="{y + 17}" text-anchor="end" fill="#1d2733">{name}</text>')
        parts.append(f'<rect x="{LEFT}" y="{y + 5}" width="{WIDTH * most / MOST:.0f}" height="16" fill="#c9d9ea"/>')
        parts.append(f'<text x="{x(most) + 6:.0f}" y="{y + 17}" fill="#5b6570">{most or "none"}</text>')
        for at, share in MEASURED.get(name, []):
            opacity = f'fill="#b22222" fill-opacity="{share:.2f}"'
            parts.append(f'<circle cx="{x(at):.0f}" cy="{y + 13}" r="6" {opacity} stroke="#b22222" stroke-width="1.5"/>')
    parts.append(
        f'<text x="{LEFT}" y="{bottom + 44}" fill="#5b6570">bar: counting allows it; circle: measured, filled by the share of '
        "pictures that came back</text>"
    )
    OUT.write_text("\n".join(parts + ["</svg>", ""]))


if __name__ == "__main__":
    main()
