#!/usr/bin/env python3
"""Kernels in CUDA C that NVRTC compiles, on a virtual GPU, held against NumPy.

    gpubench virtual-gpu exec --machine hopper -- target/clients/bin/python ci/conformance_nvrtc.py

Each kernel is compiled to PTX for the device, loaded as a library, and run; a line is printed for
each, and the exit status is 1 when a result differs.
"""

import ctypes
import glob
import sys
from os import path

import numpy as np
from cuda.bindings import driver, nvrtc

from conformance_cuda import call, check, failures

N, BLOCK = 4096, 256
# A device of compute capability 7.5 has this much shared memory for a block that asks for it.
DYNAMIC = 60 << 10
rng = np.random.default_rng(7)
A, B = rng.random(N, np.float32), rng.random(N, np.float32)
H, G = A.astype(np.float16), B.astype(np.float16)
I = rng.integers(0, 1000, N).astype(np.int32)
D = A.astype(np.float64)
TABLE = np.arange(16, dtype=np.float32) ** 2

AT = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
# Name, body after the index, type of the elements, arrays, and what NumPy says.
KERNELS = [
    ("add", "o[i] = a[i] + b[i];", "float", (A, B), A + B),
    ("constants", "o[i] = table[i % 16] + a[i] * 0.f;", "float", (A, A), np.tile(TABLE, N // 16)),
    (
        "dynamic_shared_memory",
        "extern __shared__ float s[]; int last = 15 * 1024 - 1; s[last - threadIdx.x] = a[i];"
        "__syncthreads(); o[i] = s[last - (blockDim.x - 1 - threadIdx.x)];",
        "float", (A, A), A.reshape(-1, BLOCK)[:, ::-1].ravel(),
    ),
    ("half_conversions", "o[i] = __half2float(__float2half(a[i]));", "float", (A, B),
     A.astype(np.float16).astype(np.float32)),
    ("half_arithmetic", "o[i] = a[i] < b[i] ? a[i] + b[i] : a[i] * b[i];", "__half", (H, G),
     np.where(H < G, H + G, H * G)),
    ("half_pairs", "if (i % 2 == 0) *(__half2 *)(o + i) = __hadd2(*(__half2 *)(a + i),"
     "*(__half2 *)(b + i));", "__half", (H, G), H + G),
    ("bfloat", "o[i] = __bfloat162float(__float2bfloat16(a[i]));", "float", (A, B),
     ((A.view(np.uint32) + 0x7FFF + (A.view(np.uint32) >> 16 & 1)) & 0xFFFF0000).view(np.float32)),
    ("double_functions",
     "o[i] = sin(a[i]) + exp(a[i]) * sqrt(b[i]) - log1p(a[i]) + pow(b[i], 1.7);", "double",
     (D, D), np.sin(D) + np.exp(D) * np.sqrt(D) - np.log1p(D) + D**1.7),
    ("float_functions", "o[i] = sinf(a[i] * 1e5f) + erff(b[i]) + tanhf(a[i]) + fmodf(b[i], 0.3f);",
     "float", (A, B), None),
    ("shuffles", "int v = a[i];"
     "for (int d = 16; d; d /= 2) v += __shfl_xor_sync(~0u, v, d); o[i] = v;",
     "int", (I, I), np.repeat(I.reshape(-1, 32).sum(1), 32).astype(np.int32)),
    ("atomics", "o[i] = 0; __shared__ int c[4]; if (threadIdx.x < 4) c[threadIdx.x] = 0;"
     "__syncthreads(); atomicAdd(c + a[i] % 4, 1); __syncthreads(); o[i] = c[a[i] % 4];",
     "int", (I, I),
     np.concatenate([np.bincount(x % 4, minlength=4)[x % 4] for x in I.reshape(-1, BLOCK)])),
    ("long_division",
     "long long x = (long long)a[i] * 1234567891011ll; o[i] = (int)(x / 97 % 1009);",
     "int", (I, I), (I.astype(np.int64) * 1234567891011 // 97 % 1009).astype(np.int32)),
    ("divergence", "int x = a[i], n = 0; while (x > 1 && n < 500) { x = x % 2 ? 3 * x + 1 : x / 2;"
     "n++; } o[i] = n;", "int", (I, I), None),
    ("local_arrays", "float t[8]; for (int j = 0; j < 8; j++) t[(j * 5 + i) % 8] = a[i] * j;"
     "float s = 0; for (int j = 0; j < 8; j++) s += t[j]; o[i] = s;", "float", (A, A), A * 28),
    ("functions_by_pointer", "float (*f[2])(float) = {twice, half_of}; o[i] = f[i % 2](a[i]);",
     "float", (A, A), np.where(np.arange(N) % 2, A / 2, A * 2)),
]
PREFIX = """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
__constant__ float table[16];
__device__ __noinline__ float twice(float x) { return x * 2; }
__device__ __noinline__ float half_of(float x) { return x / 2; }
"""


def collatz(x):
    """The steps of one number to 1."""
    steps = 0
    while x > 1 and steps < 500:
        x = 3 * x + 1 if x % 2 else x // 2
        steps += 1
    return steps


def float_functions():
    """In double precision, as the tolerance allows."""
    from math import erf

    a, b = A.astype(np.float64), B.astype(np.float64)
    large = np.sin((A * np.float32(1e5)).astype(np.float64))
    return large + np.array([erf(x) for x in b]) + np.tanh(a) + np.fmod(b, np.float32(0.3))


EXPECTED = {
    "divergence": np.array([collatz(x) for x in I.tolist()]),
    "float_functions": float_functions(),
}


def ptx_of(capability):
    """The PTX of all kernels."""
    source = PREFIX + "".join(
        f'extern "C" __global__ void {name}(const {of} *a, const {of} *b, {of} *o)'
        f"{{ {AT} {body} }}\n"
        for name, body, of, _, _ in KERNELS
    )
    headers = glob.glob(path.join(sys.prefix, "lib/python3*/site-packages/nvidia/cu13/include"))[0]
    made = nvrtc.nvrtcCreateProgram(source.encode(), b"kernels.cu", 0, [], [])[1]
    options = [f"--gpu-architecture=compute_{capability}".encode(), b"-I" + headers.encode()]
    if int(nvrtc.nvrtcCompileProgram(made, len(options), options)[0]) != 0:
        log = b" " * nvrtc.nvrtcGetProgramLogSize(made)[1]
        nvrtc.nvrtcGetProgramLog(made, log)
        raise RuntimeError(log.decode())
    text = b" " * nvrtc.nvrtcGetPTXSize(made)[1]
    nvrtc.nvrtcGetPTX(made, text)
    return text


def run(library, name, arrays, expected):
    """Runs a kernel and compares what it stores."""
    kernel = call("cuLibraryGetKernel", library, name.encode())
    shared = DYNAMIC if name == "dynamic_shared_memory" else 0
    if shared:
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        call("cuKernelSetAttribute", attribute, shared, kernel, 0)
    expected = EXPECTED.get(name, expected)
    out = np.zeros_like(arrays[0])
    places = [call("cuMemAlloc", out.nbytes) for _ in range(3)]
    for place, array in zip(places, arrays):
        call("cuMemcpyHtoD", place, array.ctypes.data, array.nbytes)
    values = (tuple(int(place) for place in places), (ctypes.c_uint64,) * 3)
    call("cuLaunchKernel", kernel, N // BLOCK, 1, 1, BLOCK, 1, 1, shared, 0, values, 0)
    call("cuMemcpyDtoH", out.ctypes.data, places[2], out.nbytes)
    for place in places:
        call("cuMemFree", place)
    close = np.allclose(out, expected, rtol=1e-5 if out.dtype != np.float16 else 1e-3, atol=1e-6)
    check(f"NVRTC: {name}", close, (out[:3], expected[:3]))


def main():
    call("cuInit", 0)
    call("cuCtxCreate", None, 0, 0)
    attribute = driver.CUdevice_attribute
    capability = [
        call("cuDeviceGetAttribute", one, 0)
        for one in (attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                    attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
    ]
    text = ptx_of("".join(map(str, capability)))
    library = call("cuLibraryLoadData", text, [], [], 0, [], [], 0)
    place, size = call("cuLibraryGetGlobal", library, b"table")
    check("NVRTC: size of a constant", size == TABLE.nbytes, size)
    call("cuMemcpyHtoD", place, TABLE.ctypes.data, TABLE.nbytes)
    for name, _, _, arrays, expected in KERNELS:
        run(library, name, arrays, expected)
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
