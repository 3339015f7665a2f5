"""Train an MLP of Symbols with Module, as MXNet's tutorials do, with gluonops_softmax_output as its loss."""
import logging
import shutil

import gluonops as gops  # noqa: F401  (registers gluonops_softmax_output)
import mxnet as mx
from _common import load, parser, start, write, write_params
from _values import weight
from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm


def mlp():
    """128, 64, 10 units; the label is the variable softmax_label."""
    net = mx.sym.flatten(mx.sym.Variable("data"))
    for i, units in enumerate((128, 64), 1):
        net = mx.sym.FullyConnected(net, num_hidden=units, name=f"fc{i}")
        net = mx.sym.Activation(net, act_type="relu", name=f"relu{i}")
    net = mx.sym.FullyConnected(net, num_hidden=10, name="fc3")
    return mx.sym.Custom(data=net, op_type="gluonops_softmax_output", name="softmax")


def draw(net, shape, folder):
    """Print the layers; draw them where graphviz is present. Returns the drawing's path, or why there is none."""
    mx.viz.print_summary(net, shape={"data": shape})
    if shutil.which("dot") is None:
        return "skipped: graphviz's program `dot` is not on the PATH"
    try:
        graph = mx.viz.plot_network(net, title="mlp", shape={"data": shape})
    except ImportError:
        return "skipped: the Python package graphviz is not installed"
    graph.format = "png"
    return graph.render("mlp", str(folder), cleanup=True)   # folder/mlp.png


def main():
    options = parser(__doc__, epochs=20, out="module_mlp")
    options.add_argument("--lr", type=weight, default=0.02, help="learning rate of SGD with momentum 0.9")
    args = options.parse_args()
    start(args)
    training, held_out = load(args)
    net = mlp()
    drawing = draw(net, (args.batch_size, *training.images.shape[1:]), args.out)

    train_iter = mx.io.NDArrayIter(*training, batch_size=args.batch_size, shuffle=True)
    test_iter = mx.io.NDArrayIter(*held_out, batch_size=args.batch_size)
    module = mx.mod.Module(net)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    with tqdm(total=args.epochs, unit="epoch") as bar, logging_redirect_tqdm():
        module.fit(train_iter, eval_data=test_iter, num_epoch=args.epochs, initializer=mx.init.Xavier(),
                   optimizer="sgd", optimizer_params={"learning_rate": args.lr, "momentum": 0.9},
                   batch_end_callback=mx.callback.Speedometer(args.batch_size, frequent=20),
                   epoch_end_callback=lambda *_: bar.update())

    write(args.out / "mlp-symbol.json", net.save)
    write_params(args.out / f"mlp-{args.epochs:04d}.params", module.save_params)
    probabilities = module.predict(test_iter).asnumpy()
    exact = float((probabilities.argmax(1) == held_out.labels).mean())
    print(f"""
score    {module.score(test_iter, 'acc')[0][1]:.4f} (Module counts the images that fill up the last batch)
predict  {exact:.4f} of {len(held_out.labels)} held-out digits right

{args.out}/
  mlp-symbol.json, mlp-{args.epochs:04d}.params  mx.model.load_checkpoint("{args.out / 'mlp'}", {args.epochs})
plot_network  {drawing}""")


if __name__ == "__main__":
    main()
