"""Whom our kernels are compared with: torch's functions, and Liger-Kernel's cross-entropy."""
from __future__ import annotations

import importlib
from collections.abc import Callable

from ..harness.cases import declared


class Torch:
    """torch's functions, and Liger-Kernel's if it is installed."""

    def __init__(self):
        self.torch = importlib.import_module("torch")
        try:
            self.liger = importlib.import_module("liger_kernel.transformers").LigerCrossEntropyLoss()
        except ImportError:
            self.liger = None

    def steps(self, case: dict, given: dict) -> dict[tuple[str, str], Callable]:
        """(Peer, part) -> what to time; nothing where torch has no such function."""
        found, torch = declared(case["op"]), self.torch
        function = found.in_torch and found.in_torch(case["attrs"], len(case["shape"]))
        if not function or "output_grad" not in given or not case["dtype"].startswith("float"):
            return {}
        data, *others = (self._tensor(case, name, given[name]) for name in case["inputs"])
        data.requires_grad_()
        head = torch.from_numpy(given["output_grad"]).cuda()

        def forward():
            with torch.no_grad():
                return function(torch, data, *others)

        steps = {("torch", "forward"): forward,
                 ("torch", "both"): lambda: torch.autograd.grad(function(torch, data, *others), data, head)}
        if self.liger and found.LIGER and len(case["shape"]) == 2:
            logits = data.detach().clone().requires_grad_()   # its forward overwrites them with the gradient
            steps["liger", "both"] = lambda: torch.autograd.grad(self.liger(logits, *others), logits)
        return steps

    def _tensor(self, case, name, array):
        """An array on the GPU; class indices have torch's type for them."""
        return self.torch.from_numpy(array.astype("int64") if name in case["classes"] else array).cuda()
