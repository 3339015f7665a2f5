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
numpy.save(outputs, net(mx.nd.array(numpy.load(images))).asnumpy())
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
    expected = net(mx.nd.array(images, ctx=context)).asnumpy()
    return {"module": float(np.abs(_module(prefix, images) - expected).max()),
            "without_gluonops": float(np.abs(_fresh_process(prefix, images) - expected).max())}


def _module(prefix, images):
    module = mx.mod.Module.load(str(prefix), 0, label_names=None)
    module.bind([("data", images.shape)], for_training=False)
    module.forward(mx.io.DataBatch([mx.nd.array(images)]), is_train=False)
    return module.get_outputs()[0].asnumpy()


def _fresh_process(prefix, images):
    with tempfile.TemporaryDirectory() as folder:
        given, result = (str(pathlib.Path(folder, name)) for name in ("images.npy", "outputs.npy"))
        np.save(given, images)
        subprocess.run([sys.executable, "-W", "ignore", "-c", WITHOUT_GLUONOPS, str(prefix), given, result], check=True)
        return np.load(result)
