#!/usr/bin/env python3
"""The rows of `troupe bench dnn --only elements` by PyTorch: functions by element, reductions, softmax,
normalisation, pooling, permutations, an optimiser's step. The time of the kernels, as a CUDA graph of many
calls takes it, with gigabytes a second of what must move. Writes a JSON file with a result a line, which
`troupe bench dnn --only elements --torch FILE` compares with. Without PyTorch or a GPU it says so and ends
well."""
import argparse
import math
import sys
import time

from torch_dnn import Timer, write

# As in bench/dnn/elements.c; the first of each is the host's.
SHAPES = {
    "flat": [(1 << k,) for k in (12, 16, 20, 22, 24, 26, 28)],
    "matrix": [(64, 64), (4096, 768), (4096, 4096), (65536, 1024), (1024, 65536)],
    "widths": [(32, 128), (262144, 128), (32768, 1024), (4096, 8192), (2048, 50257), (64, 1000003)],
    "images": [(2, 32, 8, 8), (32, 64, 112, 112), (64, 256, 56, 56), (64, 1024, 14, 14)],
}
SHAPES["images last"] = SHAPES["images"]


class Row:
    """What a row's calls read: tensors of the type and shape, made when asked for."""

    def __init__(self, torch, dim, kind, last):
        self.torch, self.dim, self.kind, self.last = torch, dim, kind, last
        self.type = {"f32": torch.float32, "bf16": torch.bfloat16}[kind]

    def new(self, *dim, kind=None):
        torch = self.torch
        t = torch.randn(dim or self.dim, device="cuda", dtype=self.type if kind is None else kind)
        return t.contiguous(memory_format=torch.channels_last) if self.last and t.dim() == 4 else t


def unary(f):
    def make(r):
        x = r.new()
        return (lambda: f(r.torch, x)), 2
    return make


def binary(f):
    def make(r):
        x, b = r.new(), r.new()
        return (lambda: f(r.torch, x, b)), 3
    return make


def gradient(r):
    x, dy = r.new(), r.new()
    return (lambda: r.torch.ops.aten.gelu_backward(dy, x)), 3


def convert(to):
    def make(r):
        x, kind = r.new(), getattr(r.torch, to)
        return (lambda: x.to(kind)), 1.5 if to == "bfloat16" else 3
    return make


def bias(r):
    x, b = r.new(), r.new(1, r.dim[1])
    return (lambda: x + b), 2


def chain(r):
    x, b, line = r.new(), r.new(), r.new(1, r.dim[1])
    f = r.torch.nn.functional
    return (lambda: f.relu(f.gelu(x * 0.5 + b) + line)), 3


def adamw(r):
    torch = r.torch
    p, g, m, v = [r.new()], [r.new()], [r.new()], [r.new().abs()]
    steps = [torch.tensor(10.0, device="cuda")]
    return (lambda: torch._fused_adamw_(p, g, m, v, [], steps, lr=1e-3, beta1=0.9, beta2=0.999, weight_decay=0.01,
                                        eps=1e-8, amsgrad=False, maximize=False)), 7


def softmax(log, backward):
    def make(r):
        aten, x = r.torch.ops.aten, r.new()
        name = "_log_softmax" if log else "_softmax"
        if not backward:
            return (lambda: getattr(aten, name)(x, 1, False)), 2
        y, dy, f = getattr(aten, name)(x, 1, False), r.new(), getattr(aten, name + "_backward_data")
        return (lambda: f(dy, y, 1, r.type)), 3
    return make


def layer_norm(backward):
    def make(r):
        aten, x, width = r.torch.ops.aten, r.new(), [r.dim[1]]
        w, b = r.new(*width), r.new(*width)
        if not backward:
            return (lambda: aten.native_layer_norm(x, width, w, b, 1e-5)), 2
        dy, (_, m, s) = r.new(), aten.native_layer_norm(x, width, w, b, 1e-5)
        return (lambda: aten.native_layer_norm_backward(dy, x, width, m, s, w, b, [True] * 3)), 3
    return make


def rms_norm(backward):
    def make(r):
        torch, width = r.torch, [r.dim[1]]
        x, w, dy = r.new(), r.new(*width), r.new()
        f = torch.nn.functional.rms_norm
        if not backward:
            return (lambda: f(x, width, w, 1e-5)), 2
        x.requires_grad_(True), w.requires_grad_(True)
        y = f(x, width, w, 1e-5)
        return (lambda: torch.autograd.grad(y, (x, w), dy, retain_graph=True)), 3
    return make


def batch_norm(backward):
    def make(r):
        torch, x, c = r.torch, r.new(), r.dim[1]
        w, b = (torch.randn(c, device="cuda") for _ in range(2))
        if not backward:
            return (lambda: torch.ops.aten.native_batch_norm(x, w, b, None, None, True, 0.1, 1e-5)), 2
        dy, (_, m, s) = r.new(), torch.ops.aten.native_batch_norm(x, w, b, None, None, True, 0.1, 1e-5)
        return (lambda: torch.ops.aten.native_batch_norm_backward(dy, x, w, None, None, m, s, True, 1e-5,
                                                                  [True] * 3)), 3
    return make


def instance_norm(r):
    x, w, b = r.new(), r.new(r.dim[1]), r.new(r.dim[1])
    return (lambda: r.torch.nn.functional.instance_norm(x, None, None, w, b)), 2


def group_norm(r):
    x, w, b = r.new(), r.new(r.dim[1]), r.new(r.dim[1])
    return (lambda: r.torch.nn.functional.group_norm(x, 32, w, b)), 2


def pool(largest, backward):
    def make(r):
        aten, x = r.torch.ops.aten, r.new()
        shape = ([3, 3], [2, 2], [1, 1])
        if largest:
            y, index = aten.max_pool2d_with_indices(x, *shape)
            dy = r.torch.randn_like(y)
            if backward:
                return (lambda: aten.max_pool2d_with_indices_backward(dy, x, *shape, [1, 1], False, index)), 2.5
            return (lambda: aten.max_pool2d_with_indices(x, *shape)), 1.25
        dy = r.torch.randn_like(aten.avg_pool2d(x, *shape))
        if backward:
            return (lambda: aten.avg_pool2d_backward(dy, x, *shape, False, True, None)), 1.25
        return (lambda: aten.avg_pool2d(x, *shape)), 1.25
    return make


def permute(r):
    x, last = r.new(), r.torch.channels_last
    return (lambda: x.contiguous(memory_format=last)), 2


ROWS = [
    ("relu", unary(lambda t, x: t.relu(x)), "flat", None),
    ("gelu", unary(lambda t, x: t.nn.functional.gelu(x)), "flat", None),
    ("gelu grad", gradient, "flat", None),
    ("add", binary(lambda t, x, b: x + b), "flat", None),
    ("mul number", unary(lambda t, x: x * 0.37), "flat", None),
    ("copy", unary(lambda t, x: x.clone()), "flat", None),
    ("to bf16", convert("bfloat16"), "flat", "f32"),
    ("to f32", convert("float32"), "flat", "bf16"),
    ("dropout", unary(lambda t, x: t.nn.functional.dropout(x, 0.1)), "flat", None),
    ("adamw", adamw, "flat", None),
    ("sum all", unary(lambda t, x: x.sum()), "flat", None),
    ("mean all", unary(lambda t, x: x.mean()), "flat", None),
    ("max all", unary(lambda t, x: x.amax()), "flat", None),
    ("bias", bias, "matrix", None),
    ("chain of 5", chain, "matrix", None),
    ("sum rows", unary(lambda t, x: x.sum(1)), "matrix", None),
    ("mean rows", unary(lambda t, x: x.mean(1)), "matrix", None),
    ("max rows", unary(lambda t, x: x.amax(1)), "matrix", None),
    ("sum columns", unary(lambda t, x: x.sum(0)), "matrix", None),
    ("mean columns", unary(lambda t, x: x.mean(0)), "matrix", None),
    ("max columns", unary(lambda t, x: x.amax(0)), "matrix", None),
    ("transpose", unary(lambda t, x: x.t().contiguous()), "matrix", None),
    ("softmax fwd", softmax(False, False), "widths", None),
    ("softmax bwd", softmax(False, True), "widths", None),
    ("log softmax fwd", softmax(True, False), "widths", None),
    ("log softmax bwd", softmax(True, True), "widths", None),
    ("layer norm fwd", layer_norm(False), "matrix", None),
    ("layer norm bwd", layer_norm(True), "matrix", None),
    ("rms norm fwd", rms_norm(False), "matrix", None),
    ("rms norm bwd", rms_norm(True), "matrix", None),
    ("batch norm fwd", batch_norm(False), "images", None),
    ("batch norm bwd", batch_norm(True), "images", None),
    ("batch norm fwd", batch_norm(False), "images last", None),
    ("batch norm bwd", batch_norm(True), "images last", None),
    ("instance norm fwd", instance_norm, "images", None),
    ("group norm", group_norm, "images", None),
    ("max pool fwd", pool(True, False), "images", None),
    ("max pool bwd", pool(True, True), "images", None),
    ("mean pool fwd", pool(False, False), "images", None),
    ("mean pool bwd", pool(False, True), "images", None),
    ("max pool fwd", pool(True, False), "images last", None),
    ("max pool bwd", pool(True, True), "images last", None),
    ("mean pool fwd", pool(False, False), "images last", None),
    ("mean pool bwd", pool(False, True), "images last", None),
    ("permute", permute, "images", None),
]


def rows():
    """(name, make, dim, type, channels last) of all."""
    for name, make, shapes, only in ROWS:
        for kind in ("f32", "bf16"):
            for dim in SHAPES[shapes]:
                if only in (None, kind):
                    last = shapes == "images last"
                    yield f"{name} {kind} {'x'.join(map(str, dim))}{' nhwc' if last else ''}", make, dim, kind, last


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", metavar="FILE", default="torch_elementwise.json")
    parser.add_argument("--limit", metavar="SECONDS", type=float, default=300,
                        help="nothing new is begun after so long (default 300)")
    parser.add_argument("--only", metavar="TEXT", default="", help="rows that have this in their name")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--eager", action="store_true", help="one call after the other, no graph")
    parser.add_argument("--names", action="store_true", help="print the names alone")
    return parser.parse_args()


def main():
    arguments = parse()
    if arguments.names:
        print("\n".join(row[0] for row in rows()))
        return 0
    try:
        import torch
    except ImportError:
        print("PyTorch is not there")
        return 0
    if not torch.cuda.is_available():
        print("PyTorch has no GPU")
        return 0
    head = {"torch": torch.__version__, "device": torch.cuda.get_device_name(), "eager": arguments.eager}
    print(f"torch {head['torch']}, {head['device']}", flush=True)
    timer, begun, results = Timer(torch, arguments.quick, arguments.eager), time.monotonic(), []
    for name, make, dim, kind, last in rows():
        if arguments.only not in name or time.monotonic() - begun > arguments.limit:
            continue
        try:
            call, tensors = make(Row(torch, dim, kind, last))
            us = timer.measure(call)
        except RuntimeError as error:
            torch.cuda.synchronize()
            print(f"  {name:44} {str(error).splitlines()[0]}", flush=True)
            continue
        finally:
            call = None
            torch.cuda.empty_cache()
        rate = math.prod(dim) * tensors * (4 if kind == "f32" else 2) / us * 1e-3
        results.append({"name": name, "us": round(us, 3), "gbs": round(rate, 1)})
        print(f"  {name:44} {us:10.2f} us {rate:8.0f} GB/s", flush=True)
    write(arguments.output, head, results)
    print(f"{len(results)} results, {time.monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
