"""Messages that expire with their round."""

from collections.abc import Iterable
from typing import Any

from flwr.app import Message
from flwr.serverapp import Grid


class Deadline:
    """A grid for any strategy, whose messages expire with the round.

    A strategy waits `timeout` seconds for replies, but its messages expire after twelve hours. An empty or paused room
    answers with its reason when the message expires, which would otherwise be hours after the round.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid

    def __getattr__(self, name: str) -> Any:
        return getattr(self._grid, name)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        messages = list(messages)
        if timeout is not None:
            for message in messages:
                message.metadata.ttl = timeout
        return self._grid.send_and_receive(messages, timeout=timeout)
