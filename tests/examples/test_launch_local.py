"""launch_local.py ends every process of a job, however the job ends. What jobs train: test_several_machines.py."""
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import fresh
import pytest

LAUNCH = str(pathlib.Path(__file__).parents[2] / "examples" / "launch_local.py")

# A worker of dist_sync; the one of rank 1 kills itself in the second round, as a machine that is lost would. It speaks
# MXNet's C API through mxnet.base alone: the rest of MXNet would take a second more.
WORKER = fresh.WITHOUT_GLUONOPS + """
import ctypes, importlib.util, os, signal, sys, types
mxnet = types.ModuleType("mxnet")
mxnet.__path__ = importlib.util.find_spec("mxnet").submodule_search_locations
sys.modules["mxnet"] = mxnet
from mxnet.base import _LIB, KVStoreHandle, NDArrayHandle, c_array, c_str, check_call
COUNT, KEY, TWO, CPU, FLOAT32 = ctypes.c_uint(1), c_array(ctypes.c_int, [0]), ctypes.c_size_t(2), 1, 0

def array(number):
    handle = NDArrayHandle()
    check_call(_LIB.MXNDArrayCreateEx(c_array(ctypes.c_uint, [2]), 1, CPU, 0, 0, FLOAT32, ctypes.byref(handle)))
    check_call(_LIB.MXNDArraySyncCopyFromCPU(handle, c_array(ctypes.c_float, [number] * 2), TWO))
    return handle

def numbers(handle):
    values = c_array(ctypes.c_float, [0, 0])
    check_call(_LIB.MXNDArraySyncCopyToCPU(handle, values, TWO))
    return list(values)

kvstore, rank = KVStoreHandle(), ctypes.c_int()
check_call(_LIB.MXKVStoreCreate(c_str("dist_sync"), ctypes.byref(kvstore)))
check_call(_LIB.MXKVStoreGetRank(kvstore, ctypes.byref(rank)))
check_call(_LIB.MXKVStoreInit(kvstore, COUNT, KEY, c_array(NDArrayHandle, [array(0)])))
for i in range(3):
    if i == 1 and rank.value == 1 and "--die" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)
    value = array(rank.value + 1)
    values = c_array(NDArrayHandle, [value])
    check_call(_LIB.MXKVStorePushPull(kvstore, COUNT, KEY, COUNT, KEY, values, values, 0))
    print("round", i, numbers(value), flush=True)
check_call(_LIB.MXKVStoreFree(kvstore))
"""


def launch(*options, command=(sys.executable, "-c", WORKER)):
    done = subprocess.run([sys.executable, LAUNCH, *options, "--", *command], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(true):
    while not true():
        time.sleep(0.02)


def test_one_server_and_two_workers():
    status, out, err = launch("--workers", "2", "--servers", "1")
    assert status == 0, err
    for name in ("worker 0", "worker 1"):
        lines = [line for line in out.splitlines() if line.startswith(f"{name} | ")]
        assert lines == [f"{name} | round {i} [3.0, 3.0]" for i in range(3)]


@pytest.mark.slow
def test_a_killed_worker_ends_the_job():
    """The other one waits for its gradients and would do so for ever."""
    status, out, err = launch(command=(sys.executable, "-c", WORKER, "--die"))
    assert status == 1 and "was killed by SIGKILL; the job is over" in err
    assert "round 0" in out and "round 1" not in out


@pytest.mark.parametrize("options, command, code, text", [
    ((), ("sh", "-c", "exit 3"), 1, "ended with status 3; the job is over"),
    ((), ("no-such-program",), 2, "worker 0 cannot start"),
    (("--timeout", "0.1"), ("sleep", "99"), 124, "the job has not ended within 0.1 s"),
    (("--port", "99999"), ("true",), 2, "port 99999 cannot be used"),
    (("--workers", "0"), ("true",), 2, "argument -n/--workers: got 0; expected at least 1")])
def test_failures(options, command, code, text):
    status, _, err = launch(*options, command=command)
    assert status == code and text in err and "Traceback" not in err


def test_a_port_that_is_taken():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        status, _, err = launch("--port", str(taken.getsockname()[1]), command=("true",))
    assert status == 2 and "choose another --port, or leave it out" in err


@pytest.mark.slow
@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_a_signal_ends_all(number, code, tmp_path):
    """Workers get to save at Ctrl-C; nothing outlives a launcher that is killed. (Of the workers' shells, on Linux.)

    Started with SIGINT ignored, as a shell starts a job in the background.
    """
    if number == signal.SIGKILL and sys.platform != "linux":
        pytest.skip("only Linux ends the children of a process that is killed")
    worker = (f"trap 'echo saved > {tmp_path}/saved.$$; exit 0' INT; echo $$ > {tmp_path}/pid.$$; "
              "while :; do sleep 0.1; done")
    job = subprocess.Popen([sys.executable, LAUNCH, "--", "bash", "-c", worker], stdout=subprocess.DEVNULL,
                           stderr=subprocess.PIPE, text=True,
                           preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    wait_until(lambda: len(list(tmp_path.glob("pid.*"))) == 2)
    time.sleep(0.2)
    os.kill(job.pid, number)
    _, err = job.communicate()
    assert job.returncode == code, err
    assert len(list(tmp_path.glob("saved.*"))) == (2 if number == signal.SIGINT else 0)
    pids = [int(path.name.split(".")[1]) for path in tmp_path.glob("pid.*")]
    wait_until(lambda: not any(map(alive, pids)))
