"""Whom benchmarks/gpu.py compares our kernels with: torch's functions, and Liger-Kernel's cross-entropy."""
import importlib


def counterpart(peer, case):
    """Whether a peer has a function that does what a case does; whether it is installed or not."""
    op, attrs = case["op"], case["attrs"]
    if case["request"] == "add" or case["offset"]:
        return False
    plain = {"reorg": attrs.get("mode") == "CRD" and not attrs.get("reverse"),
             "tile": isinstance(attrs.get("tiles"), int), "abs": case["dtype"].startswith("float"),
             "softmax": attrs.get("temperature") == 1,
             "softmax_cross_entropy": attrs.get("sparse_label") and not attrs.get("smoothing")
             and attrs.get("ignore_label") is None and attrs.get("axis") == -1}
    return bool(plain.get(op)) and (peer == "torch" or peer == "liger" and op == "softmax_cross_entropy")


class Torch:
    """torch's functions, and Liger-Kernel's where it is installed; peer -> part -> function to time."""

    def __init__(self):
        self.torch = importlib.import_module("torch")
        try:
            self.liger = importlib.import_module("liger_kernel.transformers").LigerCrossEntropyLoss()
        except ImportError:
            self.liger = None

    def function(self, case):
        """The forward pass as a function of data and label."""
        F, attrs, axis = self.torch.nn.functional, case["attrs"], case["attrs"].get("axis", -1)
        counts = [1] * len(case["shape"])
        counts[axis] = attrs.get("tiles", 1)
        return {"reorg": lambda x, _: F.pixel_unshuffle(x, attrs["stride"]), "tile": lambda x, _: x.tile(counts),
                "abs": lambda x, _: x.abs(), "softmax": lambda x, _: x.softmax(axis),
                "softmax_cross_entropy": lambda x, label: F.cross_entropy(x, label, reduction="none")}[case["op"]]

    def runners(self, case, given):
        if not counterpart("torch", case) or "output_grad" not in given:
            return {}
        torch, function = self.torch, self.function(case)
        data = torch.from_numpy(given["data"]).cuda().requires_grad_()
        label = torch.from_numpy(given["label"].astype("int64")).cuda() if "label" in given else None
        head = torch.from_numpy(given["output_grad"]).cuda()

        def forward():
            with torch.no_grad():
                return function(data, label)

        found = {"torch": {"forward": forward,
                           "both": lambda: torch.autograd.grad(function(data, label), data, head)}}
        if self.liger and counterpart("liger", case):
            logits = data.detach().clone().requires_grad_()   # its forward overwrites them with the gradient
            found["liger"] = {"both": lambda: torch.autograd.grad(self.liger(logits, label), logits)}
        return found
