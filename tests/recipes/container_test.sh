#!/bin/bash
# Runs a program as a container would: docs/recipes/containers.md. Cases that this machine does not allow are left out.
# Usage: container_test.sh CALLS SCALE_CLAMP SCALE_CLAMP_ACTOR
set -euo pipefail
calls=$(realpath "$1") deny=$(dirname "$(realpath "$1")")/deny
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 "$work" "$(dirname "$work")"
export CALLS=$calls WORK=$work TROUPE_CUDA_DRIVER=/nowhere/none

unshare=(unshare)
[ "$(id -u)" = 0 ] || unshare+=(--user --map-root-user)
if ! "${unshare[@]}" --mount --pid --fork true 2>why; then
    echo "skipped: no namespaces here: $(cat why)"
    exit 77
fi
cases=0
# inside NAME OPTIONS...: runs the set-up on standard input, then the program in both ways, in new namespaces.
inside() {
    local name=$1 how
    shift
    cat >setup
    for how in process thread; do
        if ! timeout 120 "${unshare[@]}" --mount --pid --fork --kill-child "$@" bash -ec '
            . ./setup
            exec $RUN "$CALLS" '$how >out 2>&1 </dev/null; then
            echo "$name, $how: failed"
            cat out
            exit 1
        fi
        grep -q 'all calls are done' out
    done
    cases=$((cases + 1))
    echo "$name: done"
}
export RUN=

inside "as process 1 of a namespace" --mount-proc <<<''
inside "without /proc" <<<'mount -t tmpfs none /proc'
inside "without a network" --net --ipc --uts <<<''
inside "a /dev/shm of 64 KiB" <<<'mount -t tmpfs -o size=64k none /dev/shm'
"${unshare[@]}" --mount mount -o remount,bind,ro / 2>why &&
inside "nothing writable but the folder" --mount-proc <<'EOF'
mount -t tmpfs none "$WORK"
mount -t tmpfs -o ro none /dev/shm
mount -o remount,bind,ro /
if touch /troupe-recipe 2>/dev/null; then rm /troupe-recipe; echo "the root is writable"; exit 1; fi
cd "$WORK"
export HOME=/nowhere TMPDIR=/nowhere
EOF
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null &&
    setpriv --reuid 65534 --regid 65534 --clear-groups test -x "$TROUPE_WORKER" -a -x "$calls"; then
    chmod 777 "$work"
    RUN="setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs --inh-caps -all --bounding-set -all" \
        inside "as nobody, without capabilities" --mount-proc <<<''
    chmod 755 "$work"
fi

# Calls that a filter may deny. close_range() can be done without; pidfd_open() is needed, and the error says so.
call() { printf '#include <sys/syscall.h>\nSYS_%s\n' "$1" | ${CC:-cc} -E - 2>/dev/null | tail -n 1; }
close_range=$(call close_range) pidfd_open=$(call pidfd_open)
if "$deny" 9999 1 /bin/true && [ "$close_range" -gt 0 ] && [ "$pidfd_open" -gt 0 ]; then
    for code in 1 38; do
        timeout 120 "$deny" "$close_range" $code "$calls" process
        if timeout 120 "$deny" "$pidfd_open" $code "$calls" process >out 2>&1; then
            echo "a device was opened without pidfd_open()"
            exit 1
        fi
        grep 'pidfd_open' out
        timeout 120 "$deny" "$pidfd_open" $code "$calls" thread
    done
    cases=$((cases + 2))
fi
echo "$cases cases"
