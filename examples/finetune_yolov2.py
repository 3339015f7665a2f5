"""Train or fine-tune YOLOv2 or Tiny YOLOv2; measure mAP after each epoch; export and check it.

    python examples/finetune_yolov2.py                                          # scenes of digits, from nothing
    python examples/finetune_yolov2.py --dataset voc --root VOCdevkit --model yolov2 --size 416 --multi-scale 320 608
        --pretrained darknet19_448.conv.23 --flip 0.5 --epochs 160 --batch-size 16 --accumulate 4
        --lr 0.001 --coord-scale 1 --anchor-images 12800                                       # as Darknet
    python examples/finetune_yolov2.py --dataset yolo --root DIR --size 416 --flip 0.5 --freeze 2
        --pretrained yolov2-tiny-voc.weights --pretrained-names voc.names --head-channels 1024

Ctrl-C saves; --resume auto continues to the numbers of a run that was never stopped.
"""
import argparse
import json
import pathlib
import time

import _detection
import _pictures
import _pretrain
import gluonops as gops
import mxnet as mx
import numpy as np
from _common import Help, checked, parser, start, write
from _continuing import call_to_continue, checkpoint_to_continue
from _devices import contexts, join
from _export import DETECTIONS, export
from _training import Run, add_options, make_trainer, plan, set_frozen
from _values import positive, share, weight, whole
from gluonops import data
from gluonops.data.anchors import box_sizes
from mxnet import autograd, gluon

PARTS = ("coordinates", "objectness", "no_objectness", "classes", "cost", "iou", "recall", "probability", "truths")
SHOWN = ("coordinates", "objectness", "no_objectness", "classes", "iou", "recall")


def arguments():
    options = parser(__doc__, epochs=9, out="finetune_yolov2", data_dir=False)
    options.formatter_class = Help
    add = options.add_argument
    add("--dataset", choices=data.format_names("detection"), default="digits", help="gluonops.data.detection")
    add("--root", help="where the dataset is", default=argparse.SUPPRESS)
    add("--classes", nargs="+", help="names of the classes", default=argparse.SUPPRESS)
    add("--count", type=positive, nargs=2, default=(4000, 200), help="scenes of digits to train on, and held out")
    add("--size", type=positive, default=128, help="height and width of the net's input, a multiple of 32")
    add("--multi-scale", type=positive, nargs=2, metavar=("LOW", "HIGH"), default=argparse.SUPPRESS,
        help="draw another input size between them every ten batches")
    add("--flip", type=share, default=0, help="probability of mirroring an image; 0.5 but for digits and letters")
    add("--model", default="tiny_yolov2", choices=("tiny_yolov2", "yolov2"), help="the net")
    add("--head-channels", type=positive, default=256, help="channels before the output of tiny_yolov2; "
        "the published: 1024")
    add("--anchors", nargs="+", default=["auto"], help="auto: k-means on the dataset; voc; coco; w,h w,h ... in cells")
    add("--anchor-images", type=whole, default=1000, help="images at the start that draw all boxes to the anchors")
    add("--coord-scale", type=weight, default=2, help="weight of the boxes in the loss; Darknet's is 1")
    add("--class-scale", type=weight, default=1, help="weight of the classes in the loss; Darknet's is 1")
    add("--pretrained", help="a .checkpoint or .params of this script, Darknet's .weights, or its first layers, "
        ".conv.N", default=argparse.SUPPRESS)
    add("--pretrained-names", help="file with the names of the classes of a .params or .weights, one a line",
        default=argparse.SUPPRESS)
    add("--pretrain-epochs", type=whole, default=3, help="passes over the objects, cut out, on which the backbone "
        "first learns to classify; 0: none; never with --pretrained")
    add("--threads", type=whole, default=2, help="threads that read images ahead")
    add_options(options, lr=0.01)
    options.set_defaults(batch_size=16)
    args = options.parse_args()
    for name in ("root", "classes", "multi_scale", "pretrained", "pretrained_names"):
        setattr(args, name, getattr(args, name, None))
    for name, sizes in (("--size", [args.size]), ("--multi-scale", args.multi_scale or [])):
        if any(size % 32 for size in sizes) or sizes != sorted(sizes):
            raise gops.OpError("examples", f"{name} is {' '.join(map(str, sizes))}; expected multiples of 32, the "
                               "smaller first", "Choose such sizes: a cell of YOLOv2 has 32 pixels")
    if args.classes and args.dataset == "digits":
        raise gops.OpError("examples", f"--classes is {' '.join(args.classes)}; scenes of digits always have all ten",
                           "Leave it out, or name another --dataset")
    return checked(args)


def load(args):
    """(training, validation): data sets of images with boxes, of the same classes; their files are checked here."""
    if args.dataset == "digits":
        training, validation = (data.detection("digits", args.root, part, count=count, seed=args.seed, size=args.size)
                                for part, count in zip(("train", "val"), args.count))
        return _detection.Cached(training), validation   # painting a scene costs more than keeping it
    training = data.detection(args.dataset, args.root, "train", classes=args.classes)
    # Numbers mean what they mean in training, whatever order the held-out labels name their classes in.
    validation = data.detection(args.dataset, args.root, "val", classes=training.classes)
    box_sizes(validation, args.size)   # refuses what does not fit, by the heads of the files: now, not after an epoch
    return training, validation


def choose_anchors(args, training):
    """(A, 2) widths and heights in cells, or the name of published ones."""
    if args.anchors == ["auto"]:
        return data.anchors_of(training, size=args.size, seed=args.seed)[0].round(4).tolist()
    if args.anchors in (["voc"], ["coco"]):
        return args.anchors[0]
    try:
        return [[float(number) for number in pair.split(",")] for pair in args.anchors]
    except ValueError as error:
        raise gops.OpError("examples", f"--anchors has {error}", "Write pairs, for instance 1.3,1.7 3.2,4.0") from error


def loader(dataset, batches, args, run):
    """A DataLoader of training batches, starting at the run's current batch."""
    sizes = range(args.multi_scale[0], args.multi_scale[1] + 1, 32) if args.multi_scale else None
    picks = data.Batches(batches, sizes=sizes, seed=args.seed, epoch=run.epoch, first=run.batch)
    return gluon.data.DataLoader(dataset, batch_sampler=picks, batchify_fn=data.detection_batch,
                                 num_workers=args.threads, thread_pool=True)


def train(args, training, validation, net, devices, workers):
    """Train the net. Returns the Run; the best epoch's parameters are in best.params."""
    loss = gops.loss.RegionLoss(net.anchors.ravel().tolist(), len(net.classes), coord_scale=args.coord_scale,
                                class_scale=args.class_scale, warmup_images=args.anchor_images)
    loss.initialize(ctx=devices)
    net.hybridize(static_alloc=True)
    loss.hybridize(static_alloc=True)
    augmented = data.Augmented(training, args.size, _detection.augment(args), args.seed)
    held_out = gluon.data.DataLoader(data.Letterboxed(validation, args.size), args.batch_size,
                                     batchify_fn=data.validation_batch, num_workers=args.threads, thread_pool=True)

    trainer = make_trainer(net.collect_params(), args, len(plan(len(training), args, 0, workers)), workers)
    run = Run(args, {"net": net, "loss": loss}, trainer, workers, len(training),
              {"classes": net.classes, "anchors": net.anchors.tolist(), "data": training.fingerprint()},
              dict.fromkeys(PARTS[5:8], "truths"))
    run.resume()
    for epoch in run.epochs():
        set_frozen(net, net.backbone, args.freeze < 0 or epoch < args.freeze, args.accumulate)
        for images, ground_truths in run.batches(plan(len(training), args, epoch, workers),
                                          lambda batches: loader(augmented, batches, args, run)):
            images = gluon.utils.split_and_load(images.astype(args.dtype), devices, even_split=False)
            ground_truths = gluon.utils.split_and_load(ground_truths, devices, even_split=False)
            if workers.count > 1:   # each sees its own images only
                loss.set_seen(run.seen)
            with autograd.record():
                losses = [loss(net(image), ground_truth) for image, ground_truth in zip(images, ground_truths)]
            autograd.backward(losses)
            sums = sum(part.sum(axis=0).as_in_context(devices[0]) for part in loss.parts.values())
            run.step({name: sums[PARTS.index(name)] for name in (*SHOWN, "truths")})
        scores = {}
        if workers.rank == 0:
            scores = _detection.mean_average_precision(net, held_out, (args.size, args.size), devices[0], net.classes)
        run.end_epoch(scores, scores.get("mAP", 0))
    return run


def main(args=None):
    args = args or arguments()
    gops.tune_malloc()   # before the first tensor: freed memory is reused
    start(args)
    began = time.time()
    devices = contexts(args)
    workers = join(args, devices)
    training, validation = load(args)
    anchors = choose_anchors(args, training)
    net, reused = _detection.make(args, training.classes, anchors)
    if args.pretrained:
        print(f"{args.pretrained}: kept the output for {', '.join(reused) or 'no class'}")
    net(mx.nd.zeros((1, 3, args.size, args.size)))
    anew = not args.pretrained and not checkpoint_to_continue(args)
    if anew and args.pretrain_epochs and workers.rank == 0:   # the others get its parameters
        net.collect_params().reset_ctx(devices[0])
        accuracy = _pretrain.pretrain(net, training, args.pretrain_epochs, devices[0], args.seed, args.threads)
        print(f"pretrained: the backbone tells {accuracy:.1%} of the objects apart")
    net.collect_params().reset_ctx(devices)
    net.cast(args.dtype)
    run = train(args, training, validation, net, devices, workers)
    if workers.rank:
        return

    size = (args.size, args.size)
    net = gops.models.get_model(args.model, classes=list(net.classes), anchors=net.anchors,
                                **({"head_channels": args.head_channels} if args.model == "tiny_yolov2" else {}))
    net.load_parameters(str(args.out / "best.params"), ctx=devices, cast_dtype=True)
    _detection.page(net, validation, size, devices[0], args.out / "detections.png")
    _pictures.curves(run.history, args.out / "curves.png", SHOWN[:4], ("mAP", "mAP_voc07", "iou", "recall"))
    images = np.stack([data.letterbox(validation[i][0], *size) for i in range(min(8, len(validation)))])
    best = max(run.history, key=lambda row: (row["score"], row["epoch"]))   # of equals the later, as in best.params
    detector = net.detector(threshold=0.001)   # low: users of the export cut off where they like
    results = {"options": vars(args), "classes": net.classes, "anchors": net.anchors.tolist(), "epochs": run.history,
               "mAP": best["mAP"], "mAP_voc07": best["mAP_voc07"],
               "compared_detections": int((detector(mx.nd.array(images, ctx=devices[0]))[0] >= 0).sum().asscalar()),
               "export_differences": export(detector, args.out / "detector", images, DETECTIONS),
               "seconds": time.time() - began}
    write(args.out / "results.json",
          lambda name: pathlib.Path(name).write_text(json.dumps(results, indent=2, default=str) + "\n"))
    print(f"""
mAP at IoU 0.5  {best['mAP']:.4f} (VOC 2007's: {best['mAP_voc07']:.4f}), {len(validation)} images, epoch {best['epoch']}
anchors         {'  '.join(f'{w:.2f},{h:.2f}' for w, h in net.anchors)}
export          differs by {max(results['export_differences'].values()):.1e} at most, in Module and without gluonops

{args.out}/
  detector-symbol.json, -0000.params    image to (classes, scores, boxes), runs without gluonops
  best.params, last.checkpoint          for net.load_parameters, and for --resume or --pretrained
  curves.png, detections.png, results.json""")


if __name__ == "__main__":
    call_to_continue(main, arguments)
