#!/usr/bin/env python3
"""Kernels that numba compiles, on a virtual GPU, held against NumPy.

    gpubench virtual-gpu exec --machine hopper -- DIR/bin/python ci/conformance_numba.py [NAME...]
"""

import math
import sys

import numpy as np
from numba import cuda, float32, vectorize
from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_uniform_float32

N = 4096
rng = np.random.default_rng(1)
A, B = rng.random(N, dtype=np.float32), rng.random(N, dtype=np.float32)
D, H, G = A.astype(np.float64), A.astype(np.float16), B.astype(np.float16)
I = rng.integers(0, 1000, N).astype(np.int32)
SQUARES = np.arange(16, dtype=np.float32) ** 2


@cuda.jit
def add(x, y, o):
    i = cuda.grid(1)
    if i < o.size:
        o[i] = x[i] + y[i]


@cuda.jit
def axpy(x, y, o):
    i = cuda.grid(1)
    o[i] = 2.5 * x[i] + y[i]


@cuda.jit
def reduce_shared(x, y, o):
    s = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    s[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    n = 64
    while n > 0:
        if t < n:
            s[t] += s[t + n]
        cuda.syncthreads()
        n //= 2
    o[cuda.grid(1)] = s[0]


@cuda.jit
def histogram(x, y, o):
    s = cuda.shared.array(16, float32)
    if cuda.threadIdx.x < 16:
        s[cuda.threadIdx.x] = 0
    cuda.syncthreads()
    cuda.atomic.add(s, x[cuda.grid(1)] % 16, 1)
    cuda.syncthreads()
    o[cuda.grid(1)] = s[x[cuda.grid(1)] % 16]


@cuda.jit
def shuffle(x, y, o):
    i = cuda.grid(1)
    v = x[i]
    for d in (16, 8, 4, 2, 1):
        v += cuda.shfl_xor_sync(0xFFFFFFFF, v, d)
    o[i] = v


@cuda.jit
def functions(x, y, o):
    i = cuda.grid(1)
    o[i] = math.sin(x[i]) + math.exp(x[i]) * math.sqrt(y[i]) - math.log(x[i] + 1)


@cuda.jit
def double_functions(x, y, o):
    i = cuda.grid(1)
    o[i] = math.pow(x[i], 1.7) + math.atan2(x[i], 2.0) + math.erf(y[i])


@cuda.jit
def half(x, y, o):
    i = cuda.grid(1)
    o[i] = x[i] + y[i]


@cuda.jit
def constants(x, y, o):
    table = cuda.const.array_like(SQUARES)
    i = cuda.grid(1)
    o[i] = table[i % 16]


@cuda.jit
def local_array(x, y, o):
    i = cuda.grid(1)
    t = cuda.local.array(8, float32)
    for j in range(8):
        t[j] = x[i] * j
    s = float32(0)
    for j in range(8):
        s += t[7 - j]
    o[i] = s


@cuda.jit
def dynamic_shared(x, y, o):
    s = cuda.shared.array(0, float32)
    s[cuda.threadIdx.x] = x[cuda.grid(1)]
    cuda.syncthreads()
    o[cuda.grid(1)] = s[cuda.blockDim.x - 1 - cuda.threadIdx.x]


@cuda.jit(device=True)
def polynomial(x):
    return x * 3 - 7


@cuda.jit
def long_integers(x, y, o):
    i = cuda.grid(1)
    o[i] = polynomial(x[i]) // 5 + (x[i] ^ (x[i] >> 2)) % 11


@cuda.jit
def matrices(x, y, o):
    i = cuda.grid(1)
    row, column, s = i // 64, i % 64, float32(0)
    for k in range(64):
        s += x[row * 64 + k] * y[k * 64 + column]
    o[i] = s


L = I.astype(np.int64)
# Kernel, its arrays, and what NumPy says.
KERNELS = [
    (add, A, B, A + B),
    (axpy, D, D, 3.5 * D),
    (matrices, A, B, (A.reshape(64, 64) @ B.reshape(64, 64)).ravel()),
    (reduce_shared, A, B, np.repeat(A.reshape(-1, 128).sum(1), 128)),
    (histogram, I, I, np.concatenate([np.bincount(x % 16)[x % 16] for x in I.reshape(-1, 128)])),
    (shuffle, I, I, np.repeat(I.reshape(-1, 32).sum(1), 32)),
    (functions, A, B, np.sin(A) + np.exp(A) * np.sqrt(B) - np.log(A + 1)),
    (double_functions, D, D, D**1.7 + np.arctan2(D, 2) + [math.erf(x) for x in D]),
    (half, H, G, H + G),
    (constants, A, B, np.tile(SQUARES, N // 16)),
    (local_array, A, B, A * 28),
    (dynamic_shared, A, B, A.reshape(-1, 128)[:, ::-1].ravel()),
    (long_integers, L, L, (L * 3 - 7) // 5 + (L ^ (L >> 2)) % 11),
]


def streams_and_events():
    stream, first, last = cuda.stream(), cuda.event(), cuda.event()
    there, out = cuda.to_device(A, stream=stream), cuda.device_array(N, np.float32, stream=stream)
    first.record(stream)
    add[N // 128, 128, stream](there, there, out)
    last.record(stream)
    last.synchronize()
    found = out.copy_to_host(stream=stream)
    stream.synchronize()
    return found * (first.elapsed_time(last) > 0), A * 2


def ufunc():
    @vectorize(["float32(float32, float32)"], target="cuda")
    def product(x, y):
        return x * y + 1

    return product(A, B), A * B + 1


def reduction():
    return np.array(cuda.reduce(lambda x, y: x + y)(I)), I.sum()


def random_numbers():
    @cuda.jit
    def uniform(states, out):
        i = cuda.grid(1)
        out[i] = xoroshiro128p_uniform_float32(states, i)

    out = np.zeros(256, np.float32)
    uniform[2, 128](create_xoroshiro128p_states(256, seed=1), out)
    good = [out.min() >= 0, out.max() < 1, len(np.unique(out)) > 250]
    return np.array(good), np.array([True] * 3)


def pinned_and_mapped():
    pinned, mapped = cuda.pinned_array(N, np.float32), cuda.mapped_array(N, np.float32)
    pinned[:], mapped[:] = A, B
    add[N // 128, 128](cuda.to_device(pinned), mapped, mapped)
    cuda.synchronize()
    return mapped, A + B


def of_kernel(kernel, x, y, expected):
    """A case that runs a kernel on two arrays."""

    def case():
        out = np.zeros_like(x)
        kernel[N // 128, 128, 0, 512 if kernel is dynamic_shared else 0](x, y, out)
        return out, expected

    case.__name__ = kernel.py_func.__name__
    return case


CASES = [of_kernel(*row) for row in KERNELS]
CASES += [streams_and_events, ufunc, reduction, random_numbers, pinned_and_mapped]


def main(names):
    wrong = 0
    for case in CASES:
        if names and case.__name__ not in names:
            continue
        try:
            found, expected = case()
            good = np.allclose(found, expected, rtol=2e-3 if found.dtype == np.float16 else 2e-5)
            why = "" if good else f": found {found!r} for {expected!r}"
        except Exception as error:  # what numba raises has no common base
            good, why = False, f": {type(error).__name__}: {error}"
        wrong += not good
        print("PASS" if good else "FAIL", f"numba: {case.__name__}{why}", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
