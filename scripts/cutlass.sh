#!/bin/sh
# Fetches CUTLASS's headers from PyPI in the version and with the hash of cutlass.txt, and copies those that
# the templates include to a folder, with their licence. Does nothing if the folder is up to date.
# Usage: scripts/cutlass.sh [FOLDER]     default: build/cutlass
# With TROUPE_WHEELS set, the wheel is taken from that folder, without network.
set -eu

here=$(dirname "$0")
folder=${1:-$here/../build/cutlass}
wanted=$(sed -n 's/^nvidia-cutlass==\([^ ]*\) .*:\([0-9a-f]*\)$/\1 \2/p' "$here/cutlass.txt")
version=${wanted% *}
# The folder is also out of date if a template includes another header.
stamp="$wanted $("$here/cutlass_headers.py" --hash)"
if [ "$(cat "$folder/stamp" 2>/dev/null || true)" = "$stamp" ]; then
    exit 0
fi

if ! python3 -m pip --version >/dev/null 2>&1; then
    "$here/setup.sh" cutlass
fi

echo "cutlass: fetching nvidia-cutlass $version from PyPI into $folder"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if ! python3 -m pip download --quiet --disable-pip-version-check --retries 1 --timeout 30 --no-deps --only-binary=:all: \
    --require-hashes -r "$here/cutlass.txt" -d "$work" \
    ${TROUPE_WHEELS:+--no-index --find-links "$TROUPE_WHEELS"} >"$work/log" 2>&1; then
    cat "$work/log" >&2
    echo "cutlass: could not be fetched; everything that needs it is skipped" >&2
    exit 1
fi
python3 -m zipfile -e "$work"/nvidia_cutlass-*.whl "$work/wheel"

rm -rf "$folder.new" "$folder"
mkdir -p "$folder.new"
"$here/cutlass_headers.py" "$work/wheel/cutlass_library/source" "$folder.new/include"
cp "$work"/wheel/nvidia_cutlass-*.dist-info/licenses/LICENSE.txt "$folder.new/LICENSE.txt"
echo "$stamp" >"$folder.new/stamp"
mv "$folder.new" "$folder"
echo "cutlass: done"
