"""Arranges the boxes of a drawn graph in layers from top to bottom, with grandalf, and draws them with matplotlib."""
from __future__ import annotations

import matplotlib
from grandalf.graphs import Edge, Graph, Vertex
from grandalf.layouts import SugiyamaLayout, VertexViewer
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import FancyBboxPatch, PathPatch
from matplotlib.path import Path
from matplotlib.textpath import text_to_path

# Face and edge of a box, by its kind.
COLOURS = {"ours": ("#ffe3c2", "#c05e00"), "custom": ("#ffd6d6", "#b00020"), "weights": ("#dbe9ff", "#2c5aa0"),
           "end": ("#ffffff", "#333333"), "other": ("#f1f3f4", "#80868b")}
TEXT, CAPTION, SHAPE, EDGE = "#202124", "#5f6368", "#1967d2", "#9aa0a6"
# Lengths are in points.
GAP = 22.0     # Boxes of a layer are so far apart.
SPACE = 38.0   # Layers are so far apart.
LINE, PADDING, MARGIN = 15.0, 9.0, 24.0
SIZE, SMALL = 9.0, 7.5   # heights of the letters
FONT = "DejaVu Sans"
SHAPE_CHARACTER = 4.6    # about the width of a character in a shape
DPI = 144
MOST_PIXELS = 24000      # the longer side has no more


class Box(VertexViewer):
    """A box: lines of text, a caption in small letters below them, and a shape beside the edges that leave it.

    ``kind``: decides the colours; see ``COLOURS``. Caption and shape may be empty. grandalf knows the size as ``w`` and
    ``h``. In ``xy`` :func:`arrange` leaves the centre and the top, in points.
    """

    def __init__(self, kind: str, text: list[str], caption: str, shape: str = ""):
        bold = FontProperties(family=FONT, weight="bold", size=SIZE)
        small = FontProperties(family=FONT, weight="bold", size=SMALL)
        widths = [_width(line, bold) for line in text] + [_width(caption, small)]
        lines = len(text) + (1 if caption else 0)
        super().__init__(max(widths) + 2 * PADDING, LINE * lines + 2 * PADDING - 4)
        self.kind = kind
        self.text = text
        self.caption = caption
        self.shape = shape


def _width(line: str, font: FontProperties) -> float:
    if not line.strip():
        return 0.0
    width, _, _ = text_to_path.get_text_width_height_descent(line, font, ismath=False)
    return width


def arrange(boxes: list[VertexViewer], edges: list[tuple]) -> list[list[VertexViewer]]:
    """Set the position of every box.

    ``edges``: (source, reader) of each edge, without cycles. Returns the route of every edge, in the order of
    ``edges`` is the source, a way point in each layer between, which has no size, and the reader.
    """
    vertices = {box: Vertex() for box in boxes}
    for box, vertex in vertices.items():
        vertex.view = box
    drawn = [Edge(vertices[source], vertices[reader]) for source, reader in edges]

    routes = {}
    left = 0.0
    for component in Graph(list(vertices.values()), drawn).C:
        layout = SugiyamaLayout(component)
        layout.xspace, layout.yspace = GAP, SPACE
        layout.dw = layout.dh = 0.0   # sizes of the way points
        layout.init_all()
        layout.draw()
        for edge in component.sE:
            path = layout.ctrls.get(edge)   # rank -> vertex; None if there is no way point
            routes[edge] = [vertex.view for vertex in ([path[rank] for rank in sorted(path)] if path else edge.v)]
        left = _place(layout, left)
    return [routes[edge] for edge in drawn]


def _place(layout: SugiyamaLayout, left: float) -> float:
    """Make tops of grandalf's centres, the leftmost box at ``left``. Returns the left edge of the next component."""
    views = [vertex.view for vertex in layout.grx]
    shift = left - min(view.xy[0] - view.w / 2 for view in views)
    for layer in layout.layers:
        top = min(vertex.view.xy[1] - vertex.view.h / 2 for vertex in layer)
        for view in (vertex.view for vertex in layer):
            x, y = view.xy
            view.xy = x + shift, y - view.h / 2 if view.h else top
    return max(view.xy[0] + view.w / 2 for view in views) + GAP


def draw(boxes: list[Box], routes: list[list[VertexViewer]], path: str, ending: str) -> None:
    """Write a picture. :func:`arrange` has set the positions of the boxes, and made the routes."""
    with matplotlib.rc_context({"svg.fonttype": "none", "font.family": FONT}):
        left, right, bottom = _extent(boxes, routes)
        size = (right - left) / 72, (bottom + MARGIN) / 72
        figure = Figure(figsize=size)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(left, right), ylim=(bottom, -MARGIN))
        axes.axis("off")

        for route in routes:
            axes.add_patch(PathPatch(_curve(route), fill=False, edgecolor=EDGE, linewidth=1.0, zorder=1))
            x, y = route[-1].xy
            axes.plot([x], [y - 2.6], marker="v", markersize=4, color=EDGE, zorder=1,
                      markeredgewidth=0)   # the arrowhead
        sources = {route[0] for route in routes}
        for box in boxes:
            _draw_box(axes, box)
            if box.shape and box in sources:   # it stands beside the edges that leave the box
                x, y = box.xy
                axes.text(x + 5, y + box.h + 9, box.shape, ha="left", va="center", fontsize=SMALL,
                          color=SHAPE, zorder=4,
                          bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.85})
        figure.savefig(path, format=ending, dpi=min(DPI, MOST_PIXELS / max(size)))


def _extent(boxes: list[Box], routes: list[list[VertexViewer]]) -> tuple[float, float, float]:
    """The left, right and lower edge of the picture."""
    items = [item for route in routes for item in route] + boxes
    left = min(item.xy[0] - item.w / 2 for item in items)
    right = max(item.xy[0] + item.w / 2 for item in items)
    shapes = max(box.xy[0] + 4 + len(box.shape) * SHAPE_CHARACTER for box in boxes)
    bottom = max(item.xy[1] + item.h for item in items)
    return left - MARGIN, max(right, shapes) + MARGIN, bottom + MARGIN


def _curve(route: list[VertexViewer]) -> Path:
    """A curve from the bottom of the first box, through the way points, to the top of the last box."""
    (first, top), *between, (last, end) = (item.xy for item in route)
    points = [(first, top + route[0].h)]
    for (x, y), following in zip(between, route[2:]):
        points += [(x, y), (x, following.xy[1] - 30)]
    points.append((last, end - 3))

    vertices, codes = [points[0]], [Path.MOVETO]
    for (x0, y0), (x1, y1) in zip(points, points[1:]):
        middle = (y0 + y1) / 2
        vertices += [(x0, middle), (x1, middle), (x1, y1)]
        codes += [Path.CURVE4] * 3
    return Path(vertices, codes)


def _draw_box(axes: Axes, box: Box) -> None:
    face, edge = COLOURS[box.kind]
    x, y = box.xy
    corner = x - box.w / 2 + 3, y + 3
    line_width = 1.6 if box.kind in ("ours", "custom") else 0.9
    axes.add_patch(FancyBboxPatch(
        corner, box.w - 6, box.h - 6, zorder=2, facecolor=face, edgecolor=edge, linewidth=line_width,
        boxstyle="round,pad=3,rounding_size=4"))
    lines = [(text, SIZE, TEXT) for text in box.text]
    if box.caption:
        lines.append((box.caption, SMALL, CAPTION))
    for number, (text, size, colour) in enumerate(lines):
        bold = number == 0 and box.kind == "ours"
        axes.text(x, y + PADDING - 2 + LINE * (number + 0.5), text, ha="center", va="center", fontsize=size,
                  color=colour, zorder=3, fontweight="bold" if bold else "normal", parse_math=False)
