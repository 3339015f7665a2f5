#!/bin/sh
# tools/venv.sh DIR [PYTHON...]: a virtual environment in DIR, with the first PYTHON that runs and that gluonops supports;
# by default with the newest on the PATH or of pyenv. A command may exist and not run (pyenv's shims do that), so each is
# tried. A good environment in DIR is kept.
set -eu
dir=$1
shift
support=$(dirname "$0")/../gluonops/runtime/support.py

suits() {
    "$1" -c 'import venv, ensurepip' >/dev/null 2>&1 && "$1" "$support" >/dev/null 2>&1
}

if [ $# -eq 0 ]; then
    minor=20
    while [ $minor -gt 8 ]; do
        for python in "python3.$minor" "${HOME:-}"/.pyenv/versions/3.$minor.*/bin/python; do
            ! command -v "$python" >/dev/null || set -- "$@" "$python"
        done
        minor=$((minor - 1))
    done
    set -- "$@" python3
fi
if ! suits "$dir/bin/python"; then
    chosen= seen=
    for python in "$@"; do
        if suits "$python"; then
            chosen=$python
            break
        fi
        version=$("$python" -c 'import platform; print(platform.python_version())' 2>/dev/null) || version=
        seen="$seen
  $python: ${version:-does not run}"
    done
    if [ -z "$chosen" ]; then
        versions=$(sed -n 's/^PYTHONS = ((\(.*\), \(.*\)), (\(.*\), \(.*\))).*/\1.\2 to \3.\4/p' "$support")
        cat >&2 <<END
gluonops needs Python $versions with the modules venv and ensurepip (Debian and Ubuntu: apt install python3-venv).
Tried:$seen
Install one of them, or name it: make PYTHON=/path/to/python3
END
        exit 1
    fi
    echo "$chosen -m venv $dir"
    "$chosen" -m venv --clear "$dir"
fi
"$dir/bin/python" -m pip --version >/dev/null 2>&1 || "$dir/bin/python" -m ensurepip >/dev/null
# Older ones cannot install a pyproject.toml project in place.
"$dir/bin/python" -m pip install --quiet 'pip>=22.3'
