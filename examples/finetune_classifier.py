"""Train or fine-tune a classifier on digits, MNIST's files, folders of images or RecordIO; export and check it.

    python examples/finetune_classifier.py                                   # digits, from nothing
    python examples/finetune_classifier.py --dataset folder --root DIR --model resnet18_v1 --size 64 --flip 0.5
    python examples/finetune_classifier.py --classes 5 6 7 --pretrained out/finetune_classifier/last.checkpoint
    python examples/finetune_classifier.py --embedding 2 --center-loss 0.01  # classes drawn together; see embedding.png

Ctrl-C saves; --resume auto continues to the numbers of a run that was never stopped.
"""
import argparse
import json
import pathlib
import time

import _classifier
import _images
import _pictures
import gluonops as gops
import numpy as np
from _common import Help, checked, parser, start, write
from _continuing import call_to_continue
from _devices import contexts, join
from _export import export
from _training import Run, add_options, make_trainer, plan, set_frozen
from _values import positive, share, weight, whole
from gluonops.data import Augmented, Letterboxed, format_names
from mxnet import autograd, gluon


def arguments():
    options = parser(__doc__, epochs=30, out="finetune_classifier", data_dir=False)
    options.formatter_class = Help
    add = options.add_argument
    add("--dataset", choices=format_names("classification"), default="digits",
        help="folder: ROOT/train/<class>/*.jpg and ROOT/val/...; rec: ROOT/train.rec and val.rec")
    add("--root", help="where the dataset is", default=argparse.SUPPRESS)
    add("--classes", nargs="+", help="names of the classes to train on, in order", default=argparse.SUPPRESS)
    add("--size", type=positive, default=28, help="height and width of the images")
    add("--flip", type=share, default=0, help="probability of mirroring an image; 0.5 but for digits and letters")
    add("--model", default="lenet_reorg", help="mlp, lenet_reorg, darknet19, or a name in gluoncv's model zoo")
    add("--embedding", type=whole, default=0, help="units of a layer before the output, 2 to look at it; 0: no layer")
    add("--center-loss", type=weight, default=0, help="weight of CenterLoss beside SoftmaxCELoss")
    add("--pretrained", help="start from a .checkpoint or .params of this script, or Darknet's .weights",
        default=argparse.SUPPRESS)
    add("--pretrained-names", help="file with the names of the classes of a .params or .weights, one a line",
        default=argparse.SUPPRESS)
    add("--threads", type=whole, default=0, help="threads that read images ahead")
    add_options(options, lr=0.03)
    args = options.parse_args()
    for name in ("root", "classes", "pretrained", "pretrained_names"):
        setattr(args, name, getattr(args, name, None))
    return checked(args)


def predict(net, images, args, devices):
    """(embeddings, logits, labels) of a dataset as NumPy arrays."""
    rows = []
    for data, labels in gluon.data.DataLoader(Letterboxed(images, args.size), 100, batchify_fn=_images.stack):
        vectors = net.embed(data.as_in_context(devices[0]))
        rows.append((vectors, net.output(vectors), labels))
    return [np.concatenate([array.asnumpy() for array in column]) for column in zip(*rows)]


def accuracy(logits, labels):
    return float((logits.argmax(1) == labels).mean())


def train(args, images, net, devices, workers):
    """Train the net, with the best epoch's parameters in the end. Returns the Run."""
    softmax = gops.loss.SoftmaxCELoss()
    blocks, center = {"net": net}, None
    if args.center_loss:
        features = net.output.weight.shape[1]
        center = gops.loss.CenterLoss(len(net.classes), features, weight=args.center_loss)
        center.initialize(ctx=devices)
        blocks["center"] = center
    for block in (net, softmax, *filter(None, [center])):
        block.hybridize(static_alloc=True)

    count = len(images.training)
    batches = len(plan(count, args, 0, workers))
    trainer = make_trainer(net.collect_params(), args, batches, workers)
    run = Run(args, blocks, trainer, workers, count,
              {"classes": net.classes, "data": images.training.fingerprint()})
    if not run.resume() and args.pretrained:
        reused = _classifier.start_from(net, args)
        run.say(f"{args.pretrained}: kept the output for {', '.join(reused) or 'no class'}")

    augmented = Augmented(images.training, args.size, _images.augment(args), args.seed)
    for epoch in run.epochs():
        set_frozen(net, net.features, args.freeze < 0 or epoch < args.freeze, args.accumulate)
        for data, labels in run.batches(plan(count, args, epoch, workers), lambda batches: _images.loader(
                augmented, batches, args, run.epoch, run.batch)):
            parts = {"loss": [], "center_loss": []}
            data = gluon.utils.split_and_load(data.astype(args.dtype), devices, even_split=False)
            labels = gluon.utils.split_and_load(labels, devices, even_split=False)
            with autograd.record():
                for part, label in zip(data, labels):
                    vectors = net.embed(part)
                    parts["loss"].append(softmax(net.output(vectors), label))
                    if center:
                        parts["center_loss"].append(center(vectors, label))
            autograd.backward(parts["loss"] + parts["center_loss"])
            run.step({name: sum(loss.sum().as_in_context(devices[0]) for loss in losses)
                      for name, losses in parts.items() if losses},
                     after=(lambda: center.update(trainer)) if center else None)
        score = accuracy(*predict(net, images.validation, args, devices)[1:])
        run.end_epoch({"validation_accuracy": score}, score)
    return run


def main(args=None):
    args = args or arguments()
    start(args)
    began = time.time()
    devices = contexts(args)
    workers = join(args, devices)
    images = _images.load(args)
    shape = Letterboxed(images.training, args.size)[0][0].shape
    net = _classifier.make(args, images.classes, shape)
    net.collect_params().reset_ctx(devices)
    net.cast(args.dtype)
    run = train(args, images, net, devices, workers)
    if workers.rank:
        return

    net = _classifier.make(args, images.classes, shape)   # a new one: parameters of dist_async belong to the servers
    net.collect_params().reset_ctx(devices)
    net.load_parameters(str(args.out / "best.params"), ctx=devices, cast_dtype=True)
    results = {"options": vars(args), "classes": net.classes,
               "epochs": run.history, "validation_accuracy": run.best}
    vectors, logits, labels = predict(net, images.held_out, args, devices)
    results["held_out_accuracy"] = accuracy(logits, labels)
    results["spread"] = _pictures.spread(vectors, labels)
    _pictures.embedding(vectors, labels, net.classes, args.out / "embedding.png")
    _pictures.curves(run.history, args.out / "curves.png", ("loss", "center_loss"), ("validation_accuracy",))
    held_out = Letterboxed(images.held_out, args.size)
    some = np.stack([held_out[i][0] for i in range(min(100, len(held_out)))])
    results["export_differences"] = export(net, args.out / "classifier", some)
    results["seconds"] = time.time() - began
    write(args.out / "results.json",
          lambda name: pathlib.Path(name).write_text(json.dumps(results, indent=2, default=str) + "\n"))
    print(f"""
held-out accuracy  {accuracy(logits, labels):.4f} of {len(labels)} images
export             differs by {max(results['export_differences'].values()):.1e} at most, in Module and without gluonops

{args.out}/
  classifier-symbol.json, -0000.params   the net, runs without gluonops; its classes are in results.json
  best.params, last.checkpoint           for net.load_parameters, and for --resume or --pretrained
  curves.png, embedding.png, results.json""")


if __name__ == "__main__":
    call_to_continue(main, arguments)
