"""Plain Blocks of the book leave NumPy mode: symbol JSON, ONNX for another batch, and PyTorch with gradients."""
import book_blocks
import mxnet as mx
import numpy as onp
import pytest
from gluonops import export
from gluonops.export.recording.arguments import arrays_in


@pytest.mark.filterwarnings("ignore:.*Scratch is exported for a size of 4 in axis 1:gluonops.export.ExportWarning")
@pytest.mark.parametrize("name", book_blocks.NETS)
def test_the_way_out(name, numpy_mode, rng, tmp_path):
    make, draw = book_blocks.NETS[name]
    net, inputs = make(), draw(rng, 3)
    net.initialize(mx.init.Normal(0.3))
    export.symbol(net, tmp_path / "net", inputs=inputs)
    assert all(one.relative <= one.allowed for one in export.compare(net, tmp_path / "net", inputs=inputs))
    ort = pytest.importorskip("onnxruntime")
    session = ort.InferenceSession(export.onnx(net, tmp_path / "net.onnx", inputs=inputs))
    for batch in (3, 2):
        given = draw(rng, batch)
        feed = {one.name: array.asnumpy() for one, array in zip(session.get_inputs(), given)}
        for found, expected in zip(session.run(None, feed), arrays_in(net(*given))):
            onp.testing.assert_allclose(found, expected.asnumpy(), rtol=1e-4, atol=1e-5)
    pytest.importorskip("torch")
    export.torch(net, tmp_path / "port", inputs=inputs)   # It compares outputs and gradients before it writes.
