"""Train an MLP of Symbols with Module, as MXNet's tutorials do, with gluonops_softmax_output as its loss."""
import logging
import shutil

import gluonops as gops
import mxnet as mx
from gluonops import train


def arguments():
    options = train.Options(__doc__)
    options.add_digits(epochs=20)
    options.add("training", "--lr", type=train.non_negative, default=0.02,
                help="learning rate of SGD with momentum 0.9")
    options.add_run(out="out/module_mlp")
    return options.parse()


def mlp():
    """128, 64, 10 units; the label is the variable softmax_label."""
    net = mx.sym.flatten(mx.sym.Variable("data"))
    for i, units in enumerate((128, 64), 1):
        net = mx.sym.FullyConnected(net, num_hidden=units, name=f"fc{i}")
        net = mx.sym.Activation(net, act_type="relu", name=f"relu{i}")
    net = mx.sym.FullyConnected(net, num_hidden=10, name="fc3")
    return mx.sym.Custom(data=net, op_type="gluonops_softmax_output", name="softmax")


def draw(net, shape, folder):
    """Print the layers; draw them where graphviz is present. Returns a sentence about the drawing."""
    mx.viz.print_summary(net, shape={"data": shape})
    if shutil.which("dot") is None:
        return "plot_network was skipped: graphviz's program `dot` is not on the PATH."
    try:
        graph = mx.viz.plot_network(net, title="mlp", shape={"data": shape})
    except ImportError:
        return "plot_network was skipped: the Python package graphviz is not installed."
    graph.format = "png"
    return f"plot_network has drawn the net into {graph.render('mlp', str(folder), cleanup=True)}."


def main(args):
    train.set_seeds(args.seed)
    train.make_folder(args.out)
    training, held_out = gops.data.digits(args.data_dir, seed=args.seed)
    net = mlp()
    drawing = draw(net, (args.batch_size, *training.images.shape[1:]), args.out)

    train_iter = mx.io.NDArrayIter(*training, batch_size=args.batch_size, shuffle=True)
    test_iter = mx.io.NDArrayIter(*held_out, batch_size=args.batch_size)
    module = mx.mod.Module(net)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    module.fit(train_iter, eval_data=test_iter, num_epoch=args.epochs, initializer=mx.init.Xavier(), optimizer="sgd",
               optimizer_params={"learning_rate": args.lr, "momentum": 0.9},
               batch_end_callback=mx.callback.Speedometer(args.batch_size, frequent=20))

    train.write(args.out / "mlp-symbol.json", net.save)
    train.save_tensors(args.out / f"mlp-{args.epochs:04d}.params", module.save_params)
    accuracy = train.accuracy(module.predict(test_iter).asnumpy(), held_out.labels)
    print(f"""
The net classifies {accuracy:.4f} of {len(held_out.labels)} held-out digits correctly. module.score() says \
{module.score(test_iter, 'acc')[0][1]:.4f}: it counts the images that fill up the last batch.
Load it with mx.model.load_checkpoint("{args.out / 'mlp'}", {args.epochs}).
{drawing}""")


if __name__ == "__main__":
    train.run_script(main, arguments, saves=())
