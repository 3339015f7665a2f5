"""Run a training script on MXNet's parameter server on this machine: scheduler, servers and workers, ended together.

    python examples/launch_local.py --workers 2 -- python examples/finetune_classifier.py --kvstore dist_sync

Whatever fails ends the whole job with an error: a worker that is killed would leave the others waiting for ever.
docs/several_machines.md says how to start the same job on several hosts.
"""
import argparse
import collections
import ctypes
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time

SERVE = "import gluonops"   # importing MXNet in the role of a scheduler or server serves until the job is over
GRACE = 10                  # seconds to end in, before a process is killed
Process = collections.namedtuple("Process", "name role child")


class Failure(Exception):
    """The job has ended: the reason and the exit status."""

    def __init__(self, message, status=1):
        super().__init__(message)
        self.status = status


def count(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"got {number}; expected at least 1")
    return number


def arguments():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("-n", "--workers", type=count, default=2, help="processes that train (default: 2)")
    options.add_argument("-s", "--servers", type=count, default=1, help="processes that sum gradients (default: 1)")
    options.add_argument("--port", type=int, default=0, help="port of the scheduler (default: a free one)")
    options.add_argument("--timeout", type=float, metavar="SECONDS",
                         help="end the job after this time (default: never)")
    options.add_argument("command", nargs="+", help="what every worker runs, after --")
    return options.parse_args()


def usable_port(port):
    """The port, or a free one for 0."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except (OSError, OverflowError) as error:
            raise Failure(f"port {port} cannot be used ({error}); choose another --port, or leave it out", 2) from error
        return probe.getsockname()[1]


def environment(role, port, args):
    """The environment variables that ps-lite reads. Workers share the cores equally, unless OMP_NUM_THREADS is set."""
    threads = str(max(1, (os.cpu_count() or 1) // args.workers))
    return {"OMP_NUM_THREADS": threads, **os.environ, "DMLC_ROLE": role, "DMLC_PS_ROOT_URI": "127.0.0.1",
            "DMLC_PS_ROOT_PORT": str(port), "DMLC_NODE_HOST": "127.0.0.1", "DMLC_NUM_WORKER": str(args.workers),
            "DMLC_NUM_SERVER": str(args.servers), "PYTHONUNBUFFERED": "1", "LAUNCH_LOCAL": launcher(args)}


def launcher(args):
    """This command without the workers' part; workers print it in the command that resumes the job."""
    return shlex.join(["python", *sys.argv[:len(sys.argv) - len(args.command)]])


def before_exec():
    """Heed Ctrl-C in the child, and let it be killed when the launcher is, even by SIGKILL (Linux)."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)   # PR_SET_PDEATHSIG


def start(args, processes):
    """Append a Process for each role to ``processes``: the caller's list, so that it can end a half-started job."""
    port = usable_port(args.port)
    serve = [sys.executable, "-W", "ignore", "-c", SERVE]
    plan = [("scheduler", "scheduler", serve)]
    plan += [(f"server {i}", "server", serve) for i in range(args.servers)]
    plan += [(f"worker {i}", "worker", args.command) for i in range(args.workers)]
    for name, role, command in plan:
        try:
            # A session of its own: Ctrl-C reaches the launcher alone, and a process ends together with its children.
            child = subprocess.Popen(command, env=environment(role, port, args), stdin=subprocess.DEVNULL,
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
                                     preexec_fn=before_exec)
        except OSError as error:
            raise Failure(f"{name} cannot start: {error}", 2) from error
        processes.append(Process(name, role, child))


def forward(process, lock):
    """Print a process's output line by line, prefixed with its name; of a progress bar only the last state."""
    for line in process.child.stdout:
        text = line.decode(errors="replace").rstrip("\r\n").rpartition("\r")[2]
        with lock:
            print(f"{process.name} | {text}", flush=True)


def ending(process):
    status = process.child.returncode
    if status < 0:
        return f"{process.name} was killed by {signal.Signals(-status).name}"
    return f"{process.name} ended with status {status}"


def wait(processes, timeout):
    """Wait until every worker has ended well; raises Failure as soon as any process has not."""
    deadline = time.monotonic() + timeout if timeout else None
    workers = [process for process in processes if process.role == "worker"]
    while any(process.child.poll() is None for process in workers):
        check(processes)
        if deadline and time.monotonic() > deadline:
            raise Failure(f"the job has not ended within {timeout:g} s", 124)
        time.sleep(0.05)
    check(processes)


def check(processes):
    for process in processes:
        if process.child.poll():   # None while it runs; scheduler and servers end with 0 once the workers sign off
            raise Failure(f"{ending(process)}; the job is over")


def settle(processes, seconds):
    """Wait for all to end of themselves, at most so long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and any(process.child.poll() is None for process in processes):
        time.sleep(0.05)


def send(processes, number):
    for process in processes:
        if process.child.poll() is None or number == signal.SIGKILL:   # killed: also what a process left behind
            try:
                os.killpg(process.child.pid, number)
            except ProcessLookupError:
                pass


def terminated(number, frame):
    raise Failure("terminated", 128 + number)


def main():
    args = arguments()
    signal.signal(signal.SIGTERM, terminated)
    signal.signal(signal.SIGINT, signal.default_int_handler)   # a shell starts background jobs with SIGINT ignored
    processes, readers, status = [], [], 0
    try:
        start(args, processes)
        lock = threading.Lock()
        for process in processes:
            readers.append(threading.Thread(target=forward, args=(process, lock), daemon=True))
            readers[-1].start()
        wait(processes, args.timeout)
        settle(processes, GRACE / 5)   # scheduler and servers, which never end where no worker made a kvstore
    except KeyboardInterrupt:
        print("launch_local: interrupted; the workers may save what they have", file=sys.stderr)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        workers = [process for process in processes if process.role == "worker"]
        send(workers, signal.SIGINT)
        settle(workers, GRACE)
        status = 130
    except Failure as failure:
        print(f"launch_local: {failure}", file=sys.stderr)
        status = failure.status
        send(processes, signal.SIGTERM)
        settle(processes, GRACE / 5)
    finally:
        send(processes, signal.SIGKILL)
        for process in processes:
            process.child.wait()
        for reader in readers:
            reader.join(1)
    sys.exit(status)


if __name__ == "__main__":
    main()
