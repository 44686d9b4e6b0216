"""Pointwise functions and the gradients of activations in f64, and how exact a right result is."""

import itertools
import math

import numpy as np
import torch

ROOT_2 = math.sqrt(2.0)
ROOT_2_BY_PI = math.sqrt(2.0 / math.pi)
F32_MOST = 3.4028234663852886e38
F32_LEAST = 2.0 ** -126  # the smallest normal number


def denormal(x):
    """What is lost of x where numbers below the smallest normal one of f32 count as 0."""
    return torch.where(x.abs() < F32_LEAST, x.abs(), torch.zeros_like(x))


def _limit(x, at, value, y):
    return torch.where(x == at, torch.full_like(y, value), y)


def sigmoid(x):
    return torch.sigmoid(x)


def gelu(x):
    return _limit(x, -math.inf, 0.0, 0.5 * x * torch.special.erfc(-x / ROOT_2))


def _tanh_argument(x):
    return ROOT_2_BY_PI * (x + 0.044715 * x * x * x)


def gelu_tanh(x):  # x * sigmoid(2 u), which is x/2 (1 + tanh(u)) without the cancellation
    return _limit(x, -math.inf, 0.0, x * torch.sigmoid(2 * _tanh_argument(x)))


def swish(x, beta):
    y = x * torch.sigmoid(beta * x)
    return torch.where(torch.isinf(x) & (beta * x == -math.inf), torch.zeros_like(y), y)


def softplus(x, beta):
    z = beta * x
    return (torch.clamp(z, min=0) + torch.log1p(torch.exp(-z.abs()))) / beta if beta > 0 else \
        torch.log1p(torch.exp(z)) / beta


def relu(x, low, high, slope):
    below = low + (0.0 * torch.zeros_like(x) if slope == 0 else slope * (x - low))
    y = torch.where(x < low, below, torch.where(x > high, torch.full_like(x, high), x))
    return torch.where(torch.isnan(x), x, y)


def activation(mode, x, p):
    if mode == "RELU":
        return relu(x, *p)
    if mode == "ELU":
        return torch.where(x > 0, x, p[0] * torch.expm1(x))
    return {"TANH": torch.tanh, "SIGMOID": sigmoid, "GELU": gelu, "GELU_TANH": gelu_tanh,
            "SOFTPLUS": lambda v: softplus(v, p[0]), "SWISH": lambda v: swish(v, p[0])}[mode](x)


def derivative(mode, x, p):
    if mode == "RELU":
        d = torch.where(x < p[0], torch.full_like(x, p[2]), torch.where(x > p[1], torch.zeros_like(x),
                                                                        torch.ones_like(x)))
    elif mode == "TANH":
        s = torch.sigmoid(-2 * x.abs())
        d = 4 * s * (1 - s)
    elif mode == "SIGMOID":
        d = torch.sigmoid(x) * torch.sigmoid(-x)
    elif mode == "ELU":
        d = torch.where(x > 0, torch.ones_like(x), p[0] * torch.exp(x))
    elif mode == "GELU":
        d = 0.5 * torch.special.erfc(-x / ROOT_2) + _limit(x.abs(), math.inf, 0.0,
                                                          x * torch.exp(-x * x / 2) * ROOT_2_BY_PI / 2)
    elif mode == "GELU_TANH":
        s = torch.sigmoid(2 * _tanh_argument(x))
        inner = 2 * ROOT_2_BY_PI * (1 + 3 * 0.044715 * x * x) * s * torch.sigmoid(-2 * _tanh_argument(x)) * x
        d = s + torch.where(x.abs() > 50, torch.zeros_like(inner), inner)
    elif mode == "SOFTPLUS":
        d = torch.sigmoid(p[0] * x)
    else:
        s, t = torch.sigmoid(p[0] * x), torch.sigmoid(-p[0] * x)
        inner = x * p[0] * s * t
        d = s + torch.where((p[0] * x).abs() > 700, torch.zeros_like(inner), inner)
    return torch.where(torch.isnan(x), x, d)


def _propagating(f):
    def both(x, b, _t):
        return torch.where(torch.isnan(x), x, torch.where(torch.isnan(b), b, f(x, b)))
    return both


def _truth(f):
    return lambda x, b, t: f(x, b).to(torch.float64)


def _fmod(x, b):  # PyTorch's own gives no number where the quotient is large
    with np.errstate(invalid="ignore"):
        return torch.from_numpy(np.fmod(x.cpu().numpy(), b.cpu().numpy())).to(x.device)


ACTIVATIONS = ("RELU", "TANH", "SIGMOID", "ELU", "GELU", "GELU_TANH", "SOFTPLUS", "SWISH")
FUNCTIONS = {
    "IDENTITY": lambda x, b, t: x,
    "ADD": lambda x, b, t: x + b,
    "SUB": lambda x, b, t: x - b,
    "MUL": lambda x, b, t: x * b,
    "DIV": lambda x, b, t: x / b,
    "MIN": _propagating(torch.minimum),
    "MAX": _propagating(torch.maximum),
    "MOD": lambda x, b, t: _fmod(x, b),
    "POW": lambda x, b, t: torch.pow(x, b),
    "ADD_SQUARE": lambda x, b, t: x + b * b,
    "ATAN2": lambda x, b, t: torch.atan2(x, b),
    "ABS": lambda x, b, t: x.abs(),
    "CEIL": lambda x, b, t: torch.ceil(x),
    "FLOOR": lambda x, b, t: torch.floor(x),
    "COS": lambda x, b, t: torch.cos(x),
    "SIN": lambda x, b, t: torch.sin(x),
    "TAN": lambda x, b, t: torch.tan(x),
    "EXP": lambda x, b, t: torch.exp(x),
    "LOG": lambda x, b, t: torch.log(x),
    "NEGATE": lambda x, b, t: -x,
    "SQRT": lambda x, b, t: torch.sqrt(x),
    "RSQRT": lambda x, b, t: torch.rsqrt(x),
    "RECIPROCAL": lambda x, b, t: torch.reciprocal(x),
    "ERF": lambda x, b, t: torch.erf(x),
    "EQUAL": _truth(torch.eq),
    "NOT_EQUAL": _truth(torch.ne),
    "GREATER": _truth(torch.gt),
    "GREATER_EQUAL": _truth(torch.ge),
    "LESS": _truth(torch.lt),
    "LESS_EQUAL": _truth(torch.le),
    "AND": _truth(lambda x, b: (x != 0) & (b != 0)),
    "OR": _truth(lambda x, b: (x != 0) | (b != 0)),
    "NOT": lambda x, b, t: (x == 0).to(torch.float64),
    "SELECT": lambda x, b, t: torch.where(t != 0, x, b),
}
BINARY = ("ADD", "SUB", "MUL", "DIV", "MIN", "MAX", "MOD", "POW", "ADD_SQUARE", "ATAN2", "EQUAL", "NOT_EQUAL",
          "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "AND", "OR")


def inputs(mode):
    return 3 if mode == "SELECT" else 2 if mode in BINARY else 1


def evaluate(mode, x, b, t, p):
    return activation(mode, x, p) if mode in ACTIVATIONS else FUNCTIONS[mode](x, b, t)


def own_error(mode, u, y, x, b, p):
    """What a good implementation may be off by, computing in numbers of unit u: against the terms that it adds."""
    size = y.abs()
    if mode in ("IDENTITY", "MIN", "MAX", "ABS", "CEIL", "FLOOR", "NEGATE", "AND", "OR", "NOT", "SELECT", "EQUAL",
                "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "MOD"):
        return torch.zeros_like(y)
    if mode in ("ADD", "SUB", "MUL", "DIV", "SQRT", "RECIPROCAL"):
        off = 2 * u * size
    elif mode == "ADD_SQUARE":
        off = 2 * u * (x.abs() + b * b)
        off = torch.where((b * b > F32_MOST / 2) & (u > 1e-12), torch.full_like(off, math.inf), off)
    elif mode == "POW":
        off = u * size * (16 + 2 * torch.nan_to_num((b * torch.log(x.abs())).abs(), nan=0, posinf=0))
    elif mode == "EXP":
        off = u * size * (4 + x.abs() / 2)
    elif mode == "LOG":
        off = u * (4 * size + 1)
    elif mode in ("COS", "SIN"):
        off = torch.full_like(y, 4 * u)
    elif mode == "TAN":
        off = 4 * u * (1 + size + size * size)
    elif mode == "RELU":
        off = 4 * u * (x.abs() + abs(p[0])) if p[0] != 0 or p[2] != 0 else torch.zeros_like(y)
    elif mode in ("GELU", "GELU_TANH", "SWISH"):
        off = 8 * u * x.abs()
    elif mode == "ELU":
        off = 8 * u * (size + torch.clamp(x.abs(), max=1) * abs(p[0]))
    elif mode == "SOFTPLUS":
        off = 8 * u * (size + 1 / abs(p[0]))
    elif mode in ("TANH", "SIGMOID"):
        off = 8 * u * (size + torch.clamp(x.abs(), max=1))
    else:
        off = 8 * u * size
    return off


def with_errors(mode, u, arguments, bounds, p):
    """The value, and how far a right one may be from it if each argument is off by its bound (None: exact)."""
    x, b, t = arguments
    y = evaluate(mode, x, b, t, p)
    off = torch.where(torch.isfinite(y), own_error(mode, u, y, x, b, p), torch.zeros_like(y))
    own, unsure = off, [i for i, by in enumerate(bounds) if by is not None and arguments[i] is not None]

    def moved(places, signs):
        """How far it is once the arguments at these places are off by their bounds."""
        others = list(arguments)
        for i, sign in zip(places, signs):
            others[i] = arguments[i] + sign * bounds[i]
        z = evaluate(mode, *others, p)
        far = torch.where((z == y) | (torch.isnan(z) & torch.isnan(y)), torch.zeros_like(y), (z - y).abs())
        lost = torch.isnan(far) | sum(torch.isinf(bounds[i]).expand(far.shape) for i in places).bool()
        return torch.where(lost, torch.full_like(far, math.inf), far)

    for i in unsure:
        off = off + 1.01 * torch.maximum(moved([i], [-1.0]), moved([i], [1.0]))
    if len(unsure) > 1:  # together, too: where the bounds are large, a product is off by more than by either
        for signs in itertools.product((-1.0, 1.0), repeat=len(unsure)):
            off = torch.maximum(off, own + 1.01 * moved(unsure, signs))
    return y, off


def derivative_error(mode, u, dy, x, p, d):
    """The same of the gradient dy * activation'(x)."""
    if mode == "RELU":
        return 2 * u * (dy * d).abs()
    terms = 1 + x.abs() * d.abs() if mode in ("GELU", "GELU_TANH", "SWISH") else torch.ones_like(x)
    if mode in ("GELU", "GELU_TANH", "SWISH"):  # what grows with x has long left where it is 0 or 1
        terms = 1 + torch.clamp(x.abs(), max=12) * torch.exp(-torch.clamp(x.abs() / 4, max=50))
    size = max(abs(p[0]), 1.0) if mode in ("ELU", "SWISH") else 1.0
    return 16 * u * dy.abs() * (terms * size)
