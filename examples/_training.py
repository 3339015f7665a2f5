"""What the fine-tuning scripts share: options, schedule, freezing, a run that can be continued."""
import argparse
import collections
import json
import math
import os
import shutil
import signal
import sys

import _checkpoint
import gluonops as gops
import mxnet as mx
import numpy as np
from _common import write_params
from _continuing import LAST, checkpoint_to_continue, command_to_continue
from _values import freeze, positive, share, weight, whole
from mxnet import gluon
from tqdm import tqdm

LAG = 4   # batches after which a loss is read: by then it is computed, and reading it does not hold the engine up
STOP = (1 << 30) - 1   # the key under which workers of dist_sync tell each other of Ctrl-C; a trainer counts from 0
TRAIN_STATE = ("epoch", "batch", "seen", "history", "sums", "measured", "counted")   # of a Run, in its checkpoint
MAY_CHANGE = ("out", "resume", "save_every", "ctx", "gpus", "threads", "pretrained")   # options when it is continued
BEST = "best.params"
KVSTORES = ("device", "local", "dist_sync", "dist_async")


def add_options(options, lr):
    """Add the options of training to those of ``_common.parser``."""
    add = options.add_argument
    add("--lr", type=weight, default=lr, help="highest learning rate")
    add("--optimizer", choices=("sgd", "adam"), default="sgd", help="sgd has momentum 0.9")
    add("--wd", type=weight, default=5e-4, help="weight decay")
    add("--warmup", type=weight, default=1, help="epochs in which the learning rate rises from 0")
    add("--lr-schedule", choices=("cosine", "steps"), default="cosine", help="how it falls afterwards")
    add("--lr-steps", type=share, nargs="+", default=[0.6, 0.85],
        help="shares of the epochs after which --lr-schedule steps divides it by 10")
    add("--freeze", type=freeze, default=0, help="epochs before the backbone is released; -1: never")
    add("--accumulate", type=positive, default=1, help="batches whose gradients are added up for one update")
    add("--dtype", choices=("float32", "float16", "bfloat16"), default="float32", help="float16 needs a GPU")
    add("--ctx", help="devices, for instance cpu:0,cpu:1; a batch is split among them", default="cpu:0")
    add("--gpus", help="GPUs, for instance 0,1; takes the place of --ctx", default=argparse.SUPPRESS)
    add("--kvstore", choices=KVSTORES, default="device", help="dist_*: see docs/several_machines.md")
    add("--resume", nargs="?", const="auto", metavar="CHECKPOINT", default=argparse.SUPPRESS,
        help="continue a checkpoint; auto: the last one under --out, where there is one")
    add("--save-every", type=whole, default=0, help="batches between checkpoints within an epoch; 0: after epochs only")


def plan(count, args, epoch, workers):
    """The batches of an epoch: a list of (indices for this worker, number of images over all workers).

    Every worker draws the same order and takes its part of each batch, so that parts never overlap and together are
    every image once. What is left over at the end makes a smaller batch, or joins the one before where it would leave
    a device without an image.
    """
    order = np.random.RandomState([args.seed, epoch]).permutation(count)
    size, at_least = args.batch_size * workers.count, workers.count * workers.devices
    if min(size, count) < at_least:
        raise gops.OpError("examples", f"{min(size, count)} images in a batch for {at_least} devices",
                           "Raise --batch-size, or use fewer devices")
    cuts = list(range(size, count, size))
    if cuts and count - cuts[-1] < at_least:
        cuts.pop()
    return [(part[workers.rank::workers.count].tolist(), len(part)) for part in np.split(order, cuts)]


def make_trainer(parameters, args, batches, workers):
    """A gluon Trainer whose learning rate warms up and falls; ``batches`` is the number of them in an epoch."""
    updates = math.ceil(batches / args.accumulate)
    if args.kvstore == "dist_async":
        updates *= workers.count   # the server counts every worker's
    total, warmup = args.epochs * updates, {"warmup_steps": round(args.warmup * updates)}
    if args.lr_schedule == "cosine":
        schedule = mx.lr_scheduler.CosineScheduler(max(total, warmup["warmup_steps"] + 1), args.lr, **warmup)
    else:
        steps = sorted({max(1, round(share * total)) for share in args.lr_steps})
        schedule = mx.lr_scheduler.MultiFactorScheduler(steps, 0.1, args.lr, **warmup)
    settings = {"lr_scheduler": schedule, "wd": args.wd, "multi_precision": args.dtype == "float16"}
    if args.optimizer == "sgd":
        settings["momentum"] = 0.9
    # The workers update, not the servers, so that a checkpoint can hold momentum. dist_async knows no other way.
    return gluon.Trainer(parameters, args.optimizer, settings, kvstore=workers.kvstore,
                         update_on_kvstore=args.kvstore == "dist_async")


def set_frozen(net, backbone, frozen, accumulate):
    """Freeze or release a part of the net. Frozen: no gradients, and batch norm with constant running statistics."""
    changed = []

    def use_running_statistics(block):
        if isinstance(block, gluon.nn.BatchNorm) and block._kwargs["use_global_stats"] != frozen:
            block._kwargs["use_global_stats"] = frozen
            changed.append(block)

    backbone.apply(use_running_statistics)
    request = "null" if frozen else "add" if accumulate > 1 else "write"
    for parameter in backbone.collect_params().values():
        if parameter._differentiable and parameter.grad_req != request:
            parameter.grad_req = request
            changed.append(parameter)
    if changed:
        net.hybridize(static_alloc=True)   # traces again


class Run:
    """A training run: counts, averages, shows, updates, saves, continues, and stops at Ctrl-C.

        for epoch in run.epochs():
            for batch in run.batches(...):
                ...                      # record, backward
                run.step(losses)
            run.end_epoch(metrics, score)

    Parameters
    ----------
    args : argparse.Namespace
        With the options of :func:`add_options`.
    blocks : dict of str to Block
        ``net``, and ``loss`` where it has parameters.
    trainer : gluon.Trainer
    workers : Workers
    images : int
        Number of training images.
    extra : dict
        JSON that the checkpoint holds besides, such as the classes; ``data``, a fingerprint of the training images,
        has to be the same when the run is continued.
    per : dict of str to str, optional
        Losses that are averaged over another count than the images, such as ``{"iou": "truths"}``.
    """

    def __init__(self, args, blocks, trainer, workers, images, extra, per=None):
        self.extra, self.per = extra, per or {}
        self.args, self.blocks, self.trainer, self.workers, self.images = args, blocks, trainer, workers, images
        self.path = args.out / LAST
        self.epoch = self.batch = self.seen = 0
        self.history, self.sums, self.measured, self.counted = [], {}, 0, 0
        self.unread, self.waiting = collections.deque(), 0
        self.stop_requested, self.stopping, self.flags, self.validating = False, False, collections.deque(), False
        self.random = any(isinstance(block, gluon.nn.Dropout) for net in blocks.values() for block in _blocks(net))
        if args.accumulate > 1:
            for parameter in trainer._params:
                if parameter.grad_req == "write":
                    parameter.grad_req = "add"
        if args.kvstore == "dist_sync":
            workers.kvstore.init(STOP, mx.nd.zeros(1))

    @property
    def best(self):
        """The best score so far."""
        return max((row["score"] for row in self.history), default=-math.inf)

    def resume(self):
        """Resume from the checkpoint of --resume. Returns False if there is none."""
        path = checkpoint_to_continue(self.args)
        if path is None:
            return False
        tensors, train_state = _checkpoint.read(path)
        for key, value in self._options().items():
            if train_state["options"].get(key) != value:
                before = train_state["options"].get(key)
                raise gops.OpError("examples", f"{key} is {value!r}; the run in {path} was started with {before!r}",
                                   "Resume with the options it was started with")
        if train_state.get("data", self.extra["data"]) != self.extra["data"]:   # older ones lack it
            raise gops.OpError("examples", f"the images or labels to train on are others (fingerprint "
                               f"{self.extra['data']}) than those of the run in {path} ({train_state['data']})",
                               f"Put those back, or start anew with --pretrained {path} and another --out")
        _checkpoint.restore(tensors, train_state, self.blocks, self.trainer)
        for name in TRAIN_STATE:
            setattr(self, name, train_state[name])
        self._take_along(path)
        self.say(f"continuing {path}: {self.epoch} of {self.args.epochs} epochs and {self.batch} batches are done")
        return True

    def _take_along(self, path):
        """Copy both files of the run to --out, if it is resumed from another folder."""
        best = path.with_name(BEST)
        if self.history and not best.is_file():
            raise gops.OpError("examples", f"{best} is missing; expected the best epoch's parameters beside {path}",
                               "Put it there: they may be the best of the whole run")
        if self.workers.rank == 0 and path.resolve() != self.path.resolve():
            write_params(self.path, lambda name: shutil.copyfile(path, name))
            if self.history and best.resolve() != (self.args.out / BEST).resolve():
                write_params(self.args.out / BEST, lambda name: shutil.copyfile(best, name))

    def save(self):
        """Write the checkpoint, from the first worker."""
        self._read_losses(0)
        if self.workers.rank == 0:
            train_state = {name: getattr(self, name) for name in TRAIN_STATE}
            train_state.update(self.extra, options=self._options())
            _checkpoint.save(self.path, self.blocks, self.trainer, train_state)

    def say(self, text):
        """Print it above the progress bar, from the first worker."""
        if self.workers.rank == 0:
            tqdm.write(text, file=sys.stderr)

    def epochs(self):
        """The epochs still to do, counted from 0; shows the bar and listens to Ctrl-C meanwhile."""
        if self.args.kvstore == "dist_sync":
            self._share_parameters()
        previous = {number: signal.signal(number, self._request_stop) for number in (signal.SIGINT, signal.SIGTERM)}
        with tqdm(total=self.args.epochs * self.images, initial=self.epoch * self.images + self.counted,
                  desc="training", unit="image", disable=self.workers.rank > 0, dynamic_ncols=True) as self.bar:
            try:
                while self.epoch < self.args.epochs:
                    yield self.epoch
            finally:
                for number, handler in previous.items():
                    signal.signal(number, handler)

    def _share_parameters(self):
        """Give all workers the first one's parameters now, and wait for them.

        Left to itself, the trainer does so in its first step and sends the gradients right after, which MXNet's engine
        may do in the other order: the server, that holds one tensor for both, then answers with gradients.
        """
        self.trainer._init_kvstore()
        self.trainer._init_params()
        mx.nd.waitall()

    def batches(self, batches, load):
        """What is left of the epoch's ``plan``, as ``load(lists of indices)`` reads it; saves before the validation."""
        self.plan, self.validating = batches, self.batch == len(batches)
        if self.validating:   # continued where that is all that is left
            return
        for batch in load([indices for indices, _ in batches[self.batch:]]):
            if self.random:   # dropout: the same numbers after --resume as without
                place = [self.args.seed, self.epoch, self.batch, self.workers.rank]
                mx.random.seed(np.random.RandomState(place).randint(2**31))
            yield batch
        self.validating = True
        self._agree_to_stop(0)
        self.save()
        self._leave_if_stopping()

    def step(self, parts, after=None):
        """After backward. ``parts``: name -> NDArray, summed over this worker's images of the batch.

        ``after()`` moves what no optimizer does: after an update, and before the checkpoint that has to hold it.
        """
        indices, images = self.plan[self.batch]
        self.unread.append((len(indices), images, parts))
        self.batch, self.seen, self.waiting = self.batch + 1, self.seen + images, self.waiting + images
        if self.batch % self.args.accumulate and self.batch < len(self.plan):
            return
        # A server of dist_async updates for one worker at a time, and keeps the first divisor it is told.
        alone = self.args.kvstore == "dist_async"
        self.trainer.step(self.args.batch_size * self.args.accumulate if alone else self.waiting)
        self.waiting = 0
        if after:
            after()
        if self.args.accumulate > 1:
            for parameter in self.trainer._params:
                parameter.zero_grad()
        self._read_losses(LAG)
        self._agree_to_stop(LAG)
        every = self.args.save_every
        if self.batch < len(self.plan) and (self.stopping or (every and self.batch % every < self.args.accumulate)):
            self.save()
            self._leave_if_stopping()

    def end_epoch(self, metrics, score):
        """Note the epoch, keep the parameters if none has scored higher, save."""
        self._read_losses(0)
        best = score >= self.best   # of equals the later: its learning rate was lower
        means = self._means()
        row = {"epoch": self.epoch + 1, **means, **metrics}
        if self.args.kvstore != "dist_async":   # there the servers have it
            row["learning_rate"] = self.trainer.learning_rate
        self.say("  ".join(f"{name} {value:.4g}" for name, value in row.items() if isinstance(value, (int, float))))
        self.history.append({**row, "score": score})
        self.epoch, self.batch, self.sums, self.measured, self.counted = self.epoch + 1, 0, {}, 0, 0
        if best and self.workers.rank == 0:
            write_params(self.args.out / BEST, self.blocks["net"].save_parameters)
        self.save()
        self._agree_to_stop(0)
        self._leave_if_stopping()

    def _options(self):
        """What has to be the same when the run is continued, as JSON has it."""
        chosen = {key: value for key, value in vars(self.args).items() if key not in MAY_CHANGE}
        return json.loads(json.dumps({**chosen, "workers": self.workers.count}, default=str))

    def _read_losses(self, keep):
        """Add up the losses of all but the last ``keep`` batches."""
        while len(self.unread) > keep:
            mine, images, parts = self.unread.popleft()
            values = {name: part.asscalar() for name, part in parts.items()}
            if not all(math.isfinite(value) for value in values.values()):
                raise gops.OpError("examples", f"the loss is no number any more in epoch {self.epoch + 1}: {values}",
                                   f"Lower --lr or raise --warmup; {self.path} is from before")
            self.sums = {name: self.sums.get(name, 0.0) + float(value) for name, value in values.items()}
            self.measured, self.counted = self.measured + mine, self.counted + images
            shown = {name: f"{mean:.3f}" for name, mean in self._means().items()}
            self.bar.set_postfix({"epoch": self.epoch + 1, **shown}, refresh=False)
            self.bar.update(images)

    def _means(self):
        return {name: total / max(1, self.sums[self.per[name]] if name in self.per else self.measured)
                for name, total in self.sums.items() if name not in self.per.values()}

    def _request_stop(self, number, frame):
        if self.stop_requested:
            raise KeyboardInterrupt
        self.stop_requested = True
        if self.workers.rank == 0:   # by the system: a handler may interrupt a print, which cannot be entered twice
            after = "the validation" if self.validating else "this batch"
            os.write(2, f"\nsaving after {after}; once more ends at once, without saving\n".encode())

    def _agree_to_stop(self, lag):
        """All workers of dist_sync stop after the same batch: one that went on alone would wait for ever.

        Each worker tells the others whether a stop was requested. The answers of ``lag`` calls ago count now.
        """
        if self.args.kvstore != "dist_sync":
            self.stopping = self.stop_requested
            return
        self.flags.append(mx.nd.array([self.stop_requested]))
        self.workers.kvstore.pushpull(STOP, self.flags[-1], out=self.flags[-1])
        while len(self.flags) > lag:
            self.stopping |= bool(self.flags.popleft().asscalar())

    def _leave_if_stopping(self):
        if self.stopping:
            self.say(f"saved {self.path}. To continue: {command_to_continue()}")
            sys.exit(130)


def _blocks(block):
    yield block
    for child in block._children.values():
        yield from _blocks(child)
