"""Tells which inputs of a graph are labels, and which outputs train a net instead of predicting. Needs no MXNet.

A variable is a label if everything that is computed from it ends in losses, and no other output needs it. Its name says
nothing: ``label`` is data in a generator under a condition, and ``target`` in front of a LinearRegressionOutput is a
label.
"""
from __future__ import annotations

from collections.abc import Collection

from ..contract import registry
from .graph import VARIABLE, Graph, Node, is_ours, our_name
from .operators import having, traits_of
from .operators.node_attributes import attributes_of
from .parameters import is_layer, of_layers

# Operators behind a softmax that leave it probabilities. The quotient is one by their sum.
AFTER_SOFTMAX = having("moves", "is_identity") | {"broadcast_div"}
MAKE_LOSS = "make_loss"
OPERATOR = "__gluonops_operator__"   # the mark on the outputs of a builtin form: the operator, and its attributes
OF_GLUON = "__storage_type__"   # the mark on the variable of each of Gluon's parameters
# How the numbers of a variable may reach a node, as bits: unchanged; computed with; through a layer with parameters;
# and through the data of a loss head, after a layer or not.
COPIED, COMPUTED, LEARNED, HEADED, HEADED_LEARNED = 1, 2, 4, 8, 16
# What they may end in: a loss head or a loss that reads them as its label; or a loss, after a layer or not.
AS_LABEL, IN_LOSS, LEARNED_IN_LOSS = 1, 2, 4


def labels(graph: Graph, values: Collection[str] = ()) -> set[str]:
    """The names of the variables that are labels.

    Where a loss head also computes its prediction from a variable, as an autoencoder or a margin does, the variable is
    a label only if it meets no layer with parameters in between. Where every output is a loss, data are what layers
    read.

    Parameters
    ----------
    graph : Graph
        With MXNet's names of operators, as :func:`.operators.admit` writes them.
    values : collection of str
        The names of parameters and states, which are no labels. Those of layers and of Gluon are known without it.
    """
    parameters = {*values, *of_layers(graph), *(node.name for node in graph.nodes() if OF_GLUON in node.attrs)}
    ways = _Ways(graph, parameters)
    names = {name for name in ways.names if ways.is_label(name)}
    if names == ways.names:   # something has to be predicted from
        names = {name for name in names if not ways.outputs[name] & HEADED}
    return names


def training_only(graph: Graph, names: Collection[str]) -> dict[Node, str]:
    """Node -> why it does not predict, for the nodes that depend on a loss or on a label. ``names`` are the labels.

    A loss head predicts, unless its data depend on one.
    """
    forms, reasons = _gluon_losses(graph), {}
    for node in graph.nodes():
        if node.is_variable:
            if node.name in names:
                reasons[node] = f"it needs {node.name!r}"
        elif _is_loss(node, forms):
            reasons[node] = our_name(node) if is_ours(node) else node.attrs.get(OPERATOR, node.op).partition(" ")[0]
        elif traits_of(node).target_labels:
            reasons[node] = node.op
        else:
            read = [node.source(_data_position(node))] if _is_head(node) else [source for source, _ in node.inputs]
            inherited = [reasons[source] for source in read if source in reasons]
            if inherited:
                reasons[node] = inherited[0]
    return reasons


def detach_labels(graph: Graph) -> None:
    """Let the loss heads of a graph read the data that they predict from alone, in place."""
    for node in graph.nodes():
        if not node.is_variable and _is_head(node):
            node.inputs = [node.inputs[_data_position(node)]]


def loss_names() -> set[str]:
    """The operators of gluonops that are losses, by their contracts."""
    return {name for name, registered in registry.entries().items() if registered.op.role == "loss"}


def independent_part(graph: Graph, names: Collection[str]) -> Graph | None:
    """What a graph computes without some variables: a graph with all that is read of it. None if that is nothing."""
    needing = set()
    for node in graph.nodes():
        if (node.is_variable and node.name in names) or any(source in needing for source, _ in node.inputs):
            needing.add(node)
    read = [*graph.outputs, *(entry for node in graph.nodes() for entry in node.inputs)]
    kept = list(dict.fromkeys(entry for entry in read if entry[0] not in needing and not entry[0].is_variable))
    return Graph(kept, graph.attrs) if kept else None


def example_shape(graph: Graph, name: str, batch: int) -> tuple[int, ...]:
    """A shape that a label of a graph may have, for a message."""
    readers = [reader for node, reading in graph.readers().items() if node.name == name for reader in reading if reader]
    return batch, *next((example for reader in readers if (example := traits_of(reader).example_label)), ())


def ends_in_softmax(graph: Graph) -> bool:
    """Whether the output is a softmax, also if it is divided by its sum, moved or copied."""
    return traits_of(graph.outputs[0][0].origin(AFTER_SOFTMAX)).is_softmax


class _Ways:
    """How the numbers of each variable that is no parameter reach the outputs and the losses of a graph.

    - ``names``: the variables.
    - ``outputs``: name -> how it reaches outputs that are no losses.
    - ``ends``: name -> what it ends in.
    """

    def __init__(self, graph: Graph, parameters: set[str]):
        self.names = set(graph.variables()) - parameters
        self.outputs = dict.fromkeys(self.names, 0)
        self.ends = dict.fromkeys(self.names, 0)
        self._forms = _gluon_losses(graph)
        reaching = {}   # node -> name -> the ways
        for node in graph.nodes():
            if node.is_variable:
                reaching[node] = {node.name: COPIED} if node.name in self.names else {}
            else:
                reaching[node] = self._passed_on(node, reaching)
        for node, _ in graph.outputs:
            for name, ways in reaching[node].items():
                self.outputs[name] |= ways
        self._predicts = any(ways & ~COPIED for ways in self.outputs.values())
        self._learns = any(ends & LEARNED_IN_LOSS for ends in self.ends.values())

    def is_label(self, name: str) -> bool:
        """What :func:`labels` says of a variable."""
        ways, ends = self.outputs[name], self.ends[name]
        if ways & (COMPUTED | LEARNED | HEADED_LEARNED) or not ends:
            return False
        if ends & AS_LABEL and not ends & LEARNED_IN_LOSS:
            return True
        if ways & HEADED:
            return False
        return self._predicts or (self._learns and not ends & LEARNED_IN_LOSS)

    def _passed_on(self, node: Node, reaching: dict[Node, dict[str, int]]) -> dict[str, int]:
        """The ways of variables behind a node. What ends in it is noted."""
        passed, label_positions = {}, _label_positions(node, self._forms)
        is_loss = _is_loss(node, self._forms)
        for position, (source, _) in enumerate(node.inputs):
            for name, ways in reaching[source].items():
                if position in label_positions:
                    self.ends[name] |= AS_LABEL
                elif is_loss or (is_builtin_head(node) and position != _data_position(node)):
                    self.ends[name] |= LEARNED_IN_LOSS if ways & (LEARNED | HEADED_LEARNED) else IN_LOSS
                elif not traits_of(node).target_labels:
                    if traits_of(node).acts_as == MAKE_LOSS and ways == COPIED:
                        self.ends[name] |= IN_LOSS
                    passed[name] = passed.get(name, 0) | _behind(node, position, ways)
        return passed


def _behind(node: Node, position: int, ways: int) -> int:
    """The ways behind a node of what reaches one of its inputs."""
    headed = ways & (HEADED | HEADED_LEARNED)
    if _is_head(node):
        return headed | (HEADED if ways & (COPIED | COMPUTED) else 0) | (HEADED_LEARNED if ways & LEARNED else 0)
    if is_layer(node) and position == 0 and len(node.inputs) > 1:
        return headed | LEARNED
    if traits_of(node).moves and position == 0:
        return ways
    return headed | ways & LEARNED | (COMPUTED if ways & (COPIED | COMPUTED) else 0)


def _is_head(node: Node) -> bool:
    """Whether a node is a loss head, whose output is a prediction from its data."""
    if len(node.inputs) <= _data_position(node):   # a damaged file, which describe() lists
        return False
    if is_ours(node):
        return _role(node) == "loss head"
    return bool(traits_of(node).predicts) or is_builtin_head(node)


def is_builtin_head(node: Node) -> bool:
    """Whether a node is where the builtin backend attaches the loss of ``softmax_output`` to its output."""
    return _reads(node, "where", "ones_like")


def _data_position(head: Node) -> int:
    """The position of the input that a loss head predicts from."""
    return 1 if is_builtin_head(head) else 0


def _is_loss(node: Node, forms: set[Node]) -> bool:
    """Whether a node computes a loss. ``forms``: the nodes of Gluon's that do."""
    if is_ours(node):
        return _role(node) == "loss"
    if OPERATOR in node.attrs:
        return node.attrs[OPERATOR].partition(" ")[0] in loss_names()
    if traits_of(node).is_loss:
        return not _has_no_gradient(node)
    return node in forms or _picks_a_label(node)


def _has_no_gradient(node: Node) -> bool:
    """Whether the factor of a MakeLoss is 0, as behind the detections of an SSD that is trained."""
    return traits_of(node).acts_as == MAKE_LOSS and attributes_of(node).get("grad_scale") == 0


def _role(node: Node) -> str | None:
    registered = registry.entries().get(our_name(node))
    return registered and registered.op.role


def _label_positions(node: Node, forms: set[Node]) -> Collection[int]:
    """The positions of the inputs that a node reads as labels."""
    if traits_of(node).target_labels:
        return traits_of(node).target_labels
    if _picks_a_label(node):
        return (1,)
    if node in forms:
        return (0,) if node.op == "reshape_like" else ()
    has_labels = (_role(node) in ("loss", "loss head") if is_ours(node) else
                  traits_of(node).predicts or traits_of(node).is_loss)
    return range(1, len(node.inputs)) if has_labels else ()


def _picks_a_label(node: Node) -> bool:
    """Whether a node is the cross-entropy of MXNet's operators: the logarithm of the probability of a label."""
    return _reads(node, "pick", "log_softmax")


def _gluon_losses(graph: Graph) -> set[Node]:
    """The nodes of Gluon's losses: means or sums over all axes but the batch, and what gives labels the shape of data.

    Each of ``gluon.loss`` reads its label in ``reshape_like(label, pred)``, in ``pick``, or as ``log(label + 1e-12)``.
    """
    dependent, needing = set(), set()   # what depends on a label of such a form
    for node in graph.nodes():
        reads_label = _reads(node, "reshape_like", VARIABLE) or _picks_a_label(node) or (
            _reads(node, "log", "_plus_scalar") and _reads(node.source(), "_plus_scalar", VARIABLE))
        if reads_label or any(source in needing for source, _ in node.inputs):
            needing.add(node)
        if traits_of(node).adds_up and attributes_of(node).get("exclude") and node in needing:
            dependent.add(node)
    readers = Graph([(node, 0) for node in dependent], {}).nodes() if dependent else ()
    return dependent.union(node for node in readers if _reads(node, "reshape_like", VARIABLE))


def _reads(node: Node, op: str, source: str) -> bool:
    """Whether a node is one operator, and its first input another one."""
    return node.op == op and bool(node.inputs) and node.source().op == source
