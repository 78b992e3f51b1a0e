"""leak_report, with the program `unmask` on PATH or in the variable UNMASK_PROGRAM."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from flwr.app import ConfigRecord
from flwr.serverapp.strategy import FedAvg
from safetensors.numpy import load_file
from support import Nodes, record

from unmask_flower import MaskedFedAvg, Received, leak_report
from unmask_flower.fresh import fresh_vit
from unmask_flower.leaks import main

DATA = Path(__file__).resolve().parents[3] / "crates/attack/tests/data/completion"
RATE = 0.5


@pytest.fixture
def program(request, capsys):
    found = shutil.which(os.environ.get("UNMASK_PROGRAM", "unmask"))
    if found is None:
        reason = "there is no program unmask; build it, and name it in UNMASK_PROGRAM"
        # `cargo check-all` reads this.
        with capsys.disabled():
            print(f"\nskipped: {request.node.name}: {reason}", flush=True)
        pytest.skip(reason)
    return found


@pytest.fixture
def start():
    return fresh_vit(3, patch=8)


def trains_on_the_cat(keep=lambda shape: None):
    """A client after one step on a photograph; PyTorch computed the gradients of its embeddings."""
    gradients = load_file(DATA / "vit_nano_patch8_32-fresh-sgd-cat.safetensors")

    def client(arrays, config):
        sent = {
            name: array - np.float32(config["lr"]) * gradients.get(name, np.float32(0)) for name, array in arrays.items()
        }
        masks = {name: mask for name, array in sent.items() if (mask := keep(array.shape)) is not None}
        sent = {name: array * masks.get(name, np.float32(1)) for name, array in sent.items()}
        return sent | {name + ".mask": np.uint8(mask) for name, mask in masks.items()}, {"num-examples": 1}

    return client


def train(strategy, start, folder, *clients):
    strategy(fraction_evaluate=0.0, min_train_nodes=1, min_available_nodes=1).start(
        grid=Received(Nodes(*clients), folder),
        initial_arrays=record(start),
        num_rounds=1,
        train_config=ConfigRecord({"lr": RATE, "local-epochs": 1}),
    )


def photograph(path):
    """The client's picture, in a format that unmask reads."""
    import struct
    import zlib

    image = load_file(DATA / "vit_nano_patch8_32-fresh-sgd-cat.safetensors")["image"].astype(np.uint8)
    rows = b"".join(b"\0" + row.tobytes() for row in image)

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", image.shape[1], image.shape[0], 8, 2, 0, 0, 0)
    png = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + png)
    return str(path)


def test_a_page_shows_the_picture_that_plain_fedavg_gave_away(program, start, tmp_path):
    train(FedAvg, start, tmp_path / "received", trains_on_the_cat())
    truth = ("--truth", photograph(tmp_path / "cat.png"))
    page = tmp_path / "leaks.html"
    leaks = leak_report(tmp_path / "received", page, arguments=truth, program=program)
    assert [(leak.round, leak.node, leak.attack) for leak in leaks] == [(1, "1", "embedding"), (1, "1", "label")]
    assert leaks[0].report["verdict"] == "recognisable" and leaks[0].report["ssim"] > 0.95, leaks[0]
    assert leaks[0].report["fedavg"] == {"rate": RATE, "steps": 1}
    text = page.read_text(encoding="utf-8")
    assert "1 of 1 updates gave away" in text and "data:image/png;base64,iVBOR" in text
    assert "<script" not in text and "http:" not in text and "https:" not in text


def test_a_mask_stops_one_attack_and_not_the_other(program, start, tmp_path):
    random = np.random.default_rng(4)
    train(MaskedFedAvg, start, tmp_path / "received", trains_on_the_cat(lambda shape: random.random(shape) < 0.5))
    truth = ("--truth", photograph(tmp_path / "cat.png"))
    leaks = leak_report(tmp_path / "received", tmp_path / "page.html", arguments=truth, program=program)
    found = {leak.attack: leak.report.get("verdict") for leak in leaks}
    assert found["embedding"] == "not-recognisable-by-this-attack", leaks
    assert found["completion"] == "recognisable", leaks
    assert all(leak.is_masked for leak in leaks)
    assert "masked, trained on 1" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_arrays_that_are_numbered_are_named(program, start, tmp_path):
    numbered = {str(place): array for place, array in enumerate(start.values())}
    named = trains_on_the_cat()

    def client(arrays, config):
        sent, metrics = named(dict(zip(start, arrays.values(), strict=True)), config)
        return dict(zip(arrays, sent.values(), strict=True)), metrics

    train(FedAvg, numbered, tmp_path / "received", client)
    leaks = leak_report(
        tmp_path / "received", tmp_path / "page.html", attacks=["embedding"], names=list(start), program=program
    )
    assert leaks[0].refusal is None and "verdict" in leaks[0].report, leaks[0]
    with pytest.raises(ValueError, match="54 names"):
        leak_report(tmp_path / "received", tmp_path / "page.html", names=list(start)[:-2], program=program)


def test_what_cannot_be_attacked_says_why(program, tmp_path):
    train(FedAvg, {"w": np.zeros(3, np.float32)}, tmp_path / "received", lambda arrays, _: (arrays, {"num-examples": 1}))
    page = tmp_path / "leaks.html"
    assert main([str(tmp_path / "received"), "--out", str(page), "--attack", "embedding", "--unmask", program]) == 0
    assert "Cannot tell, because" in page.read_text(encoding="utf-8")


def test_what_is_missing_is_named(capsys, tmp_path):
    assert main([str(tmp_path), "--unmask", "no-such-program"]) == 2
    assert "no program 'no-such-program'" in capsys.readouterr().err
    assert main([str(tmp_path), "--unmask", "python"]) == 2
    assert "has no round-1" in capsys.readouterr().err


@pytest.mark.parametrize("said", ["<b>many", [1, 2], None, 10**400])
def test_a_node_that_says_no_number_is_refused_and_the_page_written(program, said, tmp_path):
    round_1 = tmp_path / "round-1"
    round_1.mkdir()
    (round_1 / "config.json").write_text(json.dumps({"batch-size": 3}))
    (round_1 / "node-1.safetensors").touch()
    (round_1 / "node-1.json").write_text(json.dumps({"num-examples": said}))
    (round_1 / "node-2.safetensors").touch()
    (round_1 / "node-2.json").write_text(json.dumps({"num-examples": 1, "rule": "fedavg:epochs=1,rate=1", "batch": "x"}))
    leaks = leak_report(tmp_path, tmp_path / "page.html", attacks=["label"], program=program)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert [leak.node for leak in leaks] == ["1", "2"]
    why = "is no JSON object" if said == 10**400 else "does not give a number of local steps"
    assert why in leaks[0].refusal and "does not give a number of local steps" in leaks[1].refusal, leaks
    assert why in page and "<b>many" not in page
