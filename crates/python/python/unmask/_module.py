"""A PyTorch module as the attacks need it: what it says of itself, and its gradient.

PyTorch is not imported here: the caller's own is used.
"""

import copy
import sys

import numpy as np


class Facts:
    """What a ViT of timm, torchvision or Hugging Face, or another network, says of itself."""

    def __init__(self, module, heads=None, side=None, mean=None, std=None):
        self.notes = []
        blocks = _first(module, "blocks", "encoder.layers", "vit.encoder.layer", "encoder.layer")
        attention = None if blocks is None or not len(blocks) else _first(blocks[0], "attn", "self_attention")
        config = getattr(module, "config", None)
        self.heads = heads or _first(attention, "num_heads") or _first(config, "num_attention_heads")
        size = _first(module, "patch_embed.img_size", "image_size") or _first(config, "image_size")
        sides = {int(one) for one in np.atleast_1d(size)} if size is not None else set()
        if side is None and len(sides) > 1:
            raise ValueError(f"the module takes images of {size}; an audit needs square ones: give a square module")
        self.side = side or next(iter(sides), None)
        said = _first(module, "pretrained_cfg", "default_cfg") or {}
        for name, given in (("mean", mean), ("std", std)):
            value = said.get(name) if given is None and isinstance(said, dict) else given
            if value is None:
                value = 0.5
                self.notes.append(f"The module does not say how its images are normalised: {name} {value} was assumed.")
            setattr(self, name, np.broadcast_to(np.asarray(value, np.float64), 3))
        self.notes.append("The module was run in evaluation mode, without dropout, under cross entropy.")

    def fed(self, pictures):
        """Pictures [n, side, side, 3] in [0, 1] as the module takes them: [n, 3, side, side]."""
        return ((np.asarray(pictures, np.float64) - self.mean) / self.std).transpose(0, 3, 1, 2).astype(np.float32)


class Trainer:
    """A copy of the module that computes gradients and trains."""

    def __init__(self, module, loss=None):
        self.torch = sys.modules.get("torch")
        if self.torch is None or not hasattr(module, "named_parameters"):
            raise TypeError(f"{type(module).__name__} is no torch.nn.Module")
        frozen = [name for name, parameter in module.named_parameters() if not parameter.requires_grad]
        if frozen:
            raise ValueError(
                f"{frozen[0]} and {len(frozen) - 1} more parameters are frozen, so that their gradients never leave a client, and "
                "predictions are for whole updates; unfreeze a copy of the module to audit it, or record its updates"
            )
        # The caller's own module stays as it is. Half precision would round a plan's gradients.
        self.module = copy.deepcopy(module).cpu().float().eval()
        self.loss = loss or (lambda outputs, labels: self.torch.nn.functional.cross_entropy(_logits(outputs), labels))
        self.device = self.torch.device("cpu")

    def state(self):
        return {name: value.detach().clone() for name, value in self.module.state_dict().items()}

    def gradient(self, images, labels):
        """{name: gradient} of the mean loss; images [n, 3, side, side] as the module takes them."""
        self.module.zero_grad()
        images, labels = self.torch.as_tensor(np.asarray(images)), self.torch.as_tensor(np.asarray(labels))
        self.loss(self.module(images), labels).backward()
        return {name: p.grad.detach().clone() for name, p in self.module.named_parameters() if p.grad is not None}

    def trained(self, images, labels, epochs, rate):
        """{name: weight} after this many steps of SGD on one batch. The module's own weights stay."""
        before = self.state()
        try:
            for _ in range(epochs):
                gradient = self.gradient(images, labels)
                with self.torch.no_grad():
                    for name, parameter in self.module.named_parameters():
                        if name in gradient:
                            parameter -= rate * gradient[name]
            return {name: p.detach().clone() for name, p in self.module.named_parameters()}
        finally:
            self.module.load_state_dict(before)


def _logits(outputs):
    return getattr(outputs, "logits", outputs)


def _first(owner, *paths):
    """The first attribute that is there; a path goes through attributes."""
    for path in paths:
        found = owner
        for name in path.split("."):
            found = getattr(found, name, None)
            if found is None:
                break
        else:
            return found
    return None
