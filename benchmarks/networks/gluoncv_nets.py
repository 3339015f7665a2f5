"""A net of every family in gluoncv's zoo that is built without a download, with random weights."""
from __future__ import annotations

from unittest import mock

import gluonops as gops
import mxnet as mx
import numpy as np
from gluonops.io.optional import require
from mxnet import gluon
from mxnet.gluon import nn

ICON, SMALL, IMAGE, WIDE = (3, 32, 32), (3, 64, 64), (3, 224, 224), (3, 128, 96)
CLIP = (3, 16, 112, 112)
CLASSIFIERS = {
    "alexnet": IMAGE, "cifar_residualattentionnet56": ICON, "cifar_resnet20_v1": ICON, "cifar_resnet20_v2": ICON,
    "cifar_resnext29_16x64d": ICON, "cifar_wideresnet16_10": ICON, "darknet53": SMALL, "densenet121": IMAGE,
    "dla34": SMALL, "googlenet": IMAGE, "hrnet_w18_small_v1_c": (3, 128, 128), "inceptionv3": (3, 299, 299),
    "mobilenet0.25": SMALL, "mobilenetv2_0.25": SMALL, "mobilenetv3_small": SMALL, "nasnet_4_1056": IMAGE,
    "residualattentionnet56": IMAGE, "resnest14": SMALL, "resnet18_v1": SMALL, "resnet18_v1b": SMALL,
    "resnet18_v2": SMALL, "resnet50_v1b_gn": SMALL, "resnet50_v1c": SMALL, "resnet50_v1d_0.11": SMALL,
    "resnet50_v1e": SMALL, "resnet50_v1s": SMALL, "resnext50_32x4d": SMALL, "se_resnet18_v1": SMALL,
    "se_resnet18_v2": SMALL, "se_resnext50_32x4d": SMALL, "senet_154": SMALL, "shufflenet_v1": SMALL,
    "shufflenet_v2": SMALL, "squeezenet1.0": IMAGE, "vgg11": SMALL, "vgg11_bn": SMALL, "xception": (3, 96, 96)}
SEGMENTATION = dict.fromkeys((
    "danet_resnet50_citys", "deeplab_resnest50_ade", "deeplab_resnet50_ade", "deeplab_v3b_plus_wideresnet_citys",
    "fcn_resnet50_voc", "hrnet_w18_small_v1_s", "icnet_resnet50_citys", "psp_resnet50_ade"), (3, 480, 480))
SEGMENTATION["fastscnn_citys"] = (3, 1024, 1024)
DETECTORS = {
    "center_net_dla34_voc": (3, 128, 128), "center_net_dla34_dcnv2_voc": (3, 128, 128),
    "center_net_mobilenetv3_small_duc_voc": (3, 128, 128), "center_net_resnet18_v1b_voc": (3, 128, 128),
    "center_net_resnet18_v1b_dcnv2_voc": (3, 128, 128), "ssd_300_mobilenet0.25_voc": (3, 300, 300),
    "ssd_300_resnet34_v1b_voc": (3, 300, 300), "ssd_300_vgg16_atrous_voc": (3, 300, 300),
    "ssd_512_resnet50_v1_voc": (3, 512, 512), "yolo3_darknet53_voc": SMALL, "yolo3_mobilenet0.25_voc": SMALL}
# They take one image.
TWO_STAGES = dict.fromkeys((
    "doublehead_rcnn_resnet50_v1b_voc", "faster_rcnn_fpn_resnet50_v1b_coco", "faster_rcnn_resnet50_v1b_voc",
    "mask_rcnn_fpn_resnet18_v1b_coco", "mask_rcnn_resnet18_v1b_coco"), (3, 128, 160))
OTHERS = {
    "alpha_pose_resnet101_v1b_coco": WIDE, "mobile_pose_mobilenet1.0": WIDE, "mobile_pose_mobilenetv3_small": WIDE,
    "simple_pose_resnet18_v1b": WIDE, "monodepth2_resnet18_kitti_mono_640x192": (3, 64, 96),
    "monodepth2_resnet18_posenet_kitti_mono_640x192": (6, 64, 96), "c3d_kinetics400": CLIP,
    "i3d_inceptionv1_kinetics400": (3, 16, 224, 224), "i3d_inceptionv3_kinetics400": (3, 16, 299, 299),
    "i3d_nl5_resnet50_v1_kinetics400": CLIP, "i3d_resnet50_v1_kinetics400": CLIP, "p3d_resnet50_kinetics400": CLIP,
    "r2plus1d_resnet18_kinetics400": CLIP, "slowfast_4x16_resnet50_kinetics400": (3, 36, 112, 112),
    "inceptionv1_kinetics400": IMAGE, "inceptionv3_ucf101": (3, 299, 299), "vgg16_ucf101": IMAGE}
NETS = {**CLASSIFIERS, **SEGMENTATION, **DETECTORS, **TWO_STAGES, **OTHERS}
# MXNet 1.9.1 itself returns other numbers every time: its ROIAlign does not write the regions of other levels.
UNSTABLE = ("faster_rcnn_fpn_resnet50_v1b_coco", "mask_rcnn_fpn_resnet18_v1b_coco")
REGIONS = 30
FOUND_ALIKE = 0.8   # At least this share of the rows of detections is equal.


def made(name: str) -> gluon.HybridBlock:
    """The net, initialized at random."""
    get = require("gluoncv", "benchmarks").model_zoo.get_model
    with mock.patch.object(gluon.ParameterDict, "reset_ctx"):   # nets of actions call it before they have values
        try:
            net = get(name, pretrained_base=False)
        except (TypeError, Warning):   # it has no base
            net = get(name)
    net.collect_params().initialize()
    if name in TWO_STAGES:   # MXNet takes a minute for 1000 regions
        net._rpn_test_post_nms = net.rpn._test_post_nms = REGIONS
    if name.startswith("mask"):
        net._rcnn_max_dets = REGIONS
    return net


def scale(net: gluon.HybridBlock, data: mx.nd.NDArray, rng: np.random.RandomState) -> None:
    """Draw weights that keep deviations, and scale those of Gluon's layers so that each output has the deviation 1."""
    def normalize(layer, _, output):
        deviation = max(output.asnumpy().std(), 1e-6)
        mx.nd.elemwise_div(output, mx.nd.full(output.shape, deviation), out=output)
        for parameter in layer.params.values():
            parameter.set_data(parameter.data() / deviation)

    gops.export.ExportedModel.from_net(net, data.shape)   # the shapes of the parameters are known then
    for parameter in net.collect_params(".*weight").values():
        shape = parameter.shape
        deviation = np.sqrt(2 / max(1, np.prod(shape[1:])))
        if "offset" in parameter.name:   # a deformable convolution's: less than a pixel
            deviation /= 10
        parameter.set_data(mx.nd.array(rng.normal(0, deviation, shape)))
    for parameter in net.collect_params(".*_var").values():   # those of gluoncv's SSD are drawn, some below 0
        parameter.set_data(mx.nd.ones(parameter.shape))
    hooks = []
    layers = (nn.Dense, nn.Conv2D, nn.Conv2DTranspose)
    net.apply(lambda block: hooks.append(block.register_forward_hook(normalize)) if isinstance(block, layers) else None)
    net(data)
    for hook in hooks:
        hook.detach()


def outputs_of(net: gluon.Block, images: np.ndarray) -> list[np.ndarray]:
    """What a net returns, as a flat list."""
    outputs, _ = gluon.block._flatten(net(mx.nd.array(images)), "output")
    return [output.asnumpy() for output in outputs]


def difference(expected: list[np.ndarray], computed: list[np.ndarray]) -> float:
    """The largest difference of an output, divided by its largest number. Of detections see :func:`of_detections`."""
    assert [value.shape for value in computed] == [value.shape for value in expected]
    if len(expected) >= 3 and expected[2].shape == (*expected[0].shape[:2], 4):
        return of_detections(expected, computed)
    return max(float(np.abs(one - other).max() / np.abs(one).max()) for one, other in zip(expected, computed))


def of_detections(expected: list[np.ndarray], computed: list[np.ndarray]) -> float:
    """The difference that four of five rows do not exceed, whatever their order is.

    Rounding decides on the order of equal scores, on which of two such boxes stays, and with it on those that they
    overlap. The tests of ``box_nms`` compare every row.
    """
    largest = [np.abs(value).max() for value in expected]
    worst = 0.0
    for image in range(len(expected[0])):
        ours, theirs = (np.concatenate([value[image].reshape(len(value[image]), -1) / size
                                        for value, size in zip(values, largest)], axis=-1)
                        for values in (expected, computed))
        differences = [np.abs(theirs - row).max(axis=-1).min() for row in ours]
        worst = max(worst, float(np.quantile(differences, FOUND_ALIKE)))
    return worst
