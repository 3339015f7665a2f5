"""SIGKILL at random moments: ``make test-kill KILLS=50 SEED=0``. No run is lost, and its numbers stay the same.

A training script is started, killed, and started again with ``--resume auto`` until it is done. Its last checkpoint and
its best parameters must then be those of a run that nobody killed. The exporter writes two nets in turn over the same
files. After each kill the files must be a pair of one of them.
"""
import argparse
import collections
import json
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import gluonops as gops
import mxnet as mx
import numpy as np
from gluonops import train
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
# Nets and data sets that a script trains in seconds: most of its time goes into imports and pictures.
SCRIPTS = {
    "finetune_classifier": ["--dataset", "folder", "--root", "images", "--size", "16", "--model", "mlp",
                            "--batch-size", "4", "--epochs", "3", "--save-every", "2"],
    "finetune_detector": ["--count", "8", "4", "--size", "64", "--head-channels", "8", "8", "--batch-size", "4",
                          "--pretrain-epochs", "1", "--epochs", "2", "--save-every", "1", "--threads", "1"],
    "train_darknet": ["--cfg", "net.cfg", "--count", "16", "4", "--save-every", "1", "--threads", "1"],
}
CFG = """[net]
width=64
height=64
channels=3
batch=4
subdivisions=2
learning_rate=0.01
burn_in=2
policy=steps
steps=3
scales=.1
max_batches=8
mosaic=1

[convolutional]
batch_normalize=1
size=3
stride=8
pad=1
filters=8
activation=leaky

[convolutional]
size=1
filters=18
activation=linear

[yolo]
mask=0,1
anchors=20,20, 40,40
classes=4
num=2
jitter=.2
random=1
"""
IN_EACH_RUN = ("standing", "checksum")   # tensors of a checkpoint that hold paths and times
LAST, BEST = "last.checkpoint", "best.params"

# Writes a net full of ones, and a net full of twos, over the same files until it is killed.
EXPORTER = """
import itertools, sys
import gluonops as gops, mxnet as mx
from mxnet import gluon
nets = []
for value in (1, 2):
    net = gluon.nn.Dense(64, in_units=512, prefix="net_")
    net.initialize(mx.init.Constant(value))
    nets.append(net)
for number in itertools.count():
    gops.export.symbol(nets[number % 2], sys.argv[1], (1, 512))
    print(number, flush=True)
"""


def write_inputs(folder):
    """The files that SCRIPTS name: a cfg, and a data set of two classes."""
    (folder / "net.cfg").write_text(CFG)
    noise = np.random.RandomState(0)
    for split, count in (("train", 12), ("val", 4)):
        for number, name in enumerate(("dark", "light")):
            images = folder / "images" / split / name
            images.mkdir(parents=True)
            for place in range(count):
                image = noise.randint(60, 120, (16, 16, 3)) + 60 * number
                Image.fromarray(image.astype("uint8")).save(images / f"{place}.png")


class Lost(AssertionError):
    """What a kill has destroyed."""


def tensors(path):
    """The tensors of a checkpoint or of parameters."""
    return {name: value.asnumpy() for name, value in mx.nd.load(str(path)).items() if name not in IN_EACH_RUN}


def check_same(expected, found, name):
    """Raise Lost if tensors differ in a bit."""
    if expected.keys() != found.keys():
        raise Lost(f"{name} has other tensors")
    different = [key for key in expected if not np.array_equal(expected[key], found[key], equal_nan=True)]
    if different:
        raise Lost(f"{name} differs in {different[0]} and {len(different) - 1} more")


def run_killed(command, folder, after):
    """Start a command, and kill it after so many seconds. Returns whether it was killed."""
    with open(folder / "log", "ab") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        try:
            code = process.wait(after)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            log.write(f"killed after {after:.2f} s\n".encode())
            return True
    if code:
        raise Lost(f"{' '.join(map(str, command))} ends with {code}:\n{(folder / 'log').read_text()[-2000:]}")
    return False


class Training:
    """Kills one training script; ``count`` says what happened."""

    def __init__(self, command, folder, draw):
        self.command, self.folder, self.draw = command, folder, draw
        self.count = collections.Counter(kills=0, runs=0)
        start = time.monotonic()
        run_killed([*command, "--out", "whole"], folder, None)
        self.seconds = time.monotonic() - start
        self.expected = {name: tensors(folder / "whole" / name) for name in (LAST, BEST)}

    def run(self, kills):
        """Kill until there were so many kills, and then finish the last run."""
        while self.count["kills"] < kills:
            self.one_run(kills)
        return self.count

    def one_run(self, kills):
        """A run from its start to its end, through as many kills as are left."""
        out = self.folder / f"run{self.count['runs']}"
        command = [*self.command, "--out", out.name, "--resume", "auto"]
        while run_killed(command, self.folder, self._after(kills)):
            self.count["kills"] += 1
            if (out / LAST).exists():
                train.read_checkpoint(out / LAST)   # an OpError if it is damaged
        for name, expected in self.expected.items():
            check_same(expected, tensors(out / name), f"{out}/{name}")
        self.count["runs"] += 1

    def _after(self, kills):
        return self.draw.uniform(0, self.seconds) if self.count["kills"] < kills else None


def kill_exporter(kills, folder, draw):
    """Kill the exporter while it writes; returns how many exports there were."""
    count = collections.Counter(kills=0, exports=0)
    prefix = folder / "net"
    for _ in range(kills):
        process = subprocess.Popen([sys.executable, "-c", EXPORTER, prefix], cwd=folder, stdout=subprocess.PIPE)
        process.stdout.readline()   # it has begun
        time.sleep(draw.uniform(0, 0.2))
        process.kill()
        count["exports"] += 1 + len(process.stdout.read().splitlines())
        process.stdout.close()
        process.wait()
        count["kills"] += 1
        count["pairs refused"] += check_pair(prefix)
    return count


def check_pair(prefix):
    """Raise Lost unless the files are one export, or are refused as a pair of two. Returns whether they are refused."""
    try:
        model = gops.export.ExportedModel.from_files(prefix)
    except gops.OpError as error:
        if "is not the file that was written with its symbol JSON" in str(error):
            return True
        raise Lost(str(error)) from error
    values = {float(value) for array in model.parameters.values() for value in array.asnumpy().flat}
    if not values <= {0.0, 1.0} and not values <= {0.0, 2.0}:   # biases are 0
        raise Lost(f"{prefix} is a mixture of two exports: it has {sorted(values)}")
    return False


def main():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50, help="of each script and of the exporter (default 50)")
    parser.add_argument("--seed", default="0", help="what the moments are drawn from (default 0)")
    parser.add_argument("--of", action="append", choices=[*SCRIPTS, "export"], help="only this one; may be repeated")
    options = parser.parse_args()
    chosen, lost = options.of or [*SCRIPTS, "export"], 0
    for name in chosen:
        draw = random.Random(f"{options.seed} {name}")
        folder = pathlib.Path(tempfile.mkdtemp(prefix="gluonops-kill-"))
        try:
            if name == "export":
                count = kill_exporter(options.kills, folder, draw)
            else:
                write_inputs(folder)
                command = [sys.executable, EXAMPLES / f"{name}.py", *SCRIPTS[name]]
                count = Training(command, folder, draw).run(options.kills)
        except (Lost, gops.OpError) as error:
            lost += 1
            print(f"{name}: LOST: {error}\nSee {folder}", flush=True)
            continue
        shutil.rmtree(folder)
        print(f"{name}: {json.dumps(count)}; nothing is lost, the numbers are the same", flush=True)
    sys.exit(bool(lost))


if __name__ == "__main__":
    main()
