"""A process that imports gluonops as a program does, and reports what it sees. One serves several tests.

The import takes 1.6 s of the CPU.
"""
from __future__ import annotations

import functools
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from gluonops.runtime import threads

OTHER = "import numpy"   # a module of somebody else's
PROGRAM = f"""
import ctypes, json, os, sys, types
import numpy
before = dict(vars(numpy))
import gluonops, mxnet, other
imported = [name for name in ("sklearn", "scipy.stats") if name in sys.modules]
changed = [name for name, value in vars(numpy).items() if before.get(name) is not value]
from gluonops.backends import tuning
print(json.dumps({{
    "imported": imported,
    "numpy is one": other.numpy is numpy is sys.modules["numpy"],
    "names of numpy": {{"changed": [name for name in changed if not isinstance(vars(numpy)[name], types.ModuleType)],
                        "removed": sorted(set(before) - set(vars(numpy))),
                        "bool": ("bool" in vars(numpy)) - ("bool" in before)}},
    "mxnet has a view": mxnet.numpy_dispatch_protocol._np is not numpy,
    "threads": {{**tuning.examine()["threads"], "libgomp": ctypes.CDLL("libgomp.so.1").omp_get_max_threads(),
                 "environment": [name for name in {threads.COUNTS + threads.WAITING} if name in os.environ]}},
}}))
"""


def settings():
    """Return the environment without the variables for threads that the tests run with."""
    return {name: value for name, value in os.environ.items()
            if name not in (*threads.COUNTS, *threads.WAITING, threads.SWITCH)}


@functools.cache
def report():
    """Return (what PROGRAM prints as a dict, what libgomp prints of its settings)."""
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "other.py").write_text(OTHER)
        path = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM], capture_output=True, text=True,
                              check=False, env={**settings(), "PYTHONPATH": path, "OMP_DISPLAY_ENV": "verbose"})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr
