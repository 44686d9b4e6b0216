#!/bin/bash
# troupe.hpp with both compilers, as far as they are there: without a warning, linked to the library, and run; and the
# example of docs/install.md.
# Usage: cpp_test.sh LIBRARY_FOLDER
set -euo pipefail
source=$(realpath "$(dirname "$0")/../..")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LD_LIBRARY_PATH=$1${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
strict=(-std=c++17 -O1 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror "-I$source/include" "-I$1/../include")
found=0
for cxx in g++ clang++; do
    command -v "$cxx" >/dev/null || continue
    found=1
    for program in tests/languages/cpp_test examples/first; do
        "$cxx" "${strict[@]}" "$source/$program.cpp" -L"$1" -ltroupe -o "$work/program"
        "$work/program" | tee "$work/out"
    done
    grep -qx 'c\[1\]\[0\] is 10' "$work/out"
done
[ $found = 1 ] || { echo "no C++ compiler: skipped"; exit 77; }
