#!/bin/sh
# A command with the CUDA kernels, run on the CPU, under AddressSanitizer:
#     tests/cuda/sanitize.sh python -m pytest tests/cuda/test_cuda_kernels.py
set -eu
compiler=${CXX:-g++}   # one word or more, such as "ccache g++"
# Python itself is not built with the sanitizer, so its library has to be the first that is loaded; the C++ library comes
# next, or the sanitizer finds none to watch exceptions in.
# shellcheck disable=SC2086
LD_PRELOAD="$($compiler -print-file-name=libasan.so) $($compiler -print-file-name=libstdc++.so)"
# Python frees little at its end, and a CustomOp's segmentation fault is MXNet's to report.
export LD_PRELOAD ASAN_OPTIONS=detect_leaks=0:handle_segv=0 GLUONOPS_CUDA_SANITIZE=1
# The sanitizer has to see where each tensor ends.
export GLUONOPS_TUNE_MEMORY=0
exec "$@"
