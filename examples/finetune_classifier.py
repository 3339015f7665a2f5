"""Train or fine-tune a classifier on digits, MNIST's files, folders of images or RecordIO; export and check it.

    python examples/finetune_classifier.py                                   # digits, from nothing
    python examples/finetune_classifier.py --dataset folder --root DIR       # a few dozen pictures are enough
    python examples/finetune_classifier.py --dataset folder --root DIR --model resnet18_v1 --size 64 --flip 0.5
    python examples/finetune_classifier.py --classes 5 6 7 --pretrained out/finetune_classifier/last.checkpoint
    python examples/finetune_classifier.py --embedding 2 --center-loss 0.01  # classes drawn together; see embedding.png

Ctrl-C saves; --resume auto continues to the numbers of a run that was never stopped.
"""
import time

import gluonops as gops
import numpy as np
from gluonops import train
from gluonops.data import Augmented, Letterboxed
from mxnet import autograd, gluon


def arguments():
    options = train.Options(__doc__)
    options.add_data("classification", size=28)
    options.add("net", "--model", help="mlp, lenet_reorg, darknet19, tiny_yolov2 for its backbone at half its width, "
                "or of gluoncv's model zoo (default: lenet_reorg for digits, else tiny_yolov2)")
    options.add("net", "--embedding", type=train.natural, default=0,
                help="units of a layer before the output, 2 to look at it; 0: no layer")
    options.add("net", "--center-loss", type=train.non_negative, default=0, help="weight of CenterLoss")
    options.add_pretrained()
    options.add_training(epochs=30, batch_size=32, lr=0.03)
    options.add_run(out="out/finetune_classifier")
    options.defaults(size=None)
    args = options.parse()
    is_digits = args.dataset in train.OF_DIGITS
    args.model = args.model or ("lenet_reorg" if is_digits else "tiny_yolov2")
    args.size = args.size or (28 if is_digits or args.model in ("lenet_reorg", "mlp") else 96)
    return args


def fit(net, images, args, workers):
    """Train the net and its losses; returns the run."""
    softmax, losses = gops.loss.SoftmaxCELoss(), {}
    if args.center_loss:
        losses["center"] = gops.loss.CenterLoss(len(net.classes), net.output.weight.shape[1], weight=args.center_loss)
        losses["center"].initialize(ctx=net.output.weight.list_ctx())
    for block in (net, softmax, *losses.values()):
        block.hybridize(static_alloc=True)

    training = train.Repeated(images.training, args.repeat)
    updates = train.updates_per_epoch(len(training), args.batch_size, workers, args.accumulate)
    train.fit_batch_norm(net, args.epochs * updates)
    trainer = train.make_trainer(net.collect_params(), args.optimizer, train.schedule_of(args, updates), args.wd,
                                 workers=workers)
    run = train.Run(net, trainer, len(training), **train.run_arguments(args), blocks=losses, workers=workers,
                    data=training.fingerprint(), extra={"classes": net.classes})
    run.resume(train.find_checkpoint(args.out, args.resume))
    warning = train.warning_of_few_updates(args.epochs * updates, args.epochs, args.pretrained != "none", "classifier")
    if warning:
        run.say(warning)

    augmented = Augmented(training, args.size, train.default_augment(args.dataset, args.flip), args.seed)
    for epoch in run.epochs():
        run.freeze(net.features, args.freeze < 0 or epoch < args.freeze)
        embed = run.mixed(net.embed)
        for data, labels in run.batches(augmented, train.classification_batch, args.threads):
            parts = {"loss": [], "center_loss": []}
            with autograd.record():
                for part, label in zip(run.split(data), run.split(labels)):
                    vectors = embed(part)
                    parts["loss"].append(softmax(net.output(vectors), label))
                    for center in losses.values():
                        parts["center_loss"].append(center(vectors, label))
            run.backward(parts["loss"] + parts["center_loss"])
            run.step({name: train.total(values) for name, values in parts.items() if values},
                     after=lambda: [center.update(trainer) for center in losses.values()])
        with run.averaged():
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


def main(args):
    began = time.time()
    train.set_seeds(args.seed)
    devices = train.devices(args.gpus or args.ctx)
    train.check_dtype(args.dtype, devices)
    workers = train.join_workers(args.kvstore, len(devices))
    images = train.classification_parts(args.dataset, args.root, args.classes, args.size, args.seed)
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
    vectors, logits, labels = predict(net, images.held_out, args)
    matrix = train.confusion_matrix(labels, logits.argmax(1), len(net.classes))
    some = np.stack([held_out[i][0] for i in range(min(100, len(held_out)))])
    train.draw_confusion(matrix, net.classes, args.out / "confusion.png")
    train.draw_embedding(vectors, labels, net.classes, args.out / "embedding.png")
    train.draw_predictions(some, labels[:100], logits[:100].argmax(1), net.classes, args.out / "predictions.png")
    train.draw_curves(run.history, args.out / "curves.png", ("loss", "center_loss"), ("validation_accuracy",))
    results = {
        "options": vars(args), "classes": net.classes, "epochs": run.history, "validation_accuracy": run.best,
        "held_out_accuracy": train.accuracy(logits, labels), "spread": train.class_spread(vectors, labels),
        "confusion": matrix, "export_differences": train.export_and_check(net, args.out / "classifier", some),
        "seconds": time.time() - began}
    train.write_results(results, args.out / "results.json")
    print(f"The net classifies {results['held_out_accuracy']:.4f} of {len(labels)} held-out images rightly.\n"
          "The exported net computes the same, in Module and without gluonops.\n"
          f"The results are in {args.out}; docs/fine_tuning.md says which file is what.\n")
    hint = train.hint_for_classifier(labels, logits, run.trainer.optimizer.num_update, args.pretrained != "none")
    if hint:
        print(hint)
    print(train.how_to_run("classify", args.out / "classifier", train.save_example(images.held_out[0][0], args.out)))


if __name__ == "__main__":
    train.run_script(main, arguments)
