#!/bin/sh
# The kernels under AddressSanitizer and UndefinedBehaviorSanitizer, once per instruction set that this machine has:
#     tests/native/sanitize.sh [rounds [seed]]
set -eu
here=$(dirname "$0")
package=$here/../../gluonops
out=$(mktemp -d)
compiler=${CXX:-g++}   # one word or more, such as "ccache g++"
trap 'rm -rf "$out"' EXIT
"${PYTHON:-python3}" "$package/native/generate.py" "$out/generated" abs center_loss gaussian_yolo_loss region_decode \
    region_loss reorg softmax softmax_cross_entropy softmax_output tile yolo_loss
cat "$out"/generated/kernels*.cc >"$out/kernels.cc"
avx2="-mavx2 -mfma -mf16c -mbmi -mbmi2"
avx512="$avx2 -mavx512f -mavx512bw -mavx512cd -mavx512dq -mavx512vl"
targets=base
flags=$(grep -m1 '^flags' /proc/cpuinfo 2>/dev/null || true)
case "$flags" in *avx2*f16c* | *f16c*avx2*) targets="$targets avx2" ;; esac
case "$flags" in *avx512bw*avx512vl*) targets="$targets avx512" ;; esac
for target in $targets; do
    case $target in avx2) march=$avx2 ;; avx512) march=$avx512 ;; *) march= ;; esac
    # shellcheck disable=SC2086
    $compiler -std=c++17 -O1 -g -fno-math-errno -fno-trapping-math -Wall -Wno-psabi -Wno-ignored-attributes \
        -Wno-maybe-uninitialized -Wno-uninitialized -fsanitize=address,undefined -fno-sanitize-recover=all \
        $march -I "$out" -I "$package" "-DGLUONOPS_ISA=$target" "$here/sanitize.cc" -o "$out/$target" -lpthread
    result=$("$out/$target" "$@")   # `set -e` would not see that it fails within the line below
    echo "$target: $result"
done
