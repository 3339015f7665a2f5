"""Every operator of gluoncv's zoo and of Darknet's cfgs has a converter to torch."""
import pathlib

import gluonops as gops
import pytest
from benchmarks.networks import gluoncv_nets
from gluonops.export.torch import prepare, write

pytest.importorskip("safetensors")

CFGS = sorted((pathlib.Path(__file__).parents[2] / "golden/darknet").glob("*.cfg"))
CHANNELS = {"pj-extra.cfg": 2}


def check(net, shape):
    model = gops.export.ExportedModel.from_net(net, shape, where="export.torch")
    forms, _ = write._forms(prepare.with_constants(prepare.prepared(model, training=False)))
    assert forms


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", gluoncv_nets.NETS)
def test_zoo(name):
    check(gluoncv_nets.made(name), (1, *gluoncv_nets.NETS[name]))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", CFGS, ids=lambda path: path.name)
def test_darknet(path):
    net = gops.darknet.load(path)
    net.initialize()
    check(net, (1, CHANNELS.get(path.name, 3), 96, 96))
