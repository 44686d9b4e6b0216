#!/bin/bash
# Writes all declarations of the library into one file for parsers of C, such as cffi, pycparser and bindgen: types,
# constants and functions; no include, no condition, no attribute, no body, no comment.
# Usage: scripts/declarations.sh CC TROUPE_H FILE    TROUPE_H is the header of all headers, which the build writes
set -euo pipefail
export LC_ALL=C
cc=$1 all=$(realpath "$2") file=$(realpath "$3")
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Types of the C library are not expanded.
touch "$work"/{stdbool,stddef,stdint}.h
preprocess() { "$cc" -E -P -nostdinc -U__GNUC__ -DTRP_INLINE=TRP__INLINE -isystem "$work" -Iinclude "$@" "$all"; }
exec >"$file.new"

cat <<'END'
/* Troupe for other languages: every type, constant and function of <troupe/troupe.h>, made from it by
 * scripts/declarations.sh. The headers beside this file say what each does.
 *
 * cffi's FFI.cdef() takes this text as it is. In C the types of <stdbool.h>, <stddef.h> and <stdint.h> must be
 * known before: bindgen declarations.h -- -include stdbool.h -include stddef.h -include stdint.h
 *
 * A program in C or C++ includes <troupe/troupe.h> instead, never both.
 * SPDX-License-Identifier: Apache-2.0 */
END

# Constants that are macros and integers, as plain numbers: TRP_FOREVER is INT64_C(-1).
preprocess -dM | grep -E '^#define TRP_[A-Z0-9_]+ ' | sort | while read -r _ name value; do
    value=$(sed -E 's/U?INT(32|64)_C\(([^)]*)\)/\2/g' <<<"$value")
    if grep -qE '^[-+0-9a-fA-Fx()<> *|]+$' <<<"$value"; then
        printf '#define %s %d\n' "$name" $((value))
    fi
done

# Declarations; an inline function ends before its body.
preprocess | awk '
    { text = text $0 "\n" }
    END {
        mark = "TRP__INLINE "
        while ((at = index(text, mark)) > 0) {
            printf "%s", substr(text, 1, at - 1)
            text = substr(text, at + length(mark))
            at = index(text, "{")
            head = substr(text, 1, at - 1)
            sub(/[ \n]+$/, "", head)
            printf "%s;\n", head
            for (depth = 1; depth > 0; ) {
                at++
                c = substr(text, at, 1)
                depth += (c == "{") - (c == "}")
                if (c == "") exit 1
            }
            text = substr(text, at + 1)
        }
        printf "%s", text
    }' | awk '
    /^ *$/ { next }
    complete { sub(/^ +/, "") } # what is left of an empty TRP_API
    { print; depth += gsub(/{/, "{") - gsub(/}/, "}"); complete = depth == 0 && /;$/ }'
mv "$file.new" "$file"
