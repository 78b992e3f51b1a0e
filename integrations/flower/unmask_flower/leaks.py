"""One page of what a Flower server sees of its clients' pictures: `python -m unmask_flower.leaks RECEIVED`."""

import argparse
import base64
import html
import json
import math
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file, save_file

PLAIN_ATTACKS = ("embedding", "label")
MASKED_ATTACKS = ("embedding", "completion", "label")
VERDICTS = {
    "recognisable": "recognisable",
    "not-recognisable-by-this-attack": "not recognisable by this attack",
    "cannot-tell": "cannot tell",
}


@dataclass
class Leak:
    """The result of one attack on one node's update in one round."""

    round: int
    node: str
    attack: str
    is_masked: bool
    metrics: Mapping[str, Any]
    report: Mapping[str, Any] = field(default_factory=dict)
    """The report.json of `unmask invert`; empty if the attack cannot work."""
    refusal: str | None = None
    """Why it cannot work, in the words of `unmask invert`."""
    pictures: Sequence[bytes] = ()
    """PNG files."""


def leak_report(
    received: str | PathLike[str],
    out: str | PathLike[str] = "leaks.html",
    *,
    attacks: Sequence[str] | None = None,
    rate: float | None = None,
    names: Sequence[str] | None = None,
    arguments: Sequence[str] = (),
    program: str = "unmask",
) -> list[Leak]:
    """Attacks the updates that a strategy received, and writes one page of results.

    `received` is a folder written by :class:`Received`. Every update in it is attacked with `unmask invert`: the change
    of the weights is a gradient times a learning rate. `rate` is that rate; by default the one in the node's metrics,
    the `lr` that the server sent, or else 1, which scales the gradient and changes no picture. `names` are the
    parameters' names in timm or PyTorch, if Flower only numbers them (ArrayRecord of a list). `arguments` are passed
    on, such as ("--heads", "3", "--mean", "0.5").

    `attacks` are names from `unmask invert --help`; by default embedding and label, and for masked updates also
    completion. Searches work too, but take minutes each.

    The attacks come from the program `unmask`, in the version of this package, not from the wheel: only the program
    runs the model, which it needs to judge a picture without the original.
    """
    found = shutil.which(program)
    if found is None:
        raise FileNotFoundError(
            f"there is no program {program!r} on PATH; build unmask and give its path as program="
        )
    rounds = sorted(Path(received).glob("round-*"), key=lambda folder: int(folder.name.removeprefix("round-")))
    if not rounds:
        raise FileNotFoundError(f"{received} has no round-1; start a strategy on Received(grid, {str(received)!r})")
    leaks = []
    for folder in rounds:
        leaks += _round(folder, found, attacks, rate, names, arguments)
    Path(out).write_text(_page(leaks), encoding="utf-8")
    return leaks


def _round(
    folder: Path,
    program: str,
    attacks: Sequence[str] | None,
    rate: float | None,
    names: Sequence[str] | None,
    arguments: Sequence[str],
) -> Iterator[Leak]:
    config = _read(folder / "config.json")
    for values in sorted(folder.glob("node-*.json")):
        node = values.stem
        update, mask, metrics = folder / f"{node}.safetensors", folder / f"{node}.mask.safetensors", _read(values)
        if not update.exists():
            continue
        is_masked = mask.exists()
        for attack in attacks or (MASKED_ATTACKS if is_masked else PLAIN_ATTACKS):
            leak = Leak(int(folder.name.removeprefix("round-")), node.removeprefix("node-"), attack, is_masked, metrics)
            try:
                local_rate, steps = _training(config, metrics)
            # The node may report anything about its training.
            except (TypeError, ValueError, ArithmeticError) as error:
                leak.refusal = f"What the node reports does not give a number of local steps: {error}"
                yield leak
                continue
            with tempfile.TemporaryDirectory(prefix="unmask-leaks-") as place:
                sent, kept, before = (
                    _named(path, names, Path(place)) for path in (update, mask, folder / "global.safetensors")
                )
                out = Path(place) / "out"
                command = [program, "invert", "--attack", attack, "--gradients", sent, "--weights", before]
                command += ["--fedavg", f"rate={rate or local_rate},steps={steps}", "--out", out, *arguments]
                command += ["--mask", kept] if is_masked else []
                called = subprocess.run(command, capture_output=True, text=True, check=False)
                if called.returncode == 0:
                    leak.report = _read(out / "report.json")
                    leak.pictures = [path.read_bytes() for path in sorted(out.glob("*.png"))]
                else:
                    leak.refusal = called.stderr.strip() or f"{program} ended with exit code {called.returncode}"
            yield leak


def _training(config: Mapping[str, Any], metrics: Mapping[str, Any]) -> tuple[float, int]:
    """Rate and number of a node's local steps: as it reports them, or else as the server requested."""
    rate, epochs, batch = config.get("lr", 1.0), config.get("local-epochs", 1), config.get("batch-size", 0)
    if said := re.fullmatch(r"fedavg:epochs=(\d+),rate=(.+)", str(metrics.get("rule"))):
        rate, epochs, batch = float(said[2]), int(said[1]), int(metrics.get("batch", batch))
    examples = metrics.get("num-examples", 1)
    return rate, max(1, round(epochs * (math.ceil(examples / batch) if batch else 1)))


def _named(path: Path, names: Sequence[str] | None, place: Path) -> Path:
    """The file, or a copy of it with `names` if its arrays are numbered."""
    if names is None or not path.exists():
        return path
    arrays = load_file(path)
    if not all(name.isdecimal() for name in arrays):
        return path
    if len(arrays) != len(names):
        raise ValueError(f"{path} has {len(arrays)} arrays, and there are {len(names)} names for them")
    copy = place / path.name
    save_file({names[int(number)]: array for number, array in arrays.items()}, copy)
    return copy


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


STYLE = """
body { font: 1rem/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color: #1b1b1f; background: #fff }
table { border-collapse: collapse; width: 100% } th, td { text-align: left; vertical-align: top; padding: .5rem; border-top: 1px solid #c8c8d0 }
img { width: 8rem; height: 8rem; image-rendering: pixelated; margin-right: .25rem } .recognisable { color: #a40000; font-weight: bold }
@media (prefers-color-scheme: dark) { body { color: #e8e8ee; background: #16161a } .recognisable { color: #ff8f8f } th, td { border-color: #44444c } }
"""


def _page(leaks: Sequence[Leak]) -> str:
    seen = {(leak.round, leak.node) for leak in leaks if leak.report.get("verdict") == "recognisable"}
    updates = {(leak.round, leak.node) for leak in leaks}
    rows = "\n".join(_row(leak) for leak in leaks)
    return f"""<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>What this Flower server could see</title><style>{STYLE}</style></head>
<body>
<h1>What this Flower server could see</h1>
<p><strong>{len(seen)} of {len(updates)} updates</strong> gave away a recognisable picture to the server that averages
them. The attacks only need the weights before and after a node's training, which every strategy receives.</p>
<p>Recognisable means: the picture's own gradient explains the update, or the equations of the embedding hold for it. An
attack that sees nothing does not prove that there is nothing to see: another attack may succeed on the same update.</p>
<table>
<thead><tr><th>Round</th><th>Node</th><th>Attack</th><th>Result</th><th>How far to trust it</th></tr></thead>
<tbody>
{rows}
</tbody>
</table>
</body>
</html>
"""


def _row(leak: Leak) -> str:
    sent = "masked weights" if leak.is_masked else "weights"
    examples = leak.metrics.get("num-examples")
    node = f"{leak.node}<br>{sent}" + ("" if examples is None else f", {_count(examples)} trained on")
    if (defence := leak.metrics.get("defence")) is not None:
        node += f"<br>defence {html.escape(str(defence))}"
    if leak.refusal is not None:
        cells = "", html.escape(leak.refusal)
    else:
        cells = _pictures(leak), _trust(leak.report)
    return f"<tr><td>{leak.round}</td><td>{node}</td><td>{html.escape(leak.attack)}</td><td>{cells[0]}</td><td>{cells[1]}</td></tr>"


def _count(examples: Any) -> str:
    try:
        return f"{examples:g}"
    except (TypeError, ValueError, OverflowError):
        return html.escape(str(examples))


def _pictures(leak: Leak) -> str:
    alt = html.escape(f"result of {leak.attack} on the update of node {leak.node} in round {leak.round}")
    shown = [
        f'<img alt="{alt}" src="data:image/png;base64,{base64.b64encode(picture).decode("ascii")}">'
        for picture in leak.pictures
    ]
    if (labels := leak.report.get("labels_read")) is not None:
        shown.append(f"<p>Labels in the update: {', '.join(map(str, labels))}</p>")
    return "".join(shown)


def _trust(report: Mapping[str, Any]) -> str:
    verdict = report.get("verdict")
    lines = []
    if verdict is not None:
        because = f": {html.escape(report['because'])}" if report.get("because") else ""
        lines.append(f'<span class="{html.escape(verdict)}">{VERDICTS.get(verdict, html.escape(verdict))}</span>{because}')
    if (misfit := report.get("misfit")) is not None:
        lines.append(f"Unexplained share of the update: {100 * misfit:.3g} %")
    if (ssim := report.get("ssim")) is not None:
        lines.append(f"SSIM {ssim:.3f}")
    if (hidden := report.get("hidden_share", 0)) > 0:
        lines.append(f"Hidden share of the values read: {100 * hidden:.0f} %")
    lines += [html.escape(note) for note in report.get("notes", ())]
    return "<br>".join(lines)


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m unmask_flower.leaks",
        description="Attacks the updates that a Flower strategy received, and writes one page of results.",
        epilog="Arguments after -- are passed to `unmask invert`: -- --heads 3 --truth photo.jpg",
    )
    parser.add_argument("received", metavar="FOLDER", help="folder of Received(grid, FOLDER) or the app's `received`")
    parser.add_argument("--out", metavar="FILE", default="leaks.html", help="the page (default: %(default)s)")
    parser.add_argument("--attack", metavar="NAME", action="append", help="one of `unmask invert --help`; may be repeated")
    parser.add_argument("--rate", metavar="RATE", type=float, help="local learning rate; the server's lr if absent")
    parser.add_argument("--unmask", metavar="PROGRAM", default="unmask", help="the program (default: %(default)s on PATH)")
    given = list(sys.argv[1:] if given is None else given)
    split = given.index("--") if "--" in given else len(given)
    chosen = parser.parse_args(given[:split])
    try:
        leaks = leak_report(
            chosen.received,
            chosen.out,
            attacks=chosen.attack,
            rate=chosen.rate,
            arguments=given[split + 1 :],
            program=chosen.unmask,
        )
    except (FileNotFoundError, ValueError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    seen = sum(leak.report.get("verdict") == "recognisable" for leak in leaks)
    print(f"{seen} of {len(leaks)} attacks see a picture: {chosen.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
