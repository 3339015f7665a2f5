"""Before a net learns to find objects, its backbone learns to tell them apart: cut out of the images, one at a time.

The published nets began so on ImageNet. Where they are not at hand, the objects of the data set itself do, far sooner
than detection alone would: every object is large, and classification is the only task.
"""
import collections

import gluonops as gops
import mxnet as mx
import numpy as np
from _images import stack
from gluonops.data import Batches, SampleKey
from gluonops.data.transforms.augment import place
from mxnet import autograd, gluon
from tqdm import tqdm

SIZE = 64              # of a cut-out, height and width
MARGIN = (1.1, 1.6)    # its side, in longest sides of the object
BATCH, RATE, LAG = 32, 0.05, 4


class Cutouts(gluon.data.Dataset):
    """The objects of a data set for detection: (float32 (3, SIZE, SIZE), class), at another place in each epoch.

    Parameters
    ----------
    dataset : gluon.data.Dataset
        Of images and boxes, with ``label(index)``.
    seed : int
        Of where an object lies in its cut-out, and how large it is there.
    """

    def __init__(self, dataset, seed):
        self.dataset, self.seed = dataset, seed
        self.objects = [(i, number) for i in range(len(dataset))
                        for number, row in enumerate(dataset.label(i)) if not row[5]]

    def __len__(self):
        return len(self.objects)

    def __getitem__(self, key):
        index, epoch, _ = key if isinstance(key, SampleKey) else (key, 0, None)
        scene, number = self.objects[index]
        image, label = self.dataset[scene]
        image = image.asnumpy() if isinstance(image, mx.nd.NDArray) else image
        rng = np.random.RandomState([self.seed, epoch, index])
        sides, middle = label[number, 2:4] - label[number, :2], (label[number, :2] + label[number, 2:4]) / 2
        scale = SIZE / (max(sides.max(), 1) * rng.uniform(*MARGIN))
        room = np.maximum(SIZE - sides * scale, 0) / 2
        offset = SIZE / 2 - middle * scale + rng.uniform(-1, 1, 2) * room
        new = (max(1, round(side * scale)) for side in image.shape[1::-1])
        return place(image, tuple(new), tuple(np.rint(offset).astype(int)), (SIZE, SIZE)), label[number, 4]


class Classifier(gluon.HybridBlock):
    """The backbone, the mean over its maps, and a dense layer."""

    def __init__(self, backbone, classes, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.backbone, self.output = backbone, gluon.nn.Dense(classes)

    def hybrid_forward(self, F, data):
        maps = self.backbone(data)   # the coarse one of YOLOv2's two
        return self.output(F.mean(maps[-1] if isinstance(maps, (list, tuple)) else maps, axis=(2, 3)))


def pretrain(net, dataset, epochs, device, seed, threads):
    """Train ``net.backbone`` to classify the objects of ``dataset``. Returns the last epoch's training accuracy."""
    cutouts = Cutouts(dataset, seed)
    if not len(cutouts):
        raise gops.OpError("examples", "there is no object to pretrain on", "Pass --pretrain-epochs 0")
    classifier = Classifier(net.backbone, len(net.classes))
    classifier.output.initialize(mx.init.Xavier(), ctx=device)
    classifier.hybridize(static_alloc=True)
    steps = epochs * -(-len(cutouts) // BATCH)
    schedule = mx.lr_scheduler.CosineScheduler(max(steps, 2), RATE, warmup_steps=steps // 10)
    trainer = gluon.Trainer(classifier.collect_params(), "sgd",
                            {"lr_scheduler": schedule, "learning_rate": RATE, "momentum": 0.9, "wd": 5e-4})
    softmax, unread = gops.loss.SoftmaxCELoss(), collections.deque()
    with tqdm(total=epochs * len(cutouts), desc="pretraining", unit="object", dynamic_ncols=True) as bar:
        for epoch in range(epochs):
            order, right = np.random.RandomState([seed, epoch]).permutation(len(cutouts)), 0
            batches = np.split(order, range(BATCH, len(order), BATCH))
            for images, labels in gluon.data.DataLoader(
                    cutouts, batch_sampler=Batches(batches, epoch=epoch), batchify_fn=stack, num_workers=threads,
                    thread_pool=True):
                images, labels = images.as_in_context(device), labels.as_in_context(device)
                with autograd.record():
                    logits = classifier(images)
                    loss = softmax(logits, labels)
                loss.backward()
                trainer.step(len(images))
                unread.append((logits.argmax(1) == labels).sum())
                if len(unread) > LAG:   # the engine stays this far ahead, and no further
                    right += unread.popleft().asscalar()
                bar.update(len(images))
            right += sum(count.asscalar() for count in unread)
            unread.clear()
            bar.set_postfix({"accuracy": f"{right / len(cutouts):.3f}"})
    return right / len(cutouts)
