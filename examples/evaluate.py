"""Evaluate a detector on a data set: mAP, COCO's AP, the AP of each class, a confusion matrix, and pictures.

    python examples/evaluate.py --exported out/finetune_detector/detector
    python examples/evaluate.py --exported out/finetune_detector/detector --dataset coco --root COCO
    python examples/evaluate.py --cfg yolov2-voc.cfg --weights yolov2-voc.weights --names voc.names
        --dataset voc --root VOCdevkit
"""
import gluonops as gops
from gluonops import data, train
from mxnet import gluon


def arguments():
    options = train.Options(__doc__)
    options.add_detector(threshold=0.01)
    options.add_data("detection")
    options.add("data", "--split", choices=("train", "val"), default="val", help="part of the data set")
    options.add("data", "--size", type=train.positive, help="height and width of the input; by default the net's")
    options.add("data", "--count", type=train.positive, default=200, help="scenes of digits")
    options.add("machine", "--ctx", default="cpu:0", help="the device")
    options.add("machine", "--batch-size", type=train.positive, default=16, help="images of a batch")
    options.add("machine", "--threads", type=train.natural, default=2, help="threads that read images ahead")
    options.add_run(out="out/evaluate")
    return options.parse()


def load_images(args, classes, size):
    """The data set, with the classes of the net."""
    if args.dataset == "digits":
        return gops.data.detection("digits", args.root, args.split, count=args.count, seed=args.seed, size=max(size))
    return gops.data.detection(args.dataset, args.root, args.split, classes=classes)


def main(args):
    train.make_folder(args.out)
    device, *_ = train.devices(args.ctx)
    net = train.load_detector(args.exported, args.cfg, args.weights, args.names, args.threshold, device)
    size = (args.size, args.size) if args.size else net.size
    images = load_images(args, net.classes, size)
    loader = gluon.data.DataLoader(data.Letterboxed(images, size), args.batch_size, num_workers=args.threads,
                                   batchify_fn=data.validation_batch, thread_pool=True)
    metrics = train.evaluate_detector(net.detector, loader, size, device, net.classes)
    summary, per_class = metrics.summary(), metrics.per_class()

    train.draw_confusion(metrics.confusion, [*net.classes, "nothing"], args.out / "confusion.png")
    train.draw_detections(net.detector, images, size, device, args.out / "detections.png")
    train.write_results({"options": vars(args), "images": len(images), **summary, "mAP_per_class": per_class,
                         "confusion": metrics.confusion}, args.out / "results.json")
    print(f"On {len(images)} images, the mAP at IoU 0.5 is {summary['mAP']:.4f}; VOC 2007's is "
          f"{summary['mAP_voc07']:.4f}.\nCOCO's AP is {summary['AP']:.4f} at IoU 0.50 to 0.95, "
          f"{summary['AP50']:.4f} at 0.5, and {summary['AP75']:.4f} at 0.75.\nThe classes have these APs at IoU 0.5:")
    for name, value in per_class.items():
        print(f"  {name:20s} {value:.4f}")
    print(f"detections.png, confusion.png and results.json are in {args.out}.")


if __name__ == "__main__":
    train.run_script(main, arguments, saves=())
