"""The cases of benchmarks/gpu.py: large ones to be timed, and small ones for every path of every kernel."""
import dataclasses

FLOATS = ("float32", "float16", "float64")
INTEGERS = ("uint8", "int8", "int32", "int64")
LABELLED = ("softmax_cross_entropy", "softmax_output")
TWO = {"anchors": (1.5, 0.5, 0.75, 2.0), "classes": 3}   # a region layer of two anchors


@dataclasses.dataclass(frozen=True)
class Case:
    """An operator at one shape and dtype of its data.

    ``more``: shapes of the inputs that do not follow from the data's. ``label``: the dtype of class indices.
    ``request``: whether what is computed is written or added to what is there. ``offset``: so many elements behind an
    aligned address every tensor starts.
    """
    op: str
    shape: tuple
    dtype: str = "float32"
    attrs: dict = dataclasses.field(default_factory=dict)
    more: dict = dataclasses.field(default_factory=dict)
    label: str = "float32"
    request: str = "write"
    offset: int = 0

    @property
    def name(self):
        words = [self.op, *("x".join(map(str, v)) if isinstance(v, tuple) else v if isinstance(v, str) else f"{k}={v}"
                            for k, v in self.attrs.items())]
        words += [f"{name} {'x'.join(map(str, shape))}" for name, shape in self.more.items()]
        words += [f"label {self.label}"] * (self.label != "float32") + ["add"] * (self.request == "add")
        return " ".join(words + [f"offset {self.offset}"] * (self.offset > 0))


def cases(quick=False):
    """Every case; the quick ones are small, with odd sizes, for looking at memory errors rather than speed."""
    return list(_quick() if quick else _large())


def _quick():
    for dtype in FLOATS:
        for op, shape, attrs, more in _typical():
            yield Case(op, shape, dtype, attrs, more)
    for dtype in INTEGERS:
        for op, shape, attrs in (("reorg", (2, 4, 6, 10), {"mode": "CRD"}), ("abs", (7, 149), {}),
                                 ("tile", (7, 13), {"tiles": 3})):
            yield Case(op, shape, dtype, attrs)
    yield from _variants()
    for op, shape, attrs, more in _one_of_each():
        yield Case(op, shape, "float32", attrs, more, request="add")
        yield Case(op, shape, "float32", attrs, more, offset=1)
        yield Case(op, shape, "float16", attrs, more, request="add", offset=3)
    for label in ("int32", "uint8"):
        for op, shape, attrs, more in _one_of_each():
            if op in (*LABELLED, "center_loss", "region_loss"):
                yield Case(op, shape, "float32", attrs, more, label)


def _typical():
    """(operator, shape, attributes, shapes of other inputs) that every float type goes through."""
    for mode in ("darknet", "DCR", "CRD"):
        yield "reorg", (3, 4, 6, 10), {"mode": mode}, {}
    yield "reorg", (1, 8, 4, 514), {"mode": "CRD"}, {}
    yield "reorg", (2, 9, 9, 6), {"stride": 3, "mode": "DCR"}, {}
    yield "abs", (7, 149), {}, {}
    yield "tile", (7, 13), {"tiles": 3}, {}
    yield "tile", (5, 3, 7), {"tiles": 2, "axis": 1}, {}
    yield "tile", (1, 48), {"tiles": 300, "axis": 0}, {}   # whose copies are shared
    for op in ("softmax", *LABELLED):
        for shape in ((37, 7), (5, 1031), (2, 40011)):     # the last with two blocks a row
            yield op, shape, {}, {}
    yield "center_loss", (37, 19), {}, {"centers": (5, 19)}
    yield "center_loss", (3, 1031), {}, {"centers": (7, 1031)}
    yield "region_decode", (2, 16, 5, 9), TWO, {}
    yield "region_loss", (2, 16, 5, 9), TWO, {"truth": (2, 7, 5)}


def _one_of_each():
    """An odd little case of every operator, and rows that blocks share."""
    yield "reorg", (2, 4, 6, 10), {"mode": "darknet"}, {}
    yield "abs", (7, 149), {}, {}
    yield "tile", (7, 13), {"tiles": 3}, {}
    for op in ("softmax", *LABELLED):
        yield op, (9, 33), {}, {}
    yield "softmax", (2, 33001), {}, {}
    yield "center_loss", (7, 5), {}, {"centers": (4, 5)}
    yield "region_decode", (1, 16, 3, 5), TWO, {}
    yield "region_loss", (1, 16, 3, 5), TWO, {"truth": (1, 4, 5)}


def _variants():
    """What the attributes bring: other axes, rows of one thread each, labels of other kinds, both layouts."""
    for mode, shape in (("darknet", (2, 8, 3, 5)), ("DCR", (1, 8, 3, 32)), ("CRD", (2, 18, 3, 5))):
        yield Case("reorg", shape, attrs={"mode": mode, "reverse": True, "stride": 3 if shape[1] == 18 else 2})
    yield Case("reorg", (1, 1, 70, 140), attrs={"stride": 70, "mode": "DCR"})   # a cell larger than a block's share
    yield Case("tile", (2, 3, 2, 5), attrs={"tiles": (2, 1, 3, 1)})
    yield Case("softmax", (3, 5), attrs={"temperature": 0.5, "axis": 0})
    for op in ("softmax", *LABELLED):
        yield Case(op, (2, 1031, 5), attrs={"axis": 1})
    yield Case("softmax", (4, 5, 4096), attrs={"axis": 1})   # so many rows that each has one thread
    yield from (Case("softmax_cross_entropy", shape, attrs=attrs, more=more) for shape, attrs, more in (
        ((2, 5, 3), {"axis": 1}, {"label": (2, 1, 3)}), ((9, 33), {"smoothing": 0.1}, {}),
        ((2, 5, 7), {"axis": 1, "ignore_label": 255, "smoothing": 0.25}, {}), ((9, 33), {"ignore_label": -1}, {}),
        ((9, 33), {"sparse_label": False}, {}), ((2, 5, 3), {"sparse_label": False, "axis": 1, "smoothing": 0.1}, {}),
        ((2, 33001), {"sparse_label": False, "smoothing": 0.2}, {}), ((2, 33001), {"smoothing": 0.1}, {})))
    yield from (Case("softmax_output", shape, attrs=attrs) for shape, attrs in (
        ((9, 33), {"ignore_label": 2, "normalization": "valid"}), ((9, 33), {"normalization": "batch"}),
        ((2, 5, 7), {"axis": 1, "ignore_label": 255, "normalization": "valid", "grad_scale": -0.5}),
        ((2, 33001), {"ignore_label": -1, "normalization": "valid"})))
    yield Case("region_decode", (1, 16, 3, 5), attrs={**TWO, "layout": "map"})
    yield Case("region_decode", (1, 16, 3, 5), attrs={**TWO, "softmax": False})
    yield Case("region_loss", (1, 16, 3, 5), attrs={**TWO, "softmax": False, "rescore": False, "bias_match": False},
               more={"truth": (1, 9, 5)})
    yield Case("region_loss", (1, 125, 6, 7), attrs={"warmup_images": 0}, more={"truth": (1, 30, 5)})


def _large():
    modes = ("darknet", "DCR", "CRD")
    rows = ((8192, 1000), (65536, 1000), (1048576, 64), (8192, 32000), (256, 131072), (16, 1048576))
    yield from (Case("reorg", (size, 64, 64, 64), attrs={"mode": mode}) for size in (64, 256, 1024) for mode in modes)
    yield from (Case("abs", (size, 64, 64, 64)) for size in (64, 256, 1024))
    yield from (Case("tile", (size, 64, 64, 64), attrs={"tiles": 2, "axis": axis}) for size in (64, 256)
                for axis in (1, -1))
    yield Case("tile", (1, 1000), attrs={"tiles": 65536, "axis": 0})
    yield Case("tile", (1 << 22, 7), attrs={"tiles": 3})
    yield from (Case(op, (512, 64, 64, 64), "float16", attrs) for op, attrs in (
        ("reorg", {"mode": "CRD"}), ("abs", {}), ("tile", {"tiles": 2, "axis": 1})))
    yield from (Case(op, shape) for op in ("softmax", "softmax_cross_entropy") for shape in rows)
    yield from (Case(op, (8192, 32000), "float16") for op in ("softmax", "softmax_cross_entropy"))
    yield Case("softmax_output", (65536, 1000))
    yield Case("center_loss", (65536, 512), more={"centers": (1000, 512)})
    yield Case("region_decode", (512, 125, 19, 19))
    yield Case("region_loss", (512, 125, 19, 19), more={"truth": (512, 30, 5)})
