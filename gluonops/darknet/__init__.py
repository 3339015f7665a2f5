"""Reads and writes Darknet's files: cfgs become HybridBlocks, and weights are loaded and saved.

``load(cfg, weights)`` builds the network of a cfg and loads its weights. All of Darknet's networks are supported except
recurrent ones. ``save_weights`` writes the weights back bit for bit. ``net.detector()`` is a block that returns
detections in gluoncv's convention. ``Convolution`` is the block whose parameters a weights file holds.

Where a module names a file ``src/...`` as its source, it means that of pjreddie/darknet, commit f6afaabc, and of
AlexeyAB/darknet, commit 59596d78.
"""
from . import merging as _merging  # noqa: F401  (it registers its layers, as the other modules of layers do)
from .adapting import adapt_cfg
from .build import load
from .candidates import Boxes
from .detector import Detector
from .heads import Region
from .net import DarknetNet
from .resizing import MaxPool
from .training import TrainingOptions, check_trainable, read_training, shorter_policy
from .tree import Tree, read_tree
from .weighted import Convolution
from .weights import Header, load_weights, save_weights

__all__ = ["Boxes", "Convolution", "DarknetNet", "Detector", "Header", "MaxPool", "Region", "TrainingOptions", "Tree",
           "adapt_cfg", "check_trainable", "load", "load_weights", "read_training", "read_tree", "save_weights",
           "shorter_policy"]
