"""Cases of matrix products, as graphs and by the matmul actor, and of attention."""

import math

import torch

import functions as fn
from case import compute_type, constant
from ops_images import free_of, products, without_infinities
from ops_pointwise import parameters, tidy
from values import F64, FLOATS, TYPES, round_to


def _sizes(c, batch):
    """m, n and k within the budget of products."""
    m, n, k = c.channels(8192), c.channels(8192), c.channels(8192)
    if c.chance(0.1):
        m = 1
    while max(m * n, m * k, k * n) * batch > c.budget.elements or m * n * k * batch > c.budget.products:
        what = c.pick(0, 1, 2)
        m, n, k = [max(1, v // 2) if i == what else v for i, v in enumerate((m, n, k))]
    return m, n, k


def _matrix_layout(c, dims):
    """In rows or columns, now and then with a longer line."""
    batch, rows, columns = dims[:-2], dims[-2], dims[-1]
    by_rows = c.chance(0.6)
    line = columns if by_rows else rows
    step = line + (0 if c.chance(0.8) else c.pick(1, 8, 16))
    strides, size = ([step, 1] if by_rows else [1, step]), step * (rows if by_rows else columns)
    for d in reversed(batch):
        strides = [size] + strides
        size *= d
    return strides, 0 if c.chance(0.9) else c.pick(1, 8, 64)


def matmul_graph(c):
    kind = c.pick(*FLOATS) if c.chance(0.95) else c.pick("i8", "f8e4m3")
    c.operation, c.type, c.sums = "matmul graph", kind, True
    batch = [] if c.chance(0.4) else [c.batch()] if c.chance(0.6) else [c.pick(1, 2, 3, 8), c.pick(1, 2, 4, 12)]
    m, n, k = _sizes(c, math.prod(batch))
    of_b = [1 if c.chance(0.3) else d for d in batch]
    a_dims, b_dims, y_dims = batch + [m, k], of_b + [k, n], batch + [m, n]
    a = c.read(None, kind, a_dims, layout=_matrix_layout(c, a_dims))
    b = c.read(None, kind, b_dims, layout=_matrix_layout(c, b_dims))
    u = compute_type(TYPES[kind]).unit
    ref, size = a.values @ b.values, a.values.abs() @ b.values.abs()
    finite = lambda: without_infinities(a.values).abs() @ without_infinities(b.values).abs()
    bound, free = tidy(ref, products(k, kind, c.backend) * u * size), free_of(size, ref, kind, finite)
    to = kind if c.chance(0.8) else c.pick("f32", "f64", "f16", "bf16")
    bound = bound + 2.0**-126
    if to == "f64" and kind != "f64":
        bound = tidy(ref, bound + u * ref.abs())
    follow = c.random.choice(("", "", "bias", "activation", "both"))
    between = c.virtual() if follow else None
    nodes = [dict(kind="MATMUL", a=a, b=b, y=between)]
    now = between
    if follow in ("bias", "both"):
        bias = c.read(None, kind, [1] * len(batch) + ([1, n] if c.chance(0.8) else [m, 1]), form="packed")
        ref = ref + bias.values
        bound = tidy(ref, bound + 2 * u * (ref.abs() + bias.values.abs()))
        out = c.virtual() if follow == "both" else None
        nodes.append(dict(kind="POINTWISE", pointwise=constant("DNN_ADD"), x=now, b=bias, y=out))
        now = out
    if follow in ("activation", "both"):
        mode = c.pick("RELU", "GELU", "GELU_TANH", "SWISH")
        p, given = parameters(c, mode)
        before = torch.nan_to_num(ref.abs(), nan=0.0, posinf=0.0)
        c.last = mode
        ref, bound = fn.with_errors(mode, u, (ref, None, None), (bound, None, None), p)
        if mode == "GELU_TANH" and c.backend == "cuda" and kind != "f64":
            bound = bound + 2.0**-17 * before  # as cuBLASLt's epilogue, see dnn.h
        nodes.append(dict(kind="POINTWISE", pointwise=constant("DNN_" + mode), x=now, y=None, parameter=given))
    nodes[-1]["y"] = c.write(None, to, y_dims, ref, bound, free, layout=_matrix_layout(c, y_dims))
    for n_ in nodes:
        c.node(n_.pop("kind"), **n_)


class _Matrix:
    """An operand of the matmul actor: batch x rows x columns in either order."""

    def __init__(self, c, name, kind, dims, order, values=None, expected=None, padded=False, numbers=None):
        rows, columns = dims[-2:]
        line = rows if order == 0 else columns
        ld = (line + 7) // 8 * 8 if padded or c.chance(0.3) else line
        size = ld * (columns if order == 0 else rows)
        layout = ([size] + ([1, ld] if order == 0 else [ld, 1]), 0)
        if expected:
            self.placed = c.write("*" + name, kind, dims, *expected, layout=layout)
        else:
            self.placed = c.read("*" + name, kind, dims, numbers, layout=layout, values=values)
        self.values = self.placed.values
        number = constant(kind.upper())
        c.lines.append(lambda: "f %s %d 0 %d %d %d %d" % (name, self.placed.buffer, number, order, ld, size))


def _vector(c, name, kind, count, values=None, expected=None):
    if expected:
        placed = c.write("*" + name, kind, [count], *expected, form="packed")
    else:
        placed = c.read("*" + name, kind, [count], form="packed", values=values)
    c.lines.append(lambda: "f %s %d %d %d 0" % (name, placed.buffer, placed.offset * placed.kind.bytes,
                                                constant(kind.upper())))
    return placed.values


def matmul_actor(c):
    kind = c.pick("f32", "f32", "f16", "bf16", "bf16", "f64")
    c.operation, c.type, c.call, c.sums = "matmul actor", kind, "matmul", True
    c.nodes.append("matmul_actor")
    batch = 1 if c.chance(0.6) else c.pick(2, 3, 8, 16)
    m, n, k = _sizes(c, batch)
    ta, tb, order = c.chance(0.5), c.chance(0.5), c.pick(0, 1)
    to = kind if kind in ("f32", "f64") or c.chance(0.7) else "f32"
    u = compute_type(TYPES[kind]).unit
    alpha = c.pick(1.0, 1.0, 1.0, 0.5, -2.0, 0.0)
    numbers = "normal" if alpha == 0 and c.backend == "cuda" else None  # a GPU's library may read a and b
    c.set(m=m, n=n, k=k, batch=batch, trans_a=int(ta), trans_b=int(tb))
    if alpha != 1.0:
        c.set(alpha=alpha)
    a = _Matrix(c, "a", kind, [batch, k, m] if ta else [batch, m, k], c.pick(0, 1), numbers=numbers).values
    b = _Matrix(c, "b", kind, [batch, n, k] if tb else [batch, k, n], c.pick(0, 1), numbers=numbers).values
    a, b = a.mT if ta else a, b.mT if tb else b
    if alpha == 0:  # neither is read
        ref = size = torch.zeros([batch, m, n], dtype=F64, device=c.device)
    else:
        ref, size = alpha * (a @ b), abs(alpha) * (a.abs() @ b.abs())
    finite = lambda: abs(alpha) * (without_infinities(a).abs() @ without_infinities(b).abs())
    bound, free = products(k, kind, c.backend) * u * size + 2 * u * ref.abs(), free_of(size, ref, kind, finite)
    by_library = c.backend == "cuda"  # which may round to D's type before the epilogue, see matmul.h
    if c.chance(0.4):
        beta = c.pick(1.0, 0.5, -1.0)
        z = _Matrix(c, "c", to, [batch, m, n], order).values
        c.set(beta=beta)
        ref = ref + beta * z
        bound = bound + 2 * u * (ref.abs() + 2 * (beta * z).abs())
        if free is not None:  # infinite before the epilogue, which may bring the result back
            free = free | (torch.isfinite(ref) & (ref.abs() > fn.F32_MOST))
    bound = torch.where(torch.isfinite(ref), bound, torch.zeros_like(bound)) + 2.0**-126
    epilogue = c.pick("", "", "bias", "relu", "gelu", "relu bias", "gelu bias", "gelu aux", "dgelu")
    along = -2 if order == 0 else -1  # a line of D
    if by_library and epilogue:
        if free is not None:  # what lies in D's type before the epilogue may be infinite
            free = free | (torch.isfinite(ref) & (ref.abs() > TYPES[to].most * (1 - 2 * TYPES[to].unit)))
        rounded = TYPES[to].unit * torch.nan_to_num(ref.abs(), nan=0.0, posinf=0.0)
        bound = bound + rounded + (2.0 ** (TYPES[to].least - TYPES[to].bits) if TYPES[to].floating else 0.0)
    slack = {"f64": 2.0**-29, "f32": 2.0**-17}[compute_type(TYPES[kind]).name] if by_library else 0.0  # of GELU
    if "bias" in epilogue:
        one = _vector(c, "bias", to, m if order == 0 else n)
        one = one.reshape([1, m, 1] if order == 0 else [1, 1, n])
        ref = ref + one
        bound = tidy(ref, bound + 2 * u * (ref.abs() + one.abs()))
    if epilogue.startswith("relu") or epilogue.startswith("gelu"):
        mode = "RELU" if epilogue.startswith("relu") else "GELU"
        c.set(activation=constant("ACTIVATION_" + mode))
        if "aux" in epilogue:
            _Matrix(c, "aux", to, [batch, m, n], order, expected=(ref, bound, free), padded=True)
        before = torch.nan_to_num(ref.abs(), nan=0.0, posinf=0.0)
        ref, bound = fn.with_errors("GELU_TANH" if mode == "GELU" else mode, u, (ref, None, None),
                                    (bound, None, None), [0.0, math.inf, 0.0])
        if mode == "GELU":
            bound = bound + slack * before
        if by_library:  # RELU of NaN is 0; GELU of what D's type does not hold, or twice of f32, may be no number
            most = TYPES[to].most if kind == "f64" else min(1.7e38, TYPES[to].most)
            lost = torch.isnan(ref) if mode == "RELU" else before > most
            free = lost if free is None else free | lost
    elif epilogue == "dgelu":
        c.set(activation=constant("ACTIVATION_DGELU"))
        x = _Matrix(c, "aux", to, [batch, m, n], order, values=c.values([batch, m, n], to, "normal"),
                    padded=True).values
        d = fn.derivative("GELU_TANH", x, [1.0, 0, 0])
        bound = bound * d.abs() * 2 + slack * torch.nan_to_num(
            ref.abs() * (1 + x.abs()), nan=0.0, posinf=0.0) + torch.nan_to_num(fn.derivative_error("GELU_TANH", u, ref, x, [1.0], d),
                                                       nan=0.0, posinf=0.0)
        ref = ref * d
        bound = tidy(ref, bound)
        if batch == 1 and c.chance(0.5):
            total = lambda v: v.sum(dim=-1 if along == -2 else -2).reshape(-1)
            sums = total(ref)
            off = (16 + math.sqrt(n if order == 0 else m)) * u * total(ref.abs()) + total(bound)
            off = off + TYPES[to].unit * total(ref.abs())  # of what is rounded already
            c.set(gradient_of=constant("BIAS_GRADIENT_D"))
            _vector(c, "gradient", to, m if order == 0 else n,
                    expected=(sums, tidy(sums, off), free_of(total(ref.abs()), sums, kind)))
    _Matrix(c, "d", to, [batch, m, n], order, expected=(ref, bound, free))


# --- attention ---


class _Attention:
    def __init__(self, c):
        self.b, self.h = c.pick(1, 1, 2, 4, 8), c.pick(1, 2, 4, 8, 12, 16)
        self.kv = c.pick(self.h, self.h, 1, max(1, self.h // 4) if self.h % 4 == 0 else self.h)
        self.q, self.k = c.sequence(), c.sequence()
        if c.chance(0.5):
            self.k = self.q
        elif c.chance(0.2):
            self.q = 1
        self.d = c.pick(32, 64, 64, 128, 16, 8, 96, 80) if c.chance(0.85) else c.log_uniform(1, 128)
        self.dv = self.d if c.chance(0.85) else c.pick(32, 64, 128)
        while self.b * self.h * self.q * self.k * (self.d + self.dv) > c.budget.products or \
                self.b * self.h * max(self.q * self.k, self.q * self.d, self.k * self.dv) > c.budget.elements:
            what = c.pick("b", "q", "k")
            if what == "b" and self.b > 1:
                self.b //= 2
            elif what == "q":
                self.q = max(1, self.q // 2)
            elif what == "k":
                self.k = max(1, self.k // 2)
            if self.q == self.k == self.b == 1:
                break
        self.group = self.h // self.kv

    def wide(self, x):
        return x.repeat_interleave(self.group, 1)

    def narrow(self, x):
        return x.reshape(self.b, self.kv, self.group, *x.shape[2:]).sum(2)


def _heads_layout(c, dims, rows_first):
    b, h, s, d = dims
    return ([s * h * d, d, h * d, 1] if rows_first else [h * s * d, s * d, d, 1]), 0


def _mask(c, a):
    """(mask's name, seen: b x 1 x q x k, all True where nothing is hidden)"""
    mask = c.pick("NONE", "NONE", "CAUSAL", "CAUSAL", "CAUSAL_BOTTOM_RIGHT")
    row = torch.arange(a.q, device=c.device).reshape(1, 1, -1, 1)
    column = torch.arange(a.k, device=c.device).reshape(1, 1, 1, -1)
    seen = torch.ones([a.b, 1, a.q, a.k], dtype=torch.bool, device=c.device)
    lengths = None
    if c.chance(0.2):
        lengths = [[c.random.randint(1, n) for _ in range(a.b)] for n in (a.q, a.k)]
        rows, columns = (torch.tensor(v, device=c.device).reshape(-1, 1, 1, 1) for v in lengths)
        seen = seen & (row < rows) & (column < columns)
        for name, v in zip(("seq_q", "seq_kv"), lengths):
            c.read(name, "i32", [a.b, 1, 1, 1], form="packed",
                   values=torch.tensor(v, dtype=F64, device=c.device).reshape(-1, 1, 1, 1))
        c.conditions.add("lengths")
    if mask == "CAUSAL":
        seen = seen & (column <= row)
    elif mask == "CAUSAL_BOTTOM_RIGHT":
        shift = columns - rows if lengths else a.k - a.q
        seen = seen & (column <= row + shift)
    if mask != "NONE":
        c.set(mask=constant("DNN_MASK_" + mask))
    return seen


def _scores(c, a, q, k, scale, seen, kind, u):
    """Scores in f64, what they may be off by, and the bias's tensor."""
    s = scale * (q @ a.wide(k).mT)
    off = products(a.d) * u * abs(scale) * (q.abs() @ a.wide(k).abs().mT) + 2 * u * s.abs()
    if c.chance(0.25):
        dims = [d if c.chance(0.6) else 1 for d in (a.b, a.h, a.q, a.k)]
        bias = c.values(dims, kind, "normal")
        if c.chance(0.4):
            hidden = c.pick(-1e9, -TYPES[kind].most, -math.inf, -1e4)
            hide = torch.from_numpy(c.g.random(dims) < 0.3).to(c.device)
            bias = round_to(TYPES[kind], torch.where(hide, torch.full_like(bias, hidden), bias))
            bias = torch.where(torch.isinf(bias) & (hidden > -math.inf), torch.full_like(bias, -TYPES[kind].most), bias)
        c.read("bias", kind, dims, form="packed", values=bias)
        s = s + bias
        off = off + 2 * u * torch.nan_to_num(bias.abs() + s.abs(), nan=0.0, posinf=0.0)
        c.conditions.add("bias")
    return torch.where(seen, s, torch.full_like(s, -math.inf)), off


def _weights(s):
    top = s.amax(-1, keepdim=True)
    top = torch.where(torch.isfinite(top), top, torch.zeros_like(top))
    e = torch.exp(s - top)
    total = e.sum(-1, keepdim=True)
    blind = total == 0
    p = torch.where(blind, torch.zeros_like(e), e / torch.where(blind, torch.ones_like(total), total))
    stats = torch.where(blind, torch.full_like(total, -math.inf), top + torch.log(total))
    return p, stats, torch.nan_to_num((s - top).abs(), nan=0.0, posinf=0.0).clamp(max=100)


def attention(c):
    backward, kind = c.chance(0.4), c.pick("f16", "bf16", "bf16", "f32", "f32", "f64")
    c.operation, c.type = "attention " + ("backward" if backward else "forward"), kind
    c.call = "attention_" + ("backward" if backward else "forward")
    c.nodes.append("attention_backward" if backward else "attention")
    a, rows_first = _Attention(c), c.chance(0.5)
    sums = "f64" if kind == "f64" else "f32"
    u, narrow = TYPES[sums].unit, TYPES[kind].unit
    numbers = c.pick("normal", "normal", "normal", "uniform", "saturating")
    c.sums = True
    put = lambda name, dims, values=None: c.read(name, kind, dims, numbers, layout=_heads_layout(c, dims, rows_first),
                                                 values=values).values
    q, k, v = (put(n, d) for n, d in (("q", [a.b, a.h, a.q, a.d]), ("k", [a.b, a.kv, a.k, a.d]),
                                      ("v", [a.b, a.kv, a.k, a.dv])))
    scale = 1 / math.sqrt(a.d)
    if c.chance(0.3):
        scale = c.pick(0.1, 0.5, 1.0)
        c.set(scale=scale)
    seen = _mask(c, a)
    s, off = _scores(c, a, q, k, scale, seen, kind, u)
    p, stats, span = _weights(s)
    y = p @ a.wide(v)
    off = torch.where(p > 0, off, torch.zeros_like(off))
    relative = off + u * (8 + span)  # of one weight
    row = (p * relative).sum(-1, keepdim=True) + relative.amax(-1, keepdim=True).clamp(max=1)
    size = p @ a.wide(v).abs()
    y_dims = [a.b, a.h, a.q, a.dv]
    out = lambda name, dims, ref, bound: c.write(name, kind, dims, ref, tidy(ref, bound),
                                                 layout=_heads_layout(c, dims, rows_first))
    if not backward:
        # To first order in the scores' error; where that is large no digit is known.
        bound = size * (2 * row + 2 * narrow + pairwise_units(a.k) * u)
        bound = torch.where((row > 0.2).expand(bound.shape), torch.full_like(bound, math.inf), bound)
        c.write("y", kind, y_dims, y, torch.where(torch.isfinite(y), bound, torch.zeros_like(bound)),
                layout=_heads_layout(c, y_dims, rows_first))
        if c.chance(0.5):
            bound = off.amax(-1, keepdim=True) + u * (16 + 4 * torch.nan_to_num(stats.abs(), posinf=0.0))
            # A library that takes powers of 2 multiplies scores by log2(e) in f32, see dnn.md.
            free = torch.isfinite(stats) & (stats < -fn.F32_MOST * math.log(2)) if c.backend == "cuda" else None
            c.write("stats", sums, [a.b, a.h, a.q, 1], stats, torch.where(
                torch.isfinite(stats), bound, torch.zeros_like(bound)), free, form="packed")
        return
    y = put("y", y_dims, round_to(TYPES[kind], y))
    stats = c.read("stats", sums, [a.b, a.h, a.q, 1], form="packed", values=round_to(TYPES[sums], stats)).values
    dy = put("dy", y_dims)
    p = torch.where(torch.isinf(s) | torch.isinf(stats), torch.zeros_like(s), torch.exp(s - torch.where(
        torch.isinf(stats), torch.zeros_like(stats), stats)))
    reach = off + u * torch.nan_to_num(stats.abs(), posinf=0.0)
    p_off = p * (reach + u * (8 + span)).clamp(max=10)
    # Beside a shift by 1e9 scores of f32 lie 64 apart, and so does what stats says of them: a weight may be anything.
    p_off = torch.where((reach > 1) & (s - stats + reach > -100), torch.full_like(p, math.inf), p_off)
    dp = dy @ a.wide(v).mT
    dp_off = products(a.dv) * u * (dy.abs() @ a.wide(v).abs().mT)
    d = (dy * y).sum(-1, keepdim=True)
    d_off = products(a.dv) * u * (dy * y).abs().sum(-1, keepdim=True)
    lost = 2.0 ** (TYPES[kind].least - TYPES[kind].bits)  # of a weight, or of ds, in the narrow type
    # Exponentials that are no normal number become 0; those of f64 are off by some of its smallest steps.
    lost = max(lost, 2.0**-1072 if kind == "f64" else fn.F32_LEAST)
    ds = p * (dp - d)
    ds_off = ((p_off + p * narrow) * (dp.abs() + d.abs()) + p * (dp_off + d_off) + 2 * narrow * ds.abs() +
              lost * (2 + dp.abs() + d.abs()))
    dv = a.narrow(p.mT @ dy)
    dv_off = a.narrow((p_off + p * 2 * narrow + lost).mT @ dy.abs() + products(a.q * a.group) * u * (p.mT @ dy.abs()))
    out("dv", [a.b, a.kv, a.k, a.dv], dv, dv_off)
    dq = scale * (ds @ a.wide(k))
    dq_off = abs(scale) * (ds_off @ a.wide(k).abs() + products(a.k) * u * (ds.abs() @ a.wide(k).abs()))
    out("dq", [a.b, a.h, a.q, a.d], dq, dq_off)
    dk = scale * a.narrow(ds.mT @ q)
    dk_off = abs(scale) * a.narrow(ds_off.mT @ q.abs() + products(a.q * a.group) * u * (ds.abs().mT @ q.abs()))
    out("dk", [a.b, a.kv, a.k, a.d], dk, dk_off)


def pairwise_units(n):
    return 8 + 2 * math.log2(max(n, 2))


