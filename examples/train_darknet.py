"""Train or fine-tune the net of a Darknet cfg as its [net] section says; measure it, write Darknet's weights, export.

    python examples/train_darknet.py --cfg yolov3-tiny.cfg --width 0.5 --size 160 --batch 16 --batches 3000   # digits
    python examples/train_darknet.py --cfg yolov4.cfg --data obj.data --weights yolov4.conv.137
    python examples/train_darknet.py --cfg yolov4-tiny.cfg --data obj.data --weights yolov4-tiny.weights --layers 29
    python examples/train_darknet.py --cfg yolov3.cfg --dataset voc --root VOCdevkit --weights darknet53.conv.74
    python examples/train_darknet.py --cfg darknet19.cfg --dataset folder --root DIR --epochs 30

The cfg gets the classes of the data set, and the anchors of its boxes. It is in --out, with weights beside it: Darknet
reads both. Ctrl-C saves; --resume auto continues to the numbers of a run that was never stopped.
"""
import time

import gluonops as gops
import numpy as np
from gluonops import data, train
from gluonops.darknet import adapt_cfg, read_training, save_weights
from mxnet import autograd, gluon

FORMATS = sorted({*data.format_names("detection"), *data.format_names("classification")})
METRICS = ("mAP", "mAP_voc07", "AP", "AP50", "AP75", "matched_iou")


def arguments():
    options = train.Options(__doc__)
    options.add("data", "--dataset", choices=FORMATS, default="digits", help="its format; see docs/fine_tuning.md")
    options.add("data", "--root", help="where the data set is")
    options.add("data", "--data", help="Darknet's .data file, in the place of --dataset and --root")
    options.add("data", "--count", type=train.positive, nargs=2, default=(4000, 200), metavar=("TRAIN", "VAL"),
                help="scenes of digits to train on, and held out")
    options.add("net", "--cfg", required=True, help="Darknet's cfg of the net")
    options.add("net", "--dialect", choices=("pjreddie", "alexeyab"), help="whose Darknet (default: the cfg tells)")
    options.add("net", "--size", type=train.positive, help="height and width of the input, always (default: the cfg's)")
    options.add("net", "--width", type=train.non_negative, default=1, help="factor of the filters")
    options.add("net", "--anchors", choices=("auto", "cfg"), default="auto", help="auto: k-means on the data set")
    options.add("net", "--weights", help="start from Darknet's .weights, or from its first layers, .conv.N")
    options.add("net", "--layers", type=train.positive, help="how many layers of --weights to load (default: all)")
    options.add("net", "--clear", action="store_true", help="count images from 0, not from those --weights has seen")
    options.add("training", "--batches", type=train.positive, help="updates (default: the cfg's max_batches)")
    options.add("training", "--epochs", type=train.positive, help="the same, as passes over the training images")
    options.add("training", "--batch", type=train.positive, help="images of an update (default: the cfg's)")
    options.add("training", "--subdivisions", type=train.positive, help="parts of a batch (default: the cfg's)")
    options.add("training", "--lr", type=train.non_negative, help="learning rate (default: the cfg's)")
    options.add("training", "--flip", type=int, choices=(0, 1), help="mirror images (default: the cfg's; digits: 0)")
    options.add("training", "--jitter", type=train.fraction, help="how far images are cropped (default: the cfg's)")
    options.add("training", "--clip", type=train.non_negative, default=0, help="largest norm of the gradients; 0: any")
    options.add_machine()
    options.add_run(out="out/train_darknet")
    options.defaults(threads=2)
    args = options.parse()
    args.task = read_training(args.cfg, args.dialect).task
    if args.data:
        args.root = args.data
        args.dataset = "yolo" if args.task == "detection" else "folder"
    return args


def load_images(args, size):
    """(training, validation, classes)"""
    if args.task == "detection":
        training, validation = train.detection_parts(args.dataset, args.root, None, max(size), args.seed, args.count)
        return training, validation, training.classes
    parts = train.classification_parts(args.dataset, args.root, None, max(size), args.seed)
    return parts.training, parts.held_out, parts.classes


def write_cfg(args, path, images, classes):
    """The cfg of this run: that of --cfg with the classes, their anchors, and the options of the command line."""
    options = {"width": args.size, "height": args.size, "batch": args.batch, "subdivisions": args.subdivisions,
               "learning_rate": args.lr, "flip": args.flip}
    if args.flip is None and args.dataset in train.OF_DIGITS:
        options["flip"] = 0
    if args.task == "classification":
        options["channels"] = images[0][0].shape[2]
    given = {name: value for name, value in options.items() if value is not None}
    heads = {} if args.jitter is None else {"jitter": args.jitter}
    if args.size:
        heads["random"] = 0
    adapt_cfg(args.cfg, path, len(classes), args.width, net=given, heads=heads)
    if args.task == "detection" and args.anchors == "auto":
        adapt_cfg(path, path, anchors=train.darknet_anchors(path, images, args.seed))
    train.shorten_cfg(path, len(images), args.batches, args.epochs)


def make_net(path, args):
    net = gops.darknet.load(path, dialect=args.dialect)
    train.initialize_darknet(net)
    return net


def fit(net, path, images, args, workers, device, seen):
    """Train the net; returns the run."""
    training, validation, classes = images
    options = read_training(path, args.dialect)
    if options.not_followed:
        print(f"These options of the cfg are not followed: {', '.join(options.not_followed)}.")
    epochs, repeats = train.darknet_epochs(options, len(training))
    training = train.Repeated(training, repeats)
    updates = train.updates_per_epoch(len(training), options.mini_batch, workers, options.subdivisions)
    train.fit_batch_norm(net, epochs * updates)
    loss = net.loss()
    loss.hybridize(static_alloc=True)   # the net is a part of it
    score = scorer(net, validation, options, args, device, classes)

    optimizer, arguments = train.darknet_optimizer(options)
    schedule = train.darknet_schedule_from(path, seen)
    trainer = train.make_trainer(net.collect_params(), optimizer, schedule, options.decay, decay_biases=False,
                                 workers=workers, **arguments)
    run = train.Run(net, trainer, len(training), epochs=epochs, batch_size=options.mini_batch, out=args.out,
                    seed=args.seed, blocks={"loss": loss.loss}, workers=workers, accumulate=options.subdivisions,
                    clip=args.clip, average=options.ema_alpha, dtype=args.dtype, save_every=args.save_every,
                    tensorboard=args.tensorboard, data=training.fingerprint(), extra={"classes": classes},
                    options={"cfg": path.read_text(), "seen": seen})
    run.resume(train.find_checkpoint(args.out, args.resume))

    augmented = data.Augmented(training, options.size, train.darknet_augment(options), args.seed)
    batchify = data.detection_batch if args.task == "detection" else train.classification_batch
    every = options.resize_every * options.subdivisions
    for _ in run.epochs():
        for batch in run.batches(augmented, batchify, args.threads, options.sizes or None, every):
            with autograd.record():
                losses = [loss(*part) for part in zip(*map(run.split, batch))]
            run.backward(losses)
            run.step({"loss": train.total(losses)})
        metrics = {}
        if workers.rank == 0:
            save_weights(net, args.out / "last.weights", seen + run.seen)
            with run.averaged():
                metrics = score()
        run.end_epoch(metrics, metrics.get("AP", metrics.get("accuracy", 0)))
    return run


def scorer(net, images, options, args, device, classes):
    """A function that measures the net."""
    is_stretched = net.preprocessing["resize"] == "stretch"
    fitted = (data.Stretched if is_stretched else data.Letterboxed)(images, options.size)
    batchify = data.validation_batch if args.task == "detection" else train.classification_batch
    loader = gluon.data.DataLoader(fitted, options.mini_batch, batchify_fn=batchify, num_workers=args.threads,
                                   thread_pool=True)
    if args.task == "detection":
        detector = net.detector(threshold=0.01, topk=100)
        return lambda: train.evaluate_detector(detector, loader, options.size, device, classes,
                                               stretched=is_stretched).summary()

    def accuracy():
        pairs = [(net(batch.as_in_context(device)).flatten().asnumpy(), labels.asnumpy()) for batch, labels in loader]
        return {"accuracy": train.accuracy(*map(np.concatenate, zip(*pairs)))}
    return accuracy


def main(args):
    began = time.time()
    train.set_seeds(args.seed)
    train.make_folder(args.out)
    devices = train.devices(args.gpus or args.ctx)
    train.check_dtype(args.dtype, devices)
    workers = train.join_workers(args.kvstore, len(devices))
    images = load_images(args, (args.size,) if args.size else read_training(args.cfg).size)
    path = args.out / "net.cfg"
    write_cfg(args, path, images[0], images[2])
    net = make_net(path, args)
    seen = 0
    if args.weights:
        seen = train.load_first_layers(net, args.weights, args.layers)
        print(f"{args.weights} is loaded.")
    net.collect_params().reset_ctx(devices)
    run = fit(net, path, images, args, workers, devices[0], 0 if args.clear else seen)
    if workers.rank:
        return

    net = make_net(path, args)
    net.load_parameters(str(run.best_path))
    save_weights(net, args.out / "best.weights", seen + run.seen)
    (args.out / "net.names").write_text("".join(f"{name}\n" for name in images[2]))
    results = {"options": vars(args), "classes": images[2], "epochs": run.history, **run.best_row,
               "seconds": time.time() - began}
    train.write_results(results, args.out / "results.json")
    what = f"an mAP of {run.best_row['mAP']:.4f}" if args.task == "detection" else f"an accuracy of {run.best:.4f}"
    print(f"On {len(images[1])} held-out images, epoch {run.best_row['epoch']} has {what}.\n"
          f"{args.out} has net.cfg, net.names and best.weights, for Darknet and for gluonops:\n\n"
          f"gluonops detect photograph.jpg --cfg {path} --weights {args.out / 'best.weights'} "
          f"--names {args.out / 'net.names'}")


if __name__ == "__main__":
    train.run_script(main, arguments)
