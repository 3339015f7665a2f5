"""Train lenet_reorg on handwritten digits, export it, and run the exports in Module and without gluonops.

The best epoch is chosen on a tenth of the training images; the held-out images are evaluated once, at the end.
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import gluonops as gops
import mxnet as mx
import numpy as np
from _common import accuracy, batches, load, logits, parser, start, train, write, write_params
from _digit_pictures import draw_predictions
from _values import weight
from gluonops.data import Split
from matplotlib.figure import Figure
from mxnet import gluon

COMPARED = 500   # held-out images that the process without gluonops runs
WITHOUT_GLUONOPS = """
import sys
import numpy
numpy.bool = numpy.bool_    # MXNet 1.9.1 reads this name, which NumPy 1.24 removed
import mxnet as mx
prefix, images, logits = sys.argv[1:]
net = mx.gluon.SymbolBlock.imports(f"{prefix}-symbol.json", ["data"], f"{prefix}-0000.params")
numpy.save(logits, net(mx.nd.array(numpy.load(images))).asnumpy())
assert "gluonops" not in sys.modules
"""


def fit(net, training, args):
    """Train, keep the epoch that is best on a tenth of the images; return one row per epoch."""
    held = np.arange(len(training.labels)) % 10 == 0
    validation, rest = (Split(training.images[part], training.labels[part]) for part in (held, ~held))
    loader = batches(rest, args.batch_size, train=True)
    schedule = mx.lr_scheduler.CosineScheduler(args.epochs * len(loader), base_lr=args.lr)
    trainer = gluon.Trainer(net.collect_params(), "adam", {"lr_scheduler": schedule})
    best, rows = -1, []
    for epoch, loss in train(net, loader, trainer, args.epochs, "training"):
        rows.append({"epoch": epoch, "loss": loss, "validation_accuracy": accuracy(net, validation)})
        if rows[-1]["validation_accuracy"] >= best:   # of equals the later: its learning rate was lower
            best = rows[-1]["validation_accuracy"]
            write_params(args.out / "best.params", net.save_parameters)
    net.load_parameters(str(args.out / "best.params"))
    return rows


def module_accuracy(prefix, split):
    """Load an export as Module users do, and score it."""
    symbol, arguments, states = mx.model.load_checkpoint(prefix, 0)
    labelled = "softmax_label" in symbol.list_arguments()
    images = mx.io.NDArrayIter(*split, batch_size=100)
    module = mx.mod.Module(symbol, label_names=["softmax_label"] if labelled else None)
    module.bind(images.provide_data, images.provide_label if labelled else None, for_training=False)
    module.set_params(arguments, states)
    # Not module.score(): it counts the images that fill up the last batch.
    metric = mx.metric.Accuracy()
    metric.update([mx.nd.array(split.labels)], [module.predict(images)])
    return metric.get()[1]


def difference_without_gluonops(prefix, images, expected):
    """The largest difference to the logits that a fresh process, which never imports gluonops, computes."""
    with tempfile.TemporaryDirectory() as folder:
        given, result = (str(pathlib.Path(folder, name)) for name in ("images.npy", "logits.npy"))
        np.save(given, images)
        subprocess.run([sys.executable, "-W", "ignore", "-c", WITHOUT_GLUONOPS, prefix, given, result], check=True)
        return float(np.abs(np.load(result) - expected).max())


def draw_curve(rows, held_out, path):
    """Loss and validation accuracy by epoch."""
    epochs = [row["epoch"] for row in rows]
    scores = [row["validation_accuracy"] for row in rows]
    best = max(range(len(rows)), key=lambda i: (scores[i], i))
    figure = Figure(figsize=(10, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(epochs, [row["loss"] for row in rows], color="tab:blue", marker="o", markersize=3)
    left.set(title="Training loss", xlabel="epoch", ylabel="cross-entropy", yscale="log")
    right.plot(epochs, scores, color="tab:green", marker="o", markersize=3, label="validation")
    right.plot(epochs[best], scores[best], "o", color="tab:orange", markersize=8, label=f"best: epoch {epochs[best]}")
    right.axhline(held_out, color="grey", linestyle="--", label=f"held out, best epoch: {held_out:.4f}")
    right.set(title="Accuracy", xlabel="epoch", ylabel="share right")
    right.legend(loc="lower right")
    for axes in (left, right):
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid(alpha=0.3)
    write(path, lambda name: figure.savefig(name, format="png", dpi=120))


def main():
    options = parser(__doc__, epochs=20, out="train_digits")
    options.add_argument("--lr", type=weight, default=0.001, help="learning rate of Adam; falls to 0 along a cosine")
    options.add_argument("--mode", choices=("darknet", "DCR", "CRD"), default="darknet", help="of the reorg layer")
    args = options.parse_args()
    began = time.time()
    start(args)
    training, held_out = load(args)
    print(f"{len(training.labels)} digits to train on, {len(held_out.labels)} held out")

    net = gops.models.lenet_reorg(mode=args.mode)
    net.initialize(mx.init.Xavier())
    net.hybridize(static_alloc=True, static_shape=True)
    rows = fit(net, training, args)
    outputs = logits(net, held_out)
    predicted = outputs.argmax(1)
    score = float((predicted == held_out.labels).mean())

    shape = (1, *held_out.images.shape[1:])
    builtin, custom = str(args.out / "digits"), str(args.out / "digits-custom")
    gops.export.symbol(net, builtin, shape, backend="builtin")
    gops.export.symbol(net, custom, shape, backend="custom", head="softmax_output")
    scores = {name: module_accuracy(prefix, held_out) for name, prefix in (("builtin", builtin), ("custom", custom))}
    gap = difference_without_gluonops(builtin, held_out.images[:COMPARED], outputs[:COMPARED])

    draw_curve(rows, score, args.out / "curve.png")
    draw_predictions(held_out, predicted, args.out / "predictions.png")
    results = {"held_out_accuracy": score, "module_accuracy": scores, "difference_without_gluonops": gap,
               "epochs": rows, "seconds": round(time.time() - began, 1),
               "options": {name: str(value) for name, value in vars(args).items()},
               "versions": {"gluonops": gops.__version__, "mxnet": mx.__version__, "numpy": np.__version__}}
    write(args.out / "results.json", lambda name: pathlib.Path(name).write_text(json.dumps(results, indent=2) + "\n"))
    print(f"""
held-out accuracy        {score:.4f} ({int((predicted != held_out.labels).sum())} of {len(predicted)} wrong)
the same through Module  {scores['builtin']:.4f} builtin export, {scores['custom']:.4f} custom export
without gluonops         logits differ by {gap:.1e} at most
time                     {results['seconds']} s

{args.out}/
  best.params                              the net's parameters, for net.load_parameters
  digits-symbol.json, -0000.params         MXNet's own operators only: runs without gluonops
  digits-custom-symbol.json, -0000.params  gluonops nodes and a softmax_output head: Module.fit fine-tunes it
  curve.png, predictions.png               training by epoch; held-out digits, the wrong ones first
  results.json                             every number above and more""")
    if gap > 1e-5 or any(abs(value - score) > 1e-9 for value in scores.values()):
        sys.exit("An export disagrees with the net it was made from; please report this.")


if __name__ == "__main__":
    main()
