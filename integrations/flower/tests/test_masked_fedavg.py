"""MaskedFedAvg: FedAvg and a division."""

import numpy as np
import pytest
from flwr.app import Array
from flwr.serverapp.strategy import FedAvg
from support import Nodes, record

from unmask_flower import MASK_SUFFIX, MaskedFedAvg

FORMER = {"a": np.float32([[1, 2, 3], [4, 5, 6]]), "b": np.float32([7, 8])}


def run(strategy, *nodes):
    result = strategy(fraction_evaluate=0.0, min_train_nodes=1, min_available_nodes=1).start(
        grid=Nodes(*nodes), initial_arrays=record(FORMER), num_rounds=1
    )
    return {name: array.numpy() for name, array in result.arrays.items()}


def plain(arrays, examples):
    return lambda *_: (arrays, {"num-examples": examples})


def masked(arrays, masks, examples):
    """A client that does not send the entries hidden by `masks`."""
    kept = {name: np.where(masks[name], array, 0).astype(array.dtype) for name, array in arrays.items()}
    return plain(kept | {name + MASK_SUFFIX: np.uint8(mask) for name, mask in masks.items()}, examples)


def random_client(random):
    arrays = {name: random.standard_normal(array.shape).astype(np.float32) for name, array in FORMER.items()}
    masks = {name: random.random(array.shape) < 0.5 for name, array in FORMER.items()}
    return arrays, masks, int(random.integers(1, 50))


@pytest.mark.parametrize("seed", range(20))
def test_the_result_is_the_weighted_mean_over_those_who_sent_an_entry(seed):
    random = np.random.default_rng(seed)
    clients = [random_client(random) for _ in range(3)]
    found = run(MaskedFedAvg, *(masked(*client) for client in clients))
    assert list(found) == list(FORMER)
    for name, former in FORMER.items():
        weights = np.array([examples * masks[name].astype(float) for _, masks, examples in clients])
        values = np.array([arrays[name].astype(float) for arrays, _, _ in clients])
        total = weights.sum(0)
        mean = (weights * values).sum(0) / np.where(total > 0, total, 1)
        np.testing.assert_allclose(found[name], np.where(total > 0, mean, former), rtol=0, atol=1e-6)
        # Bit for bit, where no client sent an entry.
        assert (found[name][total == 0] == former[total == 0]).all()
        assert found[name].dtype == np.float32


def test_without_a_mask_it_is_fedavg_bit_for_bit():
    random = np.random.default_rng(5)
    nodes = [plain(random_client(random)[0], examples) for examples in (3, 8)]
    ours, flowers = run(MaskedFedAvg, *nodes), run(FedAvg, *nodes)
    assert all((ours[name] == flowers[name]).all() for name in FORMER)


def test_a_client_without_masks_has_sent_all():
    zeros = {name: np.zeros_like(array) for name, array in FORMER.items()}
    twos = {name: np.full_like(array, 2) for name, array in FORMER.items()}
    masks = {"a": np.array([[1, 0, 0], [0, 0, 0]]), "b": np.array([1, 0])}
    found = run(MaskedFedAvg, plain(zeros, 1), masked(twos, masks, 3))
    np.testing.assert_allclose(found["a"], [[1.5, 0, 0], [0, 0, 0]])
    np.testing.assert_allclose(found["b"], [1.5, 0])


ONES = {name: np.ones_like(array) for name, array in FORMER.items()}


def lying(array, shape=None, data=None):
    """An array with a false description."""
    true = Array(array)
    return Array(true.dtype, shape or true.shape, true.stype, true.data if data is None else data)


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        ({"a.mask": np.full((2, 3), 2, np.uint8)}, "a.mask has entries other than 0 and 1"),
        ({"a.mask": np.full((2, 3), np.nan)}, "a.mask has entries other than 0 and 1"),
        ({"a.mask": np.zeros((2, 3), np.uint8)}, "a has values that its mask hides"),
        ({"b.mask": np.ones(3, np.uint8)}, "b.mask has shape (3,), b has (2,)"),
        ({"c.mask": np.ones(3, np.uint8)}, "c.mask is the mask of no parameter"),
        ({"b.mask": lying(np.ones(3, np.uint8), shape=(2,))}, "b.mask has shape (3,), b has (2,)"),
        ({"b.mask": lying(np.ones(2, np.uint8), data=b"no npy")}, "b.mask cannot be read"),
        ({"b": lying(np.ones(3, np.float32), shape=(2,)), "b.mask": np.ones(2, np.uint8)}, "b has shape (3,)"),
        ({"b": lying(np.ones(2, np.float32), data=b""), "a.mask": np.ones((2, 3), np.uint8)}, "b cannot be read"),
        ({"b": np.array(["1", "1"])}, "b has no real numbers"),
    ],
)
def test_masks_that_are_none_count_for_nothing(sent, reason, caplog):
    found = run(MaskedFedAvg, plain(FORMER, 1), plain(ONES | sent, 1000))
    assert all((found[name] == FORMER[name]).all() for name in FORMER)
    assert f"Ignored the reply of node 2: {reason}" in caplog.text
