"""Reorg and SoftmaxCELoss in a net of your own: hybridize, train a little, export, reload, compare."""
import gluonops as gops
import mxnet as mx
from gluonops import train
from mxnet import autograd, gluon
from mxnet.gluon import nn


def arguments():
    options = train.Options(__doc__)
    options.add_digits(epochs=3)
    options.add_run(out="out/drop_in")
    return options.parse()


def main(args):
    train.set_seeds(args.seed)
    training, held_out = gops.data.digits(args.data_dir, seed=args.seed)

    net = nn.HybridSequential()
    net.add(nn.Conv2D(16, 3, padding=1, activation="relu"), gops.nn.Reorg(2),
            nn.Conv2D(32, 3, padding=1, activation="relu"), nn.MaxPool2D(), nn.Dense(10))
    net.initialize(mx.init.Xavier())
    net.hybridize()

    loss = gops.loss.SoftmaxCELoss()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.002})
    for _ in range(args.epochs):
        for images, labels in train.split_batches(training, args.batch_size, train=True):
            with autograd.record():
                losses = loss(net(images), labels)
            losses.backward()
            trainer.step(len(images))

    prefix = train.make_folder(args.out) / "drop_in"
    symbol, parameters = gops.export.symbol(net, prefix, (1, *training.images.shape[1:]))
    reloaded = gluon.SymbolBlock.imports(symbol, ["data"], parameters)
    ours, theirs = train.predict_logits(net, held_out), train.predict_logits(reloaded, held_out)
    print(f"The net classifies {train.accuracy(ours, held_out.labels):.4f} of the held-out digits correctly.\n"
          f"The logits of the reloaded net differ by {abs(ours - theirs).max():.1e} at most.\n"
          f"It is in {symbol} and {parameters}.")


if __name__ == "__main__":
    train.run_script(main, arguments, saves=())
