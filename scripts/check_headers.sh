#!/bin/bash
# Checks that each public header compiles alone, as C17 and as C++17, without warnings, and troupe.hpp as C++17.
# Usage: scripts/check_headers.sh BUILD_INCLUDE CC CXX    BUILD_INCLUDE has the built troupe/troupe.h
cd "$(dirname "$0")/.." || exit 2
cc=$2 cxx=$3
flags=(-Iinclude "-I$1" -Wall -Wextra -Wshadow -Wconversion -Wpedantic -Werror -fsyntax-only)
failures=0

for header in include/troupe/*.h troupe/troupe.h; do
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
