"""Losses of classes that are positive or not, of segmented images, and of features; and the choice of hard examples."""
from ..harness.declaration import BOTH_NEARLY_AS_FAST, NEARLY_AS_FAST_AS_A_COPY, Declaration, Row


class Sigmoid(Declaration):
    """The data are rows of classes, each of which is positive or not."""
    CPU = [Row((8192, 1000))]
    TYPICAL = SMALL = [Row((7, 149)), Row((3, 64))]
    GPU = [Row((65536, 1024)), Row((65536, 1024), dtype="float16")]
    GPU_TARGETS = BOTH_NEARLY_AS_FAST


class sigmoid_cross_entropy(Sigmoid):
    VARIANTS = [Row((9, 5), {"pos_weight": (0.5, 2.0, 0.0, 1.0, 7.0), "ignore_label": 1}),
                Row((2, 5, 7), {"pos_weight": (0.5, 2.0, 0.0, 1.0, 7.0), "axis": 1})]

    def in_torch(self, attrs, ndim):
        if attrs["pos_weight"] is not None or attrs["ignore_label"] is not None:
            return None
        return lambda torch, data, label: torch.nn.functional.binary_cross_entropy_with_logits(
            data, label, reduction="none")


class sigmoid_focal_loss(Sigmoid):
    VARIANTS = [Row((9, 33), {"gamma": 1.5, "ignore_label": 1}), Row((9, 33), {"alpha": -1.0, "gamma": 0.0})]

    def in_torch(self, attrs, ndim):
        """torchvision's composition."""
        alpha, gamma = attrs["alpha"], attrs["gamma"]

        def run(torch, data, label):
            p = torch.sigmoid(data)
            loss = torch.nn.functional.binary_cross_entropy_with_logits(data, label, reduction="none")
            p_t = p * label + (1 - p) * (1 - label)
            return (alpha * label + (1 - alpha) * (1 - label)) * loss * (1 - p_t) ** gamma

        return run if alpha >= 0 and attrs["ignore_label"] is None else None


class dice_loss(Declaration):
    CPU = [Row((4, 21, 256, 256))]
    TYPICAL = [Row((2, 3, 5, 7)), Row((1, 4, 1031))]
    SMALL = [Row((3, 5, 33))]
    VARIANTS = [Row((2, 4, 37), {"squared": False, "smooth": 1.0}), Row((2, 4, 37), {"ignore_label": 1}), Row((70, 3))]
    GPU = [Row((4, 21, 512, 512)), Row((4, 21, 512, 512), dtype="float16")]
    GPU_TARGETS = BOTH_NEARLY_AS_FAST

    def in_torch(self, attrs, ndim):
        """MONAI's composition."""
        def run(torch, data, label):
            p = torch.softmax(data, 1)
            with torch.no_grad():
                target = torch.zeros_like(p).scatter_(1, label.unsqueeze(1), 1)
            intersection = (p * target).flatten(2).sum(-1)
            total = (p * p).flatten(2).sum(-1) + target.flatten(2).sum(-1)
            return 1 - (2 * intersection + attrs["smooth"]) / (total + attrs["smooth"])

        return run if attrs["squared"] and attrs["ignore_label"] is None and ndim > 2 else None


class lovasz_softmax(Declaration):
    CPU = [Row((2, 21, 128, 128))]
    EXCHANGES = True   # It sorts errors. In torch, 0.8 % of the gradients differ so, by 8e-5 of the largest at most.

    def in_torch(self, attrs, ndim):
        """The authors' code, behind a softmax."""
        def run(torch, data, label):
            p = torch.softmax(data, 1).transpose(0, 1).flatten(1)
            label = label.flatten()
            losses = []
            for c in range(len(p)):
                target = (label == c).to(p.dtype)
                if target.sum() == 0:
                    continue
                errors, order = torch.sort((target - p[c]).abs(), 0, descending=True)
                losses.append(torch.dot(errors, self.gradient(target[order])))
            return torch.stack(losses).mean().expand(len(data))

        usual = {"per_sample": False, "present_only": True, "ignore_label": None, "class_weight": None}
        return run if attrs == usual else None

    @staticmethod
    def gradient(in_order):
        """Algorithm 1 of the paper."""
        total = in_order.sum()
        intersection = total - in_order.cumsum(0)
        union = total + (1 - in_order).cumsum(0)
        jaccard = 1 - intersection / union
        jaccard[1:] = jaccard[1:] - jaccard[:-1]
        return jaccard


class ohem(Declaration):
    """A batch is one, as a segmentation's places of which a tenth is ignored; or each sample is."""
    CPU = [Row((4, 512, 512))]
    TYPICAL = [Row((7, 149)), Row((1, 4099), {"keep": 1000})]
    SMALL = [Row((3, 33), {"per_sample": True})]
    VARIANTS = [Row((5, 67), {"threshold": 1.0}), Row((2, 1031), {"ratio": 0.5, "per_sample": True})]
    GPU = [Row((4, 512, 512)), Row((4096, 4096), {"per_sample": True})]
    EXACT = ("output", "data_grad")

    def draw(self, attrs, shapes, rng):
        shape = shapes["data"]
        return {"data": rng.gamma(1, 1, shape) * (rng.rand(*shape) > 0.1)}

    def in_torch(self, attrs, ndim):
        """The usual composition: topk, and a mask of what it has chosen."""
        def run(torch, data):
            flat = data.flatten()
            number = int(torch.ceil(attrs["ratio"] * (flat != 0).sum()))
            _, places = flat.detach().topk(number, sorted=False)
            mask = torch.zeros_like(flat)
            mask[places] = 1
            return (flat * mask).view_as(data)

        return run if attrs["keep"] is attrs["threshold"] is None and not attrs["per_sample"] else None


class center_loss(Declaration):
    """Every sample enters the gradient of its centre."""
    COMMITS = [Row((256, 128), more={"centers": (1000, 128)})]
    TYPICAL = [Row((37, 19), more={"centers": (5, 19)}), Row((3, 1031), more={"centers": (7, 1031)})]
    SMALL = [Row((7, 5), more={"centers": (4, 5)})]
    VARIANTS = [
        Row((5000, 3), more={"centers": (2, 3)}),      # several blocks per centre
        Row((4500, 64), more={"centers": (300, 64)}),
    ]
    GPU = [Row((65536, 512), more={"centers": (1000, 512)}), Row((65536, 512), more={"centers": (10, 512)})]
    GPU_TARGETS = NEARLY_AS_FAST_AS_A_COPY
