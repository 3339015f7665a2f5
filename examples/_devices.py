"""What the fine-tuning scripts run on: devices of this machine, and its place among the workers of a job."""
import collections
import os
import re

import gluonops as gops
import mxnet as mx


def contexts(args):
    """The devices of --ctx or --gpus."""
    text = ",".join(f"gpu:{number}" for number in args.gpus.split(",")) if hasattr(args, "gpus") else args.ctx
    devices = []
    for name in text.replace(" ", "").split(","):
        match = re.fullmatch(r"(cpu|gpu)(?::(\d{1,3}))?", name)
        if not match:
            raise gops.OpError("examples", f"the device {name!r} is unknown; expected cpu or gpu with a number below "
                               "1000",
                               "Write for instance --ctx cpu:0,cpu:1 or --gpus 0,1")
        devices.append(mx.Context(match[1], int(match[2] or 0)))
        if match[1] == "gpu" and devices[-1].device_id >= mx.context.num_gpus():
            raise gops.OpError("examples", f"there is no {devices[-1]}: MXNet sees {mx.context.num_gpus()} GPUs",
                               "Run `gluonops doctor`, or choose --ctx cpu")
    if len(set(devices)) < len(devices):
        raise gops.OpError("examples", f"{text} names a device twice", "Name each once")
    check_dtype(args.dtype, devices)
    return devices


def check_dtype(dtype, devices):
    """Raise an OpError for a dtype that MXNet 1.9.1 lacks, or that gains nothing."""
    on_gpus = all(device.device_type == "gpu" for device in devices)
    if dtype == "float16" and not on_gpus:
        raise gops.OpError("examples", "float16 needs GPUs: MXNet 1.9.1 has no float16 matrix product on the CPU",
                           "Leave --dtype out")
    if dtype == "bfloat16":
        raise gops.OpError("examples", "bfloat16 is not supported: MXNet 1.9.1 has no such kernels on GPUs, and trains "
                           "with it on CPUs at half the speed of float32", "Leave --dtype out, or take float16 on GPUs")


Workers = collections.namedtuple("Workers", "kvstore rank count devices")


def join(args, devices):
    """This process's place among the workers of a distributed job, and its number of devices."""
    if not args.kvstore.startswith("dist"):
        return Workers(args.kvstore, 0, 1, len(devices))
    if "DMLC_ROLE" not in os.environ:
        raise gops.OpError("examples", f"--kvstore {args.kvstore} without a parameter server",
                           "Start the script with examples/launch_local.py, or as docs/several_machines.md says")
    kvstore = mx.kv.create(args.kvstore)   # waits until every worker is there
    return Workers(kvstore, kvstore.rank, kvstore.num_workers, len(devices))
