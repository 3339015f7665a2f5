#!/bin/sh
# Line coverage of the package, Python and C++: tools/coverage.sh PYTHON [pytest's arguments]. At least 95 % of each.
# The counts, and the C++ library that counts its lines, are in out/coverage.
set -eu
python=$1
shift
out=$PWD/out/coverage
rm -rf "$out"
mkdir -p "$out/native"
# Absolute: the tests begin processes in other folders.
export COVERAGE_FILE="$out/python" GLUONOPS_LIBRARY="$out/native/libgluonops.so" PYTHONPATH="$PWD/tests" OMP_NUM_THREADS=1

"$python" -m coverage run -m gluonops.native.build --coverage "$out/native" --output "$GLUONOPS_LIBRARY"
status=0
# Without the tests of the CUDA source and of the tree, which take long.
"$python" -m coverage run -m pytest -p engine_threads -m "not slow" --ignore tests/ptx --ignore tests/test_tree.py \
    --ignore tests/cuda/test_cuda_kernels.py "$@" || status=$?
"$python" -m coverage combine --quiet
"$python" -m coverage report || status=$?
"$python" -m gcovr --config tools/gcovr.cfg "$out/native" || status=$?
exit "$status"
