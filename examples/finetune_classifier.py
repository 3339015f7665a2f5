"""Train or fine-tune a classifier on digits, MNIST's files, folders of images or RecordIO; export and check it.

    gluonops train                                                  # digits, from scratch
    gluonops train DIR                                              # a few dozen pictures are enough
    gluonops train DIR --model resnet18_v1 --size 64 --flip 0.5
    gluonops train --classes 5 6 7 --pretrained out/finetune_classifier/last.checkpoint
    gluonops train --embedding 2 --center-loss 0.01                 # classes drawn together; see embedding.png
    gluonops train --loss arcface --classes 0 1 2 3 4               # compares the digits 5 to 9; see roc.png

The command runs this script for a data set of classes; the script takes --data DIR. Copy it to change something.
Ctrl-C saves; --resume auto continues to the numbers of a run that was never stopped.
"""
import time

import gluonops as gops
import mxnet as mx
import numpy as np
from gluonops import train
from gluonops.data import Augmented, Letterboxed
from mxnet import autograd, gluon

LOSSES = {   # These take logits.
    "softmax": gops.loss.SoftmaxCELoss,
    "smoothing": lambda: gops.loss.SoftmaxCELoss(smoothing=0.1),
    "focal": gops.loss.SoftmaxFocalLoss,
    "center": gops.loss.SoftmaxCELoss,   # A center loss is added to it.
}
MARGINS = {   # These take cosines; the values are the arguments of ArcFaceHead.
    "arcface": {"m2": 0.5},
    "cosface": {"m2": 0, "m3": 0.35},
    "sphereface": {"m1": 1.35, "m2": 0},
}


def make_options():
    options = train.Options(__doc__)
    options.add_data("classification", size=28)
    options.add("net", "--model", help="mlp, lenet_reorg, iresnet, darknet19, tiny_yolov2 for its backbone at half "
                "its width, or of gluoncv's model zoo (default: lenet_reorg for digits, else tiny_yolov2)")
    options.add("net", "--embedding", type=train.natural, default=0,
                help="units of an extra layer before the output, 2 to draw them; 0: no such layer")
    options.add("net", "--loss", choices=[*LOSSES, *MARGINS], default="softmax",
                help="loss of logits, or of cosines with a margin")
    options.add("net", "--scale", type=train.positive, default=16, help="factor of the cosines; 64 for many classes")
    options.add("net", "--center-loss", type=train.non_negative, default=0,
                help="weight of CenterLoss; --loss center uses 0.01 without this option")
    options.add_pretrained()
    options.add_training(epochs=30, batch_size=32, lr=0.03)
    options.add_run(out="out/finetune_classifier")
    options.defaults(size=None)
    return options


def arguments():
    args = make_options().parse()
    is_digits = args.dataset in train.OF_DIGITS
    args.model = args.model or ("lenet_reorg" if is_digits else "tiny_yolov2")
    args.size = args.size or (28 if is_digits or args.model in ("lenet_reorg", "mlp") else 96)
    if args.loss == "center":
        args.center_loss = args.center_loss or 0.01
    return args


def loss_of(net, args):
    """A block of embeddings and labels. A margin's centres are the weight of the net's output, which has no bias."""
    if args.loss in MARGINS:
        net.output.bias.grad_req = "null"
        return gops.nn.ArcFaceHead(*net.output.weight.shape, scale=args.scale, params=net.output.params,
                                   **MARGINS[args.loss])
    return OfLogits(net.output, LOSSES[args.loss]())


class OfLogits(gluon.HybridBlock):
    """A loss of logits, for embeddings."""

    def __init__(self, output, loss):
        super().__init__()
        self.output, self.loss = output, loss

    def hybrid_forward(self, F, vectors, label):
        return self.loss(self.output(vectors), label)


def give_centres_one_length(net, args):
    """This makes logits cosines, times the length of the embedding. The loss does not change by it."""
    if args.loss in MARGINS:
        net.output.weight.set_data(mx.nd.L2Normalization(net.output.weight.data(net.output.weight.list_ctx()[0])))


def fit(net, images, args, workers):
    """Train the net and its losses; returns the run."""
    loss, losses = loss_of(net, args), {}
    if args.center_loss:
        losses["center"] = gops.loss.CenterLoss(len(net.classes), net.output.weight.shape[1], weight=args.center_loss)
        losses["center"].initialize(ctx=net.output.weight.list_ctx())
    for block in (net, loss, *losses.values()):
        block.hybridize(static_alloc=True)

    training = train.Repeated(images.training, args.repeat)
    updates = train.updates_per_epoch(len(training), args.batch_size, workers, args.accumulate)
    train.fit_batch_norm(net, args.epochs * updates)
    trainer = train.make_trainer(net.collect_params(), args.optimizer, train.schedule_of(args, updates), args.wd,
                                 workers=workers)
    run = train.Run(net, trainer, len(training), **train.run_arguments(args), blocks=losses, workers=workers,
                    data=training.fingerprint(), extra={"classes": net.classes},
                    shown=("loss", "validation_accuracy"))
    run.resume(train.find_checkpoint(args.out, args.resume))
    warning = train.warning_of_few_updates(args.epochs * updates, args.epochs, args.pretrained != "none", "classifier")
    if warning:
        run.say(warning)
    run.introduce(train.describe_images(training, images.held_out, images.validation))

    augmented = Augmented(training, args.size, train.default_augment(args.dataset, args.flip), args.seed)
    for epoch in run.epochs():
        run.freeze(net.features, args.freeze < 0 or epoch < args.freeze)
        embed = run.mixed(net.embed)
        for data, labels in run.batches(augmented, train.classification_batch, args.threads):
            parts = {"loss": [], "center_loss": []}
            with autograd.record():
                for part, label in zip(run.split(data), run.split(labels)):
                    vectors = embed(part)
                    parts["loss"].append(loss(vectors, label))
                    for center in losses.values():
                        parts["center_loss"].append(center(vectors, label))
            run.backward(parts["loss"] + parts["center_loss"])
            run.step({name: train.total(values) for name, values in parts.items() if values},
                     after=lambda: [center.update(trainer) for center in losses.values()])
        with run.averaged():
            give_centres_one_length(net, args)
            score = train.accuracy(*predict(net, images.validation, args)[1:])
        run.end_epoch({"validation_accuracy": score}, score)
    return run


def predict(net, images, args):
    """(embeddings, logits, labels) of a data set as NumPy arrays."""
    device, rows = net.output.weight.list_ctx()[0], []
    for data, labels in gluon.data.DataLoader(Letterboxed(images, args.size), 100,
                                              batchify_fn=train.classification_batch):
        vectors = net.embed(data.as_in_context(device))
        rows.append((vectors, net.output(vectors), labels))
    return [np.concatenate([array.asnumpy() for array in column]) for column in zip(*rows)]


def verify(net, images, args):
    """Whether pairs of held-out images show one class: images of classes that the net was not trained on, if any."""
    everything = images.held_out.dataset
    classes = [name for name in everything.classes if name not in net.classes] or net.classes
    vectors, _, labels = predict(net, train.ClassSubset(everything, classes), args)
    pairs = train.verification(vectors, labels)
    if pairs is None:
        return None
    train.draw_roc({args.loss: pairs}, args.out / "roc.png")
    if classes != net.classes or args.loss in MARGINS:
        print(f"Of pairs of {', '.join(classes)} it compares {pairs.accuracy:.4f} correctly; the ROC curve's area is "
              f"{pairs.area:.4f}.")
    return {"classes": classes, "accuracy": pairs.accuracy, "area": pairs.area, "threshold": pairs.threshold}


def main(args):
    began = time.time()
    train.check_packages("classification")
    train.set_seeds(args.seed)
    devices = train.devices(args.device)
    train.check_dtype(args.dtype, devices)
    workers = train.join_workers(args.kvstore, len(devices))
    images = train.classification_parts(args.dataset, args.data, args.classes, args.size, args.seed,
                                        **train.data_arguments(args))
    train.data_notes(images.training, images.held_out, None if workers.rank else args.out)
    held_out = Letterboxed(images.held_out, args.size)
    net = gops.models.classifier(args.model, images.classes, held_out[0][0].shape, args.embedding)
    args.pretrained = train.pretrained_source(args.pretrained, net, len(images.training))
    args.repeat = train.repeats(args, len(images.training), workers)
    if args.pretrained != "none" and not train.find_checkpoint(args.out, args.resume):
        kept = train.load_pretrained_classifier(net, args.pretrained, args.pretrained_names)
        print(train.describe_pretrained(args.pretrained, kept))
    net.collect_params().reset_ctx(devices)
    run = fit(net, images, args, workers)
    if workers.rank:
        return

    net = gops.models.classifier(args.model, images.classes, held_out[0][0].shape, args.embedding)
    net.load_parameters(str(run.best_path))
    give_centres_one_length(net, args)
    vectors, logits, labels = predict(net, images.held_out, args)
    matrix = train.confusion_matrix(labels, logits.argmax(1), len(net.classes))
    some = np.stack([held_out[i][0] for i in range(min(100, len(held_out)))])
    train.draw_confusion(matrix, net.classes, args.out / "confusion.png")
    train.draw_embedding(vectors, labels, net.classes, args.out / "embedding.png")
    train.draw_predictions(some, labels[:100], logits[:100].argmax(1), net.classes, args.out / "predictions.png")
    train.draw_curves(run.history, args.out / "curves.png", ("loss", "center_loss"), ("validation_accuracy",))
    results = {
        "options": vars(args), "classes": net.classes, "epochs": run.history, "validation_accuracy": run.best,
        **train.data_notes(images.training, images.held_out, None),
        "verification": verify(net, images, args), "held_out_accuracy": train.accuracy(logits, labels),
        "spread": train.class_spread(vectors, labels),
        "confusion": matrix, "export_differences": train.export_and_check(net, args.out / "classifier", some),
        "seconds": time.time() - began}
    train.write_results(results, args.out / "results.json")
    print(f"The net classifies {results['held_out_accuracy']:.4f} of {len(labels)} held-out images correctly.\n"
          "The exported net computes the same, in Module and without gluonops.\n"
          f"The results are in {args.out}; docs/fine_tuning.md says which file is what.\n")
    hint = train.hint_for_classifier(labels, logits, run.trainer.optimizer.num_update, args.pretrained != "none")
    if hint:
        print(hint)
    print(train.how_to_run("classify", args.out / "classifier", train.save_example(images.held_out[0][0], args.out)))


if __name__ == "__main__":
    train.run_script(main, arguments)
