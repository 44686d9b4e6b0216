#!/bin/sh
# Fetches what tests compare with, from PyPI in the versions and with the hashes of wheels.txt, into build/peers, for
# PYTHONPATH. Does nothing if the folder is up to date. Fails if it can't be fetched; the tests are skipped then.
# Usage: tests/peer/fetch.sh
# With TROUPE_WHEELS set, the wheels are taken from that folder, without network.
set -eu

here=$(dirname "$0")
folder=$here/../../build/peers
stamp=$(sha256sum <"$here/wheels.txt")
if [ "$(cat "$folder/stamp" 2>/dev/null || true)" = "$stamp" ]; then
    exit 0
fi
if ! python3 -m pip --version >/dev/null 2>&1; then
    "$here/../../scripts/setup.sh" cutlass
fi
echo "peers: fetching numpy, scipy and pytest from PyPI into $folder"
rm -rf "$folder.new" "$folder"
mkdir -p "$folder.new"
if ! python3 -m pip install --quiet --disable-pip-version-check --retries 1 --timeout 30 --no-deps \
    --only-binary=:all: --require-hashes -r "$here/wheels.txt" --target "$folder.new" ${TROUPE_WHEELS:+--no-index --find-links "$TROUPE_WHEELS"} \
    >"$folder.new.log" 2>&1; then
    cat "$folder.new.log" >&2
    echo "peers: could not be fetched; the tests that need them are skipped" >&2
    exit 1
fi
rm "$folder.new.log"
echo "$stamp" >"$folder.new/stamp"
mv "$folder.new" "$folder"
echo "peers: done"
