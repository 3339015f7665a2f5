"""Pooling over regions, SSD's boxes and the proposals of R-CNN in ONNX, against MXNet."""
import gluonops as gops
import mxnet as mx
import numpy as np
import onnx
import onnx_oracle
import pytest
from mxnet import gluon
from mxnet.gluon import nn
from onnx_oracle import case, needs_kernels


class Align(gluon.HybridBlock):
    def __init__(self, **options):
        super().__init__()
        self.options = options

    def hybrid_forward(self, F, data, regions):
        return F.contrib.ROIAlign(data, regions, pooled_size=(3, 2), spatial_scale=0.25, **self.options)


def regions(rng, shape):
    """Rows of an image's number and corners in pixels, some of them beyond the map."""
    corner, side = rng.uniform(-5, 30, (shape[0], 2)), rng.uniform(2, 30, (shape[0], 2))
    return np.concatenate([rng.permutation(shape[0])[:, None], corner, corner + side], axis=1).astype(np.float32)


@pytest.mark.parametrize("opset, options", [
    (13, {}), (17, {}), (17, {"aligned": True}), (17, {"sample_ratio": 2}), (21, {"aligned": True, "sample_ratio": 3}),
    (17, {"position_sensitive": True})])
def test_roi_align(opset, options, tmp_path, rng):
    onnx_oracle.agree(Align(**options), tmp_path / "align.onnx", {"data": (12, 8, 10), "regions": ((5,), regions)},
                      rng=rng, opset=opset)


def test_regions_of_no_image_are_zeros(tmp_path):
    """MXNet's page says so; MXNet 1.9.1 leaves them as they were in memory."""
    path = gops.export.onnx(Align(), tmp_path / "align.onnx", {"data": (1, 2, 8, 8), "regions": (3, 5)},
                                dynamic_batch=False)
    rows = np.array([[0, 0, 0, 8, 8], [-1, 0, 0, 8, 8], [0, 4, 4, 20, 9]], np.float32)
    pooled, = onnx_oracle.session(path).run(None, {"data": np.ones((1, 2, 8, 8), np.float32), "regions": rows})
    assert (pooled[1] == 0).all() and (pooled[[0, 2]] == 1).all()


def test_roi_align_of_half_pixels(tmp_path):
    with pytest.raises(gops.OpError, match="which ONNX has from opset 16 on"):
        gops.export.onnx(Align(aligned=True), tmp_path / "align.onnx", {"data": (1, 12, 8, 8), "regions": (1, 5)},
                         opset=15)


def of_one_image(rng, shape):
    """Regions, three for each image."""
    rows = np.concatenate([regions(rng, (3, 5)) for _ in range(shape[0])])
    rows[:, 0] = np.repeat(np.arange(shape[0]), 3)
    return rows.reshape(shape[0], 3, 5)


CASES = [
    case(f"roi_pooling_{scale}", lambda F, x, r, scale=scale: F.ROIPooling(
        x, F.reshape(r, (-3, 0)), pooled_size=(2, 3), spatial_scale=scale), (4, 8, 10), ((3, 5), of_one_image))
    for scale in (1, 0.25)] + [
    case(f"psroi_pooling_{groups}", lambda F, x, r, groups=groups: F.contrib.PSROIPooling(
        x, F.reshape(r, (-3, 0)), spatial_scale=0.25, output_dim=3, pooled_size=4, group_size=groups),
        (3 * groups ** 2, 8, 10), ((3, 5), of_one_image)) for groups in (4, 2)]


def shifts(rng, shape):
    """Offsets, many of which leave the map; some reach whole pixels and borders."""
    return (rng.randint(-12, 13, shape) / 4).astype(np.float32)


def offsets_of(groups, *size):
    return (18 * groups, *size), shifts


DEFORMABLE = [({}, (6, 7), 1), ({"stride": (2, 1), "pad": (1, 2), "dilate": (1, 2)}, (4, 9), 1),
              ({"pad": (1, 1), "num_group": 2, "num_deformable_group": 2, "no_bias": True}, (8, 9), 2)]
CASES += [case(f"deformable_{i}", lambda F, x, o, w, b, options=options: F.contrib.DeformableConvolution(
    x, o, w, *([] if "no_bias" in options else [b]), kernel=(3, 3), num_filter=6, **options), (4, 8, 9),
    offsets_of(groups, *size), parameters=[(6, 4 // options.get("num_group", 1), 3, 3), (6,)], marks=needs_kernels)
    for i, (options, size, groups) in enumerate(DEFORMABLE)]
CASES += [case(f"modulated_{i}", lambda F, x, o, m, w, b, options=options: F.contrib.ModulatedDeformableConvolution(
    x, o, m, w, *([] if "no_bias" in options else [b]), kernel=(3, 3), num_filter=6, **options), (4, 8, 9),
    offsets_of(groups, *size), (9 * groups, *size), parameters=[(6, 4 // options.get("num_group", 1), 3, 3), (6,)],
    marks=needs_kernels)
    for i, (options, size, groups) in enumerate(DEFORMABLE)]
CASES += [case(f"correlation_{i}", lambda F, x, y, options=options: F.Correlation(x, y, **options), (3, 9, 11),
               (3, 9, 11)) for i, options in enumerate([
    {}, {"max_displacement": 4, "stride2": 2, "pad_size": 4}, {"kernel_size": 3, "max_displacement": 2, "stride1": 2,
     "pad_size": 3, "is_multiply": False}])]


@pytest.mark.parametrize("function, inputs, parameters", CASES)
def test_converter(function, inputs, parameters, tmp_path, rng):
    onnx_oracle.converted(function, inputs, parameters, tmp_path / "net.onnx", rng, batches=(2, 1, 3))


class Boxes(gluon.HybridBlock):
    """The end of an SSD: anchors of two sizes of maps, and the detections."""

    def __init__(self, prior, **options):
        super().__init__()
        self.prior, self.options = prior, options

    def hybrid_forward(self, F, scores, offsets, data):
        anchors = F.concat(F.contrib.MultiBoxPrior(data, **self.prior), F.contrib.MultiBoxPrior(
            F.Pooling(data, kernel=(2, 2), stride=(2, 2)), sizes=(0.6,), clip=True), dim=1)
        return F.contrib.MultiBoxDetection(scores, offsets, anchors, **self.options), anchors


def probabilities(rng, shape):
    """The scores of classes; some of them are near 1."""
    return mx.nd.softmax(mx.nd.array(rng.normal(0, 2, shape)), axis=1).asnumpy()


@pytest.mark.parametrize("prior", [{"sizes": (0.3, 0.5), "ratios": (1, 2)}, {
    "sizes": (0.2, 0.4), "ratios": (1, 0.5), "steps": (0.3, 0.2), "offsets": (0.4, 0.6), "clip": True}], ids=str)
@pytest.mark.parametrize("options", [
    {}, {"threshold": 0.4}, {"threshold": 0.99999}, {"force_suppress": True, "clip": False}, {"nms_threshold": -1},
    {"variances": (0.2, 0.1, 0.3, 0.1), "nms_threshold": 0.3}, {"nms_topk": 9}, {"nms_topk": 9, "threshold": 0.5},
    {"nms_topk": 1000}], ids=str)
def test_boxes_of_an_ssd(prior, options, tmp_path, rng):
    """Every row agrees, also those of suppressed boxes."""
    count = 3 * 4 * 5 + 2 * 2
    onnx_oracle.agree(Boxes(prior, **options), tmp_path / "net.onnx", {
        "scores": ((4, count), probabilities), "offsets": (4 * count,), "data": (2, 4, 5)}, batches=(2, 1, 3), rng=rng)


class Proposals(gluon.HybridBlock):
    def __init__(self, name, **options):
        super().__init__()
        self.name_of_operator, self.options = name, options

    def hybrid_forward(self, F, scores, offsets, image):
        propose = getattr(F.contrib, self.name_of_operator)
        return propose(scores, offsets, image, rpn_post_nms_top_n=20, output_score=True, **self.options)


def image_sizes(rng, shape):
    """Height, width and scale, some smaller than the map of 5 x 6."""
    return np.stack([rng.randint(40, 81, shape[0]), rng.randint(50, 97, shape[0]), rng.choice([0.5, 1, 2], shape[0])],
                    axis=1).astype(np.float32)


def few(rng, shape):
    return rng.normal(0, 0.5, shape).astype(np.float32)


@pytest.mark.parametrize("name, batches", [("Proposal", (1,)), ("MultiProposal", (2, 1, 3))])
@pytest.mark.parametrize("options", [
    {}, {"rpn_pre_nms_top_n": 30, "threshold": 0.3}, {"rpn_pre_nms_top_n": 5}, {"iou_loss": True},
    {"scales": (2, 3), "ratios": (0.5, 1, 1.7), "rpn_min_size": 30}, {"feature_stride": 15, "rpn_pre_nms_top_n": -1}],
    ids=str)
def test_proposals(name, batches, options, tmp_path, rng):
    each = len(options.get("scales", range(4))) * 3
    for _ in range(3):
        onnx_oracle.agree(Proposals(name, **options), tmp_path / "net.onnx", {
            "scores": ((2 * each, 5, 6), onnx_oracle._uniform), "offsets": ((4 * each, 5, 6), few),
            "image": ((3,), image_sizes)}, batches=batches, rng=rng)


def test_proposals_of_several_images(tmp_path):
    with pytest.raises(gops.OpError, match=r"\(_contrib_Proposal\) .* takes one image at a time"):
        gops.export.onnx(Proposals("Proposal"), tmp_path / "net.onnx", {
            "scores": (2, 24, 5, 6), "offsets": (2, 48, 5, 6), "image": (2, 3)})


@pytest.mark.filterwarnings("ignore::gluonops.export.ExportWarning")
def test_an_ssd_that_is_trained(tmp_path, rng):
    """MXNet's example: the targets go with the losses, and the detections stay."""
    data, label = mx.sym.var("data"), mx.sym.var("label")
    body = mx.sym.Convolution(data, kernel=(3, 3), pad=(1, 1), num_filter=16, name="body")
    scores = mx.sym.Convolution(body, kernel=(3, 3), pad=(1, 1), num_filter=3 * 4, name="scores")
    scores = mx.sym.reshape(mx.sym.transpose(scores, (0, 2, 3, 1)), (0, -1, 4)).transpose((0, 2, 1))
    offsets = mx.sym.Flatten(mx.sym.transpose(mx.sym.Convolution(
        body, kernel=(3, 3), pad=(1, 1), num_filter=3 * 4, name="offsets"), (0, 2, 3, 1)))
    anchors = mx.sym.contrib.MultiBoxPrior(body, sizes=(0.3, 0.5), ratios=(1, 2))
    targets = mx.sym.contrib.MultiBoxTarget(anchors, label, scores, overlap_threshold=0.5)
    probability = mx.sym.SoftmaxOutput(scores, targets[2], ignore_label=-1, use_ignore=True, multi_output=True)
    loss = mx.sym.MakeLoss(mx.sym.smooth_l1(targets[1] * (offsets - targets[0]), scalar=1))
    detections = mx.sym.contrib.MultiBoxDetection(probability, offsets, anchors, nms_threshold=0.45, nms_topk=20)
    block = mx.sym.Group([probability, loss, mx.sym.MakeLoss(targets[2], grad_scale=0), mx.sym.MakeLoss(
        detections, grad_scale=0, name="det_out")])
    net = gluon.SymbolBlock(block, [data, label])
    net.initialize(mx.init.Uniform(0.3))
    gops.export.onnx(net, tmp_path / "net.onnx", {"data": (2, 3, 8, 8), "label": (2, 1, 5)})
    session = onnx_oracle.session(tmp_path / "net.onnx")
    assert [value.name for value in session.get_inputs()] == ["data"]
    for batch in (1, 3):
        images = rng.uniform(-1, 1, (batch, 3, 8, 8)).astype(np.float32)
        expected = onnx_oracle.outputs_of(net, images, np.zeros((batch, 1, 5), np.float32))
        for ours, theirs in zip(expected[::3], session.run(None, {"data": images})):
            np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e-5)


def test_deformable_convolutions_need_an_opset(tmp_path):
    net = nn.HybridLambda(lambda F, x, o, w: F.contrib.DeformableConvolution(
        x, o, w, kernel=(1, 1), num_filter=2, no_bias=True, name="bent"))
    shapes = {"x": (1, 2, 4, 4), "o": (1, 2, 4, 4), "w": (2, 2, 1, 1)}
    with pytest.raises(gops.OpError, match="'hybridlambda.*bent' is the operator _contrib_DeformableConvolution, which "
                       "ONNX has from opset 19 on, and opset is 17. Leave opset out, or pass 19"):
        gops.export.onnx(net, tmp_path / "net.onnx", shapes, dynamic_batch=False, opset=17)
    path = gops.export.onnx(net, tmp_path / "net.onnx", shapes, dynamic_batch=False)
    assert onnx.load(path).opset_import[0].version == 19
