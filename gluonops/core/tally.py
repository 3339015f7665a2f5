"""Parameters that move by a rule of their own and not by an optimizer's.

What the rule needs is gathered by ``backward()``: it reaches every context and every graph, hybridized or not, adds up
over several batches, and runs only where there is training.
"""
import zlib

import mxnet as mx
from mxnet import autograd

from .errors import OpError

__all__ = ["Tally", "tally", "tallying"]


class Tally(mx.gluon.Parameter):
    """A parameter whose gradient is a tally for the block that owns it.

    It is initialized, saved, loaded and moved between contexts like any other. Every ``backward()`` adds to its tally
    until :meth:`collect` takes it; :meth:`add` moves the value on every context alike. To a Trainer it has
    ``grad_req`` "null", whatever one sets, so that no optimizer moves it.
    """

    @property
    def grad_req(self):
        return "null"

    @grad_req.setter
    def grad_req(self, request):
        self._grad_req = "null"

    def _init_grad(self):
        self._grad = [mx.nd.zeros(data.shape, data.context, data.dtype) for data in self._data]
        autograd.mark_variables(self._data, self._grad, "add")

    def cast(self, dtype):
        super().cast(dtype)
        if self._data is not None:
            self._init_grad()   # Parameter.cast has marked the arrays with "null"

    def collect(self, trainer=None):
        """The sum of the tallies of all contexts, and of all workers of a distributed ``trainer``; they start anew.

        Parameters
        ----------
        trainer : gluon.Trainer, optional
            Where its kvstore is distributed, its workers add their tallies up: each of them has to call this.

        Returns
        -------
        NDArray
            On the first context.

        Raises
        ------
        OpError
            The servers of the trainer's kvstore run an optimizer and would apply it to the tally.
        """
        grads = self.list_grad()
        with autograd.pause():
            total = mx.nd.add_n(*(grad.as_in_context(grads[0].context) for grad in grads))
            self.zero_grad()
            if trainer is not None:
                _add_workers(trainer, self.name, total)
        return total

    def add(self, change):
        """Add an array to the value, on every context the same."""
        with autograd.pause():
            value = self.list_data()[0] + change
            for data in self.list_data():
                data[:] = value


def tally(block, name, **options):
    """A block's :class:`Tally` of this name: a new one, or that of the block whose parameters it shares."""
    name = block.params.prefix + name
    found = block.params._get_impl(name)
    if found is None:
        found = Tally(name, **options)
        block.params.update({name: found})
    return found


def tallying(F, output, *terms):
    """``output``, whose ``backward()`` also differentiates the sum of every term, whatever the head gradient is.

    The terms have the output's shape. Their value is dropped; what they are made of gets its gradient.
    """
    for term in terms:
        output = F.where(F.ones_like(output), output, F.make_loss(term))
    return output


def _add_workers(trainer, name, total):
    """Replace ``total`` by its sum over the workers of a distributed trainer."""
    if not trainer._kv_initialized:
        raise OpError("Trainer", "it has not made a step yet; expected one, which opens its kvstore",
                      "Call trainer.step(batch_size) first")
    kvstore = trainer._kvstore
    if kvstore is None or "dist" not in kvstore.type:
        return
    if trainer._update_on_kvstore:
        raise OpError("Trainer", f"the servers of kvstore {kvstore.type!r} run the optimizer; expected them to add up",
                      "Create it with kvstore='dist_sync', update_on_kvstore=False")
    # A kvstore's keys are all of one kind, and the trainer's are its parameters' positions, small numbers.
    key = zlib.crc32(name.encode()) % 2**30 + 2**30
    known = trainer.__dict__.setdefault("_gluonops_tallies", set())
    if key not in known:
        kvstore.init(key, mx.nd.zeros_like(total))
        known.add(key)
    kvstore.push(key, total)
    kvstore.pull(key, out=total)
