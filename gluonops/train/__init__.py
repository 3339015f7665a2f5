"""Training and fine-tuning: what a training script imports, beside data sets and models.

:class:`Run` counts, averages, shows, updates, saves, resumes, and stops at Ctrl-C. Around it:

- :mod:`~gluonops.train.workers`: devices, workers of a job, the batches of an epoch
- :mod:`~gluonops.train.recipe`: what follows from the number of images, and from a Darknet cfg
- :mod:`~gluonops.train.optimizers`: learning rates and optimizers by name
- :mod:`~gluonops.train.parameters`, :mod:`~gluonops.train.precision`: frozen layers, averages of parameters,
  accumulation and clipping of gradients, 16 bits
- :mod:`~gluonops.train.checkpoint`, :mod:`~gluonops.train.pretraining`: files of a run, and what a net starts from
- :mod:`~gluonops.train.parts`, :mod:`~gluonops.train.image_sets`: data sets in their parts, and as they are trained on
- :mod:`~gluonops.train.metrics`, :mod:`~gluonops.train.reports`, :mod:`~gluonops.train.pictures`: what a
  run has reached
- :mod:`~gluonops.train.exporting`: nets on their way out, and back, and how a user runs them
- :mod:`~gluonops.train.fitting`: a short loop for small data
- :mod:`~gluonops.train.options`, :mod:`~gluonops.train.interrupting`: a script's command line, errors and Ctrl-C
- :mod:`~gluonops.train.packages`: whether the packages that a run needs are installed

What cannot be done, such as an argument out of range or a file that cannot be written, is an OpError that says why.

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

# For `import *`. Type checkers follow the imports: a computed `__all__` would be an empty one to them.
globals()["__all__"] = sorted(name for name, value in list(globals().items())
                              if not name.startswith("_") and not isinstance(value, types.ModuleType))
