"""Whom our kernels are compared with: torch's functions, and Liger-Kernel's cross-entropy."""
import importlib
from collections.abc import Callable

from ..common import torch_peers
from .cases import rows as rows_of

PEERS = ("torch", "liger")


def counterparts(case: dict) -> list[str]:
    """The peers that have a function for a case, installed or not."""
    if case["request"] == "add" or case["offset"] or not case["dtype"].startswith("float"):
        return []
    if _torch_function(case) is None:
        return []
    has_liger = getattr(rows_of(case["op"]), "LIGER", False) and len(case["shape"]) == 2
    return list(PEERS) if has_liger else ["torch"]


def _torch_function(case):
    return torch_peers.function(case["op"], case["attrs"], len(case["shape"]))


class Torch:
    """torch's functions, and Liger-Kernel's if it is installed; peer -> part -> function to time."""

    def __init__(self):
        self.torch = importlib.import_module("torch")
        try:
            self.liger = importlib.import_module("liger_kernel.transformers").LigerCrossEntropyLoss()
        except ImportError:
            self.liger = None

    def runners(self, case: dict, given: dict) -> dict[str, dict[str, Callable]]:
        peers = counterparts(case)
        if not peers or "output_grad" not in given:
            return {}
        torch = self.torch
        function = _torch_function(case)
        data = torch.from_numpy(given["data"]).cuda().requires_grad_()
        labels = [torch.from_numpy(given["label"].astype("int64")).cuda()] if "label" in given else []
        head = torch.from_numpy(given["output_grad"]).cuda()

        def forward():
            with torch.no_grad():
                return function(torch, data, *labels)

        def both():
            return torch.autograd.grad(function(torch, data, *labels), data, head)

        runners = {"torch": {"forward": forward, "both": both}}
        if self.liger and "liger" in peers:
            logits = data.detach().clone().requires_grad_()   # its forward overwrites them with the gradient
            runners["liger"] = {"both": lambda: torch.autograd.grad(self.liger(logits, *labels), logits)}
        return runners
