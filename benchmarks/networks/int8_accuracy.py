"""What 8-bit layers cost in accuracy: mAP on scenes of digits, and accuracy on digits. Exits with 1 if it is too much.

    python examples/finetune_detector.py                  # ten minutes on two cores
    python examples/train_digits.py
    python -m benchmarks.networks.int8_accuracy
    python -m benchmarks.networks.int8_accuracy --errors   # what an error of the outputs costs the classifier
"""
from __future__ import annotations

import argparse
import pathlib
import sys
import tempfile
from collections.abc import Sequence

import gluonops as gops
import mxnet as mx
import numpy as np
from gluonops import data, train
from gluonops.export import ExportedModel
from gluonops.export.quantization.running import Runner
from mxnet import gluon

MOST_LOST = {"mAP": 0.01, "accuracy": 0.005}
CALIBRATION = 64   # images of the training part
ERRORS, DRAWS = (0.01, 0.03, 0.1, 0.3), 200   # of the outputs; each is drawn so often


def detector_scores(prefix: str, count: int, folder: str, vnni_only: bool) -> gops.export.Quantized:
    """Quantize an exported detector, with its mAP on held-out scenes as the score."""
    model = ExportedModel.from_files(prefix)
    size = model.inputs["data"][-1]
    training = gops.data.detection("digits", None, "train", count=CALIBRATION, size=size)
    held_out = gops.data.detection("digits", None, "val", count=count, size=size)
    loader = gluon.data.DataLoader(data.Letterboxed(held_out, size), 16, batchify_fn=data.validation_batch)
    images = np.stack([data.letterbox(image, size, size) for image, _ in training])

    def mean_average_precision(predict):
        def detector(batch):
            return [mx.nd.array(output) for output in predict(batch)]
        metrics = train.evaluate_detector(detector, loader, (size, size), mx.cpu(), model.metadata["classes"])
        return metrics.summary()["mAP"]

    return gops.export.quantize(prefix, pathlib.Path(folder, "detector"), images,
                                onnx=pathlib.Path(folder, "detector.onnx"), score=mean_average_precision,
                                vnni_only=vnni_only)


def classifier_scores(prefix: str, folder: str, vnni_only: bool) -> gops.export.Quantized:
    """Quantize an exported classifier, with its accuracy on held-out digits as the score."""
    training, held_out = gops.data.digits()
    return gops.export.quantize(prefix, pathlib.Path(folder, "classifier"), training.images[:CALIBRATION],
                                onnx=pathlib.Path(folder, "classifier.onnx"),
                                score=lambda predict: train.accuracy(predict(held_out.images), held_out.labels),
                                vnni_only=vnni_only)


def costs_of_errors(prefix: str) -> None:
    """Print how many images of held-out digits change their class, and what that costs, where outputs have an error.

    The error is random: normal numbers whose root mean square, divided by that of the outputs, is the error.
    """
    _, held_out = gops.data.digits()
    model, rng = ExportedModel.from_files(prefix), np.random.RandomState(0)
    name = next(name for name in model.graph.variables() if name not in model.parameters)
    expected, = Runner.of(model)({name: mx.nd.array(held_out.images)})
    right = train.accuracy(expected, held_out.labels)
    for error in ERRORS:
        changed, lost = [], []
        for _ in range(DRAWS):
            noise = rng.normal(size=expected.shape)
            got = expected + noise * (error * np.linalg.norm(expected) / np.linalg.norm(noise))
            changed.append((got.argmax(1) != expected.argmax(1)).mean())
            lost.append(right - train.accuracy(got, held_out.labels))
        print(f"error {error:g}: {100 * np.mean(changed):.2f} percent of the images change their class, the accuracy "
              f"falls by {np.mean(lost):.4f} (at most {np.max(lost):.4f} in {DRAWS} draws)")


def judged(name: str, result: gops.export.Quantized) -> bool:
    """Print the layers and the scores; whether no result lost too much."""
    print(result)
    lost = {target: result.scores["float"] - score for target, score in result.scores.items() if target != "float"}
    for target, value in lost.items():
        verdict = "passed" if value <= MOST_LOST[name] else "MISSED"
        print(f"{name}, {target}: {value:.4f} below float; at most {MOST_LOST[name]}: {verdict}", flush=True)
    return max(lost.values()) <= MOST_LOST[name]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.networks.int8_accuracy", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--detector", metavar="PREFIX", default="out/finetune_detector/detector")
    parser.add_argument("--classifier", metavar="PREFIX", default="out/train_digits/digits")
    parser.add_argument("--count", type=int, default=200, help="held-out scenes (default: %(default)s)")
    parser.add_argument("--vnni-only", action="store_true", help="use all 8 bits; the processor must have VNNI")
    parser.add_argument("--errors", action="store_true", help="print what errors of the outputs cost the classifier, "
                        "and quantize nothing")
    args = parser.parse_args(arguments)
    if args.errors:
        costs_of_errors(args.classifier)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        passed = [judged("accuracy", classifier_scores(args.classifier, folder, args.vnni_only)),
                  judged("mAP", detector_scores(args.detector, args.count, folder, args.vnni_only))]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
