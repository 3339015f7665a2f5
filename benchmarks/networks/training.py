"""Images per second in training tiny_yolov2: forward, region loss, backward and SGD, ours beside torch in eager mode.

    python -m benchmarks.networks.training                       # batches of 8 at 128 x 128, and of 4 at 416 x 416

Both start from the same weights, and their first losses are compared before anything is timed. The two are called in
turn, and the medians are printed. Both get every processor. Leave the machine alone meanwhile.
"""
import argparse
import os
import pathlib
import statistics
import time

CORES = len(os.sched_getaffinity(0))
os.environ.setdefault("OMP_NUM_THREADS", str(CORES))   # MXNet's default is every other processor

import gluonops as gops  # noqa: E402
import mxnet as mx  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from gluonops.darknet import layers  # noqa: E402

from ..common import results  # noqa: E402
from .cases import TRAINING  # noqa: E402

ANCHORS = [[0.6, 1.1], [0.8, 1.4], [1.1, 1.7], [1.4, 2.0], [2.5, 3.0]]
CLASSES, THRESH, RATE = 10, 0.6, 1e-4
STEPS = 5   # a round: MXNet's engine is waited for at its end


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--case", nargs=2, type=int, action="append", metavar=("BATCH", "SIZE"))
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--head-channels", type=int, default=1024, help="channels before the output")
    options.add_argument("--json", type=pathlib.Path, help="also write the numbers to this file")
    args = options.parse_args()
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    gops.tune_malloc()
    print(f"{'batch':>5}{'size':>6}{'ours':>12}{'torch':>12}   images/s, {torch.get_num_threads()} threads")
    measured = []
    for batch, size in args.case or TRAINING:
        ours, peer = measure(batch, size, args.rounds, args.head_channels)
        measured.append({"batch": batch, "size": size, "ours": ours, "torch": peer, "ratio": ours / peer})
        print(f"{batch:>5}{size:>6}{ours:>12.1f}{peer:>12.1f}   {ours / peer:.2f} times", flush=True)
    if args.json:
        results.save(args.json, {"cases": measured})


def measure(batch, size, rounds, head_channels):
    """Images per second, ours and torch's."""
    rng = np.random.RandomState(0)
    images = rng.rand(batch, 3, size, size).astype("float32")
    ground_truth = np.zeros((batch, 8, 5), "float32")
    centres = rng.uniform(0.1, 0.9, (batch, 3, 2))
    sizes = rng.uniform(0.2, 0.5, (batch, 3, 2))
    class_ids = rng.randint(0, CLASSES, (batch, 3, 1))
    ground_truth[:, :3] = np.concatenate([centres, sizes, class_ids], 2)
    net = gops.models.tiny_yolov2(classes=CLASSES, anchors=ANCHORS, head_channels=head_channels)
    net.initialize(mx.init.Xavier())
    net(mx.nd.array(images))
    # torch comes first, because it copies the initial weights.
    peers = [torch_step(net, images, ground_truth), our_step(net, images, ground_truth)]
    first = [step() for step in peers]
    np.testing.assert_allclose(first[1], first[0], rtol=1e-3)
    seconds = [[], []]
    for turn in range(rounds + 1):
        for step, taken in zip(peers, seconds):
            start = time.perf_counter()
            for _ in range(STEPS - 1):
                step(False)
            step()
            if turn:   # the first warms up
                taken.append(time.perf_counter() - start)
    return [batch * STEPS / statistics.median(taken) for taken in reversed(seconds)]


def our_step(net, images, ground_truth):
    """A function that trains one step, and returns the mean loss if it waits for it."""
    loss = gops.loss.RegionLoss(np.ravel(ANCHORS).tolist(), CLASSES, thresh=THRESH, warmup_images=0)
    loss.initialize()
    net.hybridize(static_alloc=True)
    loss.hybridize(static_alloc=True)
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": RATE, "momentum": 0.9})
    images, ground_truth = mx.nd.array(images), mx.nd.array(ground_truth)

    def step(wait=True):
        with mx.autograd.record():
            losses = loss(net(images), ground_truth)
        losses.backward()
        trainer.step(len(images))
        if wait:
            value = losses.mean().asscalar()
            mx.nd.waitall()
            return value
        return None
    return step


def torch_step(net, images, ground_truth):
    model = torch.nn.Sequential(*[part for layer in (*net.backbone, net.pool, *net.head, net.output)
                                  for part in torch_layers(layer)])
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), RATE, momentum=0.9)
    images, ground_truth, anchors = torch.from_numpy(images), torch.from_numpy(ground_truth), torch.tensor(ANCHORS)

    def step(wait=True):
        optimizer.zero_grad()
        loss = torch_region_loss(model(images), ground_truth, anchors).mean()
        loss.backward()
        optimizer.step()
        return loss.item() if wait else None
    return step


def torch_layers(layer) -> list:
    """torch's modules for one of our layers, with its weights."""
    if not isinstance(layer, layers.Convolution):
        size, stride = (layer._kwargs[key][0] for key in ("kernel", "stride"))
        border = [torch.nn.ReplicationPad2d((0, 1, 0, 1))] if getattr(layer, "_extra", 0) else []
        return [*border, torch.nn.MaxPool2d(size, stride)]
    weight, norm = layer.conv.weight.data().asnumpy(), layer.norm
    out, channels, size, _ = weight.shape
    convolution = torch.nn.Conv2d(channels, out, size, padding=size // 2, bias=norm is None)
    convolution.weight.data = torch.from_numpy(weight)
    if norm is None:
        convolution.bias.data = torch.from_numpy(layer.conv.bias.data().asnumpy())
        return [convolution]
    return [convolution, torch.nn.BatchNorm2d(out, norm._kwargs["eps"]), torch.nn.LeakyReLU(layers.SLOPE, inplace=True)]


def torch_region_loss(data, ground_truth, anchors, object_scale=5.0):
    """The loss of every image, as the page of gluonops.ops.region_loss has it, in functions of torch."""
    batch, _, height, width = data.shape
    maps = data.reshape(batch, len(anchors), 5 + CLASSES, height, width).permute(0, 1, 3, 4, 2)
    places, sizes, objectness = maps[..., :2].sigmoid(), maps[..., 2:4], maps[..., 4].sigmoid()
    cells = torch.tensor([width, height], dtype=data.dtype)
    with torch.no_grad():
        rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        corners = torch.stack([columns, rows], -1)
        middles = (places + corners) / cells
        sides = sizes.exp() * anchors[:, None, None] / cells
        real = ground_truth[..., 2] > 0
        gt_centres, gt_sizes = ground_truth[..., :2], ground_truth[..., 2:4]
        overlaps = iou(middles.flatten(1, 3)[:, :, None], sides.flatten(1, 3)[:, :, None], gt_centres[:, None],
                       gt_sizes[:, None]) * real[:, None]
        missed = (overlaps.amax(2) <= THRESH).reshape(objectness.shape).to(data.dtype)
        anchor = iou(torch.zeros(2), anchors, torch.zeros(2), (gt_sizes * cells)[:, :, None]).argmax(2)
        column, row = (gt_centres * cells).long().unbind(-1)
        owner = torch.full((batch, overlaps.shape[1]), -1)
        slots = (anchor * height + row) * width + column
        for number in range(ground_truth.shape[1]):   # a later object replaces an earlier one
            images = real[:, number].nonzero()[:, 0]
            owner[images, slots[images, number]] = number
        image, slot = (owner >= 0).nonzero().unbind(1)
        box = ground_truth[image, owner[image, slot]]
        assigned = torch.zeros_like(owner, dtype=torch.bool)
        assigned[image, slot] = True
        target = overlaps[image, slot, owner[image, slot]]
        here = corners.expand_as(middles).flatten(1, 3)[image, slot]
        shapes = (box[:, 2:4] * cells / anchors[slot // (height * width)]).log()
        weight = 2 - box[:, 2] * box[:, 3]
    places, sizes, logits = (part.flatten(1, 3)[image, slot] for part in (places, sizes, maps[..., 5:]))
    off = (places - (box[:, :2] * cells - here)).square().sum(1) + (sizes - shapes).square().sum(1)
    there = objectness.flatten(1)[image, slot]
    entropy = torch.nn.functional.cross_entropy(logits, box[:, 4].long(), reduction="none")
    loss = ((objectness.square() * missed).flatten(1) * ~assigned).sum(1) / 2
    return loss.index_add(0, image, weight * off / 2 + object_scale / 2 * (there - target).square() + entropy)


def iou(middle, sides, other, others):
    """Of boxes by their centres and sides, (..., 2)."""
    low = torch.maximum(middle - sides / 2, other - others / 2)
    high = torch.minimum(middle + sides / 2, other + others / 2)
    common = (high - low).clamp(min=0).prod(-1)
    return common / (sides.prod(-1) + others.prod(-1) - common)


if __name__ == "__main__":
    main()
