#!/bin/sh
# troupe bench fft and random: that they run. Their figures are nobody's business here.
# TROUPE_TEST("no tsan")
. "$(dirname "$0")/lib.sh"

run 0 bench fft --device host --quick --limit 3600 --json "$tmp/fft.json" && says out 'c2r f64 127' &&
    says out 'c2c f32 64x64x64' && says out 'Transforms of 2.24'
grep -q '"failures": \[\]' "$tmp/fft.json" || fail "a transform has failed"
run 0 bench fft --device host --quick --limit 0 && says out 'stopped after 0 s'

run 0 bench random --device host --quick --json "$tmp/random.json" && says out 'uniform f32' && says out 'dropout f64'
grep -q '"failures": \[\]' "$tmp/random.json" || fail "a request has failed"

finish
