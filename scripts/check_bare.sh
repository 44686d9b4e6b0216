#!/bin/bash
# Runs a make target from a fresh clone in a bare Debian 12: only the base system, make and git.
# Needs root and debootstrap, and a few minutes. Usage: scripts/check_bare.sh [TARGET] (default demo)
# MIRROR=URL names the Debian mirror.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${1:-demo}
root=$(mktemp -d)
trap 'umount "$root/proc" "$root/dev/shm" 2>/dev/null || true; rm -rf --one-file-system "$root"' EXIT

debootstrap --variant=minbase --include=make,git,ca-certificates bookworm "$root" \
    ${MIRROR:+"$MIRROR"} >/dev/null
cp /etc/resolv.conf "$root/etc/"
mount -t proc proc "$root/proc"
mkdir -p "$root/dev/shm"
mount -t tmpfs tmpfs "$root/dev/shm"

git clone --quiet . "$root/root/troupe"
for try in first second; do
    echo "--- make $target, $try time"
    chroot "$root" env -i PATH="$PATH" HOME=/root LANG=C.UTF-8 \
        make -C /root/troupe --no-print-directory "$target"
done
