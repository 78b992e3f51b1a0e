"""Federated averaging of clients that send only a part of their weights."""

from collections.abc import Iterable
from logging import WARNING

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.common import log
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg

MASK_SUFFIX = ".mask"
"""Suffix of a parameter's name for its mask B (1 = sent), which has the shape of the parameter."""


class MaskedFedAvg(FedAvg):
    """FedAvg and a division.

    A masked client sends two arrays for each parameter: B * W, its weights with zeros for hidden entries, as NAME, and
    B as NAME.mask. FedAvg averages both with the same factors, so their quotient is the weighted mean over the clients
    that sent an entry. An entry that no client sent keeps its former value, bit for bit.

    Arrays and clients without masks are averaged as usual. A reply with invalid masks is ignored, because it could
    count its weights more often than its examples. A reply whose arrays cannot be read, or have another shape than the
    parameter, is ignored too, because it would end the run for all others.
    """

    _former = ArrayRecord()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        self._former = arrays
        return super().configure_train(server_round, arrays, config, grid)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        replies = [reply for reply in replies if self._is_sound(reply)]
        records = [record for reply in replies if not reply.has_error() for record in reply.content.array_records.values()]
        masked = {name for record in records for name in record if name.endswith(MASK_SUFFIX)}
        for record in records:
            for name in masked - record.keys():
                if (plain := record.get(name.removesuffix(MASK_SUFFIX))) is not None:
                    # Not `plain.shape`, which the sender claims.
                    record[name] = Array(np.ones(plain.numpy().shape, np.uint8))
        arrays, metrics = super().aggregate_train(server_round, replies)
        return (None if arrays is None else self._divide(arrays)), metrics

    def _divide(self, means: ArrayRecord) -> ArrayRecord:
        arrays = ArrayRecord()
        for name, mean in means.items():
            if name.endswith(MASK_SUFFIX):
                continue
            values = mean.numpy()
            if (mask := means.get(name + MASK_SUFFIX)) is not None:
                sent = mask.numpy()
                former = self._former[name].numpy()
                quotient = np.divide(values, sent, out=np.zeros(values.shape), where=sent > 0)
                values = np.where(sent > 0, quotient.astype(former.dtype), former)
            arrays[name] = Array(values)
        return arrays

    def _is_sound(self, reply: Message) -> bool:
        wrong = None if reply.has_error() else next(self._wrong(reply), None)
        if wrong is not None:
            log(WARNING, "Ignored the reply of node %d: %s", reply.metadata.src_node_id, wrong)
        return wrong is None

    def _wrong(self, reply: Message) -> Iterable[str]:
        """The errors in the arrays of a reply."""
        for record in reply.content.array_records.values():
            arrays = {}
            for name, array in record.items():
                try:
                    arrays[name] = array.numpy()
                    kind, shape = arrays[name].dtype.kind, arrays[name].shape
                # The sender can write anything: not an npy, an archive of several, a shape larger than memory.
                except Exception as error:
                    yield f"{name} cannot be read: {error}"
                    return
                if kind not in "biuf":
                    yield f"{name} has no real numbers, but {arrays[name].dtype}"
                parameter = name.removesuffix(MASK_SUFFIX)
                if (former := self._former.get(parameter)) is not None and shape != tuple(former.shape):
                    yield f"{name} has shape {shape}, {parameter} has {tuple(former.shape)}"
            for name, mask in arrays.items():
                if not name.endswith(MASK_SUFFIX):
                    continue
                parameter = name.removesuffix(MASK_SUFFIX)
                if (values := arrays.get(parameter)) is None or parameter not in self._former:
                    yield f"{name} is the mask of no parameter"
                elif not np.isin(mask, (0, 1)).all():
                    yield f"{name} has entries other than 0 and 1"
                elif np.any(values[mask == 0] != 0):
                    yield f"{parameter} has values that its mask hides"
