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
- :mod:`~gluonops.train.metrics`, :mod:`~gluonops.train.reports`, :mod:`~gluonops.train.pictures`,
  :mod:`~gluonops.train.tensorboard`: what a run has reached
- :mod:`~gluonops.train.exporting`, :mod:`~gluonops.train.inference`, :mod:`~gluonops.train.usage`: nets on their way
  out, and back, and how a user runs them
- :mod:`~gluonops.train.fitting`, :mod:`~gluonops.train.graphs`: a short loop for small data; exported nets to cut
- :mod:`~gluonops.train.options`, :mod:`~gluonops.train.interrupting`: a script's command line, errors and Ctrl-C

tqdm, matplotlib, gluoncv, pycocotools and tensorboardX are imported by the functions that need them.
"""
from .averaging import ParameterAverage
from .checkpoint import (
    find_checkpoint,
    net_tensors,
    read_checkpoint,
    read_parameters,
    restore_checkpoint,
    restore_net,
    save_checkpoint,
)
from .darknet_recipe import (
    LaterSchedule,
    darknet_anchors,
    darknet_augment,
    darknet_epochs,
    darknet_optimizer,
    darknet_schedule_from,
    darknet_scorer,
    initialize_darknet,
    load_first_layers,
    shorten_cfg,
)
from .devices import KVSTORES, Workers, devices, join_workers
from .exporting import DETECTIONS, OUTPUTS, Comparison, export_and_check
from .files import lock_folder, make_folder, save_tensors, write
from .fitting import fit_classifier, predict_logits, split_batches
from .freezing import clear_graphs, freeze
from .gradients import accumulate_gradients, clip_gradients, zero_gradients
from .graphs import cut_symbol, fits, keep_statistics, load_module
from .images import (
    OF_DIGITS,
    Classification,
    classification_batch,
    classification_parts,
    default_augment,
    describe_images,
    detection_parts,
    find_anchors,
)
from .inference import load_net
from .interrupting import command_to_resume, run_script
from .metrics import (
    DetectionMetrics,
    Verification,
    accuracy,
    class_spread,
    confusion_matrix,
    detections,
    evaluate_detector,
    total,
    verification,
)
from .optimizers import OPTIMIZERS, make_trainer
from .options import (
    Options,
    check_input_sizes,
    fraction,
    natural,
    non_negative,
    positive,
    reproducible,
    run_arguments,
    schedule_of,
)
from .pictures import (
    draw_confusion,
    draw_curves,
    draw_detections,
    draw_embedding,
    draw_predictions,
    draw_roc,
    save_figure,
)
from .plan import plan, set_seeds, updates_per_epoch
from .precision import DTYPES, MixedPrecision, check_dtype
from .pretrained import describe_pretrained, load_pretrained_classifier, load_pretrained_detector, pretrained_source
from .pretraining import Cutouts, pretrain_backbone
from .recipe import (
    anchor_images,
    fit_batch_norm,
    gradient_limit,
    hint_for_classifier,
    hint_for_detector,
    is_small,
    passes_over_objects,
    repeats,
    warning_of_few_updates,
)
from .reports import EpochTable, write_history, write_results
from .run import Run
from .schedules import (
    SCHEDULES,
    Constant,
    Cosine,
    Exponential,
    Polynomial,
    Random,
    Schedule,
    Sigmoid,
    Step,
    Steps,
    WarmRestarts,
    darknet_schedule,
    schedule,
)
from .subsets import Cached, ClassSubset, DetectionSubset, Repeated
from .tensorboard import EventWriter
from .usage import how_to_run, save_example

__all__ = [
    "DETECTIONS", "DTYPES", "KVSTORES", "OF_DIGITS", "OPTIMIZERS", "OUTPUTS", "SCHEDULES", "Cached", "ClassSubset",
    "Classification", "Comparison", "Constant", "Cosine", "Cutouts", "DetectionMetrics", "DetectionSubset",
    "EpochTable", "EventWriter", "Exponential", "LaterSchedule", "MixedPrecision", "Options", "ParameterAverage",
    "Polynomial", "Random", "Repeated", "Run", "Schedule", "Sigmoid", "Step", "Steps", "Verification", "WarmRestarts",
    "Workers", "accumulate_gradients", "accuracy", "anchor_images", "check_dtype", "check_input_sizes", "class_spread",
    "classification_batch", "classification_parts", "clear_graphs", "clip_gradients", "command_to_resume",
    "confusion_matrix", "cut_symbol", "darknet_anchors", "darknet_augment", "darknet_epochs", "darknet_optimizer",
    "darknet_schedule", "darknet_schedule_from", "darknet_scorer", "default_augment", "describe_images",
    "describe_pretrained", "detection_parts", "detections", "devices", "draw_confusion", "draw_curves",
    "draw_detections", "draw_embedding", "draw_predictions", "draw_roc", "evaluate_detector", "export_and_check",
    "find_anchors", "find_checkpoint", "fit_batch_norm", "fit_classifier", "fits", "fraction", "freeze",
    "gradient_limit", "hint_for_classifier", "hint_for_detector", "how_to_run", "initialize_darknet", "is_small",
    "join_workers", "keep_statistics", "load_net", "load_first_layers", "load_module", "load_pretrained_classifier",
    "load_pretrained_detector", "lock_folder", "make_folder", "make_trainer", "natural", "net_tensors", "non_negative",
    "passes_over_objects", "plan", "positive", "predict_logits", "pretrain_backbone", "pretrained_source",
    "read_checkpoint", "read_parameters", "repeats", "reproducible", "restore_checkpoint", "restore_net",
    "run_arguments", "run_script", "save_checkpoint", "save_example", "save_figure", "save_tensors", "schedule",
    "schedule_of", "set_seeds", "shorten_cfg", "split_batches", "total", "updates_per_epoch", "verification",
    "warning_of_few_updates", "write", "write_history", "write_results", "zero_gradients",
]
