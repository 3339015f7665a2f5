"""Train or fine-tune the net of a Darknet cfg as its [net] section says; measure it, and write Darknet's weights.

    gluonops train --cfg yolov3-tiny.cfg --width 0.5 --size 128 --batch 8 --lr 0.004
        --jitter 0.1 --epochs 20                                             # scenes of digits
    gluonops train obj.data --cfg yolov4.cfg --weights yolov4.conv.137
    gluonops train obj.data --cfg yolov4-tiny.cfg --weights yolov4-tiny.weights --layers 29
    gluonops train VOCdevkit --cfg yolov3.cfg --weights darknet53.conv.74
    gluonops train DIR --cfg darknet19.cfg --epochs 30

The command runs this script, which takes --data DIR; copy it to change something. --data may be one of Darknet's .data
files, whose backup is the default of --out. The cfg gets the classes of the data set and the anchors of its boxes. It
is in --out, with the weights beside it, and Darknet reads both. Ctrl-C saves; --resume auto continues to the numbers of
a run that was never stopped.
"""
import hashlib
import os
import pathlib
import tempfile
import time

import gluonops as gops
from gluonops import data, train
from gluonops.darknet import adapt_cfg, check_trainable, read_training, save_weights
from mxnet import autograd

OUT = "out/train_darknet"


def make_options():
    options = train.Options(__doc__)
    options.add_data()
    options.add("data", "--count", type=train.positive, nargs=2, default=(4000, 200), metavar=("TRAIN", "VAL"),
                help="numbers of scenes of digits: for training, and held out")
    options.add("data", "--flip", type=int, choices=(0, 1), help="mirror images (default: the cfg's; digits: 0)")
    options.add("data", "--jitter", type=train.fraction, help="how far images are cropped (default: the cfg's)")
    options.add("net", "--cfg", required=True, help="Darknet's cfg of the net")
    options.add("net", "--dialect", choices=("pjreddie", "alexeyab"),
                help="whose Darknet to follow (default: as the cfg requires)")
    options.add("net", "--size", type=train.positive,
                help="height and width of the input; turns multi-scale training off (default: the cfg's)")
    options.add("net", "--width", type=train.non_negative, default=1, help="factor of the filters")
    options.add("net", "--anchors", choices=("auto", "cfg"), default="auto", help="auto: k-means on the data set")
    options.add("net", "--weights", help="start from Darknet's .weights, or from its first layers, .conv.N")
    options.add("net", "--layers", type=train.positive, help="how many layers of --weights to load (default: all)")
    options.add("net", "--clear", action="store_true", help="count images from 0, not from those --weights has seen")
    options.add("training", "--batches", type=train.positive, help="updates (default: the cfg's max_batches)")
    options.add("training", "--epochs", type=train.positive,
                help="length of the run in passes over the training images")
    options.add("training", "--batch", type=train.positive, help="images of an update (default: the cfg's)")
    options.add("training", "--subdivisions", type=train.positive, help="parts of a batch (default: the cfg's)")
    options.add("training", "--lr", type=train.non_negative, help="learning rate (default: the cfg's)")
    options.add("training", "--clip", type=train.non_negative, default=0, help="largest norm of the gradients; 0: any")
    options.add_machine()
    options.add_run(OUT)
    options.defaults(threads=2, out=None)
    return options


def arguments():
    args = make_options().parse()
    check_trainable(args.cfg)
    args.task = read_training(args.cfg, args.dialect).task
    args.dataset = args.dataset or data.recognize(args.data, args.task).name
    has_data_file = args.data and args.data.endswith(".data")
    backup = data.read_data_file(args.data).backup if has_data_file else None
    args.out = args.out or pathlib.Path(backup or OUT)
    return args


def load_images(args):
    """(training images, held-out images, names of the classes)"""
    size = args.size or max(read_training(args.cfg).size)
    if args.task == "detection":
        images = train.detection_parts(args.dataset, args.data, None, size, args.seed, args.count,
                                       **train.data_arguments(args))
        return (*images, images[0].classes)
    parts = train.classification_parts(args.dataset, args.data, None, size, args.seed, **train.data_arguments(args))
    return parts.training, parts.held_out, parts.classes


def write_cfg(args, images, classes, workers):
    """The cfg of this run: that of --cfg with the classes, their anchors, and the options of the command line.

    Every worker writes the same file. It is whole as soon as it is there, because the others may read it already.
    """
    path = args.out / "net.cfg"
    with tempfile.TemporaryDirectory(dir=args.out) as folder:
        part = pathlib.Path(folder) / path.name
        adapt(args, part, images, classes, workers)
        os.replace(part, path)
    return path


def adapt(args, path, images, classes, workers):
    options = {"width": args.size, "height": args.size, "batch": args.batch, "subdivisions": args.subdivisions,
               "learning_rate": args.lr, "flip": args.flip}
    if args.flip is None and args.dataset in train.OF_DIGITS:
        options["flip"] = 0
    if args.task == "classification":
        options["channels"] = images[0][0].shape[2]
    has_sizes = bool(read_training(args.cfg, args.dialect).sizes)
    of_heads = {"jitter": args.jitter, "random": 0 if args.size and has_sizes else None}
    of_net, of_heads = ({key: value for key, value in some.items() if value is not None}
                        for some in (options, of_heads))
    adapt_cfg(args.cfg, path, len(classes), args.width, net=of_net, heads=of_heads)
    if args.task == "detection" and args.anchors == "auto":
        adapt_cfg(path, path, anchors=train.darknet_anchors(path, images, args.seed))
    train.shorten_cfg(path, len(images), args.batches, args.epochs, workers)


def make_net(path, args):
    net = gops.darknet.load(path, dialect=args.dialect)
    train.initialize_darknet(net)
    return net


def fit(net, path, images, args, workers, device, seen):
    """Train the net, whose weights have seen so many images; returns the run."""
    training, validation, classes = images
    options = read_training(path, args.dialect)
    if options.not_followed:
        print(f"These options of the cfg are not followed: {', '.join(options.not_followed)}.")
    epochs, repeats = train.darknet_epochs(options, len(training), seen, workers)
    training = train.Repeated(training, repeats)
    updates = train.updates_per_epoch(len(training), options.mini_batch, workers, options.subdivisions)
    train.fit_batch_norm(net, epochs * updates)
    score = train.darknet_scorer(net, validation, options, device, classes, args.threads)
    loss = net.loss()
    loss.hybridize(static_alloc=True)   # the net is a part of it
    loss.set_seen(seen)

    optimizer, arguments = train.darknet_optimizer(options)
    schedule = train.darknet_schedule_from(path, seen, workers)
    trainer = train.make_trainer(net.collect_params(), optimizer, schedule, options.decay, decay_biases=False,
                                 workers=workers, **arguments)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    run = train.Run(net, trainer, len(training), epochs=epochs, batch_size=options.mini_batch, out=args.out,
                    seed=args.seed, blocks={"loss": loss.loss}, workers=workers, accumulate=options.subdivisions,
                    clip=args.clip, average=options.ema_alpha, save_every=args.save_every,
                    tensorboard=args.tensorboard, data=training.fingerprint(), extra={"classes": classes},
                    options={**train.reproducible(args), "digest of the cfg": digest},
                    shown=("loss", "mAP", "accuracy"))
    run.resume(train.find_checkpoint(args.out, args.resume))
    run.introduce(train.describe_images(training, validation))

    augmented = data.Augmented(training, options.size, train.darknet_augment(options), args.seed)
    batchify = data.detection_batch if args.task == "detection" else train.classification_batch
    every = options.resize_every * options.subdivisions
    for _ in run.epochs():
        for batch in run.batches(augmented, batchify, args.threads, options.sizes or None, every):
            if workers.count > 1:   # each sees its own images only
                loss.set_seen(seen + run.seen)
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


def main(args):
    began = time.time()
    train.check_packages(args.task, draws=False)
    train.set_seeds(args.seed)
    train.make_folder(args.out)
    devices = train.devices(args.device)
    workers = train.join_workers(args.kvstore, len(devices))
    if workers.rank == 0:
        train.lock_folder(args.out)
    images = training, validation, classes = load_images(args)
    train.data_notes(training, validation, None if workers.rank else args.out)
    weights, names = args.out / "best.weights", args.out / "net.names"
    path = write_cfg(args, training, classes, workers)
    net, seen = make_net(path, args), 0
    if args.weights:
        seen = train.load_first_layers(net, args.weights, args.layers)
        print(f"{args.weights} is loaded; it has seen {seen} images.")
    if args.clear:
        seen = 0
    net.collect_params().reset_ctx(devices)
    run = fit(net, path, images, args, workers, devices[0], seen)
    if workers.rank:
        return

    net, best = make_net(path, args), run.best_row
    net.load_parameters(str(run.best_path))
    save_weights(net, weights, seen + best["epoch"] * run.images)
    train.write(names, lambda name: pathlib.Path(name).write_text("".join(f"{line}\n" for line in classes), "utf-8"))
    train.write_results({"options": vars(args), "classes": classes, "epochs": run.history, **best,
                         **train.data_notes(training, validation, None), "seconds": time.time() - began},
                        args.out / "results.json")
    reached = f"an mAP of {best['mAP']:.4f}" if args.task == "detection" else f"an accuracy of {best['accuracy']:.4f}"
    command = "detect" if args.task == "detection" else "classify"
    print(f"On {len(validation)} held-out images, epoch {best['epoch']} has {reached}.\n"
          f"{path}, {weights} and {names} are for Darknet and for gluonops. Run the net on a picture, such as\n\n"
          f"gluonops {command} {path} {weights} photograph.jpg --names {names}")


if __name__ == "__main__":
    train.run_script(main, arguments)
