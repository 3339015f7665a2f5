"""What the checks on other systems share: Debian's packages, debootstrap, and commands that have to succeed."""
from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

PROGRAM = pathlib.Path(sys.argv[0]).stem.replace("_", "-")
# debootstrap of an older system has no script for a newer one. That of sid fits all of them.
NEWEST_SCRIPT = "sid"
# A tree of processes and of mounts that is gone when this program ends it.
ALONE = ("unshare", "--pid", "--mount-proc", "--fork", "--kill-child")


def install_tools(packages: dict[str, str]) -> None:
    """Install the Debian packages whose commands are missing. ``packages`` maps a command to its package.

    The program ends with an error if the user is not root.
    """
    if os.geteuid():
        sys.exit(f"{PROGRAM}: needs root, because debootstrap does. Run it with sudo")
    problem = tools_problem(packages)
    if problem:
        sys.exit(f"{PROGRAM}: {problem}")


def tools_problem(packages: dict[str, str]) -> str | None:
    """Install the Debian packages whose commands are missing, and return why that is not possible, or nothing."""
    missing = [package for command, package in packages.items() if not shutil.which(command)]
    if missing and not shutil.which("apt-get"):
        return f"{', '.join(missing)} is missing, and there is no apt-get. Install it"
    if missing and os.geteuid():
        return f"{', '.join(missing)} is missing. Run: sudo apt-get install {' '.join(missing)}"
    if missing:
        run(["apt-get", "update", "--quiet"])
        run(["apt-get", "install", "--yes", "--quiet", *missing])
    return None


def debootstrap(suite: str, folder: pathlib.Path, packages: tuple[str, ...], *options: str) -> None:
    """Put the smallest Debian of a suite with these packages into a folder."""
    run([*ALONE, "debootstrap", "--variant=minbase", f"--include={','.join(packages)}", *options, suite, folder, "",
         NEWEST_SCRIPT])


def run(command: list, timeout: float | None = None, **environment: object) -> None:
    """Run a command with more environment variables. It ends the program if it fails."""
    variables = {name: str(value) for name, value in environment.items()}
    done = subprocess.run([str(part) for part in command], timeout=timeout, env={**os.environ, **variables})
    if done.returncode:
        sys.exit(f"{PROGRAM}: the command failed: {' '.join(map(str, command))}")
