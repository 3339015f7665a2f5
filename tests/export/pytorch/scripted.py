"""Whether TorchScript takes a written net."""
import sys
import warnings

import torch
from gluonops.export.torch.verify import load


def check(folder, *inputs):
    """Compare what TorchScript makes of the net in a folder with the net."""
    if sys.version_info >= (3, 14):   # torch does not support it there
        return
    module = load(folder)
    sys.modules[module.__name__] = module   # TorchScript looks for the source of a class there
    net = module.load()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        found = torch.jit.script(net)(*inputs)
    del sys.modules[module.__name__]
    torch.testing.assert_close(found, net(*inputs), equal_nan=True)
