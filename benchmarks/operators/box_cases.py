"""Boxes, and the detectors of YOLOv2 and later."""
from ..harness.declaration import NEARLY_AS_FAST_AS_A_COPY, Declaration, OfSamples, Row

EPS = 1e-7
KINDS = ("iou", "giou", "diou", "ciou")
VOC = {"anchors": (1.3221, 1.73145, 3.19275, 4.00944, 5.05587, 8.09892, 9.47112, 4.84053, 11.2364, 10.0071),
       "classes": 20}
TWO_ANCHORS = {"anchors": (1.5, 0.5, 0.75, 2.0), "classes": 3}
OF_THREE_HEADS = {**TWO_ANCHORS, "other_anchors": (3, 3)}
ALEXEYAB = {"dialect": "alexeyab", "box_loss": "ciou", "iou_thresh": 0.213}
V4 = {**OF_THREE_HEADS, **ALEXEYAB, "scale_x_y": 1.1}


class box_iou(Declaration):
    """Every box of one set with every box of another, as anchors with the ground truth of an image."""
    CPU = [Row((4, 8732, 4), more={"rhs": (4, 50, 4)})]
    TYPICAL = [Row((2, 19, 4), more={"rhs": (2, 37, 4)})]
    SMALL = [Row((3, 4), more={"rhs": (5, 4)})]
    VARIANTS = [
        Row((2, 9, 4), {"format": "center"}, {"rhs": (2, 7, 4)}),
        Row((1, 70, 4), more={"rhs": (1, 130, 4)}),   # several blocks for a box of either input
    ]
    GPU = [Row((32, 8732, 4), more={"rhs": (32, 50, 4)})]

    def in_torch(self, attrs, ndim):
        def run(torch, lhs, rhs):
            intersection, union = intersection_and_union(torch, lhs[..., :, None, :], rhs[..., None, :, :])
            return intersection / union

        return run if attrs["format"] == "corner" else None


class iou_loss(Declaration):
    """A number per box, of a feature map's anchors."""
    CPU = [Row((16, 8732, 4), {"kind": "giou"}), Row((16, 8732, 4), {"kind": "ciou"})]
    TYPICAL = [Row((37, 19, 4))]
    SMALL = [Row((7, 4))]
    VARIANTS = [Row((7, 4), {"kind": kind, "format": box_format})
                for kind in KINDS for box_format in ("corner", "center")]
    GPU = [Row((256, 8732, 4)), Row((256, 8732, 4), {"kind": "ciou"})]

    def in_torch(self, attrs, ndim):
        functions = {"giou": giou, "ciou": ciou}
        return functions.get(attrs["kind"]) if attrs["format"] == "corner" else None


def intersection_and_union(torch, lhs, rhs):
    """torchvision's composition."""
    low = torch.max(lhs[..., :2], rhs[..., :2])
    high = torch.min(lhs[..., 2:], rhs[..., 2:])
    intersection = (high - low).clamp(min=0).prod(-1)
    areas = (lhs[..., 2:] - lhs[..., :2]).prod(-1) + (rhs[..., 2:] - rhs[..., :2]).prod(-1)
    return intersection, areas - intersection


def hull_sides(torch, data, truth):
    return torch.max(data[..., 2:], truth[..., 2:]) - torch.min(data[..., :2], truth[..., :2])


def giou(torch, data, truth):
    intersection, union = intersection_and_union(torch, data, truth)
    hull = hull_sides(torch, data, truth).prod(-1)
    return 1 - intersection / (union + EPS) + (hull - union) / (hull + EPS)


def ciou(torch, data, truth):
    intersection, union = intersection_and_union(torch, data, truth)
    iou = intersection / (union + EPS)
    diagonal = (hull_sides(torch, data, truth) ** 2).sum(-1) + EPS
    distance = (data[..., :2] + data[..., 2:] - truth[..., :2] - truth[..., 2:]) / 2
    width, height = (data[..., 2:] - data[..., :2]).unbind(-1)
    truth_width, truth_height = (truth[..., 2:] - truth[..., :2]).unbind(-1)
    angles = torch.atan(truth_width / truth_height) - torch.atan(width / height)
    v = 4 / torch.pi ** 2 * angles ** 2
    with torch.no_grad():
        alpha = v / (1 - iou + v + EPS)
    return 1 - iou + (distance ** 2).sum(-1) / diagonal + alpha * v


class region_decode(OfSamples):
    COMMITS = [Row((16, 125, 13, 13), VOC), Row((16, 125, 13, 13), {**VOC, "layout": "map"})]
    TYPICAL = [Row((2, 16, 5, 9), TWO_ANCHORS)]
    SMALL = [Row((1, 16, 3, 5), TWO_ANCHORS)]
    VARIANTS = [
        Row((1, 16, 3, 5), {**TWO_ANCHORS, "layout": "map"}),
        Row((1, 16, 3, 5), {**TWO_ANCHORS, "softmax": False}),
        Row((1, 2010, 2, 3), {**TWO_ANCHORS, "classes": 1000}),   # too many for shared memory
        Row((3, 170, 5, 7), {**TWO_ANCHORS, "classes": 80}),
    ]
    GPU = [Row((512, 125, 19, 19)), Row((256, 425, 19, 19), {"classes": 80})]
    GPU_TARGETS = NEARLY_AS_FAST_AS_A_COPY


class Head(OfSamples):
    """The loss of a detector's head, which NumPy computes box by box."""
    GPU_TARGETS = NEARLY_AS_FAST_AS_A_COPY
    ALL_OUTPUTS = {"parts": True}
    COMPARED = 1 << 17


class region_loss(Head):
    COMMITS = [
        Row((16, 125, 13, 13), VOC, {"truth": (16, 30, 5)}),
        Row((16, 125, 13, 13), {**VOC, "warmup_images": 0}, {"truth": (16, 30, 5)}),
        Row((16, 125, 13, 13), VOC, {"truth": (16, 30, 5)}, dtype="float64"),
    ]
    TYPICAL = [Row((2, 16, 5, 9), TWO_ANCHORS, {"truth": (2, 7, 5)})]
    SMALL = [Row((1, 16, 3, 5), TWO_ANCHORS, {"truth": (1, 4, 5)})]
    VARIANTS = [
        Row((1, 16, 3, 5), {**TWO_ANCHORS, "softmax": False, "rescore": False, "bias_match": False},
            {"truth": (1, 9, 5)}),
        Row((1, 16, 3, 5), {**TWO_ANCHORS, "box_loss": "giou"}, {"truth": (1, 4, 5)}),
        Row((1, 125, 6, 7), {"warmup_images": 0}, {"truth": (1, 30, 5)}),
        Row((2, 16, 20, 30), TWO_ANCHORS, {"truth": (2, 150, 5)}),   # several blocks per image
    ]
    GPU = [Row((512, 125, 19, 19), more={"truth": (512, 30, 5)})]


class yolo_loss(Head):
    """YOLOv3 to YOLOv7 have it."""
    COMMITS = [Row((16, 255, 13, 13), attrs, {"truth": (16, 30, 5)}) for attrs in ({}, ALEXEYAB)]
    TYPICAL = [Row((2, 16, 5, 9), OF_THREE_HEADS, {"truth": (2, 7, 5)})]
    SMALL = [Row((1, 16, 3, 5), OF_THREE_HEADS, {"truth": (1, 4, 5)})]
    VARIANTS = [
        Row((1, 16, 3, 5), V4, {"truth": (1, 9, 5)}),
        Row((1, 16, 3, 5), {**V4, "box_loss": "giou", "focal_loss": True, "truth_thresh": 0.5}, {"truth": (1, 9, 5)}),
        Row((2, 16, 20, 30), OF_THREE_HEADS, {"truth": (2, 150, 5)}),   # several blocks per image
    ]
    GPU = [
        Row((256, 255, 19, 19), {"classes": 80}, {"truth": (256, 30, 5)}),
        Row((256, 255, 19, 19), {"classes": 80, **ALEXEYAB}, {"truth": (256, 30, 5)}),
    ]


class gaussian_yolo_loss(Head):
    COMMITS = [Row((16, 57, 13, 13), {"classes": 10}, {"truth": (16, 30, 5)})]
    TYPICAL = [Row((2, 24, 5, 9), OF_THREE_HEADS, {"truth": (2, 7, 5)})]
    SMALL = [Row((1, 24, 3, 5), OF_THREE_HEADS, {"truth": (1, 4, 5)})]
    VARIANTS = [
        Row((1, 24, 3, 5), {**OF_THREE_HEADS, "box_loss": "giou", "iou_thresh": 0.213}, {"truth": (1, 9, 5)}),
        Row((1, 24, 3, 5), {**OF_THREE_HEADS, "objectness_smooth": True, "truth_thresh": 0.5, "ignore_thresh": 0.2,
                            "point": "left_top"}, {"truth": (1, 9, 5)}),
    ]
    GPU = [Row((256, 57, 19, 19), {"classes": 10, "box_loss": "giou", "iou_thresh": 0.213}, {"truth": (256, 30, 5)})]
