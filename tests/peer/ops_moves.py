"""Cases of data that moves: copies, transposes, slices, concatenations, reshapes. All of it exact."""

import math

import torch

from ops_pointwise import output_type
from values import TYPES


def _zero(v):
    return torch.zeros_like(v)


def _begin(c, name):
    kind = c.pick(*TYPES)
    c.operation, c.type = name, kind
    return kind, output_type(c, kind) if c.chance(0.2) else kind


def transpose(c):
    kind, to = _begin(c, "transpose")
    dims = c.shape(c.pick(2, 3, 4, 5, 6))
    order = list(range(len(dims)))
    c.random.shuffle(order)
    x = c.read(None, kind, dims)
    v = x.values.permute(order)
    c.node("TRANSPOSE", x=x, y=c.write(None, to, list(v.shape), v, _zero(v), exact=True), order=order)


def slices(c):
    kind, to = _begin(c, "slice")
    dims = c.shape()
    start = [c.random.randrange(d) if c.chance(0.5) else 0 for d in dims]
    step = [c.pick(1, 1, 1, 2, 3, 7) for _ in dims]
    x = c.read(None, kind, dims)
    v = x.values[tuple(slice(a, None, s) for a, s in zip(start, step))]
    c.node("SLICE", x=x, y=c.write(None, to, list(v.shape), v, _zero(v), exact=True), start=start,
           step=[0 if s == 1 and c.chance(0.5) else s for s in step])


def concatenate(c):
    kind, to = _begin(c, "concatenate")
    dims, parts = c.shape(), c.random.randint(1, 8)
    axis = c.random.randrange(len(dims))
    dims[axis] = max(1, dims[axis] // parts)
    pieces = []
    for _ in range(parts):
        one = list(dims)
        one[axis] = c.log_uniform(1, max(1, 2 * dims[axis]))
        pieces.append(c.read(None, kind, one))
    v = torch.cat([p.values for p in pieces], axis)
    c.node("CONCATENATE", part=pieces, axis=axis, y=c.write(None, to, list(v.shape), v, _zero(v), exact=True))


def reshape(c):
    kind, to = _begin(c, "reshape")
    dims = c.shape()
    count, out = math.prod(dims), []
    left = count
    for _ in range(c.random.randint(0, 4)):
        divisors = [d for d in (2, 3, 4, 5, 7, 8, 16, 32, 64) if left % d == 0]
        if divisors:
            out.append(c.pick(*divisors))
            left //= out[-1]
    out.append(left)
    c.random.shuffle(out)
    x = c.read(None, kind, dims)
    v = x.values.reshape(out)
    c.node("RESHAPE", x=x, y=c.write(None, to, out, v, _zero(v), exact=True))


def copy(c):
    """From one layout to another."""
    kind, _ = _begin(c, "copy")
    x = c.read(None, kind, c.shape())
    c.node("POINTWISE", pointwise=0, x=x, y=c.write(None, kind, x.dims, x.values, _zero(x.values), exact=True))
