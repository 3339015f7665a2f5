"""Fine-tune an exported net with Module: cut it at an inner output, put a new head on it, and train that alone.

Without --prefix it first trains a small net on the digits 0-4 and exports it. The new head tells the digits 5-9 apart.
At the end the net is bound to other sizes of images and batches, by reshape and by BucketingModule.
"""
import json
import pathlib
import sys
import time
import warnings

import gluonops as gops
import mxnet as mx
import numpy as np
from _common import accuracy, batches, call, load, parser, start, train, write, write_params
from _digit_pictures import draw_predictions
from _values import positive, weight, whole
from gluonops.data import digits
from matplotlib.figure import Figure
from mxnet import gluon
from mxnet.gluon import nn
from tqdm import tqdm

OLD, NEW = range(5), range(5, 10)
SIZES = (20, 28, 36)   # of images that the net is bound to at the end


def make_start(args):
    """Train a net for images of any size on the digits 0-4, export it, and return (prefix, held-out accuracy)."""
    training, held_out = load(args, classes=OLD)
    net = nn.HybridSequential()
    with net.name_scope():
        for channels, then in ((16, gops.nn.Reorg(2, mode="DCR")), (48, nn.MaxPool2D()), (96, nn.GlobalAvgPool2D())):
            net.add(nn.Conv2D(channels, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"), then)
        net.add(nn.Flatten(), nn.Dense(len(OLD)))
    net.initialize(mx.init.Xavier())
    net.hybridize(static_alloc=True)
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.003})
    for _ in train(net, batches(training, args.batch_size, train=True), trainer, args.start_epochs, "digits 0-4"):
        pass
    gops.export.symbol(net, args.out / "start", (1, *training.images.shape[1:]))
    return str(args.out / "start"), accuracy(net, held_out)


def refuse(what, remedy):
    sys.exit(str(gops.OpError("examples", what, remedy)))


def checkpoint(prefix, epoch):
    """(symbol, arguments, auxiliary states) of files."""
    paths = f"{prefix}-symbol.json", f"{prefix}-{epoch:04d}.params"
    for path in paths:
        if not pathlib.Path(path).is_file():
            refuse(f"there is no file {path}", "Let --prefix be the path of an exported net without -symbol.json")
    try:
        return mx.model.load_checkpoint(prefix, epoch)
    except (mx.MXNetError, AttributeError, ValueError) as error:
        refuse(f"{' and '.join(paths)} cannot be read as an exported net ({type(error).__name__})", "Export it anew")


def cut(symbol, layer):
    """The inner output ``layer``; by default the input of the last fully connected layer."""
    internals = symbol.get_internals()
    inner = [name for name in internals.list_outputs() if name not in symbol.list_inputs()]
    if layer is None:
        dense = [node for node in json.loads(symbol.tojson())["nodes"] if node["op"] == "FullyConnected"]
        if not dense:
            refuse("the net has no fully connected layer to replace", "Choose where to cut it with --layer")
        return internals[f"{dense[-1]['name']}_output"].get_children()[0]
    if layer not in inner:
        refuse(f"the net has no output {layer}; expected --layer to be one of {', '.join(inner)}", "Choose one")
    return internals[layer]


def check_features(features, arguments, states, prefix):
    """Raise an error if parameters are missing, which MXNet would initialize, or if the input shape does not fit."""
    missing = sorted({*features.list_inputs()} - {"data", *arguments, *states})
    if missing:
        refuse(f"{prefix} has no parameter {missing[0]}; expected all of the net's, and an input called data",
               "Name the symbol and the parameters of one export")
    if not fits(features, (1, 1, 28, 28), {name: value.shape for name, value in arguments.items()}):
        refuse(f"{prefix} takes no images of (1, 28, 28), as the digits are", "Name a net for such")


def with_statistics_kept(symbol):
    """The symbol with batch norms that neither use nor update a batch's statistics: what is frozen must not move, and
    fixed_param_names says nothing of moving means and variances."""
    graph = json.loads(symbol.tojson())
    for node in graph["nodes"]:
        if node["op"] == "BatchNorm":
            node.setdefault("attrs", {})["use_global_stats"] = "True"
    return mx.sym.load_json(json.dumps(graph))


def new_net(features, classes):
    """A head for ``classes`` on the features; the label is the variable softmax_label."""
    scores = mx.sym.FullyConnected(mx.sym.flatten(features), num_hidden=classes, name="new_head")
    return gops.ops.softmax_output(scores, name="softmax")


def fit(net, arguments, states, split, args):
    """Train what is not in ``arguments``, keeping the newest epoch in files; returns (module, accuracy by epoch)."""
    images = mx.io.NDArrayIter(*split, batch_size=args.batch_size, shuffle=True)
    fixed = [name for name in net.list_arguments() if name in arguments]
    module = mx.mod.Module(net, fixed_param_names=fixed)
    metric, rows = mx.metric.Accuracy(), []
    write(args.out / "finetuned-symbol.json", net.save)
    with tqdm(total=args.epochs, desc="digits 5-9", unit="epoch") as bar:
        def epoch_end(epoch, symbol, *_):
            rows.append(metric.get()[1])
            write_params(args.out / "finetuned-0000.params", module.save_params)
            bar.set_postfix(accuracy=f"{rows[-1]:.4f}")
            bar.update()

        module.fit(images, eval_metric=metric, num_epoch=args.epochs, arg_params=arguments, aux_params=states,
                   allow_missing=True, initializer=mx.init.Xavier(), optimizer="adam",
                   optimizer_params={"learning_rate": args.lr}, epoch_end_callback=epoch_end)
    return module, rows


def moved(module, arguments, states):
    """Names of the frozen arguments and states that have changed."""
    now = {name: value for values in module.get_params() for name, value in values.items()}
    return sorted(name for name, value in {**arguments, **states}.items()
                  if name in now and not np.array_equal(now[name].asnumpy(), value.asnumpy()))


def bound(net, shape, parameters):
    """A module for inference on data of this shape alone."""
    module = mx.mod.Module(net, label_names=None)
    module.bind([("data", shape)], for_training=False)
    module.set_params(*parameters)
    return module


def outputs(module, images):
    batch = mx.io.DataBatch([mx.nd.array(images)], provide_data=[("data", images.shape)], bucket_key=images.shape)
    module.forward(batch, is_train=False)
    return module.get_outputs()[0].asnumpy()


def rebind(net, parameters, args):
    """Run one net on several sizes of images and batches; a row for each, with the accuracy and the largest difference
    of ``reshape`` and of BucketingModule to a module that was bound to that shape alone.
    """
    known = {name: value.shape for name, value in parameters[0].items()}
    takes = [size for size in SIZES if fits(net, (1, 1, size, size), known)]
    splits = {size: digits(getattr(args, "data_dir", None), size, args.seed, classes=NEW)[1] for size in takes}
    largest = splits[takes[-1]].images.shape   # the others share its memory
    reshaped = bound(net, largest, parameters)
    buckets = mx.mod.BucketingModule(lambda shape: (net, ["data"], None), default_bucket_key=largest)
    buckets.bind([("data", largest)], for_training=False)
    buckets.set_params(*parameters)
    rows = []
    for size, split in splits.items():
        for count in (len(split.labels), 7):
            images = split.images[:count]
            expected = outputs(bound(net, images.shape, parameters), images)
            reshaped.reshape([("data", images.shape)])
            differences = [float(np.abs(outputs(module, images) - expected).max()) for module in (reshaped, buckets)]
            rows.append({"size": size, "batch": len(images), "reshape": differences[0], "buckets": differences[1],
                         "accuracy": float((expected.argmax(1) == split.labels[:count]).mean())})
    return rows


def fits(net, shape, known):
    """Whether the parameters have the shapes that data of this shape needs."""
    try:
        return net.infer_shape(data=shape, **{name: known[name] for name in net.list_arguments() if name in known})[1]
    except mx.MXNetError:
        return False


def draw_curve(rows, held_out, path):
    """Training accuracy by epoch, and the held-out accuracy at the end."""
    figure = Figure(figsize=(5.5, 3.8), layout="constrained")
    axes = figure.subplots()
    axes.plot(range(1, len(rows) + 1), rows, marker="o", markersize=3, label="training")
    axes.axhline(held_out, color="grey", linestyle="--", label=f"held out, at the end: {held_out:.4f}")
    axes.set(title="Digits 5-9, a new head on frozen layers", xlabel="epoch", ylabel="share right")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    write(path, lambda name: figure.savefig(name, format="png", dpi=120))


def arguments():
    options = parser(__doc__, epochs=15, out="module_finetune")
    options.add_argument("--prefix", help="an exported net for images (1, 28, 28), without -symbol.json (default: one "
                         "that is trained here)")
    options.add_argument("--prefix-epoch", type=whole, default=0, help="number of its .params file")
    options.add_argument("--layer", help="the inner output to cut at (default: the last fully connected layer's input)")
    options.add_argument("--lr", type=weight, default=0.01, help="learning rate of Adam")
    options.add_argument("--start-epochs", type=positive, default=6, help="epochs of the net that is trained here")
    return options.parse_args()


def main(args):
    start(args)
    began, results = time.time(), {}
    if args.prefix is None:
        args.prefix, results["start_accuracy"] = make_start(args)
    symbol, arguments, states = checkpoint(args.prefix, args.prefix_epoch)
    features = with_statistics_kept(cut(symbol, args.layer))
    check_features(features, arguments, states, args.prefix)
    net = new_net(features, len(NEW))

    training, held_out = load(args, classes=NEW)
    module, rows = fit(net, arguments, states, training, args)
    frozen = sorted(set(net.list_arguments()) & set(arguments))
    results.update(layer=features.list_outputs()[0], frozen=frozen, moved=moved(module, arguments, states),
                   accuracy_by_epoch=rows)

    images = mx.io.NDArrayIter(*held_out, batch_size=args.batch_size)
    results["score"] = module.score(images, "acc")[0][1]
    predicted = module.predict(images).asnumpy().argmax(1)   # without the images that fill up the last batch
    results["held_out_accuracy"] = float((predicted == held_out.labels).mean())

    prefix = str(args.out / "finetuned")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gops.export.ExportWarning)   # that the loss head is removed
        gops.export.rewrite(prefix, str(args.out / "deploy"), "builtin", inference=True)
    deployed, *parameters = mx.model.load_checkpoint(str(args.out / "deploy"), 0)
    results["shapes"] = rebind(deployed, parameters, args)

    results["seconds"] = round(time.time() - began, 1)
    draw_curve(rows, results["held_out_accuracy"], args.out / "curve.png")
    draw_predictions(held_out, predicted, args.out / "predictions.png", NEW)
    write(args.out / "results.json", lambda name: pathlib.Path(name).write_text(json.dumps(results, indent=2) + "\n"))
    shapes = "\n".join(f"  {row['size']} x {row['size']}, batch {row['batch']:3d}   accuracy {row['accuracy']:.4f}   "
                       f"reshape {row['reshape']:.0e}, buckets {row['buckets']:.0e}" for row in results["shapes"])
    print(f"""
cut at   {results['layer']}: {len(frozen)} arguments frozen, {len(results['moved'])} of them or their states have moved
score    {results['score']:.4f} (Module counts the images that fill up the last batch)
predict  {results['held_out_accuracy']:.4f} of {len(held_out.labels)} held-out digits right; chance is {1 / len(NEW)}
bound to other shapes, and the largest difference to a module bound to that shape alone
{shapes}

{args.out}/
  finetuned-symbol.json, -0000.params  with the loss head, for Module.fit
  deploy-symbol.json, -0000.params     for inference, with MXNet's own operators only
  curve.png, predictions.png, results.json""")
    if results["moved"] or any(max(row["reshape"], row["buckets"]) > 1e-5 for row in results["shapes"]):
        sys.exit("Something frozen has moved, or a shape changes the outputs; please report this.")


if __name__ == "__main__":
    call(main, arguments, "finetuned-0000.params", ", of the newest epoch")
