#!/bin/sh
# A command whose process watches memory with AddressSanitizer:
#     GLUONOPS_CUDA_SANITIZE=1 tests/sanitize.sh python -m pytest -k cuda tests/ops     the CUDA kernels, run on the CPU
#     GLUONOPS_LIBRARY=sanitized.so tests/sanitize.sh python -m pytest -k native tests/ops     the C++ kernels
# `python -m gluonops.native.build --sanitize --output sanitized.so` compiles that library.
set -eu
compiler=${CXX:-g++}   # one word or more, such as "ccache g++"
# Python itself is not built with the sanitizer, so its library has to be the first that is loaded; the C++ library comes
# next, or the sanitizer finds none to watch exceptions in.
# shellcheck disable=SC2086
LD_PRELOAD="$($compiler -print-file-name=libasan.so) $($compiler -print-file-name=libstdc++.so)"
# Python frees little at its end, and a CustomOp's segmentation fault is MXNet's to report.
export LD_PRELOAD ASAN_OPTIONS=detect_leaks=0:handle_segv=0 UBSAN_OPTIONS=print_stacktrace=1
# The sanitizer has to see where each tensor ends.
export GLUONOPS_TUNE_MEMORY=0
exec "$@"
