"""Reorg and SoftmaxCELoss in a net of your own: hybridize, train a little, export, reload, compare."""
import gluonops as gops
import mxnet as mx
from _common import batches, load, logits, parser, start
from mxnet import autograd, gluon
from mxnet.gluon import nn
from tqdm import tqdm

args = parser(__doc__, epochs=3, out="drop_in").parse_args()
start(args)
training, held_out = load(args)

net = nn.HybridSequential()
net.add(nn.Conv2D(16, 3, padding=1, activation="relu"), gops.nn.Reorg(2),
        nn.Conv2D(32, 3, padding=1, activation="relu"), nn.MaxPool2D(), nn.Dense(10))
net.initialize(mx.init.Xavier())
net.hybridize()

loss = gops.loss.SoftmaxCELoss()
trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.002})
for _ in tqdm(range(args.epochs), unit="epoch"):
    for images, labels in batches(training, args.batch_size, train=True):
        with autograd.record():
            losses = loss(net(images), labels)
        losses.backward()
        trainer.step(len(images))

symbol, parameters = gops.export.symbol(net, args.out / "drop_in", (1, *training.images.shape[1:]))
reloaded = gluon.SymbolBlock.imports(symbol, ["data"], parameters)
ours, theirs = logits(net, held_out), logits(reloaded, held_out)
print(f"held-out accuracy {(ours.argmax(1) == held_out.labels).mean():.4f}; reloaded, the logits differ by "
      f"{abs(ours - theirs).max():.1e} at most\n{symbol}\n{parameters}")
