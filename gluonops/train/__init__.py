"""Training and fine-tuning: what a training script imports, beside data sets and models.

:class:`Run` counts, averages, shows, updates, saves, resumes, and stops at Ctrl-C. Around it:

- :mod:`~gluonops.train.devices`, :mod:`~gluonops.train.plan`: devices, workers of a job, the batches of an epoch
- :mod:`~gluonops.train.recipe`: what follows from the number of images
- :mod:`~gluonops.train.darknet_recipe`: what follows from a Darknet cfg
- :mod:`~gluonops.train.schedules`, :mod:`~gluonops.train.optimizers`: learning rates and optimizers by name
- :mod:`~gluonops.train.averaging`, :mod:`~gluonops.train.freezing`, :mod:`~gluonops.train.gradients`,
  :mod:`~gluonops.train.precision`: averages of parameters, frozen layers, accumulation and clipping, 16 bits
- :mod:`~gluonops.train.checkpoint`, :mod:`~gluonops.train.pretrained`, :mod:`~gluonops.train.pretraining`: files of a
  run, and what a net starts from
- :mod:`~gluonops.train.images`, :mod:`~gluonops.train.subsets`: data sets in their parts
- :mod:`~gluonops.train.metrics`, :mod:`~gluonops.train.reports`, :mod:`~gluonops.train.pictures`: what a
  run has reached
- :mod:`~gluonops.train.exporting`, :mod:`~gluonops.train.inference`, :mod:`~gluonops.train.usage`: nets on their way
  out, and back, and how a user runs them
- :mod:`~gluonops.train.fitting`, :mod:`~gluonops.train.graphs`: a short loop for small data; exported nets to cut
- :mod:`~gluonops.train.options`, :mod:`~gluonops.train.interrupting`: a script's command line, errors and Ctrl-C

What cannot be done, such as an argument out of range or a file that cannot be written, is an OpError that says why.

tqdm, matplotlib, gluoncv, pycocotools and tensorboardX are imported by the functions that need them.
"""
# ruff: noqa: F403  (each module lists its public names)
import types

from .averaging import *
from .checkpoint import *
from .darknet_recipe import *
from .devices import *
from .exporting import *
from .files import *
from .fitting import *
from .freezing import *
from .gradients import *
from .graphs import *
from .images import *
from .inference import *
from .interrupting import *
from .metrics import *
from .optimizers import *
from .options import *
from .pictures import *
from .plan import *
from .precision import *
from .pretrained import *
from .pretraining import *
from .recipe import *
from .reports import *
from .run import *
from .schedules import *
from .subsets import *
from .usage import *

# For `import *`. Type checkers follow the imports: a computed `__all__` would be an empty one to them.
globals()["__all__"] = sorted(name for name, value in list(globals().items())
                              if not name.startswith("_") and not isinstance(value, types.ModuleType))
