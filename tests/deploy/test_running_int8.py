"""Files in 8 bits: what they say of themselves is checked, and a processor without VNNI is warned of."""
import json

import gluonops as gops
import mxnet as mx
import numpy as np
import onnx
import pytest
from gluonops.export import ExportWarning
from gluonops.runtime import processor
from mxnet.gluon import nn

AVX2 = frozenset({"sse4_1", "avx", "avx2", "fma"})
VNNI = AVX2 | processor.AVX512 | {"avx512_vnni"}
FORMS = ["symbol", "onnx"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A classifier in 8 bits, for any processor and for VNNI only."""
    place = tmp_path_factory.mktemp("int8")
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Conv2D(8, 3, activation="relu"), nn.Dense(3))
    net.initialize(mx.init.Xavier())
    net.classes, net.preprocessing = ["red", "green", "blue"], {"resize": "stretch"}
    images = np.random.RandomState(0).uniform(size=(24, 3, 8, 8)).astype(np.float32)
    for name in ("any", "vnni"):
        gops.export.quantize(net, place / name, images, onnx=place / f"{name}.onnx", limit=0.1,
                             vnni_only=name == "vnni")
    return place


def path_of(folder, name, form):
    return str(folder / name) + (".onnx" if form == "onnx" else "")


@pytest.fixture
def processor_with(monkeypatch):
    def change(names, limit=""):
        monkeypatch.setattr(processor, "instructions", lambda: names)
        monkeypatch.setenv(processor.LIMIT, limit)

    return change


@pytest.mark.parametrize("form", FORMS)
def test_a_processor_without_vnni(form, folder, processor_with):
    processor_with(VNNI)
    for name in ("any", "vnni"):
        assert gops.export.load(path_of(folder, name, form)).classes == ("red", "green", "blue")
    processor_with(AVX2)
    gops.export.load(path_of(folder, "any", form))
    program = "onnxruntime" if form == "onnx" else "MXNet"
    with pytest.warns(ExportWarning, match=rf"uses all 8 bits.*{program} uses AVX2 here, .* wrong. Quantize the net "
                      r"without vnni_only \(--vnni-only\)"):
        gops.export.load(path_of(folder, "vnni", form))


def test_older_files_do_not_say_it(folder, processor_with, tmp_path):
    """Their integers do."""
    copied(folder, tmp_path, "vnni", lambda metadata: metadata.pop("processor"))
    processor_with(AVX2)
    with pytest.warns(ExportWarning, match="uses all 8 bits"):
        gops.export.load(tmp_path / "net")


def copied(folder, target, name, change):
    """A copy of a file whose metadata are changed."""
    content = json.loads((folder / f"{name}-symbol.json").read_text())
    metadata = json.loads(content["attrs"]["gluonops"][1])
    change(metadata)
    content["attrs"]["gluonops"][1] = json.dumps(metadata)
    (target / "net-symbol.json").write_text(json.dumps(content))
    (target / "net-0000.params").write_bytes((folder / f"{name}-0000.params").read_bytes())


LIES = [
    ("vnni", {"processor": "any"}, "says that it is right on any processor, and its weights have all 8 bits"),
    ("any", {"processor": "z80"}, "says that it is for the processor 'z80'; expected 'any' or 'VNNI'"),
    ("any", {"processor": 3}, "says that it is for the processor 3; expected 'any' or 'VNNI'"),
    ("any", {"quantized": []}, "names 0 layers as quantized, and has 2 in 8 bits"),
    ("any", {"quantized": "all"}, "names the layers 'all' as quantized; expected a list of names"),
    ("any", {"quantized": [3, None]}, r"names the layers \[3, None\] as quantized; expected a list of names"),
]


@pytest.mark.parametrize("name, change, message", LIES, ids=[str(change) for _, change, _ in LIES])
def test_metadata_that_lie(name, change, message, folder, tmp_path):
    copied(folder, tmp_path, name, lambda metadata: metadata.update(change))
    with pytest.raises(gops.OpError, match=f"{message}.*quantize the float net again") as found:
        gops.export.load(tmp_path / "net")
    assert "\n" not in str(found.value)
    model = onnx.load(folder / f"{name}.onnx")
    for prop in model.metadata_props:
        if prop.key in change:
            value = change[prop.key]
            prop.value = value if isinstance(value, str) else json.dumps(value)
    onnx.save(model, tmp_path / "net.onnx")
    with pytest.raises(gops.OpError, match=f"{message}.*quantize the float net again"):
        gops.export.load(tmp_path / "net.onnx")


def test_a_layer_that_is_not_there(folder, tmp_path):
    copied(folder, tmp_path, "any", lambda metadata: metadata.update(quantized=["net_conv0_fwd", "net_conv9_fwd"]))
    with pytest.raises(gops.OpError, match="net_conv9_fwd"):
        gops.export.load(tmp_path / "net")
