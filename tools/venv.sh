#!/bin/sh
# tools/venv.sh DIR PYTHON...: a virtual environment in DIR, with the first PYTHON that runs and that MXNet 1.9.1 takes.
# A command may exist and not run (pyenv's shims do that), so each is tried. A good environment in DIR is kept.
set -eu
dir=$1
shift
suits='import sys, venv, ensurepip; sys.exit(not (3, 9) <= sys.version_info[:2] <= (3, 12))'

if ! "$dir/bin/python" -c "$suits" >/dev/null 2>&1; then
    chosen= seen=
    for python in "$@"; do
        if "$python" -c "$suits" >/dev/null 2>&1; then
            chosen=$python
            break
        fi
        version=$("$python" -c 'import platform; print(platform.python_version())' 2>/dev/null) || version=
        seen="$seen
  $python: ${version:-does not run}"
    done
    if [ -z "$chosen" ]; then
        cat >&2 <<END
gluonops needs Python 3.9 to 3.12 with the modules venv and ensurepip (Debian and Ubuntu: apt install python3-venv).
Tried:$seen
Install one of them, or name it: make PYTHON=/path/to/python3.11
END
        exit 1
    fi
    echo "$chosen -m venv $dir"
    "$chosen" -m venv --clear "$dir"
fi
"$dir/bin/python" -m pip --version >/dev/null 2>&1 || "$dir/bin/python" -m ensurepip >/dev/null
# Older ones cannot install a pyproject.toml project in place.
"$dir/bin/python" -m pip install --quiet 'pip>=22.3'
