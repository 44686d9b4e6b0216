#!/bin/sh
# Installs what is missing for the named groups of packages.txt (default: build runtime).
# Prints what it installs; does nothing if nothing is missing.   Usage: scripts/setup.sh [GROUP...]
# TROUPE_NO_SETUP=1 skips it, for machines that provide the tools in another way.
set -eu

[ "${TROUPE_NO_SETUP:-}" = "" ] || exit 0
[ $# -gt 0 ] || set -- build runtime
list=$(dirname "$0")/packages.txt

wanted=
for group in "$@"; do
    names=$(awk -v group="$group" '$1 == group { print $2 }' "$list")
    if [ -z "$names" ]; then
        echo "setup: no group '$group' in $list" >&2
        exit 2
    fi
    wanted="$wanted $names"
done

if ! command -v dpkg-query >/dev/null; then
    echo "setup: not a Debian system, nothing installed; needed:" $wanted
    exit 0
fi

missing=
for name in $wanted; do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null || true)
    [ "$state" = installed ] || missing="$missing $name"
done
[ -n "$missing" ] || exit 0

as_root=
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "setup: these packages are missing:$missing" >&2
        echo "setup: installing them needs root or sudo. As root: apt-get install$missing" >&2
        exit 1
    fi
    as_root=sudo
fi

echo "setup: installing$missing"

# Passes DEBIAN_FRONTEND by env, because sudo drops the caller's environment.
apt() {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@" </dev/null
}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# Refreshes the package lists once if the first try fails, because missing or old lists make it fail.
if ! apt install -y --no-install-recommends $missing >"$log" 2>&1; then
    if ! { apt update && apt install -y --no-install-recommends $missing; } >"$log" 2>&1; then
        cat "$log" >&2
        echo "setup: could not install:$missing" >&2
        exit 1
    fi
fi
echo "setup: done"
