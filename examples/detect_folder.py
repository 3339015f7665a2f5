"""Detect objects in the images of a folder, in a loop of your own: what `gluonops detect NET FOLDER` does.

    python examples/detect_folder.py photographs --net out/finetune_detector/detector
    python examples/detect_folder.py photographs --net yolov2.cfg --weights yolov2.weights --names coco.names
"""
import json
import os
import pathlib

import gluonops as gops
from gluonops import train
from tqdm import tqdm


def arguments():
    options = train.Options(__doc__)
    options.add("data", "folder", help="folder of images, and of folders with images")
    options.add_net(threshold=0.25)
    options.add_device()
    options.add_run(out="out/detect_folder")
    return options.parse()


def main(args):
    device, *_ = train.devices(args.device)
    net = train.load_net(args.net, args.weights, args.names, args.threshold, device)
    detections_of = {}
    for path in tqdm(gops.data.image_files(args.folder), unit="image", disable=None):
        name, detections = os.path.relpath(path, args.folder), net.detect(path, args.threshold)
        detections_of[name] = [one.as_dict() for one in detections]
        picture = net.draw(path, detections)
        target = train.make_folder((args.out / name).parent) / f"{os.path.basename(name)}.png"
        train.write(target, lambda temporary, picture=picture: picture.save(temporary, format="png"))
    train.write(train.make_folder(args.out) / "detections.json",
                lambda temporary: pathlib.Path(temporary).write_text(json.dumps(detections_of, indent=2) + "\n"))
    count = sum(map(len, detections_of.values()))
    print(f"There are {count} objects in {len(detections_of)} images. "
          f"The pictures and detections.json are in {args.out}.")


if __name__ == "__main__":
    train.run_script(main, arguments, saves=())
