"""Messages that end with the round they belong to."""

from collections.abc import Iterable
from typing import Any

from flwr.app import Message
from flwr.serverapp import Grid


class Deadline:
    """A grid that tells each node how long the round is; any strategy may be started on it.

    A strategy waits `timeout` seconds for replies, but gives its messages twelve hours. A room that nobody is in, or that
    its teacher has paused, answers with its reason when the message ends: hours after the round, without this.
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
