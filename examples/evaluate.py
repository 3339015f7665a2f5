"""Measure a net on a data set. A detector: mAP, COCO's AP, the AP of each class, pictures. A classifier: accuracy.

    gluonops val out/finetune_detector/detector                # on the scenes of digits
    gluonops val out/finetune_detector/detector COCO           # on your images: a folder whose layout tells what it is
    gluonops val out/finetune_classifier/classifier photographs
    gluonops val yolov2-voc.cfg yolov2-voc.weights VOCdevkit --names voc.names

Both write a confusion matrix and results.json. The command runs this script, which takes --net and --data. Copy it to
measure something else.
"""
import gluonops as gops
from gluonops import data, train
from mxnet import gluon

TOP = 5   # a classifier's guesses that count


def make_options():
    options = train.Options(__doc__)
    options.add_net(threshold=0.01)
    options.add_data()
    options.add("data", "--split", choices=("train", "val"), default="val", help="part of the data set")
    options.add("data", "--size", "--imgsz", type=train.positive,
                help="height and width of a detector's input (default: the net's)")
    options.add("data", "--count", type=train.positive, default=200, help="scenes of digits")
    options.add_device()
    options.add("machine", "--batch-size", "--batch", type=train.positive, default=16, help="images of a batch")
    options.add("machine", "--threads", type=train.natural, default=2, help="threads that read images ahead")
    options.add("run", "--json", action="store_true", help="print JSON, for other programs")
    options.add_run(out="out/evaluate")
    return options


def arguments():
    return make_options().parse()


def measure_detector(net, args, device):
    """(numbers, sentences) of a detector."""
    size = (args.size, args.size) if args.size else net.size
    args.dataset = args.dataset or data.recognize(args.data, "detection").name
    if args.dataset == "digits":
        images = data.detection("digits", None, args.split, count=args.count, seed=args.seed, size=max(size))
    else:
        images = data.detection(args.dataset, args.data, args.split, classes=net.classes, **train.data_arguments(args))
    loader = gluon.data.DataLoader(data.Letterboxed(images, size), args.batch_size, num_workers=args.threads,
                                   batchify_fn=data.validation_batch, thread_pool=True)
    metrics = train.evaluate_detector(net.detector, loader, size, device, net.classes)
    summary, per_class = metrics.summary(), metrics.per_class()
    train.draw_confusion(metrics.confusion, [*net.classes, "nothing"], args.out / "confusion.png")
    train.draw_detections(net.detector, images, size, device, args.out / "detections.png")
    said = [f"On {len(images)} images, the mAP at IoU 0.5 is {summary['mAP']:.4f}; VOC 2007's is "
            f"{summary['mAP_voc07']:.4f}.", f"COCO's AP is {summary['AP']:.4f} at IoU 0.50 to 0.95, "
            f"{summary['AP50']:.4f} at 0.5, and {summary['AP75']:.4f} at 0.75.",
            "The classes have these APs at IoU 0.5:",
            *(f"  {name:20s} {value:.4f}" for name, value in per_class.items()),
            *held_out(images), f"detections.png, confusion.png and results.json are in {args.out}."]
    return {"images": len(images), "repairs": images.repairs.summary(), "held_out": images.held_out, **summary,
            "mAP_per_class": per_class, "confusion": metrics.confusion}, said


def measure_classifier(net, args):
    """(numbers, sentences) of a classifier."""
    args.dataset = args.dataset or data.recognize(args.data, "classification").name
    of_classes = {"classes": net.classes} if args.dataset not in train.OF_DIGITS else {"seed": args.seed}
    images = data.classification(args.dataset, args.data, args.split, **of_classes, **train.data_arguments(args))
    guessed = [[guess.class_id for guess in net.classify(image, TOP)] for image, _ in images]
    first = sum(guess[0] == label for guess, label in zip(guessed, images.labels)) / len(images)
    among = sum(label in guess for guess, label in zip(guessed, images.labels)) / len(images)
    confusion = train.confusion_matrix(images.labels, [guess[0] for guess in guessed], len(net.classes))
    train.draw_confusion(confusion, net.classes, args.out / "confusion.png")
    said = [f"On {len(images)} images, the accuracy is {first:.4f}, and {among:.4f} within the first {TOP} guesses.",
            *held_out(images), f"confusion.png and results.json are in {args.out}."]
    return {"images": len(images), "repairs": images.repairs.summary(), "held_out": images.held_out,
            "accuracy": first, f"accuracy_top{TOP}": among, "confusion": confusion}, said


def held_out(images):
    """A sentence about images that a data set does not hold out itself; none about others."""
    if images.held_out is None:
        return []
    return ["The data set has no part for validation, so a fifth of it is held out, as in training."]


def main(args):
    train.make_folder(args.out)
    device, *_ = train.devices(args.device)
    net = train.load_net(args.net, args.weights, args.names, args.threshold, device)
    is_detector = isinstance(net, gops.export.LoadedDetector)
    train.check_packages("detection" if is_detector else "classification")
    measured, said = measure_detector(net, args, device) if is_detector else measure_classifier(net, args)
    path = args.out / "results.json"
    train.write_results({"options": vars(args), **measured}, path)
    print(path.read_text() if args.json else "\n".join(said))


if __name__ == "__main__":
    train.run_script(main, arguments, saves=())
