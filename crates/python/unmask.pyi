"""Attacks on federated learning's updates, and the masks against them, for NumPy."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, Protocol, Union, final

import numpy as np
from numpy.typing import NDArray

class _SupportsArray(Protocol):
    """What NumPy can read: its own arrays, tensors of PyTorch, and others."""

    def __array__(self) -> NDArray[Any]: ...

_Array = Union[NDArray[Any], _SupportsArray]
_Arrays = Mapping[str, Union[_Array, None]]
_Tensors = Union[_Arrays, str, PathLike[str]]

def invert(
    weights: Union[_Tensors, None],
    gradients: Union[_Tensors, Sequence[_Tensors]],
    mask: Union[_Tensors, Sequence[Union[_Tensors, None]], None] = None,
    attack: str = "completion",
    *,
    model: Union[str, None] = None,
    heads: Union[int, None] = None,
    side: Union[int, None] = None,
    mean: Union[float, Sequence[float], None] = None,
    std: Union[float, Sequence[float], None] = None,
    april_block: bool = False,
    eval: bool = False,
    encrypted_weights: Union[_Tensors, None] = None,
    fedavg: Union[tuple[float, int], None] = None,
    labels: Iterable[int] = (),
    batch: Union[int, None] = None,
    truth: Union[_Array, None] = None,
    candidate: Union[_Array, None] = None,
    gradient_of: Union[Callable[[NDArray[np.float32], NDArray[np.int64]], _Tensors], None] = None,
) -> Report:
    """Attack an update of any ViT or ResNet: what a server sees of a client's picture. help(unmask.invert) has it all."""

def mask(
    update: _Arrays,
    rates: Union[float, str, Mapping[str, float]],
    seed: Union[bytes, int],
) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[np.uint8]]]:
    """Hide entries of an update behind the random binary mask of an unmask client: the masked update, and the mask."""

@final
class Report:
    """What one attack found in one update, and how far that can be trusted."""

    @property
    def pictures(self) -> NDArray[np.float32]:
        """[n, side, side, 3] in [0, 1]."""
    @property
    def verdict(self) -> Union[Literal["recognisable", "not-recognisable-by-this-attack", "cannot-tell"], None]:
        """About this attack on this update; None where no picture was looked for."""
    @property
    def because(self) -> Union[str, None]:
        """Why it cannot be told."""
    @property
    def misfit(self) -> Union[float, None]:
        """What the pictures' own gradient leaves unexplained of the update: 0 nothing, 1 all."""
    @property
    def remarks(self) -> list[str]:
        """What to know about the result, in sentences."""
    @property
    def pictures_by_rank(self) -> Union[str, None]:
        """How many pictures are in the update, such as "2" or "at least 90"."""
    @property
    def labels(self) -> Union[list[int], None]:
        """The pictures' labels, read off the head's gradient."""
    @property
    def details(self) -> dict[str, Any]:
        """All of it, as in the report.json of the command line."""
