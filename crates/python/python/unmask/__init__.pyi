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

_Rate = Union[float, Sequence[float], None]

class _Module(Protocol):
    """A torch.nn.Module."""

    def named_parameters(self) -> Any: ...
    def state_dict(self) -> Any: ...

class Audit:
    """What a federation gives away: predictions, what happened when they were tried, and the page."""

    @property
    def conclusion(self) -> str:
        """One or more sentences."""
    @property
    def page(self) -> str:
        """The report as one HTML page, to read, print and mail."""
    @property
    def details(self) -> dict[str, Any]:
        """The whole report; docs/schema/audit.json describes it."""
    def save(self, folder: Union[str, PathLike[str]]) -> None:
        """Writes audit.html and audit.json."""

def audit(
    model: _Module,
    *,
    rule: str = "fedsgd",
    batch: int = 1,
    cohort: int = 10,
    defence: str = "none",
    secagg: bool = False,
    updates: int = 4,
    heads: Union[int, None] = None,
    side: Union[int, None] = None,
    mean: _Rate = None,
    std: _Rate = None,
    loss: Union[Callable[[Any, Any], Any], None] = None,
    seed: int = 1,
) -> Audit:
    """Say what a federation would give away with this torch.nn.Module. See help(unmask.audit)."""

class Row:
    """One attack on one picture under one defence."""

    attack: str
    defence: str
    picture: int
    verdict: Literal["recognisable", "not-recognisable-by-this-attack", "cannot-tell"]
    because: Union[str, None]
    psnr: Union[float, None]
    ssim: Union[float, None]
    found: Union[NDArray[np.float32], None]

class Matrix:
    """All rows, and a table of mean SSIM."""

    rows: list[Row]
    def mean(self, attack: str, defence: str) -> Union[float, None]:
        """The mean SSIM over the pictures; None if the attack found none."""

_NumPy = dict[str, NDArray[Any]]
_Attack = Callable[[_NumPy, _Arrays, Union[_Arrays, None]], Any]
_Defence = Callable[[_NumPy, int], Union[_Arrays, tuple[_Arrays, _Arrays]]]

def matrix(
    model: _Module,
    pictures: _Array,
    labels: Sequence[int],
    *,
    attacks: Sequence[Union[str, _Attack]] = ...,
    defences: Sequence[Union[str, _Defence]] = ...,
    heads: Union[int, None] = None,
    side: Union[int, None] = None,
    mean: _Rate = None,
    std: _Rate = None,
    loss: Union[Callable[[Any, Any], Any], None] = None,
    seed: int = 1,
) -> Matrix:
    """Try every attack on each picture under every defence. Your own functions take part beside ours."""

class Recorder:
    """Keeps what a server receives, in the folder that `unmask audit` reads."""

    def __init__(self, folder: Union[str, PathLike[str]]) -> None: ...
    def sent(self, round: int, weights: _Arrays) -> None:
        """Keeps the weights that the server sends at the start of a round. Earlier files of this round are deleted."""
    def received(
        self,
        round: int,
        client: Union[int, str],
        update: _Arrays,
        *,
        kind: Literal["weights", "difference", "gradient"] = "weights",
        rate: Union[float, None] = None,
        steps: Union[int, None] = None,
        mask: Union[_Arrays, None] = None,
        examples: Union[int, None] = None,
    ) -> None:
        """Keeps one client's update."""
