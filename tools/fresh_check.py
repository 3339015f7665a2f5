"""Run `make demo` and `make test` as a new user does, on the smallest Debian that can: `make fresh-check`.

Each system is made by debootstrap, once, and has Python, git, make and g++. What runs there sees a clone of this
repository's last commit in its home, and the system itself read-only. pip's cache and settings are those of this
machine. It needs root, a Debian or Ubuntu for debootstrap if that is missing, and 6 GB of disk.
"""
from __future__ import annotations

import argparse
import ast
import os
import pathlib
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from debian import ALONE, debootstrap, install_tools, run

ROOT = pathlib.Path(__file__).resolve().parents[1]
SUITES = {"12": "bookworm", "13": "trixie"}
PACKAGES = ("python3", "python3-venv", "git", "make", "g++", "ca-certificates")
USER, PIP_CACHE = "/home/user", "/var/cache/pip"
# sh SYSTEM SOURCE PLACE SOURCE PLACE ... -- COMMAND: run a command in a system that sees each source at its place.
ENTER = """
system=$1
shift
mount --bind "$system" "$system"
mount -t proc proc "$system/proc"
for tree in dev sys; do
    mount --rbind "/$tree" "$system/$tree"
done
while [ "$1" != -- ]; do
    mkdir -p "$(dirname "$system$2")"
    if [ -d "$1" ]; then mkdir -p "$system$2"; else touch "$system$2"; fi
    mount --bind "$1" "$system$2"
    shift 2
done
shift
mount -o remount,bind,ro "$system"
exec chroot "$system" "$@"
"""
LIMIT = 3600   # seconds that a target may take
# Beside pip's own settings, what says how this machine reaches the registry.
NETWORK = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "http_proxy", "https_proxy", "no_proxy",
           "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--debian", action="append", metavar="VERSION",
                        help="12, 13, or the name of a suite, such as forky (default: 12, 13)")
    parser.add_argument("--python", metavar="3.X", help="with this Python of that suite as well")
    parser.add_argument("--target", action="append", metavar="TARGET",
                        help="what make gets, such as demo, or 'test PYTEST=tests/contract' (default: demo, test)")
    parser.add_argument("--home", type=pathlib.Path, default=ROOT / ".venv-fresh", help="where the systems are kept")
    args = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):   # the systems' processes end with this one
        signal.signal(number, lambda *_: sys.exit("fresh-check: interrupted"))
    install_tools({"debootstrap": "debootstrap", "git": "git"})
    args.home.mkdir(parents=True, exist_ok=True)
    table, failed = [], False
    for version in args.debian or SUITES:
        system = make_system(args.home.resolve(), SUITES.get(version, version), args.python)
        with tempfile.TemporaryDirectory(prefix="run-", dir=args.home.resolve()) as folder:
            (pathlib.Path(folder) / "tmp").mkdir()
            run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, f"{folder}/gluonops"])
            for target in args.target or ("demo", "test"):
                works, result = make(target, system, pathlib.Path(folder))
                table.append(f"Debian {version}: make {target}: {result}")
                failed = failed or not works
    print("\n".join(["", *table]))
    return failed


def make_system(home: pathlib.Path, suite: str, python: str | None) -> pathlib.Path:
    """Return the folder of a system, which is made if it does not exist."""
    name = f"{suite}-python{python}" if python else suite
    system, partial = home / name, home / f"{name}.partial"
    if not system.is_dir():
        shutil.rmtree(partial, ignore_errors=True)
        debootstrap(suite, partial, (*PACKAGES, *([f"python{python}-venv"] if python else [])))
        partial.rename(system)
    return system


def make(target: str, system: pathlib.Path, folder: pathlib.Path) -> tuple[bool, str]:
    """Run a target in the clone of a folder, and show its output. Return whether it works, its times and its result."""
    settings = network_settings()
    shared = {folder: USER, folder / "tmp": "/tmp", pip_cache(): PIP_CACHE, **local_paths(settings),
              "/etc/resolv.conf": "/etc/resolv.conf", "/etc/hosts": "/etc/hosts"}
    command = [*ALONE, "sh", "-euc", ENTER, "sh", system,
               *[path for pair in shared.items() for path in pair], "--",
               "make", "--no-print-directory", "-C", f"{USER}/gluonops", *shlex.split(target)]
    environment = {"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": USER, "LANG": "C.UTF-8",
                   "PIP_CACHE_DIR": PIP_CACHE, **settings}
    start, cpu, closing = time.monotonic(), cpu_seconds(), ""
    with subprocess.Popen([str(word) for word in command], env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
                          errors="replace") as process:
        limit = threading.Timer(LIMIT, process.kill)
        limit.start()
        try:
            for line in process.stdout:
                print(line, end="", flush=True)
                if re.match(r"=+ .* in [0-9.]+s.* =+$", line):
                    closing = line.strip()
        except BaseException:
            process.kill()
            raise
        finally:
            limit.cancel()
    outcome = "passed" if process.returncode == 0 else f"FAILED after {LIMIT} s" if process.returncode < 0 else "FAILED"
    return outcome == "passed", (f"{outcome} in {time.monotonic() - start:.0f} s, {cpu_seconds() - cpu:.0f} s of CPU "
                                 f"{closing}")


def cpu_seconds() -> float:
    """Return the CPU time in seconds of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def network_settings() -> dict[str, str]:
    """Return the environment variables with which pip reaches the registry as it does on this machine."""
    of_files = re.findall(r"^[a-z]+\.([a-z-]+)=('.*')$", ask_pip("config", "list"), re.M)
    return {**{f"PIP_{name.upper().replace('-', '_')}": ast.literal_eval(value) for name, value in of_files},
            **{name: value for name, value in os.environ.items() if name.startswith("PIP_") or name in NETWORK}}


def local_paths(settings: dict[str, str]) -> dict[pathlib.Path, str]:
    """Return the files and folders of this machine that the settings name, each with the same path there.

    The pages of an index refer to files beside it, so a URL stands for the folder around it.
    """
    words = [word for value in settings.values() for word in value.split()]
    paths = [os.path.dirname(word[len("file://"):].rstrip("/")) if word.startswith("file://") else word
             for word in words]
    return {pathlib.Path(path): path for path in paths if path.startswith("/") and os.path.exists(path)}


def pip_cache() -> pathlib.Path:
    """Return the folder of pip's cache on this machine."""
    folder = pathlib.Path(ask_pip("cache", "dir").strip() or pathlib.Path.home() / ".cache" / "pip")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def ask_pip(*words: str) -> str:
    """Return what this machine's pip prints, or nothing if there is none."""
    command = [sys.executable, "-m", "pip", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


if __name__ == "__main__":
    sys.exit(main())
