#!/bin/bash
# Checks that each public header compiles alone, as C17 and as C++17, without warnings, and troupe.hpp as C++17.
# Usage: scripts/check_headers.sh [CC [CXX]]
cd "$(dirname "$0")/.." || exit 2
cc=${1:-gcc} cxx=${2:-g++}
flags=(-Iinclude -Wall -Wextra -Wshadow -Wconversion -Wpedantic -Werror -fsyntax-only)
failures=0

for header in include/troupe/*.h; do
    line="#include <${header#include/}>"
    # Uses standard input, because a header compiled as the main file gives a warning for its "#pragma once".
    if ! "$cc" -std=c17 "${flags[@]}" -x c - <<<"$line"; then
        echo "$header does not compile alone as C17"
        failures=$((failures + 1))
    fi
    if ! "$cxx" -std=c++17 "${flags[@]}" -x c++ - <<<"$line"; then
        echo "$header does not compile alone as C++17"
        failures=$((failures + 1))
    fi
done
if ! "$cxx" -std=c++17 "${flags[@]}" -x c++ - <<<"#include <troupe/troupe.hpp>"; then
    echo "include/troupe/troupe.hpp does not compile alone as C++17"
    failures=$((failures + 1))
fi
[ "$failures" -eq 0 ]
