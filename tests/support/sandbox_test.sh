#!/bin/bash
# Test of the sandbox itself: it passes exit codes on, and fails what leaves something behind.
# Usage: sandbox_test.sh SANDBOX [OPTION...]
failures=0
output=$(mktemp)
mark=$$$RANDOM # in the command line of every process below, to find it again
trap 'rm -f "$output" /dev/shm/sandbox-test.$mark' EXIT
sandbox=("$@" --shm "sandbox-test.$mark") # what other tests, in sandboxes beside this one, overlook

# expect CODE TEXT SCRIPT: the sandbox ends SCRIPT with CODE and prints TEXT.
expect() {
    "${sandbox[@]}" /bin/bash -c "$3" "$mark" >"$output" 2>&1
    local code=$?
    if [ "$code" -ne "$1" ] || [[ $(<"$output") != *"$2"* ]]; then
        echo "expected code $1 and \"$2\", got $code from: $3"
        cat "$output"
        failures=$((failures + 1))
    fi
}

expect 0   ""                     'exit 0'
expect 3   ""                     'exit 3'
expect 77  ""                     'exit 77'
expect 139 "killed by signal 11"  'kill -SEGV $$'
expect 0   ""                     '(sleep 1 &)'                        # ends within the grace
expect 0   ""                     'touch $TMPDIR/file; rm $TMPDIR/file'
expect 99  "left running"         '(sleep 600.$0 &)'                    # an orphan
expect 99  "left running"         'setsid sleep 600.$0 & exit 0'       # out of the process group
expect 99  "left behind: /dev/shm/sandbox-test" 'touch /dev/shm/sandbox-test.$0'
rm -f "/dev/shm/sandbox-test.$mark"
expect 99  "left behind:"         'mkdir $TMPDIR/folder; touch $TMPDIR/folder/file'
sandbox=("$1" --timeout 1)
expect 99  "no end after 1 s"     'sleep 600.$0'

if grep -qs "600[.]$mark" /proc/[0-9]*/cmdline; then
    echo "the sandbox left its orphans running"
    failures=$((failures + 1))
fi
exit $((failures > 0))
