#!/bin/sh
# troupe bench dnn --only conv-first, with its phases: that it runs, on the fake driver and cuDNN.
# TROUPE_TEST_FAKE_GPU("no sanitizer", "dnn", "FAKE_CUDNN_TAKES=conv")
. "$(dirname "$0")/lib.sh"

run 0 bench dnn --device "$device" --quick --only conv-first --json "$tmp/first.json"
if [ "$device" = cuda ]; then
    for row in "first, with the actor's start" 'first, sent at once' 'first, sent 0.4 s later' \
        'the next' 'cuDNN loaded' 'its handle made' "the device's properties" \
        "cuDNN's own start (warm-up)" 'the plan' 'the first launch' 'the plan, warmed up'; do
        grep -q "\"section\": \"conv-first\", \"name\": \"$row\"" "$tmp/first.json" ||
            fail "no row $row"
    done
    grep -q '"failures": \[\]' "$tmp/first.json" || fail "something has failed"

    run 1 bench --first-conv 0 "$tmp/none" read && says err 'none: there is no record'
    run 0 bench --first-conv 0 "$tmp/record" make && run 0 bench --first-conv 0 "$tmp/record" read
    head -c 40 "$tmp/record" >"$tmp/short"
    run 1 bench --first-conv 0 "$tmp/short" read && says err 'a record that is none'
else
    says out 'needs a GPU'
fi
finish
