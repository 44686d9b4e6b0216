#!/usr/bin/env python3
"""Steps of examples/gpt2 beside the same steps by PyTorch, in turns on one GPU: the same weights, tokens, optimizer
and norm of gradients; eager calls, fused AdamW, PyTorch's own attention. Both sides print the loss of each step, so
both wait for it. Shows the median time of a step, the memory that the GPU lends to each side at most, and how far
the losses are apart; writes the same as JSON. Without PyTorch or a GPU it says so and ends well.

Memory of Troupe counts two contexts, those of the worker and of the standby; how much a model of one small layer takes,
which is hardly more than these, is shown beside it. PyTorch's leaves its context out. "Troupe, in place" has parameters
and moments once, as PyTorch has.

bf16 of PyTorch is measured twice: "autocast" keeps f32 weights, as Troupe does; "plain" has weights and moments of
bf16 and nothing else, which is less work and less exact."""
import argparse
import json
import os
import pty
import statistics
import subprocess
import sys
import tempfile
import threading
import time


class Memory:
    """What the GPU lends while it is open, in MiB above what it lent before: the most, and the most of the later half,
    when kernels are chosen and proven."""

    def __init__(self, torch):
        self.used = lambda: -torch.cuda.mem_get_info()[0] / 2**20
        self.before, self.seen, self.ends = self.used(), [0], threading.Event()
        self.thread = threading.Thread(target=self.look)
        self.thread.start()

    def look(self):
        while not self.ends.wait(0.002):
            self.seen.append(self.used() - self.before)

    def close(self):
        self.ends.set()
        self.thread.join()
        return round(max(self.seen)), round(max(self.seen[len(self.seen) // 2:]))


SMALL = {"batch": 1, "context": 64, "layers": 1, "width": 64, "heads": 1, "vocabulary": 256}


def run_troupe(torch, a, bf16, options=(), **sizes):
    """Times of the lines that the program prints; its losses; its memory."""
    sizes = {name: sizes.get(name, getattr(a, name)) for name in SMALL}
    command = [a.program, a.text, "-steps", str(a.steps), "-bf16", str(int(bf16)), *options]
    for name, value in sizes.items():
        command += [f"-{name}", str(value)]
    memory, ours, theirs = Memory(torch), *pty.openpty()
    begun = time.monotonic()
    child = subprocess.Popen(command, stdout=theirs)
    os.close(theirs)
    times, losses, rest = [], [], b""
    while True:
        try:
            data = os.read(ours, 4096)
        except OSError:
            break
        if not data:
            break
        now, rest = time.monotonic(), rest + data
        *lines, rest = rest.split(b"\n")
        for line in lines:
            times.append(now)
            losses.append(float(line.split()[-1]))
    os.close(ours)
    if child.wait() != 0:
        sys.exit(f"{' '.join(command)}: ended with {child.returncode}")
    return begun, times, losses, memory.close()


def slices(a):
    """Where each parameter lies in the program's array, by name."""
    c, at, found = a.width, 0, {}
    layer = [("n1", (c,)), ("n1b", (c,)), ("qkv", (3 * c, c)), ("qkvb", (3 * c,)), ("proj", (c, c)), ("projb", (c,)),
             ("n2", (c,)), ("n2b", (c,)), ("up", (4 * c, c)), ("upb", (4 * c,)), ("down", (c, 4 * c)), ("downb", (c,))]
    model = [("wte", (a.vocabulary, c)), ("wpe", (a.context, c)), ("nf", (c,)), ("nfb", (c,))]
    for prefix, parts in [(f"{i}.", layer) for i in range(a.layers)] + [("", model)]:
        for name, shape in parts:
            count = shape[0] * (shape[1] if len(shape) > 1 else 1)
            found[prefix + name] = (at, count, shape)
            at += count
    return found


def run_torch(torch, a, how, weights, text):
    functional, plain = torch.nn.functional, how == "bf16 plain"
    memory = Memory(torch)
    torch.cuda.reset_peak_memory_stats()
    p = {name: torch.from_numpy(weights[at:at + count].reshape(shape)).to("cuda", torch.bfloat16 if plain else torch.float32)
         .requires_grad_() for name, (at, count, shape) in slices(a).items()}
    optimizer = torch.optim.AdamW(p.values(), lr=1e-3, weight_decay=0.01, fused=True)
    b, t, c, heads = a.batch, a.context, a.width, a.heads
    places = torch.arange(t, device="cuda")

    def norm(x, name):
        return functional.layer_norm(x, (c,), p[name], p[name + "b"])

    def linear(x, name):
        return functional.linear(x, p[name], p[name + "b"])

    def loss_of(tokens, labels):
        x = functional.embedding(tokens, p["wte"]) + functional.embedding(places, p["wpe"])
        for i in range(a.layers):
            q, k, v = linear(norm(x, f"{i}.n1"), f"{i}.qkv").view(b, t, 3, heads, c // heads).permute(2, 0, 3, 1, 4)
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + linear(y.transpose(1, 2).reshape(b, t, c), f"{i}.proj")
            up = functional.gelu(linear(norm(x, f"{i}.n2"), f"{i}.up"), approximate="tanh")
            x = x + linear(up, f"{i}.down")
        logits = functional.linear(norm(x, "nf"), p["wte"])
        return functional.cross_entropy(logits.view(-1, a.vocabulary), labels.view(-1))

    times, losses = [], []
    for step in range(a.steps):
        rows = []
        for i in range(b):
            at = (step * 7919 + i * 104729) % (len(text) - t)
            rows.append(text[at:at + t + 1])
        rows = torch.tensor([list(row) for row in rows])
        tokens, labels = rows[:, :-1].contiguous().to("cuda"), rows[:, 1:].contiguous().to("cuda")
        with torch.autocast("cuda", torch.bfloat16, enabled=how == "bf16 autocast"):
            loss = loss_of(tokens, labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(p.values(), 1.0, foreach=True)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        times.append(time.monotonic())
    tensors = torch.cuda.max_memory_allocated() / 2**20
    return times, losses, memory.close(), round(tensors)


def steady(times):
    """Milliseconds of a step: the median behind the first quarter."""
    return statistics.median(b - a for a, b in zip(times, times[1:]) if a >= times[len(times) // 4]) * 1e3


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="examples/gpt2, built")
    parser.add_argument("text", help="what it learns")
    parser.add_argument("-o", "--output", metavar="FILE", default="torch_gpt2.json")
    for name, value in (("steps", 40), ("batch", 8), ("context", 512), ("layers", 4), ("width", 768), ("heads", 12),
                        ("vocabulary", 8192), ("rounds", 2)):
        parser.add_argument(f"--{name}", metavar="N", type=int, default=value, help=f"default {value}")
    parser.add_argument("--types", default="f32,bf16", help="default f32,bf16")
    return parser.parse_args()


def main():
    a = parse()
    try:
        import numpy
        import torch
    except ImportError:
        print("PyTorch is not there")
        return 0
    if not torch.cuda.is_available():
        print("PyTorch has no GPU")
        return 0
    with open(a.text, "rb") as file:
        text = file.read(1 << 20)
    with tempfile.TemporaryDirectory() as folder:
        path, steps = os.path.join(folder, "begin.npz"), a.steps
        a.steps = 0
        run_troupe(torch, a, False, ("-save", path))
        a.steps, weights = steps, numpy.load(path)["parameters"]
    head = {"torch": torch.__version__, "device": torch.cuda.get_device_name(),
            **{key: getattr(a, key) for key in ("layers", "width", "heads", "batch", "context", "vocabulary", "steps")}}
    print(f"torch {head['torch']}, {head['device']}: {a.layers} layers of {a.width}, {a.batch} x {a.context}, "
          f"vocabulary {a.vocabulary}", flush=True)
    results = []
    for kind in a.types.split(","):
        ways, found = ["f32"] if kind == "f32" else ["bf16 autocast", "bf16 plain"], {}
        for _ in range(a.rounds):
            *_, (_, small) = run_troupe(torch, a, kind == "bf16", **SMALL)
            for way, options in (("Troupe", ()), ("Troupe, in place", ("-in_place", "1"))):
                begun, times, ours, memory = run_troupe(torch, a, kind == "bf16", options)
                found.setdefault(way, []).append((steady(times), memory, ours, {"first_ms": round((times[0] - begun) * 1e3),
                                                                                "contexts_mib": small}))
            for way in ways:
                torch.cuda.empty_cache()
                times, losses, memory, tensors = run_torch(torch, a, way, weights, text)
                found.setdefault(way, []).append((steady(times), memory, losses, {"tensors_mib": tensors}))
        fastest = min(run[0] for run in found["Troupe"])
        for way, runs in found.items():
            row = {"type": kind, "way": way, "ms": [round(run[0], 3) for run in runs], "mib": max(run[1][0] for run in runs),
                   "later_mib": max(run[1][1] for run in runs), **runs[0][3], "ratio": round(min(run[0] for run in runs) / fastest, 3),
                   "loss": runs[0][2][-1], "apart": max(abs(x - y) for x, y in zip(runs[0][2], found["Troupe"][0][2]))}
            results.append(row)
            print(f"  {kind:5} {way:16} {row['ms']} ms, {row['ratio']:.2f} of Troupe's time, {row['mib']} MiB, later {row['later_mib']}, "
                  + ", ".join(f"{key} {value}" for key, value in runs[0][3].items())
                  + f", last loss {row['loss']:.5f}, at most {row['apart']:.2g} apart", flush=True)
            head["results"] = results
            with open(a.output, "w", encoding="utf-8") as file:
                json.dump(head, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
