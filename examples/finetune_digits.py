"""Pretrain lenet_reorg on the digits 0-4, then fine-tune it on 5-9: first a new head alone, then the whole net."""
import gluonops as gops
import mxnet as mx
from gluonops import train
from mxnet import gluon


def arguments():
    options = train.Options(__doc__)
    options.add_digits(epochs=8)
    options.add("training", "--lr", type=train.non_negative, default=0.001,
                help="learning rate of Adam; falls to 0 along a cosine")
    options.add("training", "--backbone-lr", type=train.non_negative, default=0.2,
                help="learning rate of the released backbone, as a share of --lr")
    options.add_run(out="out/finetune_digits")
    return options.parse()


def fit(net, parameters, split, args, title):
    """Train these parameters of the net."""
    loader = train.split_batches(split, args.batch_size, train=True)
    schedule = train.schedule("cosine", args.lr, args.epochs * len(loader))
    trainer = train.make_trainer(parameters, "adam", schedule)
    for _ in train.fit_classifier(net, loader, trainer, args.epochs, title):
        pass


def main(args):
    train.set_seeds(args.seed)
    train.make_folder(args.out)
    old, old_held_out = gops.data.digits(args.data_dir, seed=args.seed, classes=range(5))
    new, new_held_out = gops.data.digits(args.data_dir, seed=args.seed, classes=range(5, 10))
    results = {}

    def report(stage, split):
        results[stage] = train.accuracy(train.predict_logits(net, split), split.labels)
        train.save_tensors(args.out / f"{stage}.params", net.save_parameters)

    net = gops.models.lenet_reorg(classes=5)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    fit(net, net.collect_params(), old, args, "digits 0-4")
    report("pretrained", old_held_out)

    # A new head, and no gradients for what is below it.
    with net.name_scope():
        net.output = gluon.nn.Dense(5, in_units=500)
    net.output.initialize(mx.init.Xavier())
    train.freeze(net.features)
    net.hybridize()   # trace again: the head is another, and so are the gradients
    results["new_head"] = train.accuracy(train.predict_logits(net, new_held_out), new_held_out.labels)
    fit(net, net.output.collect_params(), new, args, "digits 5-9, head")
    report("frozen", new_held_out)

    train.freeze(net.features, frozen=False)
    net.features.collect_params().setattr("lr_mult", args.backbone_lr)
    net.hybridize()
    fit(net, net.collect_params(), new, args, "digits 5-9, all")
    report("released", new_held_out)

    metadata = {"classes": list("56789"), "preprocessing": {"colours": "grey"}}   # gops.export.load reads it.
    gops.export.symbol(net, args.out / "digits-5-9", (1, *new.images.shape[1:]), metadata=metadata)
    train.write_results({"options": vars(args), **results}, args.out / "results.json")
    print(f"""
Share of the held-out digits that are classified correctly:
  digits 0-4, pretrained         {results['pretrained']:.4f}
  digits 5-9, new head           {results['new_head']:.4f}
  digits 5-9, backbone frozen    {results['frozen']:.4f}
  digits 5-9, backbone released  {results['released']:.4f}
The parameters of the three stages, the exported net and results.json are in {args.out}.""")


if __name__ == "__main__":
    train.run_script(main, arguments, ("pretrained.params",), "It holds the net that knows the digits 0-4.")
