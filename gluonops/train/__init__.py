"""Training and fine-tuning: what a training script imports, besides data sets and models.

:class:`Run` is a training run. It counts batches, averages losses and shows them, updates the parameters, saves and
resumes, and stops at Ctrl-C. The modules around it are:

- :mod:`~gluonops.train.workers`: devices, workers of a job, the batches of an epoch
- :mod:`~gluonops.train.recipe`: settings that follow from the number of images, and from a Darknet cfg
- :mod:`~gluonops.train.optimizers`: learning rates and optimizers by name
- :mod:`~gluonops.train.parameters`, :mod:`~gluonops.train.precision`: frozen layers, averages of parameters,
  accumulation and clipping of gradients, 16 bits
- :mod:`~gluonops.train.checkpoint`, :mod:`~gluonops.train.pretraining`: checkpoints, and the weights that a net starts
  from
- :mod:`~gluonops.train.parts`, :mod:`~gluonops.train.image_sets`: data sets for training, validation and test, and data
  sets that are derived from others
- :mod:`~gluonops.train.metrics`, :mod:`~gluonops.train.reports`, :mod:`~gluonops.train.pictures`: the results of a run
  as numbers, text and pictures
- :mod:`~gluonops.train.exporting`: exporting a trained net, checking the files, and loading them again
- :mod:`~gluonops.train.fitting`: a short loop for small data
- :mod:`~gluonops.train.options`, :mod:`~gluonops.train.interrupting`: a script's command line, errors and Ctrl-C
- :mod:`~gluonops.train.packages`: whether the packages that a run needs are installed

If something cannot be done, because an argument is out of range or a file cannot be written, for example, an OpError
says why.

tqdm, matplotlib, gluoncv, pycocotools and tensorboardX are imported by the functions that need them.
"""
# ruff: noqa: F403  (each module lists its public names)
import types

from .checkpoint import *
from .exporting import *
from .fitting import *
from .image_sets import *
from .interrupting import *
from .metrics import *
from .optimizers import *
from .options import *
from .packages import *
from .parameters import *
from .parts import *
from .pictures import *
from .precision import *
from .pretraining import *
from .recipe import *
from .reports import *
from .run import *
from .run_files import *
from .workers import *

# For `import *`. It is set through globals(), because type checkers would take a computed `__all__` for an empty one.
# They follow the imports instead.
globals()["__all__"] = sorted(name for name, value in list(globals().items())
                              if not name.startswith("_") and not isinstance(value, types.ModuleType))
