"""unmask.matrix: attacks and defences of the caller beside ours."""

import html
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np

from unmask._module import Facts, Trainer
from unmask._unmask import Plan, invert, similarity

RECOGNISABLE_FROM = 0.5
"""The SSIM from which a picture counts as recognised."""


@dataclass
class Row:
    """One attack on one picture under one defence."""

    attack: str
    defence: str
    picture: int
    verdict: str
    because: Optional[str] = None
    psnr: Optional[float] = None
    ssim: Optional[float] = None
    found: Any = None
    """The picture found, float32 [side, side, 3]; None if there is none."""


class Matrix:
    """All rows, and a table of mean SSIM."""

    def __init__(self, rows):
        self.rows = rows

    def mean(self, attack, defence):
        """The mean SSIM over the pictures; None if the attack found none."""
        found = [row.ssim for row in self.rows if (row.attack, row.defence) == (attack, defence) and row.ssim is not None]
        return float(np.mean(found)) if found else None

    def _table(self):
        attacks = list(dict.fromkeys(row.attack for row in self.rows))
        defences = list(dict.fromkeys(row.defence for row in self.rows))
        text = lambda mean: "cannot tell" if mean is None else f"{mean:.2f}"  # noqa: E731
        return defences, [(attack, [text(self.mean(attack, defence)) for defence in defences]) for attack in attacks]

    def __str__(self):
        defences, lines = self._table()
        width = max(len(text) for text in [*defences, *(attack for attack, _ in lines), "cannot tell"]) + 2
        return "\n".join("".join(text.ljust(width) for text in line).rstrip() for line in [["mean SSIM", *defences], *([a, *m] for a, m in lines)])

    def _repr_html_(self):
        defences, lines = self._table()
        head = "".join(f"<th>{html.escape(defence)}</th>" for defence in defences)
        body = "".join(
            f"<tr><th>{html.escape(attack)}</th>{''.join(f'<td>{mean}</td>' for mean in means)}</tr>" for attack, means in lines
        )
        return f"<table><tr><th>mean SSIM</th>{head}</tr>{body}</table>"


def matrix(
    model,
    pictures,
    labels,
    *,
    attacks=("embedding", "embedding-aware", "completion"),
    defences=("none", "random-binary:0.5"),
    heads=None,
    side=None,
    mean=None,
    std=None,
    loss=None,
    seed=1,
):
    """Try every attack on each picture under every defence. Your own functions take part beside ours.

    Parameters
    ----------
    model : torch.nn.Module
        As for audit.
    pictures : array [n, side, side, 3]
        In [0, 1].
    labels : sequence of int
        One for each picture.
    attacks : sequence of str or callable
        Names of invert, or functions attack(weights, update, mask): dicts of arrays by the module's names (mask is None if
        nothing is hidden), to a picture [side, side, 3] in [0, 1].
    defences : sequence of str or callable
        Names as on the command line, or functions defence(update, seed) to the update that is sent, or to (update, mask).
    heads, side, mean, std, loss, seed :
        As for audit.

    Returns
    -------
    Matrix

    Raises
    ------
    ValueError
        The module, a name, or what a function returned cannot be used. Exceptions of a function are raised unchanged.
    """
    trainer = Trainer(model, loss)
    facts = Facts(model, heads, side, mean, std)
    weights = trainer.state()
    pictures = np.asarray(pictures, np.float32)
    if len(labels) != len(pictures):
        raise ValueError(f"there are {len(labels)} labels for {len(pictures)} pictures; give one for each")
    told = {"heads": facts.heads, "side": facts.side, "mean": list(facts.mean), "std": list(facts.std)}
    plans = {
        defence: Plan(weights, rule="fedsgd", batch=1, cohort=2, defence=defence, secagg=False, **told)
        for defence in defences
        if not callable(defence)
    }
    rows = []
    for number, (picture, label) in enumerate(zip(pictures, labels)):
        update = trainer.gradient(facts.fed(picture[None]), np.asarray([label]))
        for defence in defences:
            draw = int(seed) * 1_000_003 + number
            sent, kept = _protected(defence, plans, update, draw)
            for attack in attacks:
                row = Row(_name(attack), _name(defence), number, "cannot-tell")
                if callable(attack):
                    found = attack(_numpy(weights), sent, kept)
                    row.found = _picture(attack, found, picture.shape)
                    row.psnr, row.ssim = similarity(row.found, picture)
                    is_seen = row.ssim >= RECOGNISABLE_FROM
                    row.verdict = "recognisable" if is_seen else "not-recognisable-by-this-attack"
                else:
                    _ours(row, attack, weights, sent, kept, picture, told, trainer)
                rows.append(row)
    return Matrix(rows)


def _ours(row, attack, weights, sent, kept, picture, told, trainer):
    try:
        report = invert(weights, sent, kept, attack, truth=picture, gradient_of=trainer.gradient, eval=True, **told)
    except ValueError as error:
        row.because = str(error)
        return
    row.verdict, row.because = report.verdict or "cannot-tell", report.because
    row.psnr, row.ssim = report.details.get("psnr"), report.details.get("ssim")
    row.found = report.pictures[0] if len(report.pictures) else None


def _protected(defence, plans, update, seed):
    if not callable(defence):
        return plans[defence].protect(update, seed)
    sent = defence(_numpy(update), seed)
    sent, kept = sent if isinstance(sent, tuple) else (sent, None)
    if not isinstance(sent, dict) or set(sent) != set(update):
        raise ValueError(f"{_name(defence)} must return a dict with the update's own names, or it and a mask")
    return sent, kept


def _picture(attack, found, shape):
    found = np.asarray(found, np.float32)
    if found.shape != shape or not np.isfinite(found).all():
        raise ValueError(f"{_name(attack)} must return a picture {list(shape)} of finite numbers, and returned {list(found.shape)}")
    return np.clip(found, 0, 1)


def _name(part):
    return getattr(part, "__name__", type(part).__name__) if callable(part) else part


def _numpy(tensors):
    return {name: tensor.detach().cpu().numpy() if hasattr(tensor, "detach") else np.asarray(tensor) for name, tensor in tensors.items()}
