"""The app, on a grid in this process."""

from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from support import Nodes

from unmask_flower.server_app import main


CONFIG = {"strategy": "fedavg", "evaluate": False, "min-nodes": 1, "received": "", "num-server-rounds": 1}
CONFIG |= {"round-timeout": 1.0, "lr": 0.0, "local-epochs": 0, "batch-size": 0}


class Silent(Nodes):
    """Nodes that never answer, and record the messages."""

    asked = ()

    def send_and_receive(self, messages, *, timeout=None):
        self.asked = (*self.asked, *messages)
        return []


def test_a_message_ends_with_its_round(tmp_path):
    start = tmp_path / "start.safetensors"
    save_file({"w": np.float32([1])}, start)
    grid = Silent(None)
    main(grid, SimpleNamespace(run_config=CONFIG | {"initial": str(start), "out": "", "round-timeout": 30.0}))
    assert [message.metadata.ttl for message in grid.asked] == [30.0]


@pytest.mark.parametrize(("nodes", "written"), [(Silent, [1, 2]), (Nodes, [4, 5])])
def test_a_model_is_overwritten_by_a_model_alone(nodes, written, tmp_path, caplog):
    start, out = tmp_path / "start.safetensors", tmp_path / "out.safetensors"
    save_file({"w": np.float32([3, 4])}, start)
    save_file({"w": np.float32([1, 2])}, out)
    config = CONFIG | {"initial": str(start), "out": str(out)}
    grid = nodes(lambda arrays, _: ({"w": arrays["w"] + np.float32(1)}, {"num-examples": 1}))
    main(grid, SimpleNamespace(run_config=config))
    assert load_file(out)["w"].tolist() == written
    assert ("No node ever answered" in caplog.text) == (nodes is Silent)
