"""Pretrain lenet_reorg on the digits 0-4, then fine-tune it on 5-9: first a new head alone, then the whole net."""
import json
import pathlib

import gluonops as gops
import mxnet as mx
from _common import accuracy, batches, load, parser, start, train, write, write_params
from _values import weight
from mxnet import gluon


def fit(net, parameters, split, args, lr, title):
    """Train these parameters of the net."""
    loader = batches(split, args.batch_size, train=True)
    schedule = mx.lr_scheduler.CosineScheduler(args.epochs * len(loader), base_lr=lr)
    trainer = gluon.Trainer(parameters, "adam", {"lr_scheduler": schedule})
    for _ in train(net, loader, trainer, args.epochs, title):
        pass


def main():
    options = parser(__doc__, epochs=8, out="finetune_digits")
    options.add_argument("--lr", type=weight, default=0.001, help="learning rate of Adam; falls to 0 along a cosine")
    options.add_argument("--backbone-lr", type=weight, default=0.2, help="the released backbone's, as a share of --lr")
    args = options.parse_args()
    start(args)
    old, old_held_out = load(args, classes=range(5))
    new, new_held_out = load(args, classes=range(5, 10))
    results = {}

    def report(stage, split):
        results[stage] = accuracy(net, split)
        write_params(args.out / f"{stage}.params", net.save_parameters)

    net = gops.models.lenet_reorg(classes=5)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    fit(net, net.collect_params(), old, args, args.lr, "digits 0-4")
    report("pretrained", old_held_out)

    # A new head, and no gradients for what is below it.
    with net.name_scope():
        net.output = gluon.nn.Dense(5, in_units=500)
    net.output.initialize(mx.init.Xavier())
    backbone = net.features.collect_params()
    backbone.setattr("grad_req", "null")
    net.hybridize()   # trace again: the head is another, and so are the gradients
    results["new_head"] = accuracy(net, new_held_out)
    fit(net, net.output.collect_params(), new, args, args.lr, "digits 5-9, head")
    report("frozen", new_held_out)

    backbone.setattr("grad_req", "write")
    backbone.setattr("lr_mult", args.backbone_lr)
    net.hybridize()
    fit(net, net.collect_params(), new, args, args.lr, "digits 5-9, all")
    report("released", new_held_out)

    gops.export.symbol(net, args.out / "digits-5-9", (1, *new.images.shape[1:]))
    write(args.out / "results.json", lambda name: pathlib.Path(name).write_text(json.dumps(results, indent=2) + "\n"))
    print(f"""
held-out accuracy
  digits 0-4, pretrained         {results['pretrained']:.4f}
  digits 5-9, new head           {results['new_head']:.4f}
  digits 5-9, backbone frozen    {results['frozen']:.4f}
  digits 5-9, backbone released  {results['released']:.4f}

{args.out}/
  pretrained.params, frozen.params, released.params   for net.load_parameters
  digits-5-9-symbol.json, -0000.params                the fine-tuned net, runs without gluonops
  results.json""")


if __name__ == "__main__":
    main()
