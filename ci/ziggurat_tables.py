"""Derives the tables of the 256-layer ziggurat for exp(-x) and prints them as Rust.

Marsaglia and Tsang, "The Ziggurat Method for Generating Random Variables", Journal of
Statistical Software 5 (2000), section 3: every layer has the same area v, the base layer holds the
tail beyond r, and r is the value for which the layers close at x = 0. Everything is computed to
60 decimal digits and rounded once. The acceptance bounds keep 52 bits of the ratio and an empty
lowest bit, as NumPy has them; with a 53rd bit a draw in 2**53 would differ.

    python3 ci/ziggurat_tables.py > harness/predict/src/rng/ziggurat_tables.rs
"""

import struct
from decimal import Decimal, getcontext

LAYERS = 256
getcontext().prec = 60


def layers(r):
    """The edges x[1..255] for a right edge r, the area, and the deviation of f from 1."""
    area = r * (-r).exp() + (-r).exp()
    x = [None] * LAYERS
    x[LAYERS - 1] = r
    for i in range(LAYERS - 2, 0, -1):
        height = area / x[i + 1] + (-x[i + 1]).exp()
        if height >= 1:
            return x, area, Decimal(1)
        x[i] = -height.ln()
    return x, area, area / x[1] + (-x[1]).exp() - 1


def right_edge():
    low, high = Decimal("7.6"), Decimal("7.8")
    for _ in range(190):
        middle = (low + high) / 2
        if layers(middle)[2] > 0:
            low = middle
        else:
            high = middle
    return high


def bits(value):
    return struct.unpack("<Q", struct.pack("<d", float(value)))[0]


def table(name, doc, values):
    print(f"\n/// {doc}\n#[rustfmt::skip]")
    print(f"pub(super) static {name}: [u64; {LAYERS}] = [")
    for start in range(0, LAYERS, 4):
        row = ", ".join(f"0x{v:016X}" for v in values[start : start + 4])
        print(f"    {row},")
    print("];")


def main():
    r = right_edge()
    x, area, _ = layers(r)
    base = area / (-r).exp()
    bound = [r / base, None] + [x[i - 1] / x[i] for i in range(2, LAYERS)]
    print("//! Tables of the exponential ziggurat; `ci/ziggurat_tables.py` writes them.")
    print("\n/// Where the tail begins: the right edge of the base layer, as the bits of an f64.")
    print(f"pub(super) const RIGHT_EDGE_BITS: u64 = 0x{bits(r):016X};")
    table(
        "ACCEPT_BELOW",
        "A 53-bit draw under this bound lies inside the next narrower layer: accepted at once.",
        [0 if b is None else int(b * 2**52) * 2 for b in bound],
    )
    table(
        "WIDTH_BITS",
        "Layer width over 2^53, as the bits of an f64.",
        [bits((base if i == 0 else x[i]) / 2**53) for i in range(LAYERS)],
    )
    table(
        "HEIGHT_BITS",
        "Density at the layer's edge, as the bits of an f64.",
        [bits(Decimal(1) if i == 0 else (-x[i]).exp()) for i in range(LAYERS)],
    )


if __name__ == "__main__":
    main()
