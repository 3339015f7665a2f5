"""Train or fine-tune YOLOv2, Tiny YOLOv2 or a Darknet cfg; measure mAP and AP after each epoch; export and check it.

    gluonops train --task detect                                    # scenes of digits, from scratch
    gluonops train DIR                                              # a few dozen pictures are enough
    gluonops train DIR --size 416 --flip 0.5 --freeze 2
        --pretrained yolov2-tiny-voc.weights --pretrained-names voc.names --width 1 --head-channels 1024 1024
        --anchors voc
    gluonops train VOCdevkit --model yolov2 --size 416 --multi-scale 320 608 --pretrained darknet19_448.conv.23
        --flip 0.5 --epochs 160 --batch-size 16 --accumulate 4 --anchors voc --lr 0.001
        --box-loss mse --coord-scale 1 --anchor-images 12800        # as Darknet

The command runs this script for a data set with boxes; the script takes --data DIR. Copy it to change something.
Ctrl-C saves, during the pretraining as well; --resume auto continues to the numbers of a run that was never stopped.
A --cfg has to end in [region]. Any other is for train_darknet.py, which gluonops train --cfg runs.
"""
import time

import gluonops as gops
import mxnet as mx
import numpy as np
from gluonops import data, train
from mxnet import autograd, gluon

PARTS = ("coordinates", "objectness", "no_objectness", "classes", "cost", "iou", "recall", "probability", "truths")
METRICS = ("mAP", "mAP_voc07", "AP", "AP50", "AP75", "matched_iou")
ANCHOR_IMAGES, OBJECT_EPOCHS = 1000, 3   # The defaults, for thousands of images.
SHOWN = ("coordinates", "objectness", "no_objectness", "classes", "iou", "recall")


def make_options():
    options = train.Options(__doc__)
    options.add_data("detection", size=192)
    options.add("data", "--count", type=train.positive, nargs=2, default=(4000, 200), metavar=("TRAIN", "VAL"),
                help="numbers of scenes of digits: for training, and held out")
    options.add("data", "--hard", action="store_true", help="scenes of digits that are hard to read: darker, smaller")
    options.add("data", "--multi-scale", type=train.positive, nargs=2, metavar=("LOW", "HIGH"),
                help="draw another input size between them every ten batches")
    options.add("net", "--model", default="tiny_yolov2", choices=("tiny_yolov2", "yolov2"), help="the net")
    options.add("net", "--width", type=float, default=0.5,
                help="factor of the channels in the backbone of tiny_yolov2; the published net has 1")
    options.add("net", "--head-channels", type=train.positive, nargs=2, default=(256, 256), metavar=("FIRST", "LAST"),
                help="channels of the two layers before the output of tiny_yolov2; the published net has 1024 1024")
    options.add("net", "--cfg", help="a Darknet cfg that ends in [region], instead of --model")
    options.add("net", "--backbone-layers", type=train.positive, help="layers of --cfg that --freeze, .conv.N files "
                "and the pretraining mean")
    options.add("net", "--anchors", nargs="+", default=["auto"],
                help="auto: k-means on the data set, as few as fit; voc; coco; cfg: those of --cfg; or "
                "w,h w,h ... in cells")
    options.add_pretrained()
    options.add("loss", "--anchor-images", type=train.natural, help="images at the start that draw all boxes to the "
                f"anchors (default: {ANCHOR_IMAGES}, or a fiftieth of those of the run)")
    options.add("loss", "--box-loss", choices=("giou", "mse"), default="giou",
                help="generalized IoU, or Darknet's squared errors")
    options.add("loss", "--coord-scale", type=train.non_negative, default=3, help="weight of the boxes; Darknet's is 1")
    options.add("loss", "--class-scale", type=train.non_negative, default=1, help="weight of the classes")
    options.add("training", "--pretrain-epochs", type=train.natural, help="passes over the objects, cut out, on which "
                "the backbone first learns to classify; never with --pretrained, or a --cfg without --backbone-layers "
                f"(default: {OBJECT_EPOCHS}, and more for few objects)")
    options.add_training(epochs=16, batch_size=16, lr=0.01)
    options.add_run(out="out/finetune_detector")
    options.defaults(threads=2, clip=None)
    return options


def arguments():
    args = make_options().parse()
    train.check_input_sizes(args.size, args.multi_scale, 32)
    return args


def make_net(args, classes, anchors):
    if args.cfg:
        net = gops.models.region_detector(args.cfg, classes, args.backbone_layers, anchors)
    else:
        is_tiny = args.model == "tiny_yolov2"
        options = {"width": args.width, "head_channels": tuple(args.head_channels)} if is_tiny else {}
        net = gops.models.get_model(args.model, classes=list(classes), anchors=anchors, **options)
    net.initialize(mx.init.Xavier())
    net(mx.nd.zeros((1, 3, args.size, args.size)))   # fixes every shape
    return net


def settle(args, net, training, workers):
    """Give the options that are left to the number of images their values."""
    images = len(training)
    if args.pretrained is None and args.pretrain_epochs:
        args.pretrained = "none"
    args.pretrained = train.pretrained_source(args.pretrained, net, images)
    if args.pretrained != "none":
        args.pretrain_epochs = 0
    elif args.pretrain_epochs is None:
        args.pretrain_epochs = OBJECT_EPOCHS
        if train.is_small(images):
            args.pretrain_epochs = train.passes_over_objects(len(train.Cutouts(training, args.seed)), OBJECT_EPOCHS)
    args.repeat = train.repeats(args, images, workers)
    if args.clip is None:
        args.clip = train.gradient_limit(images)
    if args.anchor_images is None:
        args.anchor_images = train.anchor_images(ANCHOR_IMAGES, images * args.repeat * args.epochs)


def fit(net, training, validation, args, workers, device):
    """Train the net; returns the run."""
    training = train.Repeated(training, args.repeat)
    updates = train.updates_per_epoch(len(training), args.batch_size, workers, args.accumulate)
    train.fit_batch_norm(net, args.epochs * updates)
    loss = gops.loss.RegionLoss(net.anchors.ravel().tolist(), len(net.classes), coord_scale=args.coord_scale,
                                class_scale=args.class_scale, box_loss=args.box_loss, softmax=net.class_softmax,
                                warmup_images=args.anchor_images)
    loss.initialize(ctx=net.output.conv.weight.list_ctx())
    detector = net.detector(threshold=0.01, topk=100)
    for block in (detector, loss):
        block.hybridize(static_alloc=True)   # the net is a part of the detector
    held_out = gluon.data.DataLoader(data.Letterboxed(validation, args.size), args.batch_size, thread_pool=True,
                                     batchify_fn=data.validation_batch, num_workers=args.threads)

    trainer = train.make_trainer(net.collect_params(), args.optimizer, train.schedule_of(args, updates), args.wd,
                                 workers=workers)
    run = train.Run(net, trainer, len(training), **train.run_arguments(args), blocks={"loss": loss}, workers=workers,
                    data=training.fingerprint(), extra={"classes": net.classes, "anchors": net.anchors.tolist()},
                    means_over=dict.fromkeys(PARTS[5:8], "truths"), shown=("loss", "mAP"))
    run.resume(train.find_checkpoint(args.out, args.resume))
    warning = train.warning_of_few_updates(args.epochs * updates, args.epochs, args.pretrained != "none", "detector")
    if warning:
        run.say(warning)
    run.introduce({**train.describe_images(training, validation), "anchors": len(net.anchors)})

    augmented = data.Augmented(training, args.size, train.default_augment(args.dataset, args.flip), args.seed)
    sizes = range(args.multi_scale[0], args.multi_scale[1] + 1, 32) if args.multi_scale else None
    for epoch in run.epochs():
        run.freeze(net.backbone, args.freeze < 0 or epoch < args.freeze)
        model = run.mixed(net)
        for images, truths in run.batches(augmented, data.detection_batch, args.threads, sizes):
            if workers.count > 1:   # each sees its own images only
                loss.set_seen(run.seen)
            with autograd.record():
                losses = [loss(model(image), truth) for image, truth in zip(run.split(images), run.split(truths))]
            run.backward(losses)
            sums = train.total(loss.parts.values(), axis=0)
            run.step({"loss": train.total(losses), **{name: sums[PARTS.index(name)] for name in (*SHOWN, "truths")}})
        metrics = {}
        if workers.rank == 0:
            with run.averaged():
                metrics = train.evaluate_detector(detector, held_out, (args.size,) * 2, device, net.classes).summary()
        run.end_epoch(metrics, metrics.get("AP", 0))
    return run


def main(args):
    began = time.time()
    train.check_packages("detection")
    train.set_seeds(args.seed)
    devices = train.devices(args.device)
    train.check_dtype(args.dtype, devices)
    workers = train.join_workers(args.kvstore, len(devices))
    training, validation = train.detection_parts(args.dataset, args.data, args.classes, args.size, args.seed,
                                                 args.count, args.hard, **train.data_arguments(args))
    train.data_notes(training, validation, None if workers.rank else args.out)
    anchors = train.find_anchors(args.anchors, training, args.size, args.seed, args.cfg)
    net = make_net(args, training.classes, anchors)
    is_new = train.find_checkpoint(args.out, args.resume) is None
    settle(args, net, training, workers)
    if is_new and args.pretrained != "none":
        kept = train.load_pretrained_detector(net, args.pretrained, args.pretrained_names)
        print(train.describe_pretrained(args.pretrained, kept))
    elif is_new and args.pretrain_epochs and not (args.cfg and not args.backbone_layers) and workers.rank == 0:
        net.collect_params().reset_ctx(devices[0])   # the other workers get its parameters
        share = train.pretrain_backbone(net.backbone, net.classes, training, args.pretrain_epochs, args.out, args.seed,
                                        args.threads, train.find_checkpoint(args.out, args.resume, "pretraining"))
        print(f"The pretrained backbone tells {share:.1%} of the objects apart.")
    net.collect_params().reset_ctx(devices)
    run = fit(net, training, validation, args, workers, devices[0])
    if workers.rank:
        return

    net = make_net(args, net.classes, net.anchors)
    net.load_parameters(str(run.best_path))
    best, size = run.best_row, (args.size, args.size)
    train.draw_detections(net.detector(), validation, size, mx.cpu(), args.out / "detections.png")
    train.draw_curves(run.history, args.out / "curves.png", SHOWN[:4], ("mAP", "AP", "matched_iou", "iou", "recall"))
    images = np.stack([data.letterbox(validation[i][0], *size) for i in range(min(8, len(validation)))])
    detector = net.detector(threshold=0.001)   # low: users of the export cut off where they like
    results = {
        "options": vars(args), "classes": net.classes, "anchors": net.anchors.tolist(), "epochs": run.history,
        **train.data_notes(training, validation, None), **{name: best[name] for name in METRICS},
        "compared_detections": int((detector(mx.nd.array(images))[0] >= 0).sum().asscalar()),
        "export_differences": train.export_and_check(detector, args.out / "detector", images, train.DETECTIONS),
        "seconds": time.time() - began}
    train.write_results(results, args.out / "results.json")
    print(f"On {len(validation)} images, epoch {best['epoch']} has the highest COCO AP, at IoU 0.50 to 0.95: "
          f"{best['AP']:.4f}.\nIts mAP at IoU 0.5 is {best['mAP']:.4f} (VOC 2007's: {best['mAP_voc07']:.4f}).\n"
          f"Its boxes overlap their objects by {best['matched_iou']:.2f} on average.\n"
          "The exported detector finds the same, in Module and without gluonops.\n"
          f"The results are in {args.out}; docs/fine_tuning.md says which file is what.\n")
    hint = train.hint_for_detector(best["mAP"], run.trainer.optimizer.num_update, args.pretrained != "none")
    if hint:
        print(hint)
    print(train.how_to_run("detect", args.out / "detector", train.save_example(validation[0][0], args.out)))


if __name__ == "__main__":
    train.run_script(main, arguments)
