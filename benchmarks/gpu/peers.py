"""Whom our kernels are compared with: torch's functions, and Liger-Kernel's cross-entropy."""
from __future__ import annotations

from collections.abc import Callable

from ..harness.cases import declared


def steps(case: dict, given: dict) -> dict[tuple[str, str], Callable]:
    """(Peer, part) -> what to time; nothing where torch is not installed or has no such function."""
    try:
        import torch
    except ImportError:
        return {}
    found = declared(case["op"])
    function = found.in_torch(case["attrs"], len(case["shape"]))
    if not function or "output_grad" not in given or not case["dtype"].startswith("float"):
        return {}
    # Class indices have torch's type for them.
    arrays = [given[name].astype("int64") if name in case["classes"] else given[name] for name in case["inputs"]]
    data, *others = (torch.from_numpy(array).cuda() for array in arrays)
    data.requires_grad_()
    head = torch.from_numpy(given["output_grad"]).cuda()

    def forward():
        with torch.no_grad():
            return function(torch, data, *others)

    steps = {("torch", "forward"): forward,
             ("torch", "both"): lambda: torch.autograd.grad(function(torch, data, *others), data, head)}
    liger = _liger() if found.LIGER and len(case["shape"]) == 2 else None
    if liger:
        logits = data.detach().clone().requires_grad_()   # its forward overwrites them with the gradient
        steps["liger", "both"] = lambda: torch.autograd.grad(liger(logits, *others), logits)
    return steps


def _liger():
    try:
        from liger_kernel.transformers import LigerCrossEntropyLoss
    except ImportError:
        return None
    return LigerCrossEntropyLoss()
