"""Attacks on federated learning's updates, and masks against them, for NumPy."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, Protocol, Union, final

import numpy as np
from numpy.typing import NDArray

class _SupportsArray(Protocol):
    """Anything that NumPy can read, such as its own arrays and PyTorch's tensors."""

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
    """Attack an update of any ViT or ResNet: what a server sees of a client's picture. See help(unmask.invert)."""

def mask(
    update: _Arrays,
    rates: Union[float, str, Mapping[str, float]],
    seed: Union[bytes, int],
) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[np.uint8]]]:
    """Hide entries of an update behind an unmask client's random binary mask. Returns the masked update and the mask."""

@final
class Report:
    """What one attack found in one update, and how far that can be trusted."""

    @property
    def pictures(self) -> NDArray[np.float32]:
        """[n, side, side, 3] in [0, 1]."""
    @property
    def verdict(self) -> Union[Literal["recognisable", "not-recognisable-by-this-attack", "cannot-tell"], None]:
        """Describes only this attack on this update; None if the attack makes no picture."""
    @property
    def because(self) -> Union[str, None]:
        """Why there is no verdict."""
    @property
    def misfit(self) -> Union[float, None]:
        """The share of the update that the pictures' own gradient does not explain, from 0 to 1."""
    @property
    def remarks(self) -> list[str]:
        """Remarks on the result, in sentences."""
    @property
    def pictures_by_rank(self) -> Union[str, None]:
        """Number of pictures in the update, such as "2" or "at least 90"."""
    @property
    def labels(self) -> Union[list[int], None]:
        """The pictures' labels, read from the head's gradient."""
    @property
    def details(self) -> dict[str, Any]:
        """The whole report, as in the report.json of the command line."""
