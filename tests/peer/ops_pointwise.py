"""Cases of functions by element: single nodes, chains of them, gradients, conversions."""

import math

import torch

import functions as fn
from values import FLOATS, TYPES, round_to
from case import compute_type, constant

NARROW = ("f8e4m3", "f8e5m2", "i8", "i32", "u8", "bool")


def parameters(c, mode):
    """Of an activation: (values, given)."""
    standard = {"RELU": [0.0, math.inf, 0.0]}.get(mode, [1.0, 0.0, 0.0])
    p, given = list(standard), [None, None, None]
    if c.chance(0.6):
        return p, given
    if mode == "RELU":
        choice = c.pick("six", "leaky", "all")
        if choice == "six":
            p[1] = given[1] = 6.0
        elif choice == "leaky":
            p[2] = given[2] = 0.125
        else:
            p = given = [-0.5, 2.0, 0.25]
    elif mode in ("ELU", "SOFTPLUS", "SWISH"):
        p[0] = given[0] = c.pick(0.5, 1.5, 2.0)
    return p, given


def tidy(ref, bound):
    return torch.where(torch.isfinite(ref), bound, torch.zeros_like(bound))


def spread(c, dims):
    """Dimensions of an operand that goes with these: some of them 1."""
    how = c.random.random()
    if how < 0.45:
        return list(dims)
    if how < 0.7:  # one number a channel, or a line
        keep = c.pick(1, len(dims) - 1) if len(dims) > 1 else 0
        return [d if i == keep else 1 for i, d in enumerate(dims)]
    return [d if c.chance(0.5) else 1 for d in dims]


def output_type(c, kind):
    return kind if c.chance(0.75) else c.pick("f32", "f16", "bf16", "f64") if c.chance(0.7) else c.pick(*NARROW)


def pointwise(c):
    mode = c.pick(*fn.FUNCTIONS, *fn.ACTIVATIONS)
    kind = c.pick(*FLOATS) if c.chance(0.85) else c.pick("i8", "i32", "u8", "f8e4m3", "f8e5m2")
    c.operation, c.type = "pointwise " + mode.lower(), kind
    dims = c.shape()
    form = c.pick("packed", "packed", "last") if c.chance(0.85) else None
    p, given = parameters(c, mode)
    x = c.read(None, kind, dims, form=form)
    arguments, fields, types = [x.values, None, None], {"x": x}, [kind]
    for i, name in enumerate(("b", "t")[: fn.inputs(mode) - 1]):
        if name == "b" and c.chance(0.2):
            value = float(c.pick(0.5, 2.0, -1.0, 3.0, 0.0, 1e-3, 1e4))
            fields[name] = c.number(value)
            value = float(round_to(compute_type(TYPES[kind]), torch.tensor(value, dtype=torch.float64)))
            arguments[1 + i] = torch.full([1] * len(dims), value, dtype=torch.float64, device=c.device)
            continue
        other = c.read(None, "bool" if name == "t" and c.chance(0.5) else kind, spread(c, dims),
                       "whole" if name == "t" or c.chance(0.05) else None, form=form)
        fields[name], arguments[1 + i] = other, other.values
    u = compute_type(TYPES[kind]).unit
    c.last = mode
    y, off = fn.with_errors(mode, u, arguments, (None, None, None), p)
    to = output_type(c, kind)
    if to == "f64" and kind != "f64":
        off = off + tidy(y, y.abs() * u)  # it is computed in f32
    layer = mode in fn.ACTIVATIONS and c.chance(0.5)
    exact = mode in ("IDENTITY", "MIN", "MAX", "ABS", "SELECT", "NEGATE", "AND", "OR", "NOT")
    out = c.write(None, to, dims, y, off, form=form, exact=exact)
    if layer:
        x.name, out.name = "x", "y"
        c.call = "activation_forward"
        c.set(activation__mode=constant("DNN_" + mode), activation__parameter=given)
        c.nodes.append("pointwise")
        return
    fields["y"] = out
    c.node("POINTWISE", pointwise=constant("DNN_" + mode), **fields,
           **({"parameter": given} if mode in fn.ACTIVATIONS else {}))


def gradient(c):
    mode = c.pick(*fn.ACTIVATIONS)
    kind = c.pick(*FLOATS)
    c.operation, c.type = "gradient " + mode.lower(), kind
    dims, form = c.shape(), c.pick("packed", "packed", "last", None)
    p, given = parameters(c, mode)
    x, dy = c.read("x", kind, dims, form=form), c.read("y", kind, dims, form=form)
    d = fn.derivative(mode, x.values, p)
    ref = dy.values * d
    if mode == "RELU":  # where it is flat the gradient is 0, whatever dy is
        ref = torch.where(d == 0, torch.zeros_like(ref), ref)
    u = compute_type(TYPES[kind]).unit
    bound = tidy(ref, fn.derivative_error(mode, u, dy.values, x.values, p, d))
    # At a corner, and where a gradient vanishes below any number while dy is no number, either side is right.
    corner = (x.values == p[0]) | (x.values == p[1]) if mode == "RELU" else \
        (x.values == 0) if mode == "ELU" else torch.zeros_like(ref, dtype=torch.bool)
    vanishes = ~torch.isfinite(dy.values) & (d.abs() < 1e-30 if mode != "RELU" else d.abs() < -1)
    out = c.write("dx", kind, dims, ref, bound, corner | vanishes, form=form)
    if c.chance(0.6):
        c.call = "activation_backward"
        c.set(activation__mode=constant("DNN_" + mode), activation__parameter=given)
        c.nodes.append("pointwise_backward")
        return
    x.name, dy.name, out.name = str(c.index()), str(c.index()), str(c.index())
    c.node("POINTWISE_BACKWARD", pointwise=constant("DNN_" + mode), x=x, dy=dy, dx=out, parameter=given)


CHAINED = ("ADD", "ADD", "SUB", "MUL", "MUL", "DIV", "MIN", "MAX", "ADD_SQUARE", "ABS", "EXP", "NEGATE", "SQRT",
           "RSQRT", "ERF", "GREATER", "SELECT", "FLOOR") + fn.ACTIVATIONS


def chain(c):
    """2 to 10 nodes, each of the result before it and mostly of something from memory or a number."""
    kind = c.pick(*FLOATS)
    c.operation, c.type = "chain", kind
    dims, form = c.shape(), c.pick("packed", "packed", "packed", "last")
    length = c.random.randint(2, 10)
    u = compute_type(TYPES[kind]).unit
    first = c.read(None, kind, dims, form=form)
    now, off, name, made, memory = first.values, None, first, [], 1
    for i in range(length):
        mode = c.pick(*CHAINED)
        p, given = parameters(c, mode)
        arguments, bounds, fields = [now, None, None], [off, None, None], {"x": name}
        for j, operand in enumerate(("b", "t")[: fn.inputs(mode) - 1]):
            j += 1
            if operand == "b" and made and c.chance(0.2):
                fields[operand], arguments[j], bounds[j] = c.pick(*made)
            elif c.chance(0.4) or memory > 9:
                value = float(c.pick(0.5, 2.0, -1.5, 0.25, 1.0))
                fields[operand] = c.number(value)
                arguments[j] = torch.full([1] * len(dims), value, dtype=torch.float64, device=c.device)
            else:
                other = c.read(None, kind, spread(c, dims), form=form)
                memory += 1
                fields[operand], arguments[j] = other, other.values
        c.last = mode
        now, off = fn.with_errors(mode, u, arguments, bounds, p)
        # Beyond the type that is computed in, results between nodes are not told apart.
        over = (now.abs() > 1e38) & torch.isfinite(now) & (u > 1e-12)
        off = torch.where(over, torch.full_like(off, math.inf), off) + 2.0**-126 * (u > 1e-12)
        last = i == length - 1
        if last:
            out = c.write(None, output_type(c, kind) if c.chance(0.3) else kind, dims, now, off, form=form)
            if out.kind.name == "f64" and kind != "f64":
                ref, bound, free = out.expected
                out.expected = ref, bound + tidy(ref, ref.abs() * u), free
        else:
            out = c.virtual()
            off = off + tidy(now, now.abs() * u)
            made.append((out, now, off))
        fields["y"] = name = out
        c.node("POINTWISE", pointwise=constant("DNN_" + mode), **fields,
               **({"parameter": given} if mode in fn.ACTIVATIONS else {}))


def conversion(c):
    """One type to another, as a pointwise node or a move, all of them."""
    kind, to = c.pick(*TYPES), c.pick(*TYPES)
    c.operation, c.type = "conversion", "%s->%s" % (kind, to)
    dims = c.shape()
    x = c.read(None, kind, dims)
    y = c.write(None, to, dims, x.values, torch.zeros_like(x.values), exact=True)
    if c.chance(0.7):
        c.node("POINTWISE", pointwise=0, x=x, y=y)
    else:
        c.node("RESHAPE", x=x, y=y)
