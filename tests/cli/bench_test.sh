#!/bin/sh
# troupe bench dnn: that it runs, and what it refuses. Its figures are nobody's business here.
. "$(dirname "$0")/lib.sh"

run 0 bench dnn --device host --quick --limit 3600 --json "$tmp/all.json" && says out 'Layers of ResNet-50'
grep -q '"section": "resnet"' "$tmp/all.json" || fail "no section resnet in the JSON"
for section in conv-fused attention rnn elements; do
    grep -q "\"section\": \"$section\"" "$tmp/all.json" || fail "no section $section in the JSON"
done
grep -q '"failures": \[\]' "$tmp/all.json" || fail "something has failed"

# The script for PyTorch knows every row of these by the same name.
if command -v python3 >/dev/null; then
    python3 "$(dirname "$0")/../../bench/peers/torch_dnn.py" --names >"$tmp/names"
    grep -E '"section": "(resnet|convs|attention|rnn)"' "$tmp/all.json" |
        sed 's/.*"name": "\([^"]*\)".*/\1/' >"$tmp/rows"
    [ "$(wc -l <"$tmp/rows")" -eq 28 ] || fail "$(wc -l <"$tmp/rows") rows, expected 28"
    grep -v -x -F -f "$tmp/names" "$tmp/rows" && fail "rows that bench/peers/torch_dnn.py does not have"
    python3 "$(dirname "$0")/../../bench/peers/torch_elementwise.py" --names >"$tmp/names"
    grep '"section": "elements"' "$tmp/all.json" | sed 's/.*"name": "\([^"]*\)".*/\1/' >"$tmp/rows"
    [ "$(wc -l <"$tmp/rows")" -eq 88 ] || fail "$(wc -l <"$tmp/rows") rows, expected 88"
    grep -v -x -F -f "$tmp/names" "$tmp/rows" &&
        fail "rows that bench/peers/torch_elementwise.py does not have"
fi

# What PyTorch took: of each pass of one layer, and of one row of other sections.
cat >"$tmp/torch.json" <<'END'
{"torch": "0", "results": [
    {"name": "7x7/2 3-8 16 n2 fwd", "us": 1000.0},
    {"name": "7x7/2 3-8 16 n2 dgrad", "us": 1000.0},
    {"name": "7x7/2 3-8 16 n2 wgrad", "us": 1000.0},
    {"name": "attention b2 h2 s32 d16 causal bwd", "us": 1000.0},
    {"name": "gru f16 h16 l1 t4 b3 fwd", "us": 1000.0},
    {"name": "relu f32 4096", "us": 1000.0}
  ]
}
END
run 0 bench dnn --device host --quick --limit 3600 --only resnet --torch "$tmp/torch.json" &&
    says out 'forward, geometric mean' && says out 'backward filter, all 1'
# The ratio is in the line, and in no other.
run 0 bench dnn --device host --quick --limit 3600 --only attention,rnn --torch "$tmp/torch.json" &&
    says out 's32 d16 causal bwd  *[0-9.]* *[0-9.]* GFLOP/s *[0-9]' &&
    says out 'gru f16 h16 l1 t4 b3 fwd  *[0-9.]* *[0-9.]* GFLOP/s *[0-9]' &&
    says out 's32 d16 causal fwd  *- *[0-9.]* GFLOP/s *-'
run 0 bench dnn --device host --quick --limit 3600 --only elements --torch "$tmp/torch.json" &&
    says out 'relu f32 4096 .*torch [0-9.]*x host' && says out 'relu bf16 4096 .*  host'
run 0 bench dnn --device host --quick --only attention,rnn --limit 0 &&
    says out 'stopped after 0 s .--limit.: 0 of 2 layers'
run 0 bench dnn --device host --quick --only convs --limit 0 && says out 'stopped after 0 s'

run 1 bench dnn --device host --torch "$tmp/none.json" && says err "none.json can't be read"
run 2 bench jit --torch "$tmp/torch.json" && says err '\-\-torch: is for the dnn suite'
run 2 bench dnn --limit soon && says err "\-\-limit: expected SECONDS, got 'soon'"
run 2 bench dnn --only resnet,kernels && says err "'kernels' is a section of cutlass, not of dnn"
run 2 bench all && says err 'expected dispatch, matmul, cutlass, jit, dnn, fft or random'
finish
