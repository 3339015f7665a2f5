"""gops.export.torch: what detectors compute, and nets with several inputs; the export compares each with MXNet."""
import pathlib
import sys
import warnings

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.export.graph import Graph
from mxnet.gluon import nn, rnn

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")
torch.set_num_threads(1)
sys.path.append(str(pathlib.Path(__file__).parent))
import double  # noqa: E402
import scripted  # noqa: E402
import steps  # noqa: E402

# mx.nd.array, with today's SciPy
pytestmark = [pytest.mark.filterwarnings("ignore:Please import `csr_matrix`"),
              # MXNet has the gradient of a modulated deformable convolution on a GPU only.
              pytest.mark.filterwarnings("ignore:only the outputs in evaluation mode were compared")]


class Net(nn.HybridBlock):
    """``function(F, *inputs, *parameters)``."""

    def __init__(self, function, parameters=()):
        super().__init__()
        self.function = function
        self.names = [f"p{number}" for number in range(len(parameters))]
        for name, shape in zip(self.names, parameters):
            setattr(self, name, self.params.get(name, shape=shape))

    def hybrid_forward(self, F, *inputs, **parameters):
        return self.function(F, *inputs, *[parameters[name] for name in self.names])


def export(net, folder, shapes):
    mx.random.seed(3)
    net.initialize(mx.init.Normal(0.3))
    gops.export.torch(net, folder, shapes)
    steps.check(net, shapes)
    return (pathlib.Path(folder) / "net.py").read_text()


PRIORS = [{}, {"sizes": [0.3, 0.5], "ratios": (1, 2)},
          {"sizes": (0.2, 0.4), "ratios": (1, 0.5), "steps": (0.3, 0.2), "offsets": (0.4, 0.6), "clip": True}]
COUNT = 4 * 3 * 3   # anchors
DETECTIONS = [{}, {"threshold": 0.4}, {"threshold": 0.99999}, {"force_suppress": True, "clip": False},
              {"nms_threshold": -1}, {"variances": (0.2, 0.1, 0.3, 0.1), "nms_threshold": 0.3}, {"nms_topk": 9},
              {"nms_topk": 9, "threshold": 0.5}, {"nms_topk": 1000}]
DEFORMABLE = [({}, (6, 7), 1), ({"stride": (2, 1), "pad": (1, 2), "dilate": (1, 2)}, (4, 9), 1),
              ({"pad": (1, 1), "num_group": 2, "num_deformable_group": 2, "no_bias": True}, (8, 9), 2)]


def anchors(F, scale, **options):
    return F.broadcast_mul(F.contrib.MultiBoxPrior(scale, **options), F.mean(F.abs(scale), axis=(0, 1, 2, 3)))


def detected(F, scores, offsets, data, **options):
    priors = F.contrib.MultiBoxPrior(data, sizes=(0.3, 0.5), ratios=(1, 2))
    return F.contrib.MultiBoxDetection(F.softmax(scores, axis=1), offsets, priors, **options)


def regions_of(F, rows):
    return F.reshape(rows, (-3, 0))


def pooled(F, data, regions, **options):
    return F.contrib.ROIAlign(data, regions_of(F, regions), pooled_size=(3, 2), spatial_scale=0.25, **options)


MAPS, ROWS = {"data": (2, 12, 8, 10)}, {"regions": (2, 3, 5)}
CASES = {
    **{f"anchors{number}": (lambda F, x, options=options: anchors(F, x, **options), {"data": (2, 4, 4, 6)}, ())
       for number, options in enumerate(PRIORS)},
    **{f"detections{number}": (lambda F, *inputs, options=options: detected(F, *inputs, **options), {
        "scores": (2, 4, COUNT), "offsets": (2, 4 * COUNT), "data": (2, 3, 4, 3)}, ())
       for number, options in enumerate(DETECTIONS)},
    "align": (lambda F, *inputs: pooled(F, *inputs, aligned=True, sample_ratio=3), {**MAPS, **ROWS}, ()),
    "align_one_image": (pooled, {"data": (1, 12, 8, 10), "regions": (1, 3, 5)}, ()),
    "gather": (lambda F, data, rows: F.gather_nd(data, F.reshape(rows, (2, -1))),
               {"data": (6, 4, 3), "rows": (2, 5)}, ()),
    **{f"modulated{number}": (lambda F, *inputs, options=options: modulated(F, *inputs, **options), {
        "x": (2, 4, 8, 9), "offset": (2, 18 * groups, *size), "mask": (2, 9 * groups, *size)}, options)
       for number, (options, size, groups) in enumerate(DEFORMABLE)},
}


def modulated(F, x, offset, *others, **options):
    return F.contrib.ModulatedDeformableConvolution(x, 3.3 * offset + 0.007, *others, kernel=(3, 3), num_filter=6,
                                                    **options)


def parameters_of(options):
    """The shapes of the parameters of a deformable convolution."""
    shapes = [(6, 4 // options.get("num_group", 1), 3, 3), (6,)]
    return shapes[:1] if "no_bias" in options else shapes


@pytest.mark.parametrize("name", CASES)
def test_operators(name, tmp_path):
    function, shapes, options = CASES[name]
    export(Net(function, () if options == () else parameters_of(options)), tmp_path, shapes)
    scripted.check(tmp_path, *[torch.rand(shape) for shape in shapes.values()])


@pytest.mark.parametrize("name", ["suppression", "detections"])
def test_torch_export_and_trace_take_other_images(name, tmp_path):
    """What is suppressed, and how many images there are, is no part of the traced net."""
    from gluonops.export.torch.verify import load
    function, shapes = {
        "suppression": (lambda F, x: F.contrib.box_nms(x, overlap_thresh=0.3, valid_thresh=0.5, topk=8, coord_start=2,
                                                       score_index=1, id_index=0), {"x": (2, 12, 6)}),
        "detections": (lambda F, *inputs: detected(F, *inputs, nms_topk=9, threshold=0.4),
                       {"scores": (2, 4, COUNT), "offsets": (2, 4 * COUNT), "data": (2, 3, 4, 3)})}[name]
    export(Net(function), tmp_path, shapes)
    net, given = load(tmp_path).load(), tuple(torch.rand(shape) for shape in shapes.values())
    free = {0: torch.export.Dim("batch", min=2)}
    exported = torch.export.export(net, given, dynamic_shapes=(free,) * len(given)).module()
    others = [torch.rand(5, *shape[1:]) for shape in shapes.values()]
    assert torch.equal(exported(*others), net(*others))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")   # the size of images is a constant of the trace
        traced = torch.jit.trace(net, given)
    assert torch.equal(traced(*others), net(*others))


def results(operator, formula, inputs):
    """What MXNet computes in float32, and the formula that the export compares with, for the same numbers."""
    rng = np.random.RandomState(0)
    values = {name: mx.nd.array(rng.uniform(-2.5, 2.5, shape)) for name, shape in inputs.items()}
    variables = [mx.sym.var(name) for name in inputs]
    symbol = operator(*variables)
    node, _ = Graph.of(symbol).outputs[0]
    return [each.bind(mx.cpu(), values).forward()[0].asnumpy() for each in (symbol, formula(variables, node))]


@pytest.mark.parametrize("options", DETECTIONS, ids=str)
def test_the_formula_of_detections(options):
    """It is compared with MXNet's operator, which has no float64."""
    def given(scores, offsets, data):
        priors = mx.sym.contrib.MultiBoxPrior(data, sizes=(0.3, 0.5), ratios=(1, 2))
        return mx.sym.softmax(scores, axis=1), offsets, priors

    found = results(lambda *inputs: mx.sym.contrib.MultiBoxDetection(*given(*inputs), **options),
                    lambda inputs, node: double._detections(node, *given(*inputs)),
                    {"scores": (2, 4, COUNT), "offsets": (2, 4 * COUNT), "data": (2, 3, 4, 3)})
    np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("options", PRIORS, ids=str)
def test_the_formula_of_anchors(options):
    found = results(lambda x: mx.sym.contrib.MultiBoxPrior(x, **options),
                    lambda given, node: double._anchors(node, *given), {"x": (2, 3, 4, 7)})
    np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("options, size, groups", DEFORMABLE, ids=str)
def test_the_formula_of_deformable_convolutions(options, size, groups):
    """MXNet computes the gradient of the second version on a GPU only."""
    shapes = {"x": (2, 4, 8, 9), "o": (2, 18 * groups, *size), "m": (2, 9 * groups, *size),
              **dict(zip("wb", parameters_of(options)))}
    found = results(lambda *given: mx.sym.contrib.ModulatedDeformableConvolution(*given, kernel=(3, 3), num_filter=6,
                                                                                 **options),
                    lambda given, node: double._deformed(node, *given), shapes)
    np.testing.assert_allclose(*found, rtol=1e-4, atol=1e-4)


class Recurrent(nn.HybridBlock):
    """A recurrent layer that begins with given states, or with zeros, and returns the last ones."""

    def __init__(self, kind, **options):
        super().__init__()
        with self.name_scope():
            self.layer = getattr(rnn, kind)(4, input_size=3, **options)

    def hybrid_forward(self, F, data, *states):
        output, last = self.layer(data, list(states))
        return [output, *last]


@pytest.mark.parametrize("kind, options, states", [
    ("LSTM", {}, 2), ("GRU", {}, 1), ("RNN", {"activation": "relu"}, 1), ("RNN", {"activation": "tanh"}, 1),
    ("LSTM", {"num_layers": 2, "bidirectional": True}, 2), ("RNN", {"num_layers": 2, "bidirectional": True}, 1)])
def test_states_of_recurrent_layers(kind, options, states, tmp_path):
    layers = options.get("num_layers", 1) * (2 if "bidirectional" in options else 1)
    shapes = {"data": (5, 2, 3), **{f"state{number}": (layers, 2, 4) for number in range(states)}}
    source = export(Recurrent(kind, **options), tmp_path, shapes)
    assert "self.layer(data, (state0, state1))" in source if states == 2 else "self.layer(data, state0)" in source


@pytest.mark.filterwarnings("ignore::gluonops.export.ExportWarning")
def test_an_ssd_that_is_trained(tmp_path):
    """MXNet's example: the targets go with the losses, and the detections stay."""
    data, label = mx.sym.var("data"), mx.sym.var("label")
    body = mx.sym.Convolution(data, kernel=(3, 3), pad=(1, 1), num_filter=16, name="body")
    scores = mx.sym.Convolution(body, kernel=(3, 3), pad=(1, 1), num_filter=3 * 4, name="scores")
    scores = mx.sym.reshape(mx.sym.transpose(scores, (0, 2, 3, 1)), (0, -1, 4)).transpose((0, 2, 1))
    offsets = mx.sym.Flatten(mx.sym.transpose(mx.sym.Convolution(
        body, kernel=(3, 3), pad=(1, 1), num_filter=3 * 4, name="offsets"), (0, 2, 3, 1)))
    priors = mx.sym.contrib.MultiBoxPrior(body, sizes=(0.3, 0.5), ratios=(1, 2))
    targets = mx.sym.contrib.MultiBoxTarget(priors, label, scores, overlap_threshold=0.5)
    probability = mx.sym.SoftmaxOutput(scores, targets[2], ignore_label=-1, use_ignore=True, multi_output=True)
    loss = mx.sym.MakeLoss(mx.sym.smooth_l1(targets[1] * (offsets - targets[0]), scalar=1))
    detections = mx.sym.contrib.MultiBoxDetection(probability, offsets, priors, nms_threshold=0.45, nms_topk=20)
    block = mx.sym.Group([probability, loss, mx.sym.MakeLoss(targets[2], grad_scale=0), mx.sym.MakeLoss(
        detections, grad_scale=0, name="det_out")])
    net = mx.gluon.SymbolBlock(block, [data, label])
    source = export(net, tmp_path, {"data": (2, 3, 8, 8), "label": (2, 1, 5)})
    assert "multi_box_detection(" in source and "def forward(self, x)" in source


def test_the_record_of_many_indices(tmp_path):
    """A file of 16 bits has the inputs, and the words of a large vocabulary fit into it."""
    from safetensors.numpy import load_file
    export(nn.Embedding(5000, 4), tmp_path, (2, 7))
    words = load_file(tmp_path / "test_net.safetensors")["evaluation.input.0"]
    assert words.min() >= 0 and words.max() > 64
