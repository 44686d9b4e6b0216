"""Element types as Troupe rounds to them, and the numbers that cases are filled with."""

import math
from dataclasses import dataclass

import numpy as np
import torch

F64 = torch.float64


@dataclass(frozen=True)
class Type:
    name: str
    torch: torch.dtype
    bytes: int
    bits: int = 0  # of the significand, the hidden one included; 0: no floating type
    least: int = 0  # the exponent of the smallest normal number
    most: float = 0  # the largest finite number
    saturates: bool = True
    low: float = -math.inf  # of whole numbers: the least

    @property
    def floating(self):
        return self.bits > 0

    @property
    def unit(self):
        """Half the distance from 1 to the next number."""
        return 2.0**-self.bits if self.bits else 0.0


TYPES = {
    t.name: t
    for t in (
        Type("f64", torch.float64, 8, 53, -1022, float(np.finfo(np.float64).max), False),
        Type("f32", torch.float32, 4, 24, -126, float(np.finfo(np.float32).max), False),
        Type("f16", torch.float16, 2, 11, -14, 65504.0, False),
        Type("bf16", torch.bfloat16, 2, 8, -126, float(torch.finfo(torch.bfloat16).max), False),
        Type("f8e4m3", torch.float8_e4m3fn, 1, 4, -6, 448.0),
        Type("f8e5m2", torch.float8_e5m2, 1, 3, -14, 57344.0),
        Type("i8", torch.int8, 1, most=127, low=-128),
        Type("u8", torch.uint8, 1, most=255, low=0),
        Type("i32", torch.int32, 4, most=2**31 - 1, low=-(2**31)),
        Type("bool", torch.bool, 1, most=1, low=0),
    )
}
FLOATS = ("f32", "f32", "f32", "bf16", "bf16", "f16", "f64")


def power_of_two(exponent):
    """2 to the whole exponents of a tensor, from -1022 to 1023, exactly."""
    whole = exponent.to(torch.int64).clamp(-1022, 1023)
    return ((whole + 1023) << 52).view(F64)


def round_to(kind, x):
    """What x, in f64, is once it lies in this type: to nearest, ties to even, once."""
    if kind.name == "f64":
        return x
    if kind.name == "f32":
        return x.to(torch.float32).to(F64)
    if kind.name == "bool":
        return (x != 0).to(F64)  # NaN is none
    if not kind.floating:
        return torch.nan_to_num(torch.round(x), nan=0.0, posinf=math.inf, neginf=-math.inf).clamp(kind.low, kind.most)
    _, exponent = torch.frexp(x)
    place = exponent.clamp(min=kind.least + 1) - kind.bits
    rounded = torch.round(x * power_of_two(-place)) * power_of_two(place)
    over = rounded.abs() > kind.most
    rounded = torch.where(over, torch.sign(x) * (kind.most if kind.saturates else math.inf), rounded)
    if kind.saturates:
        return torch.where(torch.isnan(x), x, torch.where(torch.isinf(x), torch.sign(x) * kind.most, rounded))
    return torch.where(torch.isfinite(x), rounded, x)


def compute_type(*types):
    """What a node computes in by default: f32 does not hold every i32."""
    return TYPES["f64"] if any(t.name in ("f64", "i32") for t in types) else TYPES["f32"]


# --- numbers ---

KINDS = ("normal", "uniform", "wide", "large", "tiny", "saturating", "special", "whole", "shifted")


def draw_kind(random, extreme):
    """The kind of numbers of an operand: mostly ordinary ones."""
    if random.random() > extreme:
        return random.choice(("normal", "normal", "uniform", "shifted"))
    return random.choice(KINDS[2:])


def _ordinary(g, n, kind):
    if kind == "uniform":
        return g.random(n)
    if kind == "shifted":
        return g.standard_normal(n) + g.choice((-3.0, 10.0, 100.0))
    return g.standard_normal(n)


def draw(g, count, kind, name, device="cpu", sums=False, period=(1 << 20) - 3):
    """`count` numbers in f64, which are those of the type. Of many a piece is repeated, of a prime length. With
    `sums` the special ones are none whose products leave the type: beside an infinity they would be another."""
    t = TYPES[name]
    n = min(count, period)
    x = _ordinary(g, n, kind)
    if t.floating:
        x = _floating(g, x, kind, t, 2.0**40 if sums and t.most > 2.0**60 else t.most)
    else:
        x = _whole(g, x, kind, t)
    x = np.resize(x, count) if count > n else x
    return round_to(t, torch.from_numpy(np.ascontiguousarray(x)).to(device))


def _floating(g, x, kind, t, most):
    n = x.size
    top = min(math.log2(t.most), 300)  # squares of f64 are to stay what f64 holds, for the reference
    with np.errstate(over="ignore"):
        if kind == "wide":
            return x * np.exp2(g.uniform(-12, 12, n) if t.bits > 4 else g.uniform(-3, 3, n))
        if kind == "large":
            return np.sign(x) * np.exp2(g.uniform(top - 3, top, n))
        if kind == "tiny":  # denormal numbers too
            return np.sign(x) * np.exp2(g.uniform(t.least - t.bits + 1, t.least + 3, n))
        if kind == "saturating":
            return x * 30.0
        if kind == "whole":
            return np.round(x * 3)
        if kind == "special":
            few = np.array([0.0, -0.0, math.inf, -math.inf, math.nan, most, -most, 2.0**t.least, -(2.0**t.least),
                            2.0 ** (t.least - t.bits + 1), 1.0, -1.0, 20.0, -20.0, 100.0, -100.0])
            if t.saturates:
                few = few[np.isfinite(few) | np.isnan(few)]
            where = g.random(n) < 0.05
            x[where] = g.choice(few, int(where.sum()))
    return x


def _whole(g, x, kind, t):
    n = x.size
    if t.name == "bool":
        return (g.random(n) < 0.5).astype(np.float64)
    if kind in ("large", "special", "wide"):
        return np.floor(g.uniform(t.low, t.most + 1, n))
    if t.low == 0:
        return np.floor(g.uniform(0, 10, n))
    return np.round(x * 3) + 0.0  # there is no -0 among them


# --- comparison ---


@dataclass
class Found:
    """A comparison: how many elements are wrong, the first of them, and how far off the worst is."""

    wrong: int = 0
    count: int = 0
    first: str = ""
    worst: float = 0.0  # of the norm of what is right
    used: float = 0.0  # of the tolerance


def compare(got, kind, ref, bound, free=None):
    """Element by element: got may be what any number within `bound` of ref is rounded to. Not-a-numbers and
    infinities have to be where they are in ref. Elements in `free`, and those whose bound is infinite, may be
    anything."""
    unknown = ~torch.isfinite(bound)
    bound = torch.where(unknown, torch.zeros_like(bound), bound)
    low, high = round_to(kind, ref - bound), round_to(kind, ref + bound)
    good = (got >= low) & (got <= high)
    good |= torch.isnan(low) & torch.isnan(got)
    if kind.name == "bool":  # whatever is not 0, and what may be 0 may be either
        good = (got == low) | ((ref.abs() <= bound) & (bound > 0))
    good |= unknown
    if free is not None:
        good |= free
    found = Found(wrong=int((~good).sum()), count=good.numel())
    if found.wrong:
        at = int(torch.nonzero(~good.reshape(-1))[0])
        place = tuple(int(i) for i in np.unravel_index(at, tuple(ref.shape))) if ref.dim() else ()
        found.first = "%s: got %.9g, expected %.9g within %.3g" % (
            list(place), float(got.reshape(-1)[at]), float(ref.reshape(-1)[at]), float(bound.reshape(-1)[at]))
    finite = torch.isfinite(got) & (ref.abs() <= kind.most) & (ref >= kind.low) & ~unknown
    if free is not None:
        finite &= ~free
    if bool(finite.any()):
        off, size = (got - ref)[finite], ref[finite]
        largest = float(size.abs().max())
        if largest > 0:
            found.worst = float((off / largest).norm() / (size / largest).norm())
        half = torch.maximum(size.abs() * kind.unit, torch.full_like(size, 2.0 ** (kind.least - kind.bits)
                                                                     if kind.floating else 0.5))
        found.used = float((off.abs() / (bound[finite] + half)).max())
    if found.wrong:
        found.first += ", up to %.3g of the tolerance" % found.used
    return found
