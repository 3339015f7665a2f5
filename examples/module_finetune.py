"""Fine-tune an exported net with Module: cut it at an inner output, put a new head on it, and train that alone.

Without --prefix it first trains a small net on the digits 0-4 and exports it. The new head tells the digits 5-9 apart.
At the end the net is bound to other sizes of images and batches, by reshape and by BucketingModule.
"""
import time
import warnings

import gluonops as gops
import mxnet as mx
import numpy as np
from gluonops import train
from gluonops.data import digits
from mxnet import gluon
from mxnet.gluon import nn

OLD, NEW = range(5), range(5, 10)
SIZES = (20, 28, 36)   # At the end, the net is bound to images of these sizes.


def arguments():
    options = train.Options(__doc__)
    options.add("net", "--prefix", help="an exported net for images (1, 28, 28), without -symbol.json; by default one "
                "that is trained here")
    options.add("net", "--prefix-epoch", type=train.natural, default=0, help="number of the .params file")
    options.add("net", "--layer", help="the inner output to cut at; by default the last dense layer's input")
    options.add_digits(epochs=15)
    options.add("training", "--lr", type=train.non_negative, default=0.01, help="learning rate of Adam")
    options.add("training", "--start-epochs", type=train.positive, default=6,
                help="epochs of training for the net without --prefix")
    options.add_run(out="out/module_finetune")
    return options.parse()


def make_start(args):
    """Train a net for images of any size on the digits 0-4, export it, and return (prefix, held-out accuracy)."""
    training, held_out = digits(args.data_dir, seed=args.seed, classes=OLD)
    net = nn.HybridSequential()
    with net.name_scope():
        for channels, then in ((16, gops.nn.Reorg(2, mode="DCR")), (48, nn.MaxPool2D()), (96, nn.GlobalAvgPool2D())):
            net.add(nn.Conv2D(channels, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"), then)
        net.add(nn.Flatten(), nn.Dense(len(OLD)))
    net.initialize(mx.init.Xavier())
    net.hybridize(static_alloc=True)
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.003})
    loader = train.split_batches(training, args.batch_size, train=True)
    for _ in train.fit_classifier(net, loader, trainer, args.start_epochs, "digits 0-4"):
        pass
    gops.export.symbol(net, args.out / "start", (1, *training.images.shape[1:]))
    return str(args.out / "start"), train.accuracy(train.predict_logits(net, held_out), held_out.labels)


def frozen_features(symbol, parameters, prefix, layer):
    """The net up to the layer, with batch norms that keep their statistics; its parameters are all there and fit."""
    features = train.keep_statistics(train.cut_symbol(symbol, layer))
    missing = sorted({*features.list_inputs()} - {"data", *parameters})
    if missing:   # Module would initialize them
        raise gops.OpError("examples", f"{prefix} has no parameter {missing[0]}; expected all of the net's, and an "
                           "input called data", "Name the symbol and the parameters of one export")
    if not train.fits(features, (1, 1, 28, 28), parameters):
        raise gops.OpError("examples", f"{prefix} does not take images of (1, 28, 28), as the digits are",
                           "Name a net for such")
    return features


def fit(net, arguments, states, split, args):
    """Train what is not in ``arguments``, keeping the newest epoch in files; returns (module, a row per epoch)."""
    images = mx.io.NDArrayIter(*split, batch_size=args.batch_size, shuffle=True)
    module = mx.mod.Module(net, fixed_param_names=[name for name in net.list_arguments() if name in arguments])
    metric, rows, table = mx.metric.Accuracy(), [], train.EpochTable(args.epochs)
    train.write(args.out / "finetuned-symbol.json", net.save)

    def epoch_end(epoch, symbol, *_):
        rows.append({"epoch": epoch + 1, "accuracy": metric.get()[1]})
        train.save_tensors(args.out / "finetuned-0000.params", module.save_params)
        print(table.row(rows[-1]))

    module.fit(images, eval_metric=metric, num_epoch=args.epochs, arg_params=arguments, aux_params=states,
               allow_missing=True, initializer=mx.init.Xavier(), optimizer="adam",
               optimizer_params={"learning_rate": args.lr}, epoch_end_callback=epoch_end)
    return module, rows


def outputs(module, images):
    batch = mx.io.DataBatch([mx.nd.array(images)], provide_data=[("data", images.shape)], bucket_key=images.shape)
    module.forward(batch, is_train=False)
    return module.get_outputs()[0].asnumpy()


def bound(net, shape, parameters):
    """A module for inference on data of this shape alone."""
    module = mx.mod.Module(net, label_names=None)
    module.bind([("data", shape)], for_training=False)
    module.set_params(*parameters)
    return module


def rebind(net, parameters, args):
    """Run one net on several sizes of images and batches; a row for each, with the accuracy and the largest difference
    of ``reshape`` and of BucketingModule to a module that was bound to that shape alone.
    """
    takes = [size for size in SIZES if train.fits(net, (1, 1, size, size), parameters[0])]
    splits = {size: digits(args.data_dir, size, args.seed, classes=NEW)[1] for size in takes}
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
                         "accuracy": train.accuracy(expected, split.labels[:count])})
    return rows


def main(args):
    began, results = time.time(), {}
    train.set_seeds(args.seed)
    train.make_folder(args.out)
    if args.prefix is None:
        args.prefix, results["start_accuracy"] = make_start(args)
    symbol, arguments, states = train.load_module(args.prefix, args.prefix_epoch)
    features = frozen_features(symbol, {**arguments, **states}, args.prefix, args.layer)
    scores = mx.sym.FullyConnected(mx.sym.flatten(features), num_hidden=len(NEW), name="new_head")
    net = gops.ops.softmax_output(scores, name="softmax")   # the label is the variable softmax_label

    training, held_out = digits(args.data_dir, seed=args.seed, classes=NEW)
    module, rows = fit(net, arguments, states, training, args)
    after = {name: value for values in module.get_params() for name, value in values.items()}
    moved = [name for name, value in {**arguments, **states}.items()
             if name in after and (after[name].asnumpy() != value.asnumpy()).any()]
    predicted = module.predict(mx.io.NDArrayIter(*held_out, batch_size=args.batch_size)).asnumpy()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gops.export.ExportWarning)   # It warns that the loss head is removed.
        gops.export.rewrite(str(args.out / "finetuned"), str(args.out / "deploy"), "builtin", inference=True)
    deployed, *parameters = mx.model.load_checkpoint(str(args.out / "deploy"), 0)
    shapes = rebind(deployed, parameters, args)

    results.update(options=vars(args), layer=features.list_outputs()[0], moved=moved, epochs=rows, shapes=shapes,
                   frozen=sorted({*net.list_arguments()} & {*arguments}),
                   held_out_accuracy=train.accuracy(predicted, held_out.labels), seconds=round(time.time() - began, 1))
    names = [str(digit) for digit in NEW]
    train.draw_curves(rows, args.out / "curve.png", [], ["accuracy"])
    train.draw_predictions(*held_out, predicted.argmax(1), names, args.out / "predictions.png")
    train.write_results(results, args.out / "results.json")
    largest = max(max(row["reshape"], row["buckets"]) for row in shapes)
    print(f"""
The net was cut at {results['layer']}. {len(results['frozen'])} arguments were frozen; {len(moved)} of them have moved.
{results['held_out_accuracy']:.4f} of {len(held_out.labels)} held-out digits are classified correctly; chance is 0.2.
Bound to {len(shapes)} other shapes, the outputs differ by {largest:.0e} at most.
deploy-symbol.json in {args.out} is for inference, finetuned-symbol.json for Module.fit.""")
    if moved or largest > 1e-5:
        raise SystemExit("Something frozen has moved, or a shape changes the outputs; please report this.")


if __name__ == "__main__":
    train.run_script(main, arguments, ("finetuned-0000.params",), "It is of the newest epoch.")
