# shellcheck shell=sh disable=SC2034  # its variables are for those who source it
# What the tests of the command share; sourced by each. Needs TROUPE (or TROUPE_COMMAND), the path of
# the command. TROUPE_TEST_DEVICE (default host) is the device that they use. NPY_TOOL is the built
# npy_tool; without it, it is compiled here.

set -u
here=$(cd "$(dirname "$0")" && pwd)
troupe=${TROUPE:-${TROUPE_COMMAND:?TROUPE is not set: the path of the troupe command}}
device=${TROUPE_TEST_DEVICE:-host}
tmp=$(mktemp -d "${TMPDIR:-/tmp}/troupe-cli.XXXXXX")
failures=0
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM

npy_tool=${NPY_TOOL:-}
if [ -z "$npy_tool" ]; then
    npy_tool=$tmp/npy_tool
    ${CC:-cc} -std=gnu17 -O1 -o "$npy_tool" "$here/npy_tool.c" -lm || exit 1
fi

# matrix NAME TYPE C|F|V ROWS COLS: a random file $tmp/NAME.npy, V a vector; the seed is shown.
seed=${TROUPE_TEST_SEED:-$(date +%s)}
echo "seed: $seed"
matrix() {
    if [ "$3" = V ]; then
        array "$1" "$2" C "$4"
    else
        array "$1" "$2" "$3" "$4,$5"
    fi
}

# array NAME TYPE C|F DIM,...: a random file of any shape
array() {
    seed=$((seed + 1))
    "$npy_tool" array "$tmp/$1.npy" "$2" "$3" "$4" "$seed" || exit 1
}
# shape TO FROM DIM,... [C|F]: the same elements with other dimensions
shape() {
    "$npy_tool" shape "$tmp/$2.npy" "$tmp/$1.npy" "$3" "${4:-C}" || fail "no shape $*"
}
# npy NAME 'DICT' BYTES: $tmp/NAME.npy with any header and so many zero bytes of data.
npy() {
    {
        printf '\223NUMPY\001\000\166\000'
        printf '%-117s\n' "$2"
        head -c "$3" /dev/zero
    } >"$tmp/$1.npy"
}

fail() {
    echo "FAIL: $*"
    [ -s "$tmp/out" ] && sed 's/^/  out: /' "$tmp/out"
    [ -s "$tmp/err" ] && sed 's/^/  err: /' "$tmp/err"
    failures=$((failures + 1))
}

# same FILE FILE: two files of $tmp, without .npy, that different ways to a result have made. Sums of
# the same numbers may be taken in another order, which depends on the processor too.
same() {
    "$npy_tool" near "$tmp/$1.npy" "$tmp/$2.npy" || fail "$1.npy and $2.npy differ"
}

# header NAME: shape and dtype in a file
header() {
    dd if="$tmp/$1.npy" bs=1 skip=10 count=118 2>/dev/null | sed 's/ *$//'
}
# has NAME SHAPE: a file with these dimensions, "2, 5, 4, 3"
has() {
    case $(header "$1") in
    *"'shape': ($2)"*) ;;
    *) fail "$1.npy: expected ($2), got $(header "$1")" ;;
    esac
}

# run STATUS ARGS...: the command with these arguments must end so. Output in $tmp/out, $tmp/err.
run() {
    expected=$1
    shift
    "$troupe" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
    status=$?
    if [ $status -ne "$expected" ]; then
        fail "troupe $*: exit status $status, expected $expected"
        return 1
    fi
    echo "ok: troupe $*: exit status $status"
}

# says out|err PATTERN: what the last run printed there has a line with this (grep -E).
says() {
    grep -Eq -- "$2" "$tmp/$1" || fail "std$1 has no '$2'"
}

finish() {
    leftover=$(find "$tmp" -name '*.tmp' -o -name 'troupe-demo-*')
    [ -z "$leftover" ] || fail "left behind: $leftover"
    [ $failures -eq 0 ] || echo "$failures failures"
    exit $((failures > 0))
}
