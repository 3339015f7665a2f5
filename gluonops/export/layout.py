"""Where the boxes of a drawn graph go: grandalf's layers, from top to bottom."""
from __future__ import annotations

GAP, SPACE = 22.0, 38.0


class Item:
    """A box, or the way point of an edge, which has no size. ``x`` is its centre and ``y`` its top."""

    def __init__(self, width: float = 0.0, height: float = 0.0):
        self.width, self.height = width, height
        self.x, self.y = 0.0, 0.0


def arrange(items: list[Item], edges: list[tuple[Item, Item]]) -> list[list[Item]]:
    """Give every item its place.

    Parameters
    ----------
    items : list of Item
    edges : list of (Item, Item)
        From the one that is read to the reader. There are no cycles.

    Returns
    -------
    list of list of Item
        The route of every edge, both ends included, in the order of ``edges``: a way point in each layer between them.
    """
    from grandalf.graphs import Edge, Graph, Vertex
    vertices = {item: Vertex(item) for item in items}
    for item, vertex in vertices.items():
        vertex.view = _View(item)
    drawn = [Edge(vertices[source], vertices[reader]) for source, reader in edges]

    routes, left = {}, 0.0
    for component in Graph(list(vertices.values()), drawn).C:
        layout = _laid_out(component)
        routes.update(_routes(layout, component))
        left = _place(layout, left)
    return [routes[edge] for edge in drawn]


class _View:
    """What grandalf asks of a vertex: its size, and room for its centre."""

    def __init__(self, item):
        self.w, self.h, self.xy = item.width, item.height, (0.0, 0.0)
        self.item = item


def _laid_out(component):
    from grandalf.layouts import SugiyamaLayout
    layout = SugiyamaLayout(component)
    layout.xspace, layout.yspace = GAP, SPACE
    layout.dw = layout.dh = 0.0   # of the way points
    layout.init_all()
    layout.draw()
    return layout


def _routes(layout, component):
    """Edge -> its route; grandalf's way points become items."""
    points = {}
    for vertex in layout.grx:
        if not hasattr(vertex.view, "item"):
            vertex.view.item = Item()
    for edge in component.sE:
        path = layout.ctrls.get(edge)
        vertices = [path[rank] for rank in sorted(path)] if path else edge.v
        points[edge] = [vertex.view.item for vertex in vertices]
    return points


def _place(layout, left):
    """Copy the places, the leftmost box at ``left``; returns where the next component begins."""
    views = [vertex.view for vertex in layout.grx]
    shift = left - min(view.xy[0] - view.w / 2 for view in views)
    for layer in layout.layers:
        top = min(vertex.view.xy[1] - vertex.view.h / 2 for vertex in layer)
        for vertex in layer:
            view = vertex.view
            view.item.x = view.xy[0] + shift
            view.item.y = view.xy[1] - view.h / 2 if view.item.height else top
    return max(view.xy[0] + view.w / 2 for view in views) + shift + GAP
