"""A data set for detection that a small net learns at once."""
import numpy as np
from gluonops import data


class Bars(data.DetectionDataset):
    """Bars on black that are high and red, or wide and blue, with the boxes around them, and a difficult object."""

    def __init__(self, count):
        rng, self.images, labels = np.random.RandomState(0), [], []
        for i in range(count):
            sides = rng.randint(4, 9), rng.randint(12, 20)
            width, height = sides if i % 2 else sides[::-1]
            left, top = rng.randint(0, 60 - width), rng.randint(0, 40 - height)
            image = np.zeros((40, 60, 3), "uint8")
            image[top:top + height, left:left + width, 0 if i % 2 else 2] = 255
            self.images.append(image)
            labels.append([[left, top, left + width, top + height, i % 2, 0], [0, 0, 9, 9, 0, 1]])
        super().__init__("Bars", ("wide", "high"), (), labels)

    def image(self, index):
        return self.images[index]
