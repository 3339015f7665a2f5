#!/bin/sh
# The pool of threads under ThreadSanitizer. A planted race comes first: the sanitizer has to see it.
set -eu
here=$(dirname "$0")
package=$here/../../gluonops
out=$(mktemp -d)
compiler=${CXX:-g++}   # one word or more, such as "ccache g++"
trap 'rm -rf "$out"' EXIT
# At fixed addresses and without their randomization, which the sanitizers of older compilers do not take.
fixed=$(command -v setarch >/dev/null && setarch "$(uname -m)" -R true 2>/dev/null && echo "setarch $(uname -m) -R") || fixed=
# shellcheck disable=SC2086
$compiler -std=c++17 -O1 -g -Wall -fsanitize=thread -I "$package" -DGLUONOPS_ISA=base "$here/threads.cc" \
    -o "$out/threads" -lpthread
export TSAN_OPTIONS=exitcode=66
status=0
$fixed "$out/threads" race >"$out/race" 2>&1 || status=$?
if [ "$status" -ne 66 ] || ! grep -q "data race" "$out/race"; then
    cat "$out/race" >&2
    echo "threads: the sanitizer did not report the planted race (exit status $status)" >&2
    exit 1
fi
result=$($fixed "$out/threads")   # `set -e` would not see that it fails within the line below
echo "threads: $result"
