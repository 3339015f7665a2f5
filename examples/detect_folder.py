"""Detect objects in the images of a folder: a picture with boxes for each image, and detections.json with all of them.

    python examples/detect_folder.py photographs --exported out/finetune_detector/detector
    python examples/detect_folder.py photographs --cfg yolov2.cfg --weights yolov2.weights --names coco.names

For single images there is the command: gluonops detect out/finetune_detector/detector street.jpg -o found.png
"""
import json
import pathlib

import gluonops as gops
from gluonops import train
from gluonops.data.images import EXTENSIONS, read_image
from tqdm import tqdm


def arguments():
    options = train.Options(__doc__)
    options.add("data", "folder", type=pathlib.Path, help="folder of images, and of folders with images")
    options.add_detector(threshold=0.25)
    options.add("machine", "--ctx", default="cpu:0", help="the device")
    options.add_run(out="out/detect_folder")
    return options.parse()


def main(args):
    device, *_ = train.devices(args.ctx)
    net = train.load_detector(args.exported, args.cfg, args.weights, args.names, args.threshold, device)
    if not args.folder.is_dir():
        raise gops.OpError("examples", f"there is no folder {args.folder}", "Name a folder with images")
    paths = sorted(path for path in args.folder.rglob("*") if path.suffix.lower() in EXTENSIONS)
    found = {}
    for path in tqdm(paths, unit="image", disable=None):
        image, name = read_image(str(path), "detect_folder"), path.relative_to(args.folder)
        detections = net.detect(image, args.threshold)
        found[str(name)] = [one.as_dict() for one in detections]
        picture = net.draw(image, detections)
        target = train.make_folder((args.out / name).parent) / f"{name.name}.png"
        train.write(target, lambda temporary, picture=picture: picture.save(temporary, format="png"))
    train.make_folder(args.out)
    train.write(args.out / "detections.json",
                lambda temporary: pathlib.Path(temporary).write_text(json.dumps(found, indent=2) + "\n"))
    count = sum(map(len, found.values()))
    print(f"There are {count} objects in {len(paths)} images. The pictures and detections.json are in {args.out}.")


if __name__ == "__main__":
    train.run_script(main, arguments, saves=())
