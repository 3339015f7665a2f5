"""What a net may need beside torch's own modules. net.py gets a copy of what it uses; gluonops never imports this."""
import json
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn


class BatchNorm(nn.modules.batchnorm._BatchNorm):
    """As MXNet's: the running variance is the mean of the squares, and gamma may be fixed at 1."""

    def __init__(self, channels, eps=1e-5, momentum=0.1, fix_gamma=False, use_global_stats=False):
        super().__init__(channels, eps, momentum)
        self.use_global_stats = use_global_stats
        self.weight.requires_grad_(not fix_gamma)

    def _check_input_dim(self, x):
        pass

    def forward(self, x):
        gamma = self.gamma()
        if self.use_global_stats or not self.training:
            mean, variance = self.running_mean, self.running_var
            return F.batch_norm(x, mean, variance, gamma, self.bias, False, 0.0, self.eps)
        with torch.no_grad():
            axes = [0] + list(range(2, x.dim()))
            self.running_mean.lerp_(x.mean(axes), self.momentum)
            self.running_var.lerp_(x.var(axes, correction=0), self.momentum)
        return F.batch_norm(x, None, None, gamma, self.bias, True, 0.0, self.eps)

    def gamma(self):
        return self.weight


class DarknetBatchNorm(BatchNorm):
    """Divides by the root of the running variance plus 1e-6, as Darknet does, in place of the root of the sum."""

    def __init__(self, channels, eps=1e-12, momentum=0.01):
        super().__init__(channels, eps, momentum)

    def gamma(self):
        variance = self.running_var
        return self.weight * ((variance + self.eps).sqrt() / (variance.sqrt() + 1e-6))


class Clip(nn.Module):
    """Numbers below ``low`` and above ``high`` are replaced; unlike in nn.ReLU6, the bounds have a gradient."""

    def __init__(self, low, high):
        super().__init__()
        self.low, self.high = low, high

    def forward(self, x):
        return x.clamp(self.low, self.high)


class SharedDropout(nn.Module):
    """Dropout that drops whole slices: all elements along some axes share their fate."""

    def __init__(self, p=0.5, axes=()):
        super().__init__()
        self.p, self.axes = p, axes

    def forward(self, x):
        if not self.training:
            return x
        shape = [1 if axis in self.axes else size for axis, size in enumerate(x.shape)]
        return x * F.dropout(x.new_ones(shape), self.p)


def space_to_depth(x, size):
    """Blocks of pixels as channels; the position in the block comes before the channel."""
    n, c, h, w = x.shape
    x = x.reshape(n, c, h // size, size, w // size, size).permute(0, 3, 5, 1, 2, 4)
    return x.reshape(n, c * size * size, h // size, w // size)


def depth_to_space(x, size):
    """The inverse of space_to_depth."""
    n, c, h, w = x.shape
    x = x.reshape(n, size, size, c // size**2, h, w).permute(0, 3, 4, 1, 5, 2)
    return x.reshape(n, c // size**2, h * size, w * size)


def darknet_reorg(x, size):
    """Darknet's reorg layer: space_to_depth of the same memory, read as a larger image."""
    n, c, h, w = x.shape
    x = space_to_depth(x.reshape(n, c // size**2, h * size, w * size), size)
    return x.reshape(n, c * size**2, h // size, w // size)


def parameter_groups(net, lr, weight_decay):
    """What an optimizer takes: the parameters that are trained, with their own learning rates and decays."""
    groups = []
    for name, parameter in net.named_parameters():
        if parameter.requires_grad and name not in FROZEN:  # noqa: F821
            rate, decay = MULTIPLIERS.get(name, (1, 1))  # noqa: F821
            group = {"params": [parameter], "lr": lr * rate, "weight_decay": weight_decay * decay}
            groups.append(group)
    return groups


def load(dtype=torch.float32, path=None):
    """The net with the weights of net.safetensors beside this file, in evaluation mode."""
    content = Path(path or Path(__file__).with_name("net.safetensors")).read_bytes()
    begin = 8 + int.from_bytes(content[:8], "little")
    weights = {}
    for name, entry in json.loads(content[8:begin]).items():
        first, last = entry["data_offsets"]
        kind = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16}[entry["dtype"]]
        data = bytearray(content[begin + first : begin + last])
        weights[name] = torch.frombuffer(data, dtype=kind).reshape(entry["shape"])
    net = Net()  # noqa: F821
    net.load_state_dict(weights)
    return net.to(dtype).eval()
