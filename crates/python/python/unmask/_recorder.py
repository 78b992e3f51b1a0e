"""unmask.Recorder: keeps the updates of a federation for `unmask audit`."""

import json
from pathlib import Path

import numpy as np


class Recorder:
    """Keeps what a server receives, in the folder that `unmask audit` reads.

        recorder = unmask.Recorder("received")
        recorder.sent(round, model.state_dict())                      # what the server sends
        recorder.received(round, client, state, rate=0.1, steps=4)    # weights after local training
        recorder.received(round, client, changes, kind="difference")
        recorder.received(round, client, gradients, kind="gradient")

    Then `unmask audit received --out audit`.
    """

    def __init__(self, folder):
        self._folder = Path(folder)

    def sent(self, round, weights):
        """Keeps the weights that the server sends at the start of a round. Earlier files of this round are deleted."""
        folder = self._folder / f"round-{int(round)}"
        folder.mkdir(parents=True, exist_ok=True)
        for path in [*folder.glob("node-*"), *folder.glob("global.*"), folder / "config.json"]:
            path.unlink(missing_ok=True)
        np.savez(folder / "global.npz", **_arrays(weights))

    def received(self, round, client, update, *, kind="weights", rate=None, steps=None, mask=None, examples=None):
        """Keeps one client's update.

        `kind` is "weights", after local training with `rate` and `steps`; "difference", those weights less the weights
        before; or "gradient". A rate that is not known scales the gradient and changes no picture.
        """
        if kind not in ("weights", "difference", "gradient"):
            raise ValueError(f"{kind!r} is not a kind of update; give \"weights\", \"difference\" or \"gradient\"")
        arrays = _arrays(update)
        if kind == "difference":
            # The mean gradient over the steps.
            scale = -1 / ((rate or 1) * (steps or 1))
            arrays, kind = {name: array * np.asarray(scale, array.dtype) for name, array in arrays.items()}, "gradient"
        folder = self._folder / f"round-{int(round)}"
        folder.mkdir(parents=True, exist_ok=True)
        name = f"node-{str(client).replace('/', '_')}"
        np.savez(folder / f"{name}.npz", **arrays)
        if mask is not None:
            np.savez(folder / f"{name}.mask.npz", **_arrays(mask))
        said = {"update": kind, "lr": rate, "steps": steps, "num-examples": examples}
        said = {name: value for name, value in said.items() if value is not None}
        (folder / f"{name}.json").write_text(json.dumps(said), encoding="utf-8")


def _arrays(tensors):
    """NumPy arrays of a dict of tensors; NumPy has no bfloat16."""
    arrays = {}
    for name, tensor in tensors.items():
        if tensor is None:
            continue
        if hasattr(tensor, "detach"):
            tensor = tensor.detach().cpu()
            tensor = tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor
        arrays[name] = np.asarray(tensor)
    return arrays
