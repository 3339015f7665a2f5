"""Arranges the boxes of a drawn graph in layers from top to bottom, with grandalf."""
from __future__ import annotations

from grandalf.graphs import Edge, Graph, Vertex, graph_core
from grandalf.layouts import SugiyamaLayout, VertexViewer

GAP = 22.0     # between boxes of a layer, in points
SPACE = 38.0   # between layers


class Item:
    """A box, or a way point of an edge, which has no size. ``x`` is the centre and ``y`` the top, in points."""

    def __init__(self, width: float = 0.0, height: float = 0.0):
        self.width = width
        self.height = height
        self.x = 0.0
        self.y = 0.0


def arrange(items: list[Item], edges: list[tuple[Item, Item]]) -> list[list[Item]]:
    """Set the place of every item.

    ``edges``: (source, reader) of each edge, without cycles. Returns the route of every edge, in the order of
    ``edges``: the source, a way point in each layer between, the reader.
    """
    vertices = {item: Vertex(item) for item in items}
    for item, vertex in vertices.items():
        vertex.view = VertexViewer(item.width, item.height)
        vertex.view.item = item
    drawn = [Edge(vertices[source], vertices[reader]) for source, reader in edges]

    routes = {}
    left = 0.0
    for component in Graph(list(vertices.values()), drawn).C:
        layout = _laid_out(component)
        routes.update(_routes(layout, component))
        left = _place(layout, left)
    return [routes[edge] for edge in drawn]


def _laid_out(component: graph_core) -> SugiyamaLayout:
    layout = SugiyamaLayout(component)
    layout.xspace, layout.yspace = GAP, SPACE
    layout.dw = layout.dh = 0.0   # sizes of the way points
    layout.init_all()
    layout.draw()
    return layout


def _routes(layout: SugiyamaLayout, component: graph_core) -> dict[Edge, list[Item]]:
    """The route of every edge. grandalf's way points become items."""
    points = {}
    for vertex in layout.grx:
        if not hasattr(vertex.view, "item"):
            vertex.view.item = Item()
    for edge in component.sE:
        path = layout.ctrls.get(edge)
        vertices = [path[rank] for rank in sorted(path)] if path else edge.v
        points[edge] = [vertex.view.item for vertex in vertices]
    return points


def _place(layout: SugiyamaLayout, left: float) -> float:
    """Copy grandalf's places to the items, with the leftmost box at ``left``.

    Returns the left edge of the next component.
    """
    views = [vertex.view for vertex in layout.grx]
    shift = left - min(view.xy[0] - view.w / 2 for view in views)
    for layer in layout.layers:
        top = min(vertex.view.xy[1] - vertex.view.h / 2 for vertex in layer)
        for vertex in layer:
            view = vertex.view
            view.item.x = view.xy[0] + shift
            view.item.y = view.xy[1] - view.h / 2 if view.item.height else top
    return max(view.xy[0] + view.w / 2 for view in views) + shift + GAP
