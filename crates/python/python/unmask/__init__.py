"""Attacks on federated learning's updates, and masks against them, for NumPy.

invert() is `unmask invert` on arrays: it attacks a gradient and says how far the result can be trusted. mask() hides
entries of a gradient as a client of unmask does. audit() says what a federation would give away with your model,
matrix() puts your own attack or defence beside ours, and a Recorder keeps the updates of a real federation for
`unmask audit`.

    import torch, unmask

    torch.nn.functional.cross_entropy(model(image), label).backward()
    gradients = {name: p.grad for name, p in model.named_parameters()}
    masked, mask = unmask.mask(gradients, rates=0.5, seed=7)
    report = unmask.invert(model.state_dict(), masked, mask, attack="completion")
    print(report)
    plt.imshow(report.pictures[0])
"""

from unmask._audit import Audit, audit
from unmask._matrix import Matrix, Row, matrix
from unmask._recorder import Recorder
from unmask._unmask import Report, invert, mask

__all__ = ["Audit", "Matrix", "Recorder", "Report", "Row", "audit", "invert", "mask", "matrix"]
