"""Lists the options that have no effect on inference, and those that only AlexeyAB's Darknet knows.

The builder reads the options that change what a network computes. It ignores the options listed here, because they only
concern training, speed, display or tracking. Any other option is an error. A cfg with an option that only AlexeyAB's
program knows is taken as his.

Source: the functions ``parse_*`` in ``src/parser.c``.
"""
from collections.abc import Sequence

from .cfg import Section

DETECTING = ("region", "yolo", "Gaussian_yolo", "detection")   # sections with boxes

# What the batch norms of a program's CPU build add to the variance. None: they add 1e-6 to its root.
EPSILON = {"pjreddie": None, "alexeyab": 1e-5}

# Options of [net] that only AlexeyAB's program knows.
_NET = (
    "adversarial_lr", "attention", "augment_speed", "badlabels_rejection_percentage", "blur", "contrastive",
    "contrastive_color", "contrastive_jit_flip", "cutmix", "dynamic_minibatch", "ema_alpha", "equidistant_point",
    "gaussian_noise", "label_smooth_eps", "learning_rate_min", "letter_box", "loss_scale", "max_chart_loss",
    "max_epochs", "mixup", "mosaic", "mosaic_bound", "num_sigmas_reject_badlabels", "optimized_memory", "resize_step",
    "seq_scales", "sequential_subdivisions", "sgdr_cycle", "sgdr_mult", "show_receptive_field", "track",
    "try_fix_nan", "unsupervised", "use_cuda_graph", "weights_reject_freq", "workspace_size_limit_MB")
# The same for [yolo] and [Gaussian_yolo].
_YOLO = (
    "beta1", "cls_normalizer", "counters_per_class", "delta_normalizer", "dets_for_show", "dets_for_track",
    "embedding_layer", "focal_loss", "iou_loss", "iou_normalizer", "iou_thresh", "iou_thresh_kind",
    "label_smooth_eps", "max_delta", "obj_normalizer", "objectness_smooth", "resize", "show_details", "sim_thresh",
    "track_ciou_norm", "track_history_size", "uc_normalizer")
_YOLO_OF_BOTH = ("ignore_thresh", "jitter", "map", "max", "random", "truth_thresh")
_STREAMS = ("stream", "wait_stream")

IGNORED = {
    "net": (
        "B1", "B2", "adam", "angle", "aspect", "batch", "burn_in", "center", "clip", "decay", "eps", "exposure",
        "flip", "gamma", "hue", "learning_rate", "max_batches", "max_crop", "max_ratio", "min_crop", "min_ratio",
        "momentum", "notruth", "policy", "power", "random", "saturation", "scale", "scales", "seen", "step", "steps",
        "subdivisions", *_NET),
    "contrastive": ("classes", "cls_normalizer", "contrastive_neg_max", "max_delta", "temperature", "yolo_layer"),
    "convolutional": ("angle", "assisted_excitation", "dot", "grad_centr", *_STREAMS),
    "cost": ("noobj", "ratio", "scale", "thresh", "type"),
    "crop": ("angle", "exposure", "flip", "saturation", "shift"),
    "detection": (
        "class_scale", "coord_scale", "forced", "jitter", "max", "noobject_scale", "object_scale", "random", "rescore",
        "resize"),
    "dropout": ("dropblock", "dropblock_size_abs", "dropblock_size_rel"),
    "Gaussian_yolo": (*_YOLO, *_YOLO_OF_BOTH),
    "region": (
        "absolute", "bias_match", "class_scale", "classfix", "coord_scale", "focal_loss", "jitter", "log", "map",
        "mask_scale", "max", "noobject_scale", "object_scale", "random", "rescore", "resize", "sqrt", "thresh"),
    "route": _STREAMS,
    "softmax": ("noloss",),
    "yolo": (*_YOLO, *_YOLO_OF_BOTH),
}

# Sections, options and activations that only AlexeyAB's program knows.
_SECTIONS = (
    "contrastive", "conv_lstm", "empty", "gaussian_yolo", "history", "implicit", "local_avg", "local_avgpool",
    "reorg3d", "sam", "scale_channels", "silence")
_OPTIONS = {
    "net": _NET,
    "convolutional": (
        "antialiasing", "assisted_excitation", "bin_output", "cbn", "dilation", "grad_centr", "share_index",
        "stride_x", "stride_y", *_STREAMS),
    "maxpool": ("antialiasing", "maxpool_depth", "out_channels", "stride_x", "stride_y"),
    "dropout": IGNORED["dropout"],
    "region": ("focal_loss",),
    "route": ("group_id", "groups", *_STREAMS),
    "shortcut": ("weights_normalization", "weights_type"),
    "yolo": ("beta_nms", "new_coords", "nms_kind", "scale_x_y", *_YOLO),
}
_ACTIVATIONS = ("gelu", "hard_mish", "mish", "relu6", "swish")


def dialect_of(sections: Sequence[Section]) -> str:
    """The program that a cfg is for.

    It is 'alexeyab' if the cfg has a section, an option or an activation that only AlexeyAB's program knows. Any other
    cfg can be for either program, and the result is 'pjreddie'.
    """
    return "alexeyab" if any(_is_alexeyabs(section) for section in sections) else "pjreddie"


def _is_alexeyabs(section: Section) -> bool:
    if section.kind.lower() in _SECTIONS:
        return True
    if any(key in section for key in _OPTIONS.get(section.kind, ())):
        return True
    if section.kind == "shortcut" and "," in section.peek("from"):
        return True
    return section.peek("activation") in _ACTIVATIONS
