"""Received stores the messages between a strategy and its nodes."""

import json

import numpy as np
from flwr.app import Array, ConfigRecord
from flwr.serverapp.strategy import FedAvg
from safetensors.numpy import load_file
from support import Nodes, record

from unmask_flower import MaskedFedAvg, Received

START = {"w": np.float32([1, 2, 3])}


def grows(by):
    return lambda arrays, _: ({"w": arrays["w"] + np.float32(by)}, {"num-examples": 2, "loss": 0.5, "accuracy": float("nan")})


def test_every_round_is_kept_as_it_was_sent(tmp_path):
    grid = Received(Nodes(grows(1), grows(3)), tmp_path)
    FedAvg(fraction_evaluate=0.0).start(
        grid=grid, initial_arrays=record(START), num_rounds=2, train_config=ConfigRecord({"lr": 0.1})
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["round-1", "round-2"]
    second = tmp_path / "round-2"
    assert load_file(second / "global.safetensors")["w"].tolist() == [3, 4, 5]
    assert load_file(second / "node-2.safetensors")["w"].tolist() == [6, 7, 8]
    assert json.loads((second / "config.json").read_text()) == {"lr": 0.1, "server-round": 2}
    assert json.loads((second / "node-1.json").read_text()) == {"accuracy": None, "loss": 0.5, "num-examples": 2}
    assert not (second / "node-1.mask.safetensors").exists()


def test_masks_stand_in_a_file_of_their_own(tmp_path):
    def half(arrays, _):
        return {"w": arrays["w"] * np.float32([1, 0, 1]), "w.mask": np.uint8([1, 0, 1])}, {"num-examples": 1}

    MaskedFedAvg(fraction_evaluate=0.0, min_train_nodes=1, min_available_nodes=1).start(
        grid=Received(Nodes(half), tmp_path), initial_arrays=record(START), num_rounds=1
    )
    assert set(load_file(tmp_path / "round-1/node-1.safetensors")) == {"w"}
    assert load_file(tmp_path / "round-1/node-1.mask.safetensors")["w"].tolist() == [1, 0, 1]


def test_arrays_that_cannot_be_read_do_not_end_the_run(tmp_path):
    def broken(*_):
        return {"w": Array("float32", (3,), "numpy.ndarray", b"no npy")}, {"num-examples": 1}

    result = MaskedFedAvg(fraction_evaluate=0.0).start(
        grid=Received(Nodes(grows(1), broken), tmp_path), initial_arrays=record(START), num_rounds=1
    )
    assert result.arrays["w"].numpy().tolist() == [2, 3, 4]
    assert not (tmp_path / "round-1/node-2.safetensors").exists()
    assert "cannot be stored" in json.loads((tmp_path / "round-1/node-2.json").read_text())["error"]


def test_a_second_run_leaves_no_update_of_the_first(tmp_path):
    def half(arrays, _):
        return {"w": arrays["w"] * np.float32([1, 0, 1]), "w.mask": np.uint8([1, 0, 1])}, {"num-examples": 1}

    def run(*nodes):
        MaskedFedAvg(fraction_evaluate=0.0, min_train_nodes=1, min_available_nodes=1).start(
            grid=Received(Nodes(*nodes), tmp_path), initial_arrays=record(START), num_rounds=1
        )

    run(half, half)
    (tmp_path / "round-1/node-notes.json").write_text("mine")
    run(grows(1))
    assert sorted(path.name for path in (tmp_path / "round-1").iterdir()) == [
        "config.json",
        "global.safetensors",
        "node-1.json",
        "node-1.safetensors",
        "node-notes.json",
    ]
