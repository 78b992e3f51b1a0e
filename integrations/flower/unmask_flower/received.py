"""Stores what a strategy sends and receives in a folder."""

import json
import math
import re
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Message, MessageType, RecordDict
from flwr.serverapp import Grid
from safetensors.numpy import save_file

from unmask_flower.masked_fedavg import MASK_SUFFIX

OWN = re.compile(r"config\.json|global(\.mask)?\.safetensors|node-\d+(\.json|(\.mask)?\.safetensors)")
"""Names of the files of a round."""


class Received:
    """A grid for any strategy that stores the messages.

    For each round of training, `folder` holds round-N/global.safetensors (what the server sent), round-N/config.json,
    and for each node that answered node-ID.safetensors, node-ID.mask.safetensors if it is masked, and node-ID.json with
    its training metrics.

    A run in the folder of an earlier one replaces each round that it reaches: the earlier files in round-N are deleted,
    because an update only makes sense with the weights that it started from. Other files and later rounds stay.
    """

    def __init__(self, grid: Grid, folder: str | PathLike[str]) -> None:
        self._grid = grid
        self._folder = Path(folder)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._grid, name)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        messages = list(messages)
        replies = list(self._grid.send_and_receive(messages, timeout=timeout))
        if messages and messages[0].metadata.message_type == MessageType.TRAIN:
            self._keep(messages[0].content, replies)
        return replies

    def _keep(self, sent: RecordDict, replies: list[Message]) -> None:
        config = {key: value for record in sent.config_records.values() for key, value in record.items()}
        folder = self._folder / f"round-{config.get('server-round', 0)}"
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():
            if OWN.fullmatch(path.name):
                path.unlink()
        _save_arrays(folder / "global", sent)
        _save_values(folder / "config.json", config)
        for reply in replies:
            node = folder / f"node-{reply.metadata.src_node_id}"
            if reply.has_error():
                _save_values(node.with_suffix(".json"), {"error": reply.error.reason})
                continue
            try:
                _save_arrays(node, reply.content)
            # The node can send anything instead of arrays; the strategy decides what to do with it.
            except Exception as error:
                for suffix in (".safetensors", ".mask.safetensors"):
                    node.with_suffix(suffix).unlink(missing_ok=True)
                _save_values(node.with_suffix(".json"), {"error": f"its arrays cannot be stored: {error}"})
                continue
            records = [*reply.content.config_records.values(), *reply.content.metric_records.values()]
            _save_values(node.with_suffix(".json"), {key: value for record in records for key, value in record.items()})


def _save_arrays(path: Path, content: RecordDict) -> None:
    arrays = _arrays(next(iter(content.array_records.values()), ArrayRecord()))
    masks = {name.removesuffix(MASK_SUFFIX): arrays.pop(name) for name in list(arrays) if name.endswith(MASK_SUFFIX)}
    if arrays:
        save_file(arrays, path.with_suffix(".safetensors"))
    if masks:
        save_file({name: mask.astype(np.uint8) for name, mask in masks.items()}, path.with_suffix(".mask.safetensors"))


def _arrays(record: ArrayRecord) -> dict[str, np.ndarray]:
    # safetensors writes memory in its physical order.
    return {name: np.ascontiguousarray(array.numpy()) for name, array in record.items()}


def _save_values(path: Path, values: dict[str, Any]) -> None:
    text = json.dumps({key: _shown(value) for key, value in values.items()}, indent=2, sort_keys=True, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")


def _shown(value: Any) -> Any:
    """A value as JSON, which has neither bytes nor NaN. Nodes send NaN for what they did not measure."""
    if isinstance(value, list):
        return [_shown(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (bool, int, float, str)) else repr(value)
