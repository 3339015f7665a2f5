"""A training run: it counts batches, averages losses, updates parameters, saves, resumes, and stops at Ctrl-C."""
from __future__ import annotations

import collections
import contextlib
import json
import math
import os
import pathlib
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import mxnet as mx
import numpy as np
from mxnet import gluon

from ..contract.errors import OpError
from ..data import Batches
from ..io.progress import Bar, say
from . import checkpoint as checkpoints
from . import parameters
from .interrupting import Stopping
from .precision import MixedPrecision
from .reports import EpochTable, EventWriter, ExpectedTime, in_words, write_history
from .run_files import lock_folder, make_folder, save_tensors
from .workers import Workers, plan, share_parameters, updates_per_epoch

__all__ = ["Run"]

WHERE = "train.Run"
LAG = 4   # batches after which a loss is read: by then it is computed, and reading it does not hold the engine up
READ_TIMEOUT = 3600   # seconds for a batch: a laptop that sleeps in a run goes on; Gluon's own 120 s would end it
TRAIN_STATE = {"epoch": int, "batch": int, "seen": int, "history": list, "sums": dict, "measured": int,
               "counted": int}   # a Run's checkpoint has them
BEST = "best.params"


class Run:
    """A training run, which may be interrupted and resumed.

    A script has a loop such as this::

        run = Run(net, trainer, len(dataset), epochs=30, batch_size=32, out="out")
        run.resume("auto")
        for epoch in run.epochs():
            for images, labels in run.batches(dataset, batchify):
                with autograd.record():
                    losses = [loss(net(part), label) for part, label in zip(*map(run.split, (images, labels)))]
                run.backward(losses)
                run.step({"loss": sum_of(losses)})
            with run.averaged():
                score = validate(net)
            run.end_epoch({"accuracy": score}, score)

    The run writes three files to ``out``: ``last.checkpoint``, ``best.params`` with the parameters of the epoch with
    the highest score, and ``history.csv``. If two epochs have the same score, the later one counts.

    Parameters
    ----------
    net : gluon.Block
        The net. It is initialized, and its shapes are known.
    trainer : gluon.Trainer
        The trainer, as :func:`gluonops.train.make_trainer` returns it.
    images, epochs : int
        Number of training images, and passes over them.
    batch_size : int
        Images of a batch on each worker.
    out : str or os.PathLike
        Folder for the results. It is made if it does not exist.
    seed : int, default 0
        Seed of the order of the images.
    blocks : dict of str to gluon.Block, optional
        Other blocks whose parameters belong to the run, such as a loss that counts images.
    workers : Workers, optional
        See :func:`gluonops.train.join_workers`.
    accumulate : int, default 1
        Batches whose gradients are added up for one update.
    clip : float, default 0
        Largest global norm of the gradients of the mean loss; 0 for no limit.
    average : float, default 0
        Decay of an exponential moving average of the parameters; 0 for none. Its values are what :meth:`averaged`
        validates, and what ``best.params`` holds.
    dtype : {"float32", "bfloat16", "float16"}, default "float32"
        In which :meth:`mixed` computes. See :mod:`gluonops.train.precision`.
    save_every : int, default 0
        Batches between checkpoints within an epoch; 0: none.
    data : str, optional
        A fingerprint of the training images. It has to be the same when the run is resumed. By default their number.
    options : dict, optional
        JSON: further options that have to be the same when the run is resumed.
    extra : dict, optional
        JSON that the checkpoint holds besides, such as the names of the classes.
    means_over : dict of str to str, optional
        Losses that are averaged over another count than the images, such as ``{"iou": "truths"}``.
    tensorboard : bool, default False
        Write losses and metrics for TensorBoard as well, in ``out``.
    name : str, default "last"
        Name of the checkpoint, without ``.checkpoint``.
    keep_best : bool, default True
        Whether to write ``best.params`` and ``history.csv``.
    title, unit : str
        For the progress bar.
    shown : sequence of str, default ()
        Names of the values in the row that is printed for an epoch. By default as many as have room.

    Attributes
    ----------
    epoch, batch : int
        Epochs that are done, and batches that are done within the current one.
    seen : int
        Number of images trained on, over all workers.
    history : list of dict
        A row for each epoch: ``epoch``, mean losses, metrics, ``learning_rate`` and ``score``.
    """

    def __init__(self, net: gluon.Block, trainer: gluon.Trainer, images: int, *, epochs: int, batch_size: int,
                 out: str | os.PathLike, seed: int = 0, blocks: Mapping[str, gluon.Block] | None = None,
                 workers: Workers | None = None, accumulate: int = 1, clip: float = 0, average: float = 0,
                 dtype: str = "float32", save_every: int = 0, data: str | None = None,
                 options: Mapping[str, Any] | None = None, extra: Mapping[str, Any] | None = None,
                 means_over: Mapping[str, str] | None = None, tensorboard: bool = False, name: str = "last",
                 keep_best: bool = True, title: str = "training", unit: str = "image",
                 shown: Sequence[str] = ()):
        self.net, self.trainer, self.images = net, trainer, images
        self.epoch_count, self.batch_size, self.seed = epochs, batch_size, seed
        self.blocks = {"net": net, **(blocks or {})}
        self.workers = workers or Workers(devices=len(trainer._contexts))
        self.accumulate, self.clip, self.save_every = accumulate, clip, save_every
        self.average = parameters.ParameterAverage(net, average) if average else None
        self.precision = MixedPrecision(dtype, trainer)
        self.out = make_folder(out, WHERE)
        self.path, self.best_path = self.out / f"{name}.checkpoint", self.out / BEST
        if self.workers.rank == 0:
            lock_folder(self.out, WHERE)
            self.order = checkpoints.next_order(self.path)
        self.keep_best, self.title, self.unit = keep_best, title, unit
        self.extra, self.means_over = {**(extra or {}), "data": data or f"{images} images"}, means_over or {}
        own = {"epochs": epochs, "batch_size": batch_size, "seed": seed, "accumulate": accumulate, "clip": clip,
               "average": average, "dtype": dtype}
        self.options = json.loads(json.dumps({**own, **(options or {}), "workers": self.workers.count}, default=str))
        self.epoch = self.batch = self.seen = 0
        self.history, self.sums, self.measured, self.counted = [], {}, 0, 0
        self._unread = collections.deque()
        self._stopping, self._table, self._expected = Stopping(self.workers), EpochTable(epochs, shown), None
        parts = [part for block in self.blocks.values() for part in parameters.blocks_of(block)]
        self._is_random = any(isinstance(part, gluon.nn.Dropout) for part in parts)
        self._events = EventWriter(self.out) if tensorboard and self.workers.rank == 0 else None
        self._waiting = 0   # images whose gradients are not used yet
        if clip and self.workers.update_on_servers:
            raise OpError(WHERE, "clip is set with dist_async; expected another kvstore, because clip needs the sum of "
                          "all gradients, which dist_async never has",
                          "Leave clip out, or choose dist_sync")
        if accumulate > 1:
            parameters.accumulate_gradients(trainer._params)

    @property
    def best(self) -> float:
        """The highest score so far."""
        return max((row["score"] for row in self.history), default=-math.inf)

    @property
    def best_row(self) -> dict:
        """The row of ``history`` that ``best.params`` belongs to: of equal scores the later."""
        return max(self.history, key=lambda row: (row["score"], row["epoch"]))

    def resume(self, checkpoint: str | os.PathLike | None = "auto") -> bool:
        """Resume from a checkpoint.

        Parameters
        ----------
        checkpoint : str or os.PathLike, optional
            The file. ``auto`` means the last checkpoint in ``out``, if there is one. With None nothing is resumed.

        Returns
        -------
        bool
            Whether there was a checkpoint.

        Raises
        ------
        OpError
            The file is not a checkpoint, or belongs to another net, to other options or to other training images.
        """
        path = self.path if checkpoint == "auto" and self.path.exists() else checkpoint
        if path in (None, "auto"):
            return False
        path = pathlib.Path(path)
        tensors, train_state = checkpoints.read_checkpoint(path)
        checkpoints.check_train_state(WHERE, path, train_state, TRAIN_STATE, self.options, self.extra["data"])
        try:
            checkpoints.restore_checkpoint(tensors, train_state, self.blocks, self.trainer, self.average)
        except OpError as error:
            raise error.about(path) from error
        self.precision.restore(train_state.get("precision", {}))
        for name in TRAIN_STATE:
            setattr(self, name, train_state[name])
        self._take_files(path)
        self.say(f"The run continues from {path}: {self.epoch} of {self.epoch_count} epochs and {self.batch} batches "
                 "are done.")
        return True

    def save(self) -> None:
        """Write the checkpoint. Only the first worker does so."""
        self._read_losses(0)
        if self.workers.rank == 0:
            if not checkpoints.all_finite(self.blocks):
                raise self._diverged(f"parameters became NaN or infinite in epoch {self.epoch + 1}")
            train_state = {name: getattr(self, name) for name in TRAIN_STATE}
            train_state.update(self.extra, options=self.options, precision=self.precision.state(), order=self.order)
            checkpoints.save_checkpoint(self.path, self.blocks, self.trainer, train_state, self.average)

    def say(self, text: str) -> None:
        """Print a sentence on stderr. Only the first worker does so."""
        if self.workers.rank == 0:
            say(text)

    def epochs(self) -> Iterator[int]:
        """The numbers of the epochs that are left, counted from 0.

        During the loop a progress bar is shown, and Ctrl-C saves the run and stops it.
        """
        if self.workers.in_step:
            share_parameters(self.trainer)
        total, done = self.epoch_count * self.images, self.epoch * self.images + self.counted
        with self._stopping.listening(), Bar(total, done, self.title, self.unit, self.workers.rank == 0) as self._bar:
            began = time.monotonic()
            while self.epoch < self.epoch_count:
                self._epoch_began = time.monotonic()
                yield self.epoch
        if done < total:
            self.say(f"The {self.title} took {in_words(time.monotonic() - began)}.")

    def introduce(self, facts: Mapping[str, object]) -> None:
        """Print facts about the run before the first epoch, one per line.

        The expected time follows as soon as it is known.
        """
        updates = updates_per_epoch(self.images, self.batch_size, self.workers, self.accumulate)
        device = ", ".join(map(str, self.trainer._contexts))
        lines = {**facts, "batch": f"{self.batch_size} {self.unit}s on {device}",
                 "updates": f"{updates} in each of {self.epoch_count} epochs"}
        width = max(map(len, lines))
        self.say("\n".join(f"{name:>{width}}  {value}" for name, value in lines.items()))
        self._expected = ExpectedTime(width, self.say)

    def batches(self, dataset: gluon.data.Dataset, batchify: Callable, threads: int = 0,
                sizes: Sequence | None = None, every: int = 10) -> Iterator:
        """The batches that are left in the epoch. After the last one the run saves, so that the validation can follow.

        Parameters
        ----------
        dataset : gluon.data.Dataset
            A data set whose keys are indices with the epoch, as :class:`gluonops.data.Augmented` takes them.
        batchify : callable
            Makes a batch of a list of items.
        threads : int, default 0
            Number of threads that read images ahead.
        sizes : sequence, optional
            Input sizes to draw from: see :class:`gluonops.data.Batches`.
        every : int, default 10
            Batches with one size.
        """
        self._plan = plan(self.images, self.batch_size, self.seed, self.epoch, self.workers)
        self._stopping.after = "this batch"
        if self.batch == len(self._plan):   # resumed where the validation is all that is left
            self._stopping.after = "the validation"
            return
        left = [indices for indices, _ in self._plan[self.batch:]]
        keys = Batches(left, sizes=sizes, seed=self.seed, epoch=self.epoch, first=self.batch, every=every)
        for batch in gluon.data.DataLoader(dataset, batch_sampler=keys, batchify_fn=batchify, num_workers=threads,
                                           thread_pool=True, timeout=READ_TIMEOUT):
            if self._is_random:   # dropout: the same numbers after a resume as without
                key = [self.seed, self.epoch, self.batch, self.workers.rank]
                mx.random.seed(np.random.RandomState(key).randint(2**31))
            yield batch
        self._stopping.after = "the validation"
        self._stopping.agree(0)
        self.save()
        self._stopping.leave(self.path)

    def split(self, batch: mx.nd.NDArray) -> list[mx.nd.NDArray]:
        """The parts of a batch, one on each device."""
        return gluon.utils.split_and_load(batch, self.trainer._contexts, even_split=False)

    def mixed(self, block: gluon.HybridBlock) -> gluon.HybridBlock:
        """A block that computes in the run's ``dtype`` with the parameters of ``block``. Ask for it in each epoch."""
        return self.precision.lower(block)

    def freeze(self, block: gluon.Block, frozen: bool) -> None:
        """Freeze a part of the net or release it, and let the net be traced again. See :func:`freeze`."""
        if parameters.freeze(block, frozen, "add" if self.accumulate > 1 else "write"):
            parameters.clear_graphs(self.net)
            self.precision.reset()

    def backward(self, losses: Sequence[mx.nd.NDArray]) -> None:
        """Run the backward passes of the losses of this worker's images."""
        self.precision.backward(losses)

    def step(self, parts: Mapping[str, mx.nd.NDArray], after: Callable[[], object] | None = None) -> None:
        """Count a batch after its backward pass, and update the parameters.

        Parameters
        ----------
        parts : mapping of str to NDArray
            Values to average and show, each summed over this worker's images of the batch.
        after : callable, optional
            Called after an update, and before a checkpoint is saved, so that the checkpoint has its effects.
        """
        indices, images = self._plan[self.batch]
        self._unread.append((len(indices), images, parts))
        self.batch, self.seen = self.batch + 1, self.seen + images
        self._waiting += images
        if self._expected:
            self._expected.after_a_batch((self.epoch_count - self.epoch) * len(self._plan) - self.batch)
        if self.batch % self.accumulate and self.batch < len(self._plan):
            return
        self._update()
        if self.average is not None:
            self.average.update()
        if after:
            after()
        self._read_losses(LAG)
        self._stopping.agree(LAG)
        is_due = self.save_every and self.batch % self.save_every < self.accumulate
        if self.batch < len(self._plan) and (self._stopping.agreed or is_due):
            self.save()
            self._stopping.leave(self.path)

    def _update(self):
        """Update the parameters."""
        if self.workers.update_on_servers:
            # A server updates for one worker at a time, and keeps the first divisor that it is told.
            self.trainer.step(self.batch_size * self.accumulate)
        elif self.clip:
            self.trainer.allreduce_grads()
            parameters.clip_gradients(self.trainer._params, self.clip * self._waiting * self.precision.loss_scale)
            self.trainer.update(self._waiting)
        else:
            self.trainer.step(self._waiting)
        self._waiting = 0
        if self.accumulate > 1:
            parameters.zero_gradients(self.trainer._params)

    def averaged(self) -> contextlib.AbstractContextManager:
        """Give the net its averaged parameters within the ``with`` block, if the run has an average."""
        return contextlib.nullcontext() if self.average is None else self.average.applied()

    def end_epoch(self, metrics: Mapping[str, float], score: float) -> None:
        """Note the epoch, keep the parameters if no epoch had a higher score, and save.

        Parameters
        ----------
        metrics : mapping of str to float
            Further values of the epoch for the history.
        score : float
            The number by which the best epoch is chosen. Higher is better.
        """
        self._read_losses(0)
        is_best = score >= self.best   # the later of equals is better: its learning rate was lower
        row = {"epoch": self.epoch + 1, **self._means(), **metrics}
        if not self.workers.update_on_servers:   # there the servers have it
            row["learning_rate"] = self.trainer.learning_rate
        self._expected = None   # the row has the time
        self.say(self._table.row(row, time.monotonic() - self._epoch_began))
        self.history.append({**row, "score": score})
        self.epoch, self.batch, self.sums, self.measured, self.counted = self.epoch + 1, 0, {}, 0, 0
        if self.keep_best and self.workers.rank == 0:
            if is_best:
                with self.averaged():
                    save_tensors(self.best_path, self.net.save_parameters, WHERE)
            write_history(self.history, self.out / "history.csv")
        if self._events:
            self._events.write(self.history[-1])
        self.save()
        self._stopping.agree(0)
        self._stopping.leave(self.path)

    def _take_files(self, path):
        """Write the files of the run to ``out``, if it is resumed from another folder."""
        best = path.with_name(BEST)
        has_best = self.keep_best and self.history
        if has_best and not best.is_file():
            raise OpError(WHERE, f"{best} is missing; expected the best epoch's parameters beside {path}",
                          "Put it there: they may be the best of the whole run")
        if self.workers.rank > 0 or path.resolve() == self.path.resolve():
            return
        self.save()
        if has_best and best.resolve() != self.best_path.resolve():
            save_tensors(self.best_path, lambda name: shutil.copyfile(best, name), WHERE)
            write_history(self.history, self.out / "history.csv")

    def _read_losses(self, keep):
        """Add up the losses of all but the last ``keep`` batches."""
        while len(self._unread) > keep:
            mine, images, parts = self._unread.popleft()
            values = {name: part.asscalar() for name, part in parts.items()}
            if not all(math.isfinite(value) for value in values.values()):
                raise self._diverged(f"the loss became NaN or infinite in epoch {self.epoch + 1}: {values}")
            self.sums = {name: self.sums.get(name, 0.0) + float(value) for name, value in values.items()}
            self.measured, self.counted = self.measured + mine, self.counted + images
            means = {name: f"{mean:.3f}" for name, mean in self._means().items()}
            self._bar.advance(images, {"epoch": self.epoch + 1, **means})

    def _diverged(self, what):
        """The error of a run that diverged."""
        remedy = "Lower --lr or raise --warmup"
        if not self.workers.update_on_servers:   # there the servers have the rate
            scheduler = self.trainer.optimizer.lr_scheduler
            base = scheduler.base_lr if scheduler else self.trainer.learning_rate
            what += f"; the learning rate is {self.trainer.learning_rate:.3g}"
            remedy = f"Lower --lr, for instance to {base / 10:.2g}, or raise --warmup"
        kept = f"; {self.path} is from before" if self.path.exists() else ""
        return OpError(WHERE, what, remedy + kept)

    def _means(self):
        counts = {name: self.sums[self.means_over[name]] if name in self.means_over else self.measured
                  for name in self.sums}
        return {name: total / max(1, counts[name]) for name, total in self.sums.items()
                if name not in self.means_over.values()}
