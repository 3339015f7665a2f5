"""Which nets gops.export.torch refuses before work begins, and for which operator."""
import pathlib

import gluonops as gops
import pytest
from benchmarks.networks import gluoncv_nets
from gluonops.export.torch import prepare, write

pytest.importorskip("safetensors")

CFGS = sorted((pathlib.Path(__file__).parents[2] / "golden/darknet").glob("*.cfg"))
REFUSED = {
    "center_net_dla34_dcnv2_voc": r"\(_contrib_ModulatedDeformableConvolution\) has no converter to torch",
    "center_net_resnet18_v1b_dcnv2_voc": r"\(_contrib_ModulatedDeformableConvolution\) has no converter to torch",
    "ab-xnor.cfg": r"\(Convolution\) computes its input 1, a parameter",
    "pj-xnor.cfg": r"\(Convolution\) computes its input 1, a parameter",
}
CHANNELS = {"pj-extra.cfg": 2}


def check(name, net, shape):
    model = gops.export.ExportedModel.from_net(net, shape, where="export.torch")
    if name in REFUSED:
        with pytest.raises(gops.OpError, match=REFUSED[name]):
            write._forms(prepare.with_constants(prepare.prepared(model, False)))
    else:
        forms, _ = write._forms(prepare.with_constants(prepare.prepared(model, False)))
        assert forms


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", gluoncv_nets.NETS)
def test_zoo(name):
    check(name, gluoncv_nets.made(name), (1, *gluoncv_nets.NETS[name]))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", CFGS, ids=lambda path: path.name)
def test_darknet(path):
    net = gops.darknet.load(path)
    net.initialize()
    check(path.name, net, (1, CHANNELS.get(path.name, 3), 96, 96))
