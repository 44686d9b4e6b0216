"""A case: a request, what its tensors hold and where they lie, and what must come out."""

import math
import random

import numpy as np
import torch

from runner import constant, real
from values import F64, TYPES, compare, compute_type, draw, draw_kind, round_to

ALIGN = 256


class Budget:
    """The most elements of a tensor, and the most multiplications of a case."""

    def __init__(self, elements, products):
        self.elements, self.products = elements, products


class Placed:
    """A tensor in memory: strides and an offset in elements, in a buffer with guards around it."""

    def __init__(self, name, kind, dims, strides, offset, values=None):
        self.name, self.kind, self.dims, self.strides, self.offset = name, TYPES[kind], list(dims), strides, offset
        self.values = values
        reach = sum((d - 1) * s for d, s in zip(dims, strides)) + 1
        self.guard = 96
        self.bytes = (offset + reach) * self.kind.bytes + self.guard
        self.at = 0
        self.expected = None

    def store(self, memory, poison):
        area = memory[self.at : self.at + self.bytes]
        area.fill_(poison)
        if self.values is not None:
            self.view(area).copy_(self.values.to(self.kind.torch))

    def view(self, area):
        whole = area[: self.bytes - self.guard].view(self.kind.torch)
        return torch.as_strided(whole, self.dims, self.strides, whole.storage_offset() + self.offset)

    def others(self, area, poison):
        """How many bytes beside the elements have changed."""
        beside = torch.ones(self.bytes, dtype=torch.uint8)
        whole = beside[: self.bytes - self.guard].view(-1, self.kind.bytes)
        size, stride = self.dims + [self.kind.bytes], [s * self.kind.bytes for s in self.strides] + [1]
        torch.as_strided(whole.reshape(-1), size, stride, self.offset * self.kind.bytes).zero_()
        return int(((area != poison) & (beside != 0)).sum())


class Case:
    def __init__(self, seed, budget, extreme, device="cpu", backend="host"):
        self.seed, self.budget, self.extreme, self.device, self.backend = seed, budget, extreme, device, backend
        self.random = random.Random(seed)
        self.g = np.random.default_rng(seed)
        self.call, self.operation, self.type = "graph", "", ""
        self.tensors, self.lines, self.checks, self.kinds = [], [], [], []
        self.next_index, self.conditions, self.nodes = 1, set(), []
        self.last = ""  # the pointwise function whose result is written
        self.sums = False  # it adds up what is drawn

    # --- drawing ---

    def chance(self, p):
        return self.random.random() < p

    def pick(self, *from_these):
        return self.random.choice(from_these)

    def log_uniform(self, low, high):
        return max(low, min(high, int(round(math.exp(self.random.uniform(math.log(low), math.log(high + 0.49)))))))

    def channels(self, most=2048):
        if self.chance(0.6):
            step = self.pick(8, 16, 32, 64)
            return min(step * self.log_uniform(1, max(1, most // step)), most)
        return self.log_uniform(1, most)

    def pixels(self, most=224):
        return min(most, self.pick(1, 7, 14, 28, 56, 112, 224) if self.chance(0.4) else self.log_uniform(1, most))

    def batch(self):
        return self.pick(1, 2, 4, 8, 16, 32, 64) if self.chance(0.6) else self.log_uniform(1, 64)

    def sequence(self, most=4096):
        n = self.log_uniform(1, most)
        return min(most, (n + 15) // 16 * 16) if self.chance(0.4) else n

    def flat(self):
        most = self.budget.elements
        n = self.log_uniform(1, most)
        if self.chance(0.3):
            n = (1 << (n.bit_length() - 1)) + self.pick(-1, 0, 0, 1)
        return max(1, min(n, most))

    def shape(self, rank=None):
        """Of any rank: flat arrays, matrices, images, sequences."""
        rank = rank or self.pick(1, 2, 2, 3, 3, 4, 4, 4, 5)
        if rank == 1:
            return [self.flat()]
        if rank == 2:
            return self.fit([self.log_uniform(1, 1 << 20), self.channels(1 << 16)])
        if rank == 3:
            return self.fit([self.batch(), self.sequence(), self.channels()])
        return self.fit([self.batch(), self.channels()] + [self.pixels() for _ in range(rank - 2)])

    def fit(self, dims, most=None):
        """Makes the dimensions smaller until so many elements hold them: the largest first."""
        most = most or self.budget.elements
        dims = list(dims)
        while math.prod(dims) > most:
            i = max(range(len(dims)), key=lambda j: dims[j] * self.random.uniform(0.3, 1))
            dims[i] = max(1, dims[i] // 2)
        return dims

    def numbers(self, count, kind, name):
        return draw(self.g, count, kind, name, self.device, self.sums)

    def values(self, dims, name, kind=None):
        kind = kind or draw_kind(self.random, self.extreme)
        self.kinds.append(kind)
        return self.numbers(math.prod(dims), kind, name).reshape(list(dims))

    def layout(self, dims, form=None):
        """Strides and an offset."""
        form = form or self.random.choices(("packed", "last", "gaps", "mixed"), (66, 20, 8, 6))[0]
        rank = len(dims)
        order = list(range(rank))
        if form == "last" and rank > 2:
            order = [0] + list(range(2, rank)) + [1]
        if form == "mixed":
            self.random.shuffle(order)
        strides, step = [0] * rank, 1
        for i in reversed(order):
            strides[i] = step
            step *= dims[i]
            if form == "gaps" and self.chance(0.5):
                step += self.log_uniform(1, 32)
        offset = 0 if form != "gaps" and self.chance(0.85) else self.pick(1, 3, 8, 16, 64)
        if form in ("gaps", "mixed") or offset:
            self.conditions.add("strided")
        return strides, offset

    # --- building ---

    def index(self):
        self.next_index += 1
        return self.next_index - 1

    def place(self, name, kind, dims, values=None, form=None, layout=None):
        name = name if name is not None else str(self.index())
        strides, offset = layout or self.layout(dims, form)
        t = Placed(name, kind, dims, strides, offset, values)
        self.tensors.append(t)
        return t

    def read(self, name, kind, dims, numbers=None, form=None, layout=None, values=None):
        """A tensor that is read; its numbers are in .values."""
        values = self.values(dims, kind, numbers) if values is None else values
        return self.place(name, kind, dims, values, form, layout)

    def write(self, name, kind, dims, ref, bound, free=None, form=None, layout=None, exact=False):
        """A tensor that is written, with what must lie there in the end. Unless it is exact, what is below the
        smallest normal number of the type that is computed in may be lost."""
        t = self.place(name, kind, dims, None, form, layout)
        if not exact:
            bound = bound + (2.0**-1064 if self.type == "f64" else 2.0**-126)
        if self.last == "GELU" and self.backend == "cuda" and kind in ("f16", "bf16"):
            bound = bound + torch.where(torch.isfinite(ref), 2.0**-15 * ref.abs(), torch.zeros_like(ref))  # dnn.md
        if not exact and kind == "f64" and self.type != "f64":  # f32 is what it computes in
            over = (ref.abs() > TYPES["f32"].most) & torch.isfinite(ref)
            bound = torch.where(over, torch.full_like(ref, math.inf), bound)
        t.expected = (ref.reshape(dims), bound.expand(ref.shape).reshape(dims),
                      None if free is None else free.reshape(dims))
        return t

    def number(self, value, name=None, kind="NONE"):
        name = name if name is not None else str(self.index())
        self.lines.append("v %s %d %s" % (name, type_number(kind), real(value)))
        return name

    def virtual(self, kind=None, dims=()):
        name = str(self.index())
        self.lines.append("u %s %d %d %s" % (name, type_number(kind), len(dims), " ".join(map(str, dims))))
        return name

    def node(self, kind, **fields):
        self.lines += ["n", "f kind %d" % constant("DNN_" + kind)]
        self.nodes.append(kind.lower())
        self._fields(fields)

    def set(self, **fields):
        if self.call == "graph":
            self.lines.append("f -")
        self._fields(fields)

    def _fields(self, fields):
        for name, value in fields.items():
            if value is None:
                continue
            values = value if isinstance(value, (list, tuple)) else [value]
            text = " ".join("-" if v is None else real(v) if isinstance(v, float)
                            else v.name if isinstance(v, Placed) else str(int(v) if isinstance(v, bool) else v)
                            for v in values)
            self.lines.append("f %s %s" % (name.replace("__", "."), text))

    # --- running ---

    def message(self, memory):
        """Lays all tensors out in memory and gives the lines of the case."""
        self.poison = self.pick(0xFF, 0xA5, 0x7B)
        at, head = 0, ["case " + self.call]
        for i, t in enumerate(self.tensors):
            t.at, t.buffer = at, i
            at += (t.bytes + ALIGN - 1) // ALIGN * ALIGN
            if at > memory.numel():
                raise MemoryError("the map is too small for this case")
            t.store(memory, self.poison)
            head.append("b %d %d %d" % (t.bytes, t.at, t.expected is not None))
        for t in self.tensors:
            if t.name.startswith("*"):
                continue
            head.append("t %s %d %d %s %s %d %d" % (
                t.name, type_number(t.kind.name), len(t.dims), " ".join(map(str, t.dims)),
                " ".join(map(str, t.strides)), t.buffer, t.offset * t.kind.bytes))
        return head + [line() if callable(line) else line for line in self.lines]

    def judge(self, memory):
        """[(tensor, Found)] and the names of those with bytes written beside their elements."""
        results, beside = [], []
        for t in self.tensors:
            if t.expected is None:
                continue
            area = memory[t.at : t.at + t.bytes]
            if t.others(area, self.poison):
                beside.append(t.name)
            got = t.view(area).to(F64).to(self.device)
            results.append((t, compare(got, t.kind, *t.expected)))
        return results, beside

    def describe(self):
        return "%s %s [%s] %s" % (self.operation, self.type, " ".join(sorted(set(self.kinds))), "; ".join(
            "%s %s %s%s%s" % (t.name, t.kind.name, "x".join(map(str, t.dims)), "" if is_packed(t) else
                              " strides " + ",".join(map(str, t.strides)), "+%d" % t.offset if t.offset else "")
            for t in self.tensors))


def is_packed(t):
    step = 1
    for d, s in zip(reversed(t.dims), reversed(t.strides)):
        if d > 1 and s != step:
            return False
        step *= d
    return True


def type_number(kind):
    return constant({"NONE": "DTYPE_NONE", None: "DTYPE_NONE"}.get(kind) or kind.upper())


def unit_of(*names):
    """The rounding unit of what is computed in."""
    return compute_type(*(TYPES[n] for n in names)).unit


__all__ = ["Budget", "Case", "Placed", "F64", "TYPES", "compute_type", "round_to", "unit_of", "type_number", "constant"]
