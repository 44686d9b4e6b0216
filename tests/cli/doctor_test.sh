#!/bin/sh
# troupe doctor: the report, and the isolation test on every device of this machine.
. "$(dirname "$0")/lib.sh"

run 0 doctor --quick && says out '^devices' && says out '\(host\)' && says out 'troupe-worker' &&
    says out ' openblas ' && says out ' onednn ' && says out ' cuda '
run 0 doctor && says out '^isolation' && says out 'host 0 +works' && says out 'devices that work: [1-9]'
[ -s "$tmp/err" ] && fail "doctor wrote to standard error"

TROUPE_WORKER=$tmp/nothere "$troupe" doctor >"$tmp/out" 2>"$tmp/err"
[ $? -eq 1 ] || fail "a missing worker: exit status other than 1"
says out 'troupe-worker +error +.*nothere'

# A worker that is something else.
printf '#!/bin/sh\nexit 7\n' >"$tmp/impostor"
chmod +x "$tmp/impostor"
TROUPE_WORKER=$tmp/impostor "$troupe" doctor >"$tmp/out" 2>"$tmp/err"
[ $? -eq 1 ] || fail "an impostor of a worker: exit status other than 1"
says err 'exited with 7'
says out 'host 0 +does not work'

finish
