#!/usr/bin/env python3
"""Writes tests/data/pointwise_values.txt: exact values of pointwise modes, by mpmath (pip install mpmath)."""

import random
import struct
from pathlib import Path

from mpmath import mp, mpf

mp.prec = 400
random.seed(7)


def bits(x):
    return struct.pack(">d", float(x)).hex()


def f32(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def sigmoid(z):
    return 1 / (1 + mp.exp(-z))


def cdf(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def density(x):
    return mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi)


def twice_u(x):
    return 2 * mp.sqrt(2 / mp.pi) * (x + mpf("0.044715") * x**3)


def gelu_tanh_slope(x):
    s = sigmoid(twice_u(x))
    return s + x * s * (1 - s) * 2 * mp.sqrt(2 / mp.pi) * (1 + mpf("0.134145") * x * x)


def softplus(p, x):
    return mp.log1p(mp.exp(p * x)) / p


UNARY = {
    "SQRT": lambda p, x: mp.sqrt(x) if x > 0 else None,
    "RSQRT": lambda p, x: 1 / mp.sqrt(x) if x > 0 else None,
    "RECIPROCAL": lambda p, x: 1 / x,
    "EXP": lambda p, x: mp.exp(x),
    "LOG": lambda p, x: mp.log(x) if x > 0 else None,
    "ERF": lambda p, x: mp.erf(x),
    "SIN": lambda p, x: mp.sin(x),
    "COS": lambda p, x: mp.cos(x),
    "TAN": lambda p, x: mp.tan(x),
    "TANH_FWD": lambda p, x: mp.tanh(x),
    "SIGMOID_FWD": lambda p, x: sigmoid(x),
    "ELU_FWD": lambda p, x: x if x > 0 else p * mp.expm1(x),
    "GELU_FWD": lambda p, x: x * cdf(x),
    "GELU_APPROX_TANH_FWD": lambda p, x: x * sigmoid(twice_u(x)),
    "SOFTPLUS_FWD": softplus,
    "SWISH_FWD": lambda p, x: x * sigmoid(p * x),
}
SLOPES = {
    "TANH_BWD": lambda p, x: 1 / mp.cosh(x) ** 2,
    "SIGMOID_BWD": lambda p, x: sigmoid(x) * sigmoid(-x),
    "ELU_BWD": lambda p, x: mpf(1) if x >= 0 else p * mp.exp(x),
    "GELU_BWD": lambda p, x: cdf(x) + x * density(x),
    "GELU_APPROX_TANH_BWD": lambda p, x: gelu_tanh_slope(x),
    "SOFTPLUS_BWD": lambda p, x: sigmoid(p * x),
    "SWISH_BWD": lambda p, x: sigmoid(p * x) + p * x * sigmoid(p * x) * sigmoid(-p * x),
}
BINARY = {
    "POW": lambda x, b: x**b if x > 0 else None,
    "ATAN2": lambda x, b: mp.atan2(x, b),
    "DIV": lambda x, b: x / b,
    "MOD": lambda x, b: mp.sign(x) * mp.fmod(abs(x), abs(b)),
    "ADD_SQUARE": lambda x, b: x + b * b,
}
POINTS = [1e-30, 1e-3, 0.25, 0.7, 1.0, 1.5, 2.6, 4.0, 5.3, 7.9, 12.0, 17.0, 60.0, 1e3, 1e10, 1e30]


def lines():
    points = [f32(sign * x * (1 + random.random() / 9)) for x in POINTS for sign in (1, -1)]
    for mode, value in UNARY.items():
        for x in points:
            for p in (1.0, f32(-1.7)) if mode[:3] in ("ELU", "SOF", "SWI") else (1.0,):
                yield mode, p, x, 0.0, value(mpf(p), mpf(x))
    for mode, slope in SLOPES.items():
        for x in points:
            for p in (1.0, f32(-1.7)) if mode[:3] in ("ELU", "SOF", "SWI") else (1.0,):
                dy = f32(random.uniform(-3, 3))
                yield mode, p, dy, x, dy * slope(mpf(p), mpf(x))
    for mode, value in BINARY.items():
        for x in points:
            b = f32(random.choice(points[: 2 * POINTS.index(1e3)]))
            yield mode, 1.0, x, b, value(mpf(x), mpf(b))


def main():
    out = ["# MODE parameter x b value; backward modes: dy for x, x for b; bits of doubles. scripts/pointwise-values.py"]
    for mode, p, x, b, value in lines():
        # what FLOAT cannot hold, and what cancels beyond double precision, is left out
        if value is not None and (value == 0 or mpf(2) ** -120 < abs(value) < mpf(2) ** 126):
            out.append(" ".join([mode, bits(p), bits(x), bits(b), bits(value)]))
    path = Path(__file__).parent.parent / "tests/data/pointwise_values.txt"
    path.write_text("\n".join(out) + "\n")


main()
