"""A picture of an exported net: a box for each layer, shapes on the edges, operators of gluonops marked."""
import os
import re

import mxnet as mx

from ..core.errors import OpError
from ..core.files import check_target, replace
from .constants import parameter_only
from .files import shapes_of_inputs
from .graph import is_ours, our_name
from .layout import Item, arrange
from .model import ExportedModel
from .onnx.sizes import Sizes
from .shapes import type_name

__all__ = ["picture"]

WHERE = "export.picture"
FORMATS = ("svg", "png", "pdf")
# What is drawn in the box of the layer before, as that layer's last lines.
FOLLOWERS = ("Activation", "BatchNorm", "BlockGrad", "Dropout", "LeakyReLU", "_copy", "clip", "relu", "sigmoid", "tanh")
COLOURS = {"ours": ("#ffe3c2", "#c05e00"), "custom": ("#ffd6d6", "#b00020"), "weights": ("#dbe9ff", "#2c5aa0"),
           "end": ("#ffffff", "#333333"), "other": ("#f1f3f4", "#80868b")}
WITH_WEIGHTS = ("Convolution", "Deconvolution", "FullyConnected", "Embedding")
SYMBOLS = {"_mul_scalar": "\u00d7 {}", "_plus_scalar": "+ {}", "_minus_scalar": "\u2212 {}", "_div_scalar": "\u00f7 {}",
           "_rminus_scalar": "{} \u2212", "_rdiv_scalar": "{} \u00f7", "_power_scalar": "^ {}"}
LINE, PADDING, MARGIN = 15.0, 9.0, 24.0
SIZE, SMALL = 9.0, 7.5
DPI, MOST_PIXELS = 144, 24000   # of the longer side


def picture(net, path, data_shape=None, epoch=None, dtype=None):
    """Draw a net.

    Layers without weights of their own that follow another (batch norm, activations) share its box. Parameters are
    not drawn, nor what is computed from them alone. Operators of gluonops are orange, other Custom operators red.

    Parameters
    ----------
    net : HybridBlock, str or os.PathLike
        A net; or the path, without ``-symbol.json``, of an exported one.
    path : str or os.PathLike
        The picture: svg, png or pdf.
    data_shape : tuple of int, or dict of str to tuple of int
        As in :func:`gluonops.export.onnx`.
    epoch : int, optional
        Of the parameter file; the highest there is if left out.
    dtype : str, optional
        Type of the inputs; float32, or what the files note.

    Returns
    -------
    str
        The path.

    Raises
    ------
    OpError
        A file is missing or damaged, the format is unknown, or matplotlib or grandalf is missing.
    """
    path = os.fspath(path)
    ending = os.path.splitext(path)[1][1:].lower()
    if ending not in FORMATS:
        raise OpError(WHERE, f"the picture is {path!r}; expected a name that ends in .svg, .png or .pdf",
                      "Choose one of these formats")
    check_target(WHERE, path)
    matplotlib = _libraries()
    model = _read(net, data_shape, epoch, dtype)
    graph = model.graph
    sizes = Sizes(graph, model.inputs, model.parameters, model.metadata["dtype"], dynamic_batch=False, where=WHERE)
    boxes = _boxes(graph, model.parameters)
    edges = sorted({(boxes[source], boxes[node]) for node in graph.nodes() for source, _ in node.inputs
                    if source in boxes and boxes[source] is not boxes.get(node)},
                   key=lambda edge: (edge[0].number, edge[1].number))
    everything = sorted(set(boxes.values()), key=lambda box: box.number)
    for (node, _), name in zip(graph.heads, graph.symbol().list_outputs()):
        if node in boxes:
            everything.append(_End(len(everything), name))
            edges.append((boxes[node], everything[-1]))
    for box in everything:
        box.measure(sizes)
    ways = arrange(everything, edges)
    with matplotlib.rc_context({"svg.fonttype": "none", "font.family": "DejaVu Sans"}):
        figure, largest = _draw(matplotlib, everything, ways)
        replace(WHERE, {path: lambda name: figure.savefig(name, format=ending, dpi=min(DPI, MOST_PIXELS / largest))})
    return path


def _libraries():
    """matplotlib, which draws; grandalf, which arranges, is there as well."""
    try:
        import grandalf  # noqa: F401
        import matplotlib
        import matplotlib.figure
    except ImportError as error:
        raise OpError(WHERE, f"the package {error.name} is not installed",
                      "Run: pip install 'gluonops[picture]', or: pip install matplotlib grandalf") from error
    return matplotlib


def _read(net, data_shape, epoch, dtype):
    if isinstance(net, mx.gluon.HybridBlock):
        shape = data_shape if data_shape is not None else ()
        return ExportedModel.from_net(net, shape, dtype or "float32", where=WHERE)
    model = ExportedModel.from_files(net, epoch, WHERE)
    model.inputs = shapes_of_inputs(WHERE, model.graph, model.parameters, model.inputs, data_shape)
    model.metadata["dtype"] = type_name(WHERE, dtype or model.metadata.get("dtype", "float32"))
    return model


class _Box(Item):
    """A box: nodes from top to bottom, the first of which names it."""

    def __init__(self, number, node, kind):
        super().__init__()
        self.number, self.nodes, self.kind = number, [node], kind

    def lines(self):
        return [_label(node) for node in self.nodes if node.op not in ("_copy", "BlockGrad")] or [_label(self.nodes[0])]

    def measure(self, sizes):
        """Fix the text and the size."""
        node = self.nodes[-1]
        shapes = [shape for (owner, _), shape in sizes.shape.items() if owner is node]
        self.shape = "  ".join("\u00d7".join(map(str, shape)) for shape in shapes[:3]) + " \u2026" * (len(shapes) > 3)
        self.text, self.caption = self.lines(), self.nodes[0].name
        if self.kind == "end":
            self.text = ["input"]
        self._fit()

    def _fit(self):
        from matplotlib.font_manager import FontProperties
        from matplotlib.textpath import text_to_path
        bold = FontProperties(family="DejaVu Sans", weight="bold", size=SIZE)
        small = FontProperties(family="DejaVu Sans", weight="bold", size=SMALL)
        widths = [text_to_path.get_text_width_height_descent(text, font, ismath=False)[0]
                  for text, font in [*((line, bold) for line in self.text), (self.caption, small)] if text.strip()]
        self.width = max(widths, default=0) + 2 * PADDING
        self.height = LINE * (len(self.text) + bool(self.caption)) + 2 * PADDING - 4


class _End(_Box):
    """An output."""

    def __init__(self, number, name):
        super().__init__(number, None, "end")
        self.name = name

    def measure(self, sizes):
        self.shape, self.text, self.caption = "", ["output"], self.name
        self._fit()


def _boxes(graph, values):
    """Node -> its box; parameters have none, nor what is computed from them alone."""
    readers, boxes, constant = graph.readers(), {}, parameter_only(graph, values)
    for node in graph.nodes():
        if node in constant:
            continue
        if node.is_variable:
            boxes[node] = _Box(len(boxes), node, "end")
            continue
        sources = [source for source, _ in node.inputs if source in boxes]
        alone = len(sources) == 1 and len(readers[sources[0]]) == 1 and not sources[0].is_variable
        if node.op in FOLLOWERS and alone:
            boxes[node] = boxes[sources[0]]
            boxes[node].nodes.append(node)
        else:
            boxes[node] = _Box(len(boxes), node, _kind(node))
    return boxes


def _kind(node):
    if is_ours(node):
        return "ours"
    if node.op == "Custom":
        return "custom"
    return "weights" if node.op in WITH_WEIGHTS else "other"


def _label(node):
    """What a node does, in a few words."""
    attrs = node.attrs
    if node.is_variable:
        return node.name
    if is_ours(node):
        values = ", ".join(f"{key}={value}" for key, value in attrs.items() if key != "op_type" and key[:2] != "__")
        return f"gluonops {our_name(node)}  {_short(values)}".rstrip()
    if node.op == "Custom":
        return f"Custom {attrs.get('op_type', '')}"
    if node.op in SYMBOLS:
        return SYMBOLS[node.op].format(f"{float(attrs.get('scalar', 0)):g}")
    name = re.sub("^(_contrib_|elemwise_|broadcast_(?!like|axis|to)|_)", "", node.op)
    return f"{name}  {_detail(node)}".rstrip()


def _detail(node):
    attrs = node.attrs
    if node.op in ("Convolution", "Deconvolution", "Pooling"):
        if node.flag("global_pool"):
            return f"global {attrs.get('pool_type', 'max')}"
        parts = [attrs.get("pool_type", "max")] if node.op == "Pooling" else []
        parts.append(attrs.get("kernel", "").strip("()").replace(", ", "\u00d7"))
        if attrs.get("stride", "(1, 1)").strip("()1, "):
            parts.append(f"/{attrs['stride'].strip('()').split(',')[0]}")
        if attrs.get("num_filter"):
            parts.append(f"\u2192 {attrs['num_filter']}")
        if attrs.get("num_group", "1") != "1":
            parts.append(f"in {attrs['num_group']} groups")
        return " ".join(parts)
    wanted = {"FullyConnected": ("num_hidden",), "Activation": ("act_type",), "LeakyReLU": ("act_type", "slope"),
              "Reshape": ("shape",), "transpose": ("axes",), "slice_axis": ("axis", "begin", "end"), "Concat": ("dim",),
              "softmax": ("axis",), "_contrib_box_nms": ("overlap_thresh", "topk"), "UpSampling": ("scale",),
              "tile": ("reps",), "clip": ("a_min", "a_max")}.get(node.op, ())
    found = (attrs[key] if len(wanted) == 1 else f"{key} {attrs[key]}" for key in wanted if key in attrs)
    return _short(", ".join(found))


def _short(text, length=44):
    return text if len(text) <= length else text[:length - 1] + "\u2026"


def _draw(matplotlib, boxes, ways):
    """(figure, its longer side in inches)."""
    from matplotlib.patches import FancyBboxPatch, PathPatch
    items, read = [item for way in ways for item in way] + boxes, {way[0] for way in ways}
    left = min(item.x - item.width / 2 for item in items) - MARGIN
    right = max(item.x + max(item.width / 2, 4 + len(getattr(item, "shape", "")) * 4.6) for item in items) + MARGIN
    bottom = max(item.y + item.height for item in items) + MARGIN
    figure = matplotlib.figure.Figure(figsize=((right - left) / 72, (bottom + MARGIN) / 72))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(left, right), ylim=(bottom, -MARGIN))
    axes.axis("off")
    for way in ways:
        axes.add_patch(PathPatch(_curve(matplotlib, way), fill=False, edgecolor="#9aa0a6", linewidth=1.0, zorder=1))
        end = way[-1]
        axes.plot([end.x], [end.y - 2.6], marker="v", markersize=4, color="#9aa0a6", zorder=1, markeredgewidth=0)
    for box in boxes:
        face, edge = COLOURS[box.kind]
        x, y = box.x - box.width / 2, box.y
        axes.add_patch(FancyBboxPatch((x + 3, y + 3), box.width - 6, box.height - 6, zorder=2, facecolor=face,
                                      edgecolor=edge, linewidth=1.6 if box.kind in ("ours", "custom") else 0.9,
                                      boxstyle="round,pad=3,rounding_size=4"))
        lines = [(text, SIZE, "#202124") for text in box.text] + [(box.caption, SMALL, "#5f6368")] * bool(box.caption)
        for i, (text, size, colour) in enumerate(lines):
            axes.text(box.x, y + PADDING - 2 + LINE * (i + 0.5), text, ha="center", va="center", fontsize=size,
                      color=colour, zorder=3, fontweight="bold" if i == 0 and box.kind == "ours" else "normal",
                      parse_math=False)
        if box.shape and box in read:
            axes.text(box.x + 5, y + box.height + 9, box.shape, ha="left", va="center", fontsize=SMALL, color="#1967d2",
                      zorder=4, bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.85})
    return figure, max(figure.get_size_inches())


def _curve(matplotlib, way):
    """From the bottom of the first box through the way points to the top of the last."""
    from matplotlib.path import Path
    points = [(way[0].x, way[0].y + way[0].height)]
    for point, following in zip(way[1:-1], way[2:]):
        points += [(point.x, point.y), (point.x, following.y - 30)]
    points.append((way[-1].x, way[-1].y - 3))
    vertices, codes = [points[0]], [Path.MOVETO]
    for (x0, y0), (x1, y1) in zip(points, points[1:]):
        middle = (y0 + y1) / 2
        vertices += [(x0, middle), (x1, middle), (x1, y1)]
        codes += [Path.CURVE4] * 3
    return Path(vertices, codes)
