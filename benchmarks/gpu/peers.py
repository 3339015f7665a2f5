"""Whom our kernels are compared with: torch's functions, and Liger-Kernel's cross-entropy."""
from __future__ import annotations

import importlib.util
from collections.abc import Callable

from ..harness.cases import declared


def steps(case: dict, values: dict) -> dict[tuple[str, str], Callable]:
    """(Peer, part) -> what to time; nothing where torch is not installed or has no such function."""
    if not importlib.util.find_spec("torch"):
        return {}
    import torch

    declaration = declared(case["op"])
    function = declaration.in_torch(case["attrs"], len(case["shape"]))
    if not function or "output_grad" not in values or not case["dtype"].startswith("float"):
        return {}
    # Class indices have torch's type for them.
    arrays = [values[name].astype("int64") if name in case["classes"] else values[name] for name in case["inputs"]]
    data, *others = (torch.from_numpy(array).cuda() for array in arrays)
    data.requires_grad_()
    head = torch.from_numpy(values["output_grad"]).cuda()

    def forward():
        with torch.no_grad():
            return function(torch, data, *others)

    steps = {("torch", "forward"): forward,
             ("torch", "both"): lambda: torch.autograd.grad(function(torch, data, *others), data, head)}
    if declaration.LIGER and len(case["shape"]) == 2 and importlib.util.find_spec("liger_kernel"):
        liger = importlib.import_module("liger_kernel.transformers").LigerCrossEntropyLoss()
        logits = data.detach().clone().requires_grad_()   # its forward overwrites them with the gradient
        steps["liger", "both"] = lambda: torch.autograd.grad(liger(logits, *others), logits)
    return steps
