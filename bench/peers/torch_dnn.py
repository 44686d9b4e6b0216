#!/usr/bin/env python3
"""The convolutions of `troupe bench dnn` by PyTorch (cuDNN, its benchmark mode), attention by its cuDNN
backend, and recurrent networks: the time of the kernels, as a CUDA graph of many calls takes it; of
networks always as calls that follow each other. Writes a JSON file with
a result a line, which `troupe bench dnn --torch FILE` compares with. Without PyTorch or a GPU it says
so and ends well."""
import argparse
import json
import sys
import time

# images, channels, filters, input, filter, stride, groups: as in bench/dnn/layers.c
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
# batch, heads, sequence, width of a head, causal: as in bench/dnn/attention.c
ATTENTION = [(4, 16, 8192, 128, True), (4, 16, 8192, 128, False), (8, 32, 2048, 128, True),
             (32, 16, 512, 64, False)]
SMALL_ATTENTION = [(2, 2, 32, 16, True), (2, 2, 32, 16, False)]
# mode, width, layers, steps, batch, both directions: as in bench/dnn/rnn.c
RNN = [("lstm", 1024, 1, 50, 64, False), ("lstm", 512, 2, 100, 64, True),
       ("gru", 1024, 1, 50, 64, False), ("gru", 512, 2, 100, 64, True)]
SMALL_RNN = [("lstm", 16, 2, 4, 3, True), ("gru", 16, 1, 4, 3, False)]
RNN_TYPES = ["f16", "tf32", "f32"]
PASSES = ["fwd", "dgrad", "wgrad"]
PARTS = ["convs", "resnet", "attention", "rnn"]


def name_of(shape, what):
    n, c, k, size, f, stride, groups = shape
    return (f"{f}x{f}{f'/{stride}' if stride > 1 else ''} {c}-{k} {size} n{n}"
            f"{f' g{groups}' if groups > 1 else ''} {what}")


def attention_name(shape, what):
    b, h, s, d, causal = shape
    return f"attention b{b} h{h} s{s} d{d}{' causal' if causal else ''} {what}"


def rnn_name(shape, kind, what):
    mode, width, layers, steps, batch, both = shape
    return f"{mode} {kind} h{width} l{layers}{' bi' if both else ''} t{steps} b{batch} {what}"


def all_names():
    return ([name_of(s, p) for s in SINGLE + RESNET + SMALL for p in PASSES] +
            [attention_name(s, p) for s in ATTENTION + SMALL_ATTENTION for p in ("fwd", "bwd")] +
            [rnn_name(s, t, p) for s in RNN + SMALL_RNN for t in RNN_TYPES
             for p in ("fwd", "bwd")])


def output_of(shape):
    _, _, _, size, f, stride, _ = shape
    return (size + 2 * (f // 2) - f) // stride + 1


def flop_of(shape):
    n, c, k, _, f, _, groups = shape
    return 2 * n * output_of(shape) ** 2 * k * f * f * (c // groups)


def rnn_flop_of(shape):
    mode, width, layers, steps, batch, both = shape
    directions = 2 if both else 1
    inputs = width + (layers - 1) * directions * width
    products = (4 if mode == "lstm" else 3) * width * (inputs + layers * width)
    return 2 * products * directions * steps * batch


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

    def count_of(self, us):
        return int(min(max(self.target * 1e6 / us, 3), 200))

    def one_by_one(self, run, us):
        times = sorted(self.once(run, self.count_of(us)) for _ in range(self.blocks + 1))
        return times[len(times) // 2]

    def measure_calls(self, run):
        """As with --eager, on this thread's own stream: what a graph can't hold."""
        for _ in range(3):
            run()
        return self.one_by_one(run, self.once(run, 5))

    def measure(self, run):
        torch = self.torch
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # the first chooses the algorithm
            for _ in range(3):
                run()
            us = self.once(run, 5)
        torch.cuda.synchronize()
        if self.eager:
            return self.one_by_one(run, us)
        count = self.count_of(us)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(count):
                run()
        graph.replay()
        torch.cuda.synchronize()
        times = sorted(self.once(graph.replay, 1) / count for _ in range(self.blocks))
        return times[len(times) // 2]


def numbers(torch, *dims):
    """bf16 from -2 to 2, as bench/suite/filled.c makes them: random fractions below one exponent."""
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


def attention_calls(torch, shape):
    """Forward, and the gradients by the operator that autograd calls: from a thread of its own it
    could be no part of a graph."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    attend = torch.nn.functional.scaled_dot_product_attention
    b, h, s, d, causal = shape
    q, k, v, do = (numbers(torch, b, h, s, d) for _ in range(4))

    def forward():
        with torch.no_grad(), sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return attend(q, k, v, is_causal=causal)

    made = []

    def backward():
        if not made:
            made.append(torch.ops.aten._scaled_dot_product_cudnn_attention(
                q, k, v, None, True, 0.0, causal, False))
        o, stats, cum_q, cum_k, max_q, max_k, seed, offset = made[0][:8]
        return torch.ops.aten._scaled_dot_product_cudnn_attention_backward(
            do, q, k, v, o, stats, seed, offset, None, cum_q, cum_k, max_q, max_k, 0.0, causal)

    def by_autograd():
        for x in (q, k, v):
            x.requires_grad_()
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            o = attend(q, k, v, is_causal=causal)
        return lambda: torch.autograd.grad(o, (q, k, v), do, retain_graph=True)

    return forward, backward, by_autograd


def time_gradient(torch, timer, backward, by_autograd):
    """The operator is PyTorch's own affair: where a version has another one, autograd's calls."""
    try:
        return timer.measure(backward)
    except (AttributeError, RuntimeError, TypeError, ValueError) as error:
        torch.cuda.synchronize()
        print(f"  by autograd: {str(error).splitlines()[0]}", flush=True)
        return timer.measure_calls(by_autograd())


def run_attention(torch, timer, add):
    for shape in ATTENTION:
        b, h, s, d, causal = shape
        flop = 4 * b * h * s * s * d / (2 if causal else 1)
        forward, backward, by_autograd = attention_calls(torch, shape)
        add(attention_name(shape, "fwd"), flop, lambda: timer.measure(forward))
        add(attention_name(shape, "bwd"), 2.5 * flop,
            lambda: time_gradient(torch, timer, backward, by_autograd))


def run_rnn(torch, timer, add):
    """torch.nn.LSTM and GRU. The gradients: of the input and of all weights, by autograd."""
    for shape in RNN:
        mode, width, layers, steps, batch, both = shape
        for kind in RNN_TYPES:
            torch.backends.cudnn.allow_tf32 = kind == "tf32"
            torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
            dtype = torch.float16 if kind == "f16" else torch.float32
            make = torch.nn.LSTM if mode == "lstm" else torch.nn.GRU
            net = make(width, width, num_layers=layers, bidirectional=both).to("cuda", dtype)
            net.flatten_parameters()
            x = torch.rand(steps, batch, width, device="cuda", dtype=dtype) * 2 - 1
            x.requires_grad_()

            def forward():
                with torch.no_grad():
                    return net(x)[0]

            add(rnn_name(shape, kind, "fwd"), rnn_flop_of(shape),
                lambda: timer.measure_calls(forward))
            y = net(x)[0]
            dy = torch.rand_like(y)
            given = [x] + list(net.parameters())
            add(rnn_name(shape, kind, "bwd"), 2 * rnn_flop_of(shape),
                lambda: timer.measure_calls(
                    lambda: torch.autograd.grad(y, given, dy, retain_graph=True)))
    torch.backends.cudnn.allow_tf32 = True
    torch.backends.cuda.matmul.allow_tf32 = False


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
        print("\n".join(all_names()))
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
    if "rnn" in chosen:
        run_rnn(torch, timer, add)
    write(arguments.output, head, results)
    print(f"{len(results)} results, {time.monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
