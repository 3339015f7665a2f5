"""Export a net and make sure of the files: run them through Module here, and in a process that has no gluonops."""
import pathlib
import subprocess
import sys
import tempfile

import gluonops as gops
import mxnet as mx
import numpy as np

WITHOUT_GLUONOPS = """
import sys
import numpy
numpy.bool = numpy.bool_    # MXNet 1.9.1 reads this name, which NumPy 1.24 removed
import mxnet as mx
prefix, images, outputs = sys.argv[1:]
net = mx.gluon.SymbolBlock.imports(f"{prefix}-symbol.json", ["data"], f"{prefix}-0000.params")
found = net(mx.nd.array(numpy.load(images)))
numpy.savez(outputs, *(array.asnumpy() for array in (found if isinstance(found, (list, tuple)) else [found])))
assert "gluonops" not in sys.modules
"""


def export(net, prefix, images):
    """Write ``prefix-symbol.json`` and ``prefix-0000.params``; compare what they compute for ``images`` with the net.

    Returns
    -------
    dict
        ``module`` and ``without_gluonops``: the largest difference each.
    """
    gops.export.symbol(net, prefix, images.shape)
    context = next(iter(net.collect_params().values())).list_ctx()[0]
    expected = net(mx.nd.array(images, ctx=context))
    expected = expected if isinstance(expected, (list, tuple)) else [expected]
    return {"module": _difference(_module(prefix, images), expected),
            "without_gluonops": _difference(_fresh_process(prefix, images), expected)}


def _difference(found, expected):
    return max(float(np.abs(one - other.asnumpy()).max()) for one, other in zip(found, expected))


def _module(prefix, images):
    module = mx.mod.Module.load(str(prefix), 0, label_names=None)
    module.bind([("data", images.shape)], for_training=False)
    module.forward(mx.io.DataBatch([mx.nd.array(images)]), is_train=False)
    return [output.asnumpy() for output in module.get_outputs()]


def _fresh_process(prefix, images):
    with tempfile.TemporaryDirectory() as folder:
        given, result = (str(pathlib.Path(folder, name)) for name in ("images.npy", "outputs.npz"))
        np.save(given, images)
        subprocess.run([sys.executable, "-W", "ignore", "-c", WITHOUT_GLUONOPS, str(prefix), given, result], check=True)
        with np.load(result) as found:
            return [found[f"arr_{i}"] for i in range(len(found.files))]
