#!/bin/sh
# Runs the demonstration: two products of real files on the best device, with a fault between them. Uses
# the release build, which `make demo` builds first; options go to `troupe demo`.
set -eu
cd "$(dirname "$0")/.."
troupe=${TROUPE_BUILD:-build/release}/bin/troupe
if [ ! -x "$troupe" ]; then
    echo "$troupe is missing: run 'make demo', which builds it" >&2
    exit 1
fi
exec "$troupe" demo "$@"
