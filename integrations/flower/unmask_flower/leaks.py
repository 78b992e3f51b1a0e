"""One page of what a Flower server sees of its clients' pictures: `python -m unmask_flower.leaks RECEIVED`."""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file, save_file


@dataclass
class Leak:
    """The result of one attack on one node's update in one round."""

    round: int
    node: str
    attack: str
    is_masked: bool
    metrics: Mapping[str, Any]
    report: Mapping[str, Any] = field(default_factory=dict)
    """As report.json of `unmask invert`; empty if the attack cannot work."""
    refusal: str | None = None
    """Why it cannot work, in the words of `unmask invert`."""
    is_recognisable: bool = False


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

    `received` is a folder written by :class:`Received`. `unmask audit` attacks every update in it: the change of the
    weights is a gradient times a learning rate. `rate` is that rate; by default the one in the node's metrics, the `lr`
    that the server sent, or else 1, which scales the gradient and changes no picture. `names` are the parameters' names
    in timm or PyTorch, if Flower only numbers them and the program cannot tell them by their shapes. `arguments` are
    passed on, such as ("--heads", "3", "--mean", "0.5").

    `attacks` are names from `unmask invert --help`; by default embedding and label, and for masked updates also
    completion. Searches work too, but take minutes each.
    """
    found = shutil.which(program)
    if found is None:
        raise FileNotFoundError(
            f"there is no program {program!r} on PATH; build unmask and give its path as program="
        )
    if not any(Path(received).glob("round-*")):
        raise FileNotFoundError(f"{received} has no round-1; start a strategy on Received(grid, {str(received)!r})")
    with tempfile.TemporaryDirectory(prefix="unmask-leaks-") as place:
        folder = Path(received) if names is None else _named(Path(received), names, Path(place) / "named")
        command = [found, "audit", folder, "--out", place, *arguments]
        command += [] if attacks is None else ["--attacks", ",".join(attacks)]
        command += [] if rate is None else ["--rate", str(rate)]
        called = subprocess.run(command, capture_output=True, text=True, check=False)
        if called.returncode != 0:
            raise ValueError(called.stderr.strip() or f"{program} ended with exit code {called.returncode}")
        audit = json.loads((Path(place) / "audit.json").read_text(encoding="utf-8"))
        shutil.copyfile(Path(place) / "audit.html", out)
    return [
        Leak(
            round=update["round"],
            node=update["name"],
            attack=attack["attack"],
            is_masked=update["is_masked"],
            metrics=update["metrics"],
            report=attack.get("report", {}),
            refusal=attack.get("refusal"),
            is_recognisable=attack["is_recognisable"],
        )
        for update in audit["updates"]
        for attack in update["attacks"]
    ]


def _named(received: Path, names: Sequence[str], copy: Path) -> Path:
    """A copy of the folder in which numbered arrays have `names`."""
    shutil.copytree(received, copy)
    for path in copy.rglob("*.safetensors"):
        arrays = load_file(path)
        if not all(name.isdecimal() for name in arrays):
            continue
        if len(arrays) != len(names):
            raise ValueError(f"{path.name} has {len(arrays)} arrays, and there are {len(names)} names for them")
        save_file({names[int(number)]: array for number, array in arrays.items()}, path)
    return copy


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m unmask_flower.leaks",
        description="Attacks the updates that a Flower strategy received, and writes one page of results.",
        epilog="Arguments after -- are passed to `unmask audit`: -- --heads 3 --truth photo.jpg",
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
    seen = sum(leak.is_recognisable for leak in leaks)
    print(f"{seen} of {len(leaks)} attacks see a picture: {chosen.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
