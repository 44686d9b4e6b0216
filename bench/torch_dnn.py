#!/usr/bin/env python3
"""The convolutions of `troupe bench dnn` by PyTorch (cuDNN, its benchmark mode), and attention by its
cuDNN backend: the time of the kernels, as a CUDA graph of many calls takes it. Writes a JSON file with
a result a line, which `troupe bench dnn --torch FILE` compares with. Without PyTorch or a GPU it says
so and ends well."""
import argparse
import json
import sys
import time

# images, channels, filters, input, filter, stride, groups: as in bench/dnn_layers.c
RESNET = [
    (64, 3, 64, 224, 7, 2, 1), (64, 64, 64, 56, 1, 1, 1), (64, 64, 64, 56, 3, 1, 1),
    (64, 64, 256, 56, 1, 1, 1), (64, 256, 64, 56, 1, 1, 1), (64, 256, 128, 56, 1, 1, 1),
    (64, 128, 128, 56, 3, 2, 1), (64, 128, 512, 28, 1, 1, 1), (64, 256, 512, 56, 1, 2, 1),
    (64, 512, 128, 28, 1, 1, 1), (64, 128, 128, 28, 3, 1, 1), (64, 512, 256, 28, 1, 1, 1),
    (64, 256, 256, 28, 3, 2, 1), (64, 256, 1024, 14, 1, 1, 1), (64, 512, 1024, 28, 1, 2, 1),
    (64, 1024, 256, 14, 1, 1, 1), (64, 256, 256, 14, 3, 1, 1), (64, 1024, 512, 14, 1, 1, 1),
    (64, 512, 512, 14, 3, 2, 1), (64, 512, 2048, 7, 1, 1, 1), (64, 1024, 2048, 14, 1, 2, 1),
    (64, 2048, 512, 7, 1, 1, 1), (64, 512, 512, 7, 3, 1, 1)]
SINGLE = [
    (64, 256, 256, 56, 3, 1, 1), (64, 64, 64, 56, 3, 1, 1), (256, 512, 1024, 28, 1, 1, 1),
    (64, 3, 64, 224, 7, 2, 1), (64, 256, 256, 56, 3, 1, 32)]
SMALL = [(2, 3, 8, 16, 7, 2, 1), (2, 16, 16, 8, 3, 1, 4)]
ATTENTION = [(4, 16, 8192, 128)]  # batch, heads, sequence, width of a head
PASSES = ["fwd", "dgrad", "wgrad"]
PARTS = ["convs", "resnet", "attention"]


def name_of(shape, what):
    n, c, k, size, f, stride, groups = shape
    return (f"{f}x{f}{f'/{stride}' if stride > 1 else ''} {c}-{k} {size} n{n}"
            f"{f' g{groups}' if groups > 1 else ''} {what}")


def output_of(shape):
    _, _, _, size, f, stride, _ = shape
    return (size + 2 * (f // 2) - f) // stride + 1


def flop_of(shape):
    n, c, k, _, f, _, groups = shape
    return 2 * n * output_of(shape) ** 2 * k * f * f * (c // groups)


class Timer:
    """Microseconds of a call: medians of replays of a graph that has many of them; or, eager, of as
    many calls that follow each other, as programs make them."""

    def __init__(self, torch, quick, eager):
        self.torch, self.blocks, self.target = torch, 3 if quick else 5, 3e-3 if quick else 10e-3
        self.eager = eager

    def once(self, run, count):
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(count):
            run()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e3 / count

    def measure(self, run):
        torch = self.torch
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # the first chooses the algorithm
            for _ in range(3):
                run()
            us = self.once(run, 5)
        torch.cuda.synchronize()
        count = int(min(max(self.target * 1e6 / us, 3), 200))
        if self.eager:
            times = sorted(self.once(run, count) for _ in range(self.blocks + 1))
            return times[len(times) // 2]
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(count):
                run()
        graph.replay()
        torch.cuda.synchronize()
        times = sorted(self.once(graph.replay, 1) / count for _ in range(self.blocks))
        return times[len(times) // 2]


def numbers(torch, *dims):
    """bf16 from -2 to 2, as bench/filled.c makes them: random fractions below one exponent."""
    bits = torch.randint(-32768, 32768, dims, device="cuda", dtype=torch.int16)
    low, high = bits & 0xff, torch.where(bits < 0, -32768, 0).to(torch.int16)
    return (low | high | 0x3f00).view(torch.bfloat16)


def calls_of(torch, shape):
    n, c, k, size, f, stride, groups = shape
    last = torch.channels_last
    x = numbers(torch, n, c, size, size).contiguous(memory_format=last)
    w = numbers(torch, k, c // groups, f, f).contiguous(memory_format=last)
    dy = numbers(torch, n, k, output_of(shape), output_of(shape)).contiguous(memory_format=last)
    rest = ([stride, stride], [f // 2, f // 2], [1, 1], False, [0, 0], groups)
    backward = torch.ops.aten.convolution_backward
    return {"fwd": lambda: torch.ops.aten.convolution(x, w, None, *rest),
            "dgrad": lambda: backward(dy, x, w, None, *rest, [True, False, False]),
            "wgrad": lambda: backward(dy, x, w, None, *rest, [False, True, False])}


def run_convs(torch, timer, shapes, known, add):
    for shape in shapes:
        calls = calls_of(torch, shape)
        for what in PASSES:
            name = name_of(shape, what)
            if name not in known:
                add(name, flop_of(shape), lambda: timer.measure(calls[what]))


def run_attention(torch, timer, add):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    attend = torch.nn.functional.scaled_dot_product_attention
    for b, h, s, d in ATTENTION:
        q, k, v, do = (torch.randn(b, h, s, d, device="cuda", dtype=torch.bfloat16,
                                   requires_grad=i < 3) for i in range(4))
        flop = 4 * b * h * s * s * d / 2  # causal: half of it

        def forward():
            with torch.no_grad(), sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                return attend(q, k, v, is_causal=True)

        add(f"attention b{b} h{h} s{s} d{d} causal fwd", flop, lambda: timer.measure(forward))
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            o = attend(q, k, v, is_causal=True)

        def backward():
            return torch.autograd.grad(o, (q, k, v), do, retain_graph=True)

        # Not as a graph: what autograd runs on a thread of its own is not captured.
        def time_backward():
            for _ in range(3):
                backward()
            return sorted(timer.once(backward, 5) for _ in range(timer.blocks))[timer.blocks // 2]

        add(f"attention b{b} h{h} s{s} d{d} causal bwd", 2.5 * flop, time_backward)


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", metavar="FILE", default="torch_dnn.json")
    parser.add_argument("--only", metavar="PART,...", default=",".join(PARTS),
                        help="of " + ", ".join(PARTS))
    parser.add_argument("--limit", metavar="SECONDS", type=float, default=120,
                        help="nothing new is begun after so long (default 120)")
    parser.add_argument("--benchmark-limit", metavar="N", type=int, default=10,
                        help="algorithms that the benchmark mode tries; 0: all (default 10)")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--eager", action="store_true", help="one call after the other, no graph")
    parser.add_argument("--names", action="store_true", help="print the names alone")
    arguments = parser.parse_args()
    for part in arguments.only.split(","):
        if part not in PARTS:
            parser.error(f"--only: expected some of {', '.join(PARTS)}, got '{part}'")
    return arguments


def write(path, head, results):
    rows = ",\n    ".join(json.dumps(row) for row in results)
    with open(path, "w", encoding="utf-8") as file:
        file.write(json.dumps(head)[:-1] + ',\n  "results": [\n    ' + rows + "\n  ]\n}\n")


def main():
    arguments = parse()
    if arguments.names:
        print("\n".join(name_of(s, p) for s in SINGLE + RESNET + SMALL for p in PASSES))
        return 0
    try:
        import torch
    except ImportError:
        print("PyTorch is not there")
        return 0
    if not torch.cuda.is_available():
        print("PyTorch has no GPU")
        return 0
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.benchmark_limit = arguments.benchmark_limit
    head = {"torch": torch.__version__, "cudnn": torch.backends.cudnn.version(),
            "device": torch.cuda.get_device_name(),
            "benchmark_limit": arguments.benchmark_limit, "eager": arguments.eager}
    print(f"torch {head['torch']}, cuDNN {head['cudnn']}, {head['device']}; TFLOP/s", flush=True)
    begun, results = time.monotonic(), []

    def add(name, flop, measure):
        if time.monotonic() - begun > arguments.limit:
            return
        try:
            us = measure()
        except RuntimeError as error:
            torch.cuda.synchronize()
            print(f"  {name:40} {str(error).splitlines()[0]}", flush=True)
            return
        results.append({"name": name, "us": round(us, 3), "tflops": round(flop / us * 1e-6, 2)})
        print(f"  {name:40} {us:10.2f} us {flop / us * 1e-6:8.1f}", flush=True)
        write(arguments.output, head, results)

    timer, chosen = Timer(torch, arguments.quick, arguments.eager), arguments.only.split(",")
    for part, shapes in (("convs", SINGLE), ("resnet", RESNET)):
        if part in chosen:
            run_convs(torch, timer, shapes, {row["name"] for row in results}, add)
    if "attention" in chosen:
        run_attention(torch, timer, add)
    write(arguments.output, head, results)
    print(f"{len(results)} results, {time.monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
