#!/bin/sh
# troupe bench dnn: that it runs, and what it refuses. Its figures are nobody's business here.
. "$(dirname "$0")/lib.sh"

run 0 bench dnn --device host --quick --json "$tmp/all.json" && says out 'Layers of ResNet-50'
grep -q '"section": "resnet"' "$tmp/all.json" || fail "no section resnet in the JSON"
grep -q '"section": "conv-fused"' "$tmp/all.json" || fail "no section conv-fused in the JSON"
grep -q '"failures": \[\]' "$tmp/all.json" || fail "something has failed"

# What PyTorch took: of each pass of one layer.
cat >"$tmp/torch.json" <<'END'
{"torch": "0", "results": [
    {"name": "7x7/2 3-8 16 n2 fwd", "us": 1000.0},
    {"name": "7x7/2 3-8 16 n2 dgrad", "us": 1000.0},
    {"name": "7x7/2 3-8 16 n2 wgrad", "us": 1000.0}
  ]
}
END
run 0 bench dnn --device host --quick --only resnet --torch "$tmp/torch.json" &&
    says out 'forward, geometric mean' && says out 'backward filter, all 1'
run 0 bench dnn --device host --quick --only convs --limit 0 && says out 'stopped after 0 s'

run 1 bench dnn --device host --torch "$tmp/none.json" && says err "none.json can't be read"
run 2 bench jit --torch "$tmp/torch.json" && says err '\-\-torch: is for the dnn suite'
run 2 bench dnn --limit soon && says err "\-\-limit: expected N, got 'soon'"
run 2 bench dnn --only resnet,kernels && says err "'kernels' is a section of cutlass, not of dnn"
run 2 bench all && says err 'expected dispatch, matmul, cutlass, jit or dnn'
finish
