"""Cases of convolutions and pooling."""

import math

import torch
import torch.nn.functional as F

import functions as fn
from case import compute_type, constant
from ops_pointwise import parameters, tidy
from values import F64, FLOATS, TYPES

CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


def padded(x, before, after, value=0.0):
    """Padding of each spatial dimension, negative never."""
    flat = [p for pair in reversed(list(zip(before, after))) for p in pair]
    return F.pad(x, flat, value=value)


class Convolution:
    def __init__(self, c):
        self.spatial = s = c.pick(1, 2, 2, 2, 2, 3)
        style = c.pick("plain", "plain", "plain", "plain", "groups", "depthwise", "point")
        self.groups, each, filters = 1, c.channels(), c.channels()
        if c.chance(0.1):
            each = 3
        if style == "groups":
            self.groups = c.pick(2, 4, 8, 32)
            each, filters = max(1, each // self.groups), max(1, filters // self.groups)
        elif style == "depthwise":
            self.groups, each, filters = c.channels(1024), 1, c.pick(1, 1, 1, 2)
        size = 1 if style == "point" else c.pick(3, 3, 3, 5, 7, 1, 2, 4)
        self.filter = [size if c.chance(0.85) else c.pick(1, 2, 3, 5) for _ in range(s)]
        self.stride = [c.pick(1, 1, 1, 2, 2, 3)] * s if c.chance(0.9) else [c.pick(1, 2, 3) for _ in range(s)]
        self.dilation = [1] * s if c.chance(0.8) else [c.pick(1, 2, 3)] * s
        half = [(f - 1) * d // 2 for f, d in zip(self.filter, self.dilation)]
        self.before = half if c.chance(0.6) else [c.random.randint(0, f) for f in self.filter]
        self.after = list(self.before) if c.chance(0.75) else [c.random.randint(0, f) for f in self.filter]
        self.n, self.x, self.each, self.filters = c.batch(), [c.pixels() for _ in range(s)], each, filters
        self._shrink(c)

    def _size(self):
        self.reach = [(f - 1) * d + 1 for f, d in zip(self.filter, self.dilation)]
        self.x = [max(x, r - p - q, 1) for x, r, p, q in zip(self.x, self.reach, self.before, self.after)]
        self.y = [(x + p + q - r) // s + 1 for x, p, q, r, s in
                  zip(self.x, self.before, self.after, self.reach, self.stride)]
        self.xs = [self.n, self.groups * self.each] + self.x
        self.ws = [self.groups * self.filters, self.each] + self.filter
        self.ys = [self.n, self.groups * self.filters] + self.y
        self.products = math.prod(self.ys) * math.prod(self.ws[1:])
        return max(map(math.prod, (self.xs, self.ws, self.ys)))

    def _shrink(self, c):
        """Makes it smaller until it fits the budget, the dimensions by turns."""
        for _ in range(200):
            if self._size() <= c.budget.elements and self.products <= c.budget.products:
                return
            what = c.pick("n", "x", "x", "each", "filters", "groups")
            if what == "x":
                self.x = [max(1, x // 2) for x in self.x]
            else:
                setattr(self, what, max(1, getattr(self, what) // 2))
        self._size()

    def forward(self, x, w, flip):
        w = w.flip(list(range(2, 2 + self.spatial))) if flip else w
        return CONV[self.spatial](padded(x, self.before, self.after), w, None, self.stride, 0, self.dilation,
                                  self.groups)

    def gradient(self, which, other, dy, flip):
        """Of x (other is w) or of w (other is x): the product is linear in both."""
        at = torch.zeros(self.xs if which == "x" else self.ws, dtype=F64, device=dy.device, requires_grad=True)
        y = self.forward(at, other, flip) if which == "x" else self.forward(other, at, flip)
        return torch.autograd.grad(y, at, dy)[0]


def products(n, kind=None, backend="host"):
    """Units that a sum of n products may be off by, of the sum of their sizes. Tensor cores truncate sums: those of
    16-bit elements to 23 bits after every 16 products, those of f8 to 13 bits after every 32."""
    truncated = 0
    if backend == "cuda" and kind in ("f16", "bf16"):
        truncated = n / 8
    elif backend == "cuda" and kind in ("f8e4m3", "f8e5m2"):
        truncated = 2.0**11 * (1 + n / 32)
    return 16 + math.sqrt(n) + truncated


def convolution(c):
    which = c.pick("forward", "forward", "backward_data", "backward_filter")
    kind = c.pick(*FLOATS) if c.chance(0.95) else c.pick("i8", "f8e4m3", "f8e5m2")
    c.operation, c.type, c.call, c.sums = "convolution " + which, kind, "conv_" + which, True
    v = Convolution(c)
    forward = which == "forward"
    form = c.pick("packed", "last", "last", None)
    flip = c.chance(0.05)
    numbers = "normal" if not forward and c.chance(0.5) else None
    to = kind if c.chance(0.85) else c.pick("f32", "f16", "bf16")
    u = compute_type(TYPES[kind]).unit
    tensors = {}
    for name, dims in (("x", v.xs), ("w", v.ws), ("y", v.ys)):
        if name != {"forward": "y", "backward_data": "x", "backward_filter": "w"}[which]:
            of_this = numbers
            outside = any(v.before + v.after) or which == "backward_data"
            if outside and name == {"forward": "w", "backward_data": "w", "backward_filter": "y"}[which]:
                # What is outside is no term of a sum, or 0, which times infinity would be none.
                of_this = of_this or c.pick("normal", "normal", "uniform", "wide", "tiny", "saturating")
            tensors[name] = c.read(name, kind, dims, of_this, form=form).values
    with torch.enable_grad():
        if forward:
            run = lambda a, b: v.forward(a, b, flip)
            a, b, terms, name, dims = tensors["x"], tensors["w"], math.prod(v.ws[1:]), "y", v.ys
        elif which == "backward_data":
            run = lambda a, b: v.gradient("x", b, a, flip)
            a, b, terms, name, dims = tensors["y"], tensors["w"], v.filters * math.prod(v.filter), "x", v.xs
        else:
            run = lambda a, b: v.gradient("w", b, a, flip)
            a, b, terms, name, dims = tensors["y"], tensors["x"], v.n * math.prod(v.y), "w", v.ws
        ref, size = run(a, b), run(a.abs(), b.abs())
        if kind in ("f32", "f16", "bf16") and which != "backward_filter" and c.backend == "cuda":
            # Engines that transform tiles err by a unit of what is largest in one.
            tile = a.abs().amax(dim=list(range(2, a.dim())), keepdim=True).expand_as(a)
            size = torch.maximum(size, run(tile, b.abs()) / 8)
    ref, size = ref.detach(), size.detach()
    bound = products(terms, kind, c.backend) * u * size
    if kind != "f64":
        bound = bound + terms * fn.F32_LEAST  # products that are no normal number, and operands
        small = [fn.denormal(v) for v in (a, b)]
        if c.backend == "cuda" and any(bool((v > 0).any()) for v in small):
            with torch.enable_grad():
                lost = run(small[0], b.abs()) + run(a.abs(), small[1])
            bound = bound + torch.nan_to_num(lost.detach(), nan=0.0, posinf=0.0)
    bound = tidy(ref, bound)
    c.set(pre_pad=v.before, post_pad=v.after, flip=flip,
          stride=[0 if s == 1 and c.chance(0.3) else s for s in v.stride],
          dilation=[0 if d == 1 and c.chance(0.3) else d for d in v.dilation])
    if flip:
        c.conditions.add("flip")
    factor, added = 1.0, []

    def finite():
        with torch.enable_grad():
            products_of = run(without_infinities(a).abs(), without_infinities(b).abs()).detach()
        return sum((without_infinities(v).abs() for v in added), factor * products_of)

    if c.chance(0.25):
        alpha = c.pick(0.5, 2.0, -1.0)
        c.set(alpha=alpha)
        factor = max(1.0, abs(alpha))
        ref, bound = ref * alpha, tidy(ref, bound * abs(alpha) + 2 * u * (ref * alpha).abs())
        size = size * max(1, abs(alpha))
        if c.chance(0.6):
            beta = c.pick(1.0, 0.5, -2.0)
            z = c.read("z", kind, dims, form=form).values
            c.set(beta=beta)
            size = size + (beta * z).abs()
            added.append(beta * z)
            ref, off = ref + beta * z, bound + 4 * u * (beta * z).abs() + 2 * u * (ref + beta * z).abs()
            bound = tidy(ref, off)
    free = free_of(size, ref, kind, finite)
    if forward and c.chance(0.5):
        # The bias is added before or after the factors: one sum.
        bias = c.read("bias", kind, [v.ys[1]], form="packed")
        bias.name = "*bias"
        c.lines.append(lambda: "t bias %d 0 %d %d" % (constant(bias.kind.name.upper()), bias.buffer,
                                                      bias.offset * bias.kind.bytes))
        one = bias.values.reshape([1, -1] + [1] * v.spatial)
        ref, size = ref + one, size + one.abs()
        added.append(one)
        bound = tidy(ref, bound + 2 * u * (ref.abs() + one.abs()))
        free = free_of(size, ref, kind, finite)
        if c.chance(0.7):
            mode = c.pick("RELU", "RELU", "GELU", "SWISH", "TANH", "SIGMOID", "GELU_TANH")
            p, given = parameters(c, mode)
            c.set(activation__mode=constant("DNN_" + mode), activation__parameter=given)
            c.last = mode
            before = torch.nan_to_num(ref.abs(), nan=0.0, posinf=0.0)
            ref, bound = fn.with_errors(mode, u, (ref, None, None), (bound, None, None), p)
            if mode == "GELU_TANH" and c.backend == "cuda" and kind != "f64":
                bound = bound + tidy(ref, 2.0**-17 * before)  # as cuBLASLt's epilogue, see dnn.h
            c.conditions.add("activation")
    c.nodes.append("conv_" + which)
    c.write(name, to, dims, ref, bound, free, form=form)


def free_of(size, ref, kind, finite=None):
    """Elements whose sum leaves f32 on the way, though its result does not; or, with `finite`, which gives the size
    of the terms that are no infinities, though an infinity is the result: beside it the other one is none."""
    if kind == "f64":
        return None
    free = (size > fn.F32_MOST / 16) & torch.isfinite(ref)
    if finite is not None and bool(torch.isinf(ref).any()):
        free |= torch.isinf(ref) & (finite() > fn.F32_MOST / 16)
    return free


def without_infinities(x):
    """What leaves f32 among these beside an infinity of the other sign makes it no number, or not."""
    return torch.nan_to_num(x, nan=math.nan, posinf=0.0, neginf=0.0)


# --- pooling ---


class Windows:
    def __init__(self, c):
        s = c.pick(1, 2, 2, 2, 3)
        x = c.fit([c.batch(), c.channels()] + [c.pixels() for _ in range(s)])
        style = c.pick("usual", "usual", "usual", "global", "adaptive", "random")
        self.window = [c.pick(2, 3, 3, 2, 5)] * s
        self.stride = [c.pick(2, 2, 1, 3)] * s
        self.before = [c.random.randrange((w // 2) + 1) for w in self.window]
        self.after = list(self.before)
        if style == "global":
            self.window, self.stride, self.before, self.after = x[2:], [1] * s, [0] * s, [0] * s
        elif style == "adaptive":  # windows that divide the image
            self.window = [c.pick(*[d for d in range(1, v + 1) if v % d == 0]) for v in x[2:]]
            self.stride, self.before, self.after = list(self.window), [0] * s, [0] * s
        elif style == "random":
            self.window = [c.random.randint(1, 4) for _ in range(s)]
            self.stride = [c.random.randint(1, 4) for _ in range(s)]
            self.before = [c.random.randrange(w) for w in self.window]
            self.after = [c.random.randrange(w) for w in self.window]
        self.spatial = s
        x[2:] = [max(v, w - p - q) for v, w, p, q in zip(x[2:], self.window, self.before, self.after)]
        self.x = x
        self.y = x[:2] + [(v + p + q - w) // t + 1 for v, p, q, w, t in
                          zip(x[2:], self.before, self.after, self.window, self.stride)]
        self.size = math.prod(self.window)

    def sums(self, x):
        """Of each window, one dimension after the other."""
        for i in range(self.spatial):
            x = self._along(x, i, 0.0).sum(-1)
        return x

    def largest(self, x):
        nan = torch.isnan(x)
        x = torch.where(nan, torch.full_like(x, -math.inf), x)
        y = x
        for i in range(self.spatial):
            y, nan = self._along(y, i, -math.inf).amax(-1), self._along(nan.to(F64), i, 0.0).amax(-1)
        return torch.where(nan > 0, torch.full_like(y, math.nan), y)

    def _along(self, x, i, value):
        before, after = [0] * self.spatial, [0] * self.spatial
        before[i], after[i] = self.before[i], self.after[i]
        return padded(x, before, after, value).unfold(2 + i, self.window[i], self.stride[i])

    def spread(self, dy):
        """The transpose of sums()."""
        with torch.enable_grad():
            at = torch.zeros(self.x, dtype=F64, device=dy.device, requires_grad=True)
            return torch.autograd.grad(self.sums(at), at, dy)[0]

    def spread_largest(self, x, dy):
        with torch.enable_grad():
            at = x.clone().requires_grad_(True)
            y = at
            for i in range(self.spatial):
                w = self._along(y, i, -math.inf)
                y = torch.gather(w, -1, w.argmax(-1, keepdim=True)).squeeze(-1)
            return torch.autograd.grad(y, at, dy)[0]

    def fields(self, c, mode):
        c.set(mode=constant("DNN_" + mode), window=self.window, stride=self.stride, pre_pad=self.before,
              post_pad=self.after)


def pooling(c):
    mode, backward, kind = c.pick("POOL_MAX", "POOL_AVERAGE", "POOL_AVERAGE_PADDED"), c.chance(0.4), c.pick(*FLOATS)
    c.operation = "%s %s" % (mode.lower().replace("_", " "), "backward" if backward else "forward")
    c.type, c.call = kind, "pool_backward" if backward else "pool_forward"
    c.sums = backward or mode != "POOL_MAX"
    c.nodes.append("resample_backward" if backward else "resample_forward")
    v = Windows(c)
    form = c.pick("packed", "last", "last", None)
    u = compute_type(TYPES[kind]).unit
    v.fields(c, mode)
    if mode == "POOL_MAX":
        _largest(c, v, kind, backward, form, u)
        return
    count = torch.full([1, 1] + v.y[2:], float(v.size), dtype=F64, device=c.device)
    if mode == "POOL_AVERAGE":
        count = v.sums(torch.ones([1, 1] + v.x[2:], dtype=F64, device=c.device)).expand([1, 1] + v.y[2:])
    empty = (count == 0).expand(v.y)
    if not backward:
        x = c.read("x", kind, v.x, form=form).values
        ref, size = v.sums(x) / count, v.sums(x.abs()) / count
        bound = (8 + 2 * math.log2(v.size + 1)) * u * size
        c.write("y", kind, v.y, ref, tidy(ref, bound), empty, form=form)
        return
    dy = c.read("y", kind, v.y, "normal" if c.chance(0.5) else None, form=form).values
    share = torch.where(empty, torch.zeros_like(dy), dy / count)
    ref, size = v.spread(share), v.spread(share.abs())
    c.write("x", kind, v.x, ref, tidy(ref, (8 + v.size) * u * size), free_of(size, ref, kind), form=form)


def _largest(c, v, kind, backward, form, u):
    numbers = "normal" if backward else None
    if not backward:
        x = c.read("x", kind, v.x, numbers, form=form).values
        y = v.largest(x)
        c.write("y", kind, v.y, y, torch.zeros_like(y), form=form, exact=True)
        return
    values = c.values(v.x, kind, numbers)
    x = c.read("old_x", kind, v.x, form=form, values=values).values
    y = v.largest(x)
    c.read("old_y", kind, v.y, form=form, values=y)
    dy = c.read("y", kind, v.y, form=form).values
    ref, size = v.spread_largest(x, dy), v.spread_largest(x, dy.abs())
    # Where several elements of a window are the largest any of them may have its gradient.
    bound = (8 + v.size) * u * size
    free = _tied(v, x, y)
    if kind != "f64":
        free |= free_of(size, ref, kind)
    c.write("x", kind, v.x, ref, tidy(ref, bound), free, form=form)


def _tied(v, x, y):
    """Elements in windows of which more than one element is the largest, or is no number."""
    w = x
    for i in range(v.spatial):  # window dimensions gather at the end
        w = F.pad(w, [0] * (2 * (v.spatial - 1)) + [v.before[i], v.after[i]], value=-math.inf)
        w = w.unfold(2 + i, v.window[i], v.stride[i])
    count = (w == y.reshape(list(y.shape) + [1] * v.spatial)).flatten(-v.spatial).sum(-1)
    return v.spread((count != 1).to(F64)) > 0
