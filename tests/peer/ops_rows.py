"""Cases of reductions, softmax and normalisation: what sums along dimensions."""

import math

import torch

import functions as fn
from case import compute_type, constant
from ops_pointwise import output_type, parameters, tidy
from values import F64, FLOATS, TYPES, round_to

KINDS = ("SUM", "MEAN", "LEAST", "MOST", "AMAX", "NORM1", "NORM2", "PRODUCT")
F32_MOST = fn.F32_MOST


def pairwise(n):
    """Units that a sum of n terms may be off by, of the sum of their sizes: pairs, or a compensated sum."""
    return 8 + 2 * math.log2(max(n, 2))


def over(x, dims, f):
    """f along some dimensions, which stay as 1."""
    return f(x, dim=dims, keepdim=True) if dims else x


def propagating(x, dims, f):
    return torch.where(over(torch.isnan(x).to(F64), dims, torch.amax) > 0, torch.full_like(x[:1].sum(), math.nan),
                       over(x, dims, f))


def product(x, dims):
    for d in dims:
        x = torch.prod(x, dim=d, keepdim=True)
    return x


def reduction(c):
    kind, how = c.pick(*FLOATS), c.pick(*KINDS)
    c.sums = how not in ("LEAST", "MOST", "AMAX")
    c.operation, c.type = "reduction " + how.lower(), kind
    if c.chance(0.1):
        kind = c.type = c.pick("i8", "i32", "u8", "f8e4m3")
    dims = c.shape()
    rank = len(dims)
    along = list(range(rank)) if c.chance(0.3) else [i for i in range(rank) if c.chance(0.5)]
    if c.chance(0.3):
        along = [c.pick(0, rank - 1)]
    numbers = None
    if how == "PRODUCT":
        numbers = "normal" if math.prod(dims[i] for i in along) < 200 else "whole"
    x = c.read(None, kind, dims, numbers)
    v = x.values
    n = math.prod(dims[i] for i in along)
    u = compute_type(TYPES[kind]).unit
    out_dims = [1 if i in along else d for i, d in enumerate(dims)]
    zero = torch.zeros(out_dims, dtype=F64, device=c.device)
    free = None
    if how in ("SUM", "MEAN", "NORM1"):
        size = over(v.abs(), along, torch.sum)
        ref = size if how == "NORM1" else over(v, along, torch.sum)
        bound = pairwise(n) * u * size
        if how == "MEAN":
            ref, bound, size = ref / n, bound / n, size / n
        # Two infinities of different sign, or one beyond the type in between: any order of adding is right.
        cancels = (ref.abs() < F32_MOST / 4) | ((ref.abs() > F32_MOST) & (ref.abs() < size / 2))
        free = (size > F32_MOST / 2) & torch.isfinite(ref) & cancels & (kind != "f64")
    elif how in ("LEAST", "MOST", "AMAX"):
        f = torch.amin if how == "LEAST" else torch.amax
        w = v.abs() if how == "AMAX" else v
        ref, bound = propagating(w, along, f), zero
    elif how == "NORM2":
        top = over(v.abs(), along, torch.amax)
        top = torch.where(torch.isfinite(top) & (top > 0), top, torch.ones_like(top))
        ref = top * torch.sqrt(over((v / top) ** 2, along, torch.sum))
        bound = pairwise(n) * u * ref
    else:
        ref = product(v, along)
        bound = 2 * n * u * ref.abs()
        log = over(torch.log2(v.abs()), along, torch.sum)  # a product may leave the type before it comes back
        free = (over(torch.log2(v.abs()).clamp(min=0), along, torch.sum) > 120) | \
            (over(torch.log2(v.abs()).clamp(max=0), along, torch.sum) < -120) | (log.abs() > 120)
        free = free & torch.isfinite(ref) if kind != "f64" else None
    to = output_type(c, kind)
    bound = tidy(ref, bound + (ref.abs() * u if to == "f64" else 0))
    y = c.write(None, to, out_dims, ref, bound, free, exact=how in ("LEAST", "MOST", "AMAX"))
    c.node("REDUCTION", reduce=constant("DNN_" + how), x=x, y=y)


def rows_shape(c):
    """Rows along the last dimension mostly, up to vocabularies."""
    width = c.pick(128, 1000, 1024, 8192, 32000, 50257) if c.chance(0.3) else c.sequence(1 << 16)
    rank = c.pick(2, 2, 3, 4)
    return c.fit([c.log_uniform(1, 256) for _ in range(rank - 1)] + [width])


def softmax(c):
    log, backward, kind = c.chance(0.4), c.chance(0.4), c.pick(*FLOATS)
    c.sums = backward
    c.operation = "%ssoftmax %s" % ("log " if log else "", "backward" if backward else "forward")
    c.type = kind
    dims = rows_shape(c)
    axis = len(dims) - 1 if c.chance(0.75) else c.random.randrange(len(dims))
    u = compute_type(TYPES[kind]).unit
    n = dims[axis]
    c.call = "softmax_backward" if backward else "softmax_forward"
    c.nodes.append("softmax")
    c.set(axis=axis, log=log)
    form = c.pick("packed", "packed", "packed", "last", None)
    if not backward:
        x = c.read("x", kind, dims, form=form)
        v = x.values
        top = v.amax(axis, keepdim=True)
        # PyTorch adds up one term after the other, which is 40 units off after 8,000.
        ref = (v - top) - torch.exp(v - top).sum(axis, keepdim=True).log() if log else torch.softmax(v, axis)
        span = torch.nan_to_num((v - top).abs(), nan=0.0, posinf=0.0)
        if log:
            bound = u * (pairwise(n) + 4 * ref.abs() + 4 * span) + u * v.abs().clamp(max=0)
        else:
            bound = u * ref * (pairwise(n) + 4 + 2 * span)
            if c.backend == "cuda" and kind in ("f16", "bf16"):
                bound = bound + 2.0**-18 * ref  # dnn.md
        c.write("y", kind, dims, ref, tidy(ref, bound), form=form)
        return
    y = torch.softmax(c.numbers(math.prod(dims), c.pick("normal", "saturating"), "f32").reshape(dims), axis)
    y = round_to(TYPES[kind], torch.log(y) if log else y)
    y = c.read("y", kind, dims, form=form, values=torch.where(torch.isfinite(y), y, torch.zeros_like(y)))
    dy = c.read("dy", kind, dims, form=form)
    d = dy.values
    if log:
        e = torch.exp(y.values)
        ref = d - d.sum(axis, keepdim=True) * e
        bound = u * (2 * d.abs() + e * d.abs().sum(axis, keepdim=True) * (pairwise(n) + y.values.abs()))
        if kind != "f64":  # an exponential below the smallest normal number may be 0
            bound = bound + 2.0**-126 * d.sum(axis, keepdim=True).abs()
    else:
        s = (d * y.values).sum(axis, keepdim=True)
        ref = (d - s) * y.values
        bound = u * y.values.abs() * (4 * d.abs() + (pairwise(n) + 2) * (d * y.values).abs().sum(axis, keepdim=True))
    total = d.sum(axis, keepdim=True)
    free = torch.zeros_like(ref, dtype=torch.bool)
    if kind != "f64":
        free |= (d.abs().sum(axis, keepdim=True) > F32_MOST / 4) & torch.isfinite(total)
    if log:  # an infinity times what is 0 in the type that is computed in
        free |= ~torch.isfinite(total) & (e < 2.0**-100)
    c.write("dx", kind, dims, ref, tidy(ref, bound), free, form=form)


# --- normalisation ---


class Norm:
    """Dimensions of what a mode normalises, of its statistics and of scale and bias."""

    def __init__(self, c, mode):
        inner = mode in ("LAYER", "RMS")
        if inner and c.chance(0.7):
            dims = c.fit([c.log_uniform(1, 4096), c.channels(8192)] if c.chance(0.5) else
                         [c.batch(), c.sequence(1024), c.channels()])
        else:
            dims = c.fit([c.batch(), c.channels()] + [c.pixels() for _ in range(c.pick(1, 2, 2, 2, 3))])
        rank = len(dims)
        first = rank - 1 if inner and rank < 4 else 1
        self.along = [i for i in range(rank) if (i >= first if inner else i != 1 if mode == "BATCH" else i >= 2)]
        self.dims = dims
        self.cells = [1 if i in self.along else d for i, d in enumerate(dims)]
        self.scale = [d if (i in self.along if inner else i == 1) else 1 for i, d in enumerate(dims)]
        self.n = math.prod(dims[i] for i in self.along)


class Statistics:
    """Mean and inverse deviation of x in f64, with what they may be off by when computed in units of u."""

    def __init__(self, mode, x, along, n, epsilon, u):
        mean = lambda v: v.mean(dim=along, keepdim=True)
        self.mean = torch.zeros_like(mean(x)) if mode == "RMS" else mean(x)
        self.mean_off = torch.zeros_like(self.mean)
        if mode != "RMS":
            least = 2.0**-1074  # the reference rounds to whole ones, too
            self.mean_off = tidy(self.mean, pairwise(n) * u * mean(x.abs()) + least)
        top = x.abs().amax(dim=along, keepdim=True)
        top = torch.where(torch.isfinite(top) & (top > 0), top, torch.ones_like(top))
        self.variance = mean(((x - self.mean) / top) ** 2) * top * top
        self.variance_off = pairwise(n) * u * self.variance + self.mean_off**2 + 4 * u * self.mean_off * \
            torch.sqrt(self.variance)
        self.variance_off = tidy(self.variance, self.variance_off)
        if epsilon is None:
            return
        self.inverse = 1 / torch.sqrt(self.variance + epsilon)
        relative = self.variance_off / (self.variance + epsilon) / 2 + 4 * u
        self.inverse_off = tidy(self.inverse, self.inverse * torch.where(torch.isfinite(relative), relative,
                                                                         torch.zeros_like(relative)))
        # Where the mean's rounding is more than the deviation, no digit is known.
        self.inverse_off = torch.where(relative > 0.25, torch.full_like(relative, math.inf), self.inverse_off)


def normalised(x, s, scale, bias, u):
    hat = (x - s.mean) * s.inverse
    ref = hat * scale + (bias if bias is not None else 0)
    off = scale.abs() * (s.inverse * (s.mean_off + 2 * u * ((x - s.mean).abs() + 0 * x)) +
                         (x - s.mean).abs() * s.inverse_off + 4 * u * hat.abs()) + 2 * u * ref.abs()
    off = tidy(ref, off + (2 * u * bias.abs() if bias is not None else 0))
    return ref, torch.where(torch.isinf(s.inverse_off).expand(ref.shape), torch.full_like(off, math.inf), off)


def behind(c, ref, off, u):
    """An activation behind it at times."""
    mode = c.pick(None, None, None, "RELU", "GELU", "SWISH")
    if mode is None:
        return ref, off
    p, given = parameters(c, mode)
    c.set(activation__mode=constant("DNN_" + mode), activation__parameter=given)
    c.last = mode
    return fn.with_errors(mode, u, (ref, None, None), (off, None, None), p)


def norm_forward(c, training):
    mode, kind = c.pick("LAYER", "BATCH", "INSTANCE", "RMS"), c.pick(*FLOATS)
    c.operation, c.type = "%s norm %s" % (mode.lower(), "training" if training else "inference"), kind
    c.call, c.sums = "norm_training" if training else "norm_inference", True
    c.nodes.append("norm_training" if training else "norm_inference")
    shape, sums = Norm(c, mode), "f64" if kind == "f64" else "f32"
    wide = kind if c.chance(0.3) else sums
    u = TYPES[sums].unit
    form = c.pick("packed", "packed", "last")
    x = c.read("x", kind, shape.dims, form=form)
    scale = c.read("scale", wide, shape.scale, "normal", form="packed")
    bias = c.read("bias", wide, shape.scale, "normal", form="packed") if mode != "RMS" and c.chance(0.8) else None
    epsilon = c.pick(1e-5, 1e-5, 1e-3, 1e-12)
    c.set(mode=constant("DNN_" + mode), epsilon=epsilon)
    rounded = float(torch.tensor(epsilon, dtype=TYPES[sums].torch))
    if not training and mode == "BATCH":
        s = Statistics(mode, x.values, shape.along, shape.n, rounded, u)
        clean = lambda v: round_to(TYPES[sums], torch.nan_to_num(v, nan=0.5, posinf=1.0, neginf=1.0))
        s.mean = c.read("mean", sums, shape.cells, form="packed", values=clean(s.mean)).values
        s.inverse = c.read("inv_variance", sums, shape.cells, form="packed", values=clean(s.inverse)).values
        s.mean_off = s.inverse_off = torch.zeros_like(s.mean)
        # x * a + b, with a and b once a channel, is as good as (x - mean) * a.
        s.mean_off = 2 * u * s.mean.abs()
    else:
        s = Statistics(mode, x.values, shape.along, shape.n, rounded, u)
    ref, off = normalised(x.values, s, scale.values, bias.values if bias else None, u)
    if kind != "f64" and c.backend == "cuda":  # operands and products that are no normal number
        lost = (fn.denormal(x.values) + fn.denormal(s.mean) + fn.F32_LEAST) * s.inverse + fn.F32_LEAST
        off = tidy(ref, off + torch.nan_to_num(lost * scale.values.abs(), nan=0.0) + fn.F32_LEAST)
    ref, off = behind(c, ref, off, u)
    free = None
    c.write("y", kind, shape.dims, ref, guard(ref, off), free, form=form)
    if not training:
        return
    if mode != "RMS":
        c.write("mean", sums, shape.cells, s.mean, guard(s.mean, s.mean_off), form="packed")
    c.write("inv_variance", sums, shape.cells, s.inverse, guard(s.inverse, s.inverse_off), form="packed")
    if mode == "BATCH" and c.chance(0.6):
        factor = c.pick(0.1, 0.01, 0.5)
        c.set(average_factor=factor)
        old_mean = c.read("running_mean", sums, shape.cells, "normal", form="packed").values
        old = c.read("running_variance", sums, shape.cells, "uniform", form="packed").values
        unbiased = s.variance * shape.n / max(shape.n - 1, 1)
        ref = (1 - factor) * old_mean + factor * s.mean
        off = factor * s.mean_off + 4 * u * ((1 - factor) * old_mean.abs() + factor * s.mean.abs())
        c.write("new_running_mean", sums, shape.cells, ref, guard(ref, off), form="packed")
        ref = (1 - factor) * old + factor * unbiased
        off = factor * s.variance_off * 2 + 4 * u * ref.abs()
        c.write("new_running_variance", sums, shape.cells, ref, guard(ref, off),
                torch.isnan(unbiased) | torch.tensor(shape.n == 1), form="packed")


def guard(ref, off):
    """No bound where the result is no number; what is unknown stays so."""
    return torch.where(torch.isfinite(ref) | torch.isinf(off), off, torch.zeros_like(off))


def norm_backward(c):
    mode, kind = c.pick("LAYER", "BATCH", "INSTANCE", "RMS"), c.pick(*FLOATS)
    c.operation, c.type = "%s norm backward" % mode.lower(), kind
    c.call, c.sums = "norm_backward", True
    c.nodes.append("norm_backward")
    shape, sums = Norm(c, mode), "f64" if kind == "f64" else "f32"
    wide = kind if c.chance(0.3) else sums
    u, form, n, along = TYPES[sums].unit, c.pick("packed", "packed", "last"), shape.n, shape.along
    x = c.read("x", kind, shape.dims, form=form)
    dy = c.read("y", kind, shape.dims, form=form)
    scale = c.read("scale", wide, shape.scale, "normal", form="packed").values
    s = Statistics(mode, x.values, along, n, 1e-5, u)
    clean = lambda v: round_to(TYPES[sums], torch.nan_to_num(v, nan=0.5, posinf=1.0, neginf=1.0))
    m = torch.zeros_like(s.mean)
    if mode != "RMS":
        m = c.read("mean", sums, shape.cells, form="packed", values=clean(s.mean)).values
    inv = c.read("inv_variance", sums, shape.cells, form="packed", values=clean(s.inverse)).values
    c.set(mode=constant("DNN_" + mode))
    mean = lambda v: v.mean(dim=along, keepdim=True)
    d = dy.values
    hat, hat_off = (x.values - m) * inv, 2 * u * (x.values.abs() + m.abs()) * inv
    g = d * scale
    p, q = mean(g), mean(g * hat)
    if mode == "RMS":
        p = torch.zeros_like(p)
    ref = inv * (g - p - hat * q)
    size = mean((g * hat).abs())
    off = inv * (4 * u * (g.abs() + (hat * q).abs()) + pairwise(n) * u * (mean(g.abs()) + hat.abs() * size) +
                 hat_off * q.abs() + hat.abs() * mean(g.abs() * hat_off))
    lost = kind != "f64" and c.backend == "cuda"  # operands and products that are no normal number
    if lost:
        lost_g = fn.denormal(d) * scale.abs() + fn.F32_LEAST
        lost_hat = (fn.denormal(x.values) + fn.denormal(m)) * inv + fn.F32_LEAST
        off = off + fn.F32_LEAST + inv * (lost_g + mean(lost_g) + lost_hat * q.abs() + hat.abs() * (
            fn.F32_LEAST + mean(lost_g * hat.abs() + lost_hat * g.abs())))
        off = off + 2.0**-149 * (d.abs() + p.abs() + (hat * q).abs())  # of inv times others, where it is small
    over_all = [i for i in range(len(shape.dims)) if shape.scale[i] == 1]
    count = math.prod(shape.dims[i] for i in over_all)
    total = lambda v: v.sum(dim=over_all, keepdim=True) if over_all else v
    # Behind infinities the order of the terms says which rows are no numbers; none of them is finite.
    unclear = ~torch.isfinite(p + q).expand(shape.dims)
    terms = inv * (g.abs() + hat.abs() * size) + n * (mean(g.abs()) + size)
    c.write("dx", kind, shape.dims, torch.where(unclear, torch.zeros_like(ref), ref),
            beyond(guard(ref, off), terms, kind), unclear, form=form)
    ref = total(d * hat)
    off = pairwise(count) * u * total((d * hat).abs()) + total(d.abs() * hat_off)
    if lost:
        off = off + total(d.abs() * lost_hat + fn.denormal(d) * hat.abs() + fn.F32_LEAST * (1 + inv))
    c.write("dscale", wide, shape.scale, ref, beyond_sum(guard(ref, off), total, d * hat, kind), form="packed")
    if mode != "RMS":
        ref, off = total(d), pairwise(count) * u * total(d.abs()) + (total(fn.denormal(d)) if lost else 0)
        c.write("dbias", wide, shape.scale, ref, beyond_sum(guard(ref, off), total, d, kind), form="packed")


def beyond(off, size, kind):
    """What leaves the type in between is not known."""
    return off if kind == "f64" else torch.where((size > F32_MOST / 16) & torch.isfinite(size),
                                                 torch.full_like(off, math.inf), off)


def beyond_sum(off, total, terms, kind):
    """The same of a sum of terms: one that is infinite makes it so only if the others stay in the type."""
    return beyond(off, total(torch.nan_to_num(terms.abs(), nan=0.0, posinf=0.0)), kind)


def group_norm(c):
    """By reshapes: the groups are the channels of an instance norm, then each channel's own factor."""
    kind = c.pick("f32", "bf16", "f16")
    c.operation, c.type = "group norm", kind
    groups = c.pick(1, 2, 4, 8, 16, 32)
    each, n = c.log_uniform(1, 64), c.batch()
    dims = [n, groups * each] + [c.pixels(64), c.pixels(64)]
    while math.prod(dims) > c.budget.elements:
        dims[2:], dims[0] = [max(1, d // 2) for d in dims[2:]], max(1, dims[0] // 2)
        if dims[0] == dims[2] == dims[3] == 1:
            break
    size = each * dims[2] * dims[3]
    inner, ones = [dims[0], groups, size], [1, groups, 1]
    x = c.read(None, kind, dims, "normal" if c.chance(0.7) else "shifted", form="packed")
    scale, bias = (c.read(None, "f32", [1, dims[1], 1, 1], "normal", form="packed") for _ in range(2))
    unit = c.read(None, "f32", ones, form="packed", values=torch.ones(ones, dtype=F64, device=c.device))
    epsilon = c.number(1e-5)
    a, b, d, e = c.virtual(kind, inner), c.virtual("f32", inner), c.virtual("f32", dims), c.virtual("f32", dims)
    s = Statistics("INSTANCE", x.values.reshape(inner), [2], size, float(torch.tensor(1e-5)), TYPES["f32"].unit)
    zero = torch.zeros(ones, dtype=F64, device=c.device)
    hat, off = normalised(x.values.reshape(inner), s, zero + 1, None, TYPES["f32"].unit)
    ref = hat.reshape(dims) * scale.values + bias.values
    u = TYPES["f32"].unit
    off = off.reshape(dims) * scale.values.abs() + 2 * u * ((hat.reshape(dims) * scale.values).abs() + ref.abs())
    y = c.write(None, kind, dims, ref, guard(ref, off), form="packed")
    c.node("RESHAPE", x=x, y=a)
    c.node("NORM_INFERENCE", norm=constant("DNN_INSTANCE"), x=a, scale=unit, epsilon=epsilon, y=b)
    c.node("RESHAPE", x=b, y=d)
    c.node("POINTWISE", pointwise=constant("DNN_MUL"), x=d, b=scale, y=e)
    c.node("POINTWISE", pointwise=constant("DNN_ADD"), x=e, b=bias, y=y)
