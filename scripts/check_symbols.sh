#!/bin/bash
# Checks that the shared library of a build exports exactly what the public headers declare (declarations.sh), that every
# global name of the static one starts with trp_, so that it cannot clash with a user's, and that the libraries,
# the worker and the command do not call getenv(): secure_getenv() ignores the environment in a set-user-ID
# program, whose user must not choose the code that it runs.
# Usage: scripts/check_symbols.sh LIBTROUPE_SO LIBTROUPE_A PROGRAM...
set -euo pipefail
export LC_ALL=C
shared=$1 static=$2
shift 2

# Prints the names of an nm listing ("value type name@@VERSION") without the version's own symbol (type A).
names() { awk 'NF == 3 && $2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u; }

# Every function has its name before "(", at the beginning of a line of declarations.h, or is a member.
declared=$(tr '\n' ' ' <"$(dirname "$shared")/../include/troupe/declarations.h" | tr ';}' '\n\n' | grep -v '[{]' |
    grep -oE '^[^(]*\btrp_[a-z0-9_]+ *\(' | grep -oE 'trp_[a-z0-9_]+ *\($' | tr -d '( ' | sort -u)
exported=$(nm -D --defined-only "$shared" | names)
foreign=$(nm -g --defined-only "$static" | names | grep -v '^trp_' || true)

failures=0
report() { # report WHAT NAMES: one line a name, and a failure if there are any
    [ -n "$2" ] || return 0
    sed "s/^/$1: /" <<<"$2"
    failures=$((failures + 1))
}
report "declared in a public header, but not exported" "$(comm -23 <(echo "$declared") <(echo "$exported"))"
report "exported, but in no public header" "$(comm -13 <(echo "$declared") <(echo "$exported"))"
report "a global name of the static library without trp_" "$foreign"
for file in "$shared" "$@"; do
    report "$(basename "$file"): the environment must be read by secure_getenv()" \
        "$(nm -D --undefined-only "$file" | grep -ow 'getenv' || true)"
done
[ "$failures" -eq 0 ]
