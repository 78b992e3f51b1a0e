#!/usr/bin/env python3
"""Draws docs/images/completion-limits.svg: for every ViT, the largest rate R at which counting allows completion.

    python3 scripts/completion_limits.py

Z is (L + S + 1) x D of rank S, and known per unknown is (1 - R) (L + S + 1) D / (S (L + 1 + D)). The points are from
the measured table in docs/reports/attack-notes.md.
"""

from pathlib import Path

OUT = Path(__file__).resolve().parent.parent / "docs" / "images" / "completion-limits.svg"
# Image side, patch, dimensions.
MODELS = {
    "vit_nano_patch4_32": (32, 4, 96),
    "vit_lab_patch4_32": (32, 4, 192),
    "vit_tiny_patch16_224": (224, 16, 192),
    "vit_small_patch16_224": (224, 16, 384),
    "ViT-B/16 (no preset)": (224, 16, 768),
    "vit_nano_patch8_32": (32, 8, 96),
    "vit_lab_patch8_32": (32, 8, 192),
    "vit_small_patch32_224": (224, 32, 384),
    "ViT-B/32 (no preset)": (224, 32, 768),
}
# Rate, and share of updates with an exactly reconstructed picture.
MEASURED = {
    "vit_lab_patch4_32": [(0.1, 1 / 1)],
    "vit_nano_patch8_32": [(0.5, 57 / 60), (0.7, 51 / 60)],
    "vit_lab_patch8_32": [(0.5, 60 / 60), (0.7, 60 / 60), (0.8, 51 / 60)],
    "vit_small_patch32_224": [(0.5, 9 / 9), (0.7, 2 / 2)],
    "ViT-B/32 (no preset)": [(0.8, 2 / 3)],
}
LEFT, WIDTH, TOP, ROW = 200, 560, 44, 30


def limit(side, patch, dim):
    """The R at which known per unknown is 1; 0 if the rank is full."""
    patches, values = (side // patch) ** 2, 3 * patch * patch
    if patches >= dim:
        return 0.0
    return max(0.0, 1 - patches * (values + 1 + dim) / ((values + patches + 1) * dim))


def main():
    x = lambda rate: LEFT + WIDTH * rate
    bottom = TOP + ROW * len(MODELS)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 40} {bottom + 70}" '
        'font-family="system-ui, sans-serif" font-size="13" role="img" '
        'aria-label="The rate up to which counting allows low-rank completion, by model">',
        f'<rect width="{LEFT + WIDTH + 40}" height="{bottom + 70}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="24" fill="#1d2733" font-weight="600">Share R of an update that a mask may hide and not protect</text>',
    ]
    for tenth in range(0, 11, 2):
        at = x(tenth / 10)
        parts.append(f'<path d="M{at:.0f} {TOP - 6}V{bottom}" stroke="#d5dae0"/>')
        parts.append(f'<text x="{at:.0f}" y="{bottom + 18}" text-anchor="middle" fill="#5b6570">{tenth / 10:.1f}</text>')
    for row, (name, size) in enumerate(MODELS.items()):
        y, rate = TOP + ROW * row, limit(*size)
        parts.append(f'<text x="{LEFT - 10}" y="{y + 17}" text-anchor="end" fill="#1d2733">{name}</text>')
        parts.append(f'<rect x="{LEFT}" y="{y + 5}" width="{WIDTH * rate:.0f}" height="16" fill="#c9d9ea"/>')
        label = f"{rate:.2f}" if rate else "none: S ≥ D"
        parts.append(f'<text x="{x(rate) + 6:.0f}" y="{y + 17}" fill="#5b6570">{label}</text>')
        for at, share in MEASURED.get(name, []):
            opacity = f'fill="#b22222" fill-opacity="{share:.2f}"'
            parts.append(f'<circle cx="{x(at):.0f}" cy="{y + 13}" r="6" {opacity} stroke="#b22222" stroke-width="1.5"/>')
    parts.append(
        f'<text x="{LEFT}" y="{bottom + 44}" fill="#5b6570">bar: kept / unknowns is 1 or more; circle: measured, filled by the '
        "share of pictures that came back exactly</text>"
    )
    OUT.write_text("\n".join(parts + ["</svg>", ""]))


if __name__ == "__main__":
    main()
