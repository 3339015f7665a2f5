"""Train lenet_reorg on handwritten digits, export it, and run the exports in Module and without gluonops.

The best epoch is chosen on a tenth of the training images; the held-out images are evaluated once, at the end.
"""
import sys
import time

import gluonops as gops
import mxnet as mx
import numpy as np
from gluonops import train
from gluonops.data import Split

COMPARED = 500   # held-out images that the process without gluonops runs


def arguments():
    options = train.Options(__doc__)
    options.add_digits(epochs=20)
    options.add("training", "--lr", type=train.non_negative, default=0.001,
                help="learning rate of Adam; falls to 0 along a cosine")
    options.add("net", "--mode", choices=("darknet", "DCR", "CRD"), default="darknet", help="of the reorg layer")
    options.add_run(out="out/train_digits")
    return options.parse()


def fit(net, training, args):
    """Train, keep the epoch that is best on a tenth of the images; return one row per epoch."""
    held = np.arange(len(training.labels)) % 10 == 0
    validation, rest = (Split(training.images[part], training.labels[part]) for part in (held, ~held))
    loader = train.split_batches(rest, args.batch_size, train=True)
    schedule = train.schedule("cosine", args.lr, args.epochs * len(loader))
    trainer = train.make_trainer(net.collect_params(), "adam", schedule)
    best, rows = -1, []
    for epoch, loss in train.fit_classifier(net, loader, trainer, args.epochs):
        score = train.accuracy(train.predict_logits(net, validation), validation.labels)
        rows.append({"epoch": epoch, "loss": loss, "validation_accuracy": score})
        if score >= best:   # The later of two equals wins: its learning rate was lower.
            best = score
            train.save_tensors(args.out / "best.params", net.save_parameters)
    net.load_parameters(str(args.out / "best.params"))
    return rows


def module_accuracy(prefix, split):
    """Load an export as Module users do, and score it."""
    symbol, arguments, states = mx.model.load_checkpoint(str(prefix), 0)
    labelled = "softmax_label" in symbol.list_arguments()
    images = mx.io.NDArrayIter(*split, batch_size=100)
    module = mx.mod.Module(symbol, label_names=["softmax_label"] if labelled else None)
    module.bind(images.provide_data, images.provide_label if labelled else None, for_training=False)
    module.set_params(arguments, states)
    # Not module.score(): it counts the images that fill up the last batch.
    return train.accuracy(module.predict(images).asnumpy(), split.labels)


def main(args):
    began = time.time()
    train.set_seeds(args.seed)
    train.make_folder(args.out)
    training, held_out = gops.data.digits(args.data_dir, seed=args.seed)
    print(f"There are {len(training.labels)} digits to train on, and {len(held_out.labels)} are held out.")

    net = gops.models.lenet_reorg(mode=args.mode)
    net.initialize(mx.init.Xavier())
    net.hybridize(static_alloc=True, static_shape=True)
    rows = fit(net, training, args)
    outputs = train.predict_logits(net, held_out)
    score = train.accuracy(outputs, held_out.labels)

    names = [str(digit) for digit in range(10)]
    net.classes = names   # the exported files say this of the net
    net.preprocessing = {"colours": "grey", "range": [0, 1], "resize": "letterbox"}
    builtin, custom = args.out / "digits", args.out / "digits-custom"
    differences = train.export_and_check(net, builtin, held_out.images[:COMPARED])
    gops.export.symbol(net, custom, held_out.images[:1].shape, backend="custom", head="softmax_output")
    scores = {"builtin": module_accuracy(builtin, held_out), "custom": module_accuracy(custom, held_out)}

    train.draw_curves(rows, args.out / "curve.png", ["loss"], ["validation_accuracy"])
    train.draw_predictions(*held_out, outputs.argmax(1), names, args.out / "predictions.png")
    results = {"options": vars(args), "held_out_accuracy": score, "module_accuracy": scores,
               "difference_without_gluonops": differences["without_gluonops"], "epochs": rows,
               "seconds": round(time.time() - began, 1)}
    train.write_results(results, args.out / "results.json")
    print(f"""
The net classifies {score:.4f} of the held-out digits correctly; {(outputs.argmax(1) != held_out.labels).sum()} of \
{len(outputs)} are wrong.
Through Module it is {scores['builtin']:.4f} for the builtin export and {scores['custom']:.4f} for the custom export.
Without gluonops the logits differ by {results['difference_without_gluonops']:.1e} at most.
The run took {results['seconds']} s. Its files are in {args.out}:
  best.params                              the net's parameters, for net.load_parameters
  digits-symbol.json, -0000.params         MXNet's own operators only: runs without gluonops
  digits-custom-symbol.json, -0000.params  gluonops nodes and a softmax_output head: Module.fit fine-tunes it
  curve.png, predictions.png               training by epoch; held-out digits, the wrong ones first
  example.png                              a held-out digit
  results.json                             every number above and more
""")
    example = train.save_example((held_out.images[0, 0] * 255).round().astype("uint8"), args.out)
    print(train.how_to_run("classify", builtin, example))
    if any(abs(value - score) > 1e-9 for value in scores.values()):
        sys.exit("An export disagrees with the net that it was made from; please report this.")


if __name__ == "__main__":
    train.run_script(main, arguments, ("best.params",), "It holds the best epoch's parameters.")
