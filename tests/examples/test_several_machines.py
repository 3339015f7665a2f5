"""Training with --kvstore dist_sync and dist_async: the numbers of one process, Ctrl-C, a killed worker."""
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

import mxnet as mx
import numpy as np
import pytest

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
LAUNCH, SCRIPT = str(EXAMPLES / "launch_local.py"), str(EXAMPLES / "finetune_classifier.py")
# The net has no batch norms, whose statistics are each worker's own: see docs/several_machines.md.
QUICK = ("--model", "mlp", "--epochs", "2")


def run(folder, *options, workers=0):
    command = [sys.executable, SCRIPT, *QUICK, *options]
    if workers:
        command = [sys.executable, LAUNCH, "--workers", str(workers), "--timeout", "800", "--", *command]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def parameters(folder):
    return {name: value.asnumpy() for name, value in mx.nd.load(str(folder / "last.checkpoint")).items()
            if name not in ("standing", "checksum")}


@pytest.mark.slow
def test_two_workers_are_one_process(tmp_path):
    """With 64 images a batch, 1 server and 2 workers end with the parameters and the momentum of one process."""
    one, two = run(tmp_path, "--batch-size", "64", "--out", "one"), run(
        tmp_path, "--batch-size", "32", "--out", "two", "--kvstore", "dist_sync", workers=2)
    assert one.returncode == two.returncode == 0, one.stderr + two.stdout + two.stderr
    assert two.stdout.count("held-out images correctly") == 1   # the first worker alone writes and reports
    mine, theirs = parameters(tmp_path / "one"), parameters(tmp_path / "two")
    assert set(mine) == set(theirs) and any(name.startswith("state:") for name in mine)
    for name, value in mine.items():
        np.testing.assert_allclose(theirs[name], value, rtol=0, atol=1e-5, err_msg=name)


@pytest.mark.slow
def test_role_script_of_the_documentation(tmp_path):
    """docs/several_machines.md's role.sh starts a scheduler, a server and two workers under mpirun's variables."""
    page = (EXAMPLES.parent / "docs" / "several_machines.md").read_text()
    script, = [block for block in re.findall(r"```sh\n(.*?)```", page, re.S) if block.startswith("# role.sh")]
    (tmp_path / "role.sh").write_text(script)
    worker = ("import gluonops, mxnet as mx; kv = mx.kv.create('dist_sync'); x = mx.nd.ones(1); kv.init(0, x); "
              "kv.pushpull(0, x, out=x); print(kv.num_workers, x.asscalar())")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "DMLC_PS_ROOT_URI": "127.0.0.1", "DMLC_PS_ROOT_PORT": str(port),
                   "DMLC_NODE_HOST": "127.0.0.1", "OMPI_COMM_WORLD_SIZE": "4"}
    processes = [subprocess.Popen(["sh", "role.sh", "1", sys.executable, "-c", worker], cwd=tmp_path, text=True,
                                  stdout=subprocess.PIPE, env={**environment, "OMPI_COMM_WORLD_RANK": str(rank)})
                 for rank in range(4)]
    try:
        said = [process.communicate()[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0] * 4
    assert said == ["", "", "2 2.0\n", "2 2.0\n"]


@pytest.mark.slow
def test_dist_async_trains(tmp_path):
    done = run(tmp_path, "--batch-size", "32", "--lr", "0.01", "--kvstore", "dist_async", "--out", "out", workers=2)
    assert done.returncode == 0, done.stdout + done.stderr
    accuracy = float(done.stdout.split("The net classifies")[1].split()[0])
    assert accuracy > 0.5


@pytest.mark.slow
def test_a_killed_worker_ends_training(tmp_path):
    """The other worker would wait for its gradients for ever."""
    killed = ("import os, signal, sys; sys.path.insert(0, sys.argv.pop(1)); import finetune_classifier as script\n"
              "from gluonops.train import Run\n"
              "step = Run.step\n"
              "def dying(self, parts, after=None):\n"
              "    if self.batch == 5 and self.workers.rank == 1: os.kill(os.getpid(), signal.SIGKILL)\n"
              "    step(self, parts, after)\n"
              "Run.step = dying\n"
              "script.main(script.arguments())")
    done = subprocess.run([sys.executable, LAUNCH, "--", sys.executable, "-c", killed, str(EXAMPLES), *QUICK,
                           "--kvstore", "dist_sync", "--out", "out"],
                          cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1 and "was killed by SIGKILL; the job is over" in done.stderr
    assert not (tmp_path / "out" / "results.json").exists()


@pytest.mark.slow
def test_a_detector_on_two_workers_continues_after_a_kill(tmp_path):
    """It comes to the numbers of a job that was not killed."""
    dying = ("import os, signal, sys; sys.path.insert(0, sys.argv.pop(1)); import finetune_detector as script\n"
             "from gluonops.train import Run\n"
             "step, dies = Run.step, sys.argv.pop(1) == 'dies'\n"
             "def stepping(self, parts, after=None):\n"
             "    if dies and (self.epoch, self.batch) == (1, 1): os.kill(os.getpid(), signal.SIGKILL)\n"
             "    step(self, parts, after)\n"
             "Run.step = stepping\n"
             "script.main(script.arguments())")
    options = ("--count", "12", "4", "--size", "64", "--head-channels", "8", "8", "--batch-size", "2",
               "--pretrain-epochs", "1", "--epochs", "2", "--threads", "1", "--save-every", "1",
               "--kvstore", "dist_sync")

    def job(*words):
        command = [sys.executable, LAUNCH, "--timeout", "800", "--", sys.executable, "-c", dying, str(EXAMPLES), *words]
        return subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True)

    whole, killed = job("lives", "--out", "whole"), job("dies", "--out", "killed")
    assert whole.returncode == 0 and "finds the same" in whole.stdout, whole.stdout + whole.stderr
    assert killed.returncode == 1 and "was killed by SIGKILL; the job is over" in killed.stderr
    done = job("lives", "--out", "killed", "--resume", "auto")
    assert done.returncode == 0 and "The run continues from killed/last.checkpoint: 1 of 2" in done.stdout, done.stderr
    mine, theirs = parameters(tmp_path / "whole"), parameters(tmp_path / "killed")
    # Jobs that were not killed agree bit for bit; one that was continued has rounded differently, by up to 1.2e-6.
    for name, value in mine.items():
        np.testing.assert_allclose(theirs[name], value, rtol=0, atol=1e-5, err_msg=name)


@pytest.mark.slow
def test_ctrl_c_stops_all_workers_after_the_same_batch(tmp_path):
    """The job continues to the numbers of one that was not stopped."""
    options = ("--batch-size", "16", "--kvstore", "dist_sync", "--epochs", "6")
    whole = run(tmp_path, *options, "--out", "whole", workers=2)
    assert whole.returncode == 0, whole.stdout + whole.stderr
    job = subprocess.Popen([sys.executable, LAUNCH, "--", sys.executable, SCRIPT, *QUICK, *options, "--out", "out",
                            "--save-every", "7"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           text=True)
    while not (tmp_path / "out" / "last.checkpoint").exists():
        assert job.poll() is None, job.communicate()
        time.sleep(0.005)
    os.kill(job.pid, signal.SIGINT)
    out, err = job.communicate()
    assert job.returncode == 130, err
    assert "out/last.checkpoint is saved. To continue, run: " in out and "correctly" not in out
    done = run(tmp_path, *options, "--out", "out", "--resume", "auto", workers=2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The run continues from out/last.checkpoint" in done.stdout
    mine, theirs = parameters(tmp_path / "whole"), parameters(tmp_path / "out")
    for name, value in mine.items():
        np.testing.assert_allclose(theirs[name], value, rtol=0, atol=1e-6, err_msg=name)
