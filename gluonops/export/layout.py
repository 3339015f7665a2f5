"""Where the boxes of a drawn graph go: layers from top to bottom, few crossings, straight chains.

After Sugiyama, Tagawa and Toda, "Methods for visual understanding of hierarchical system structures" (1981): each box
stands below all that it reads; edges that span several layers get a way point in each; medians order a layer.
"""
SWEEPS, GAP, SPACE = 8, 22.0, 38.0


class Item:
    """A box, or the way point of an edge (width 0, text None)."""

    def __init__(self, width=0.0, height=0.0, content=None):
        self.width, self.height, self.content = width, height, content
        self.above, self.below = [], []
        self.rank, self.x, self.y = 0, 0.0, 0.0


def arrange(items, edges):
    """Give every item ``x`` (its centre) and ``y`` (its top).

    Parameters
    ----------
    items : list of Item
        Every item after those that it reads.
    edges : list of (Item, Item)
        From the read to the reader.

    Returns
    -------
    list of list of Item
        The way of every edge, both ends included, in the order of ``edges``.
    """
    for item in items:
        item.rank = max((source.rank + 1 for source, reader in edges if reader is item), default=0)
    _lower_sources(items, edges)
    everything, ways = list(items), []
    for source, reader in edges:
        way = [source]
        for rank in range(source.rank + 1, reader.rank):
            point = Item()
            point.rank = rank
            everything.append(point)
            way.append(point)
        way.append(reader)
        for upper, lower in zip(way, way[1:]):
            upper.below.append(lower)
            lower.above.append(upper)
        ways.append(way)
    layers = [[] for _ in range(max((item.rank for item in everything), default=-1) + 1)]
    for item in everything:
        layers[item.rank].append(item)
    _order(layers)
    _place(layers)
    return ways


def _lower_sources(items, edges):
    """A box that reads nothing goes right above its first reader."""
    for item in items:
        if not any(reader is item for _, reader in edges):
            item.rank = max(0, min((reader.rank - 1 for source, reader in edges if source is item), default=0))


def _order(layers):
    place = {}

    def number():
        for layer in layers:
            place.update((item, i) for i, item in enumerate(layer))

    number()
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for layer in layers if down else reversed(layers):
            def median(item, down=down):
                near = sorted(place[other] for other in (item.above if down else item.below))
                return near[len(near) // 2] if near else place[item]

            layer.sort(key=median)
            place.update((item, i) for i, item in enumerate(layer))


def _place(layers):
    y = 0.0
    for layer in layers:
        for item in layer:
            item.y = y
        y += max(item.height for item in layer) + SPACE
        _spread(layer, [0.0] * len(layer))
    for sweep in range(2 * SWEEPS):
        down = sweep % 2 == 0
        for layer in layers if down else reversed(layers):
            wanted = []
            for item in layer:
                near = (item.above if down else item.below) or (item.below if down else item.above)
                wanted.append(sum(other.x for other in near) / len(near) if near else item.x)
            _spread(layer, wanted)


def _spread(layer, wanted):
    """Put each item of a layer as near to its wanted place as its neighbours leave room: groups that touch move as one,
    to the mean of what they want."""
    groups = []   # (first place, count, offsets from the group's first item's centre, items)
    for item, place in zip(layer, wanted):
        groups.append(([item], [0.0], place))
        while len(groups) > 1 and _overlap(groups[-2], groups[-1]):
            (items, offsets, left), (more, further, right) = groups[-2:]
            step = offsets[-1] + _distance(items[-1], more[0])
            total = left * len(items) + (right - step) * len(more)
            groups[-2:] = [(items + more, offsets + [step + offset for offset in further],
                            total / (len(items) + len(more)))]
    for items, offsets, place in groups:
        for item, offset in zip(items, offsets):
            item.x = place + offset


def _overlap(left, right):
    return left[2] + left[1][-1] + _distance(left[0][-1], right[0][0]) > right[2]


def _distance(left, right):
    return (left.width + right.width) / 2 + GAP
