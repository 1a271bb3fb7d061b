#!/usr/bin/env python3
"""Runs a program on NVIDIA's unmodified Python bindings of the driver on a virtual GPU.

    python3 -m venv DIR
    DIR/bin/pip install cuda-bindings==13.0.3 nvidia-cuda-runtime-cu12==12.9.79
    gpubench virtual-gpu exec --machine hopper -- DIR/bin/python ci/conformance_cuda.py

A kernel fills memory with a known pattern, the bytes go through an asynchronous allocation, and
every word is compared with the pattern computed here; a broken kernel must give its documented
code; a program on the CUDA runtime must fail with a message that says why. A line is printed for
every check; the exit status is 1 when one failed.
"""

import array
import subprocess
import sys
import tomllib
from os import environ
from pathlib import Path

from cuda.bindings import driver

KERNELS = Path(__file__).resolve().parent.parent / "kernels" / "ptx"
MACHINE = tomllib.loads((Path(environ["GPUBENCH_VIRTUAL_GPU"]) / "machine.toml").read_text())
ILLEGAL_ADDRESS = 700
WORDS = 4096

failures = []


def check(what, good, found=""):
    """Prints the outcome of one check and counts a failure."""
    print(f"PASS {what}" if good else f"FAIL {what}: found {found!r}", flush=True)
    if not good:
        failures.append(what)


def call(name, *arguments):
    """Calls the driver, which must succeed; returns the results without the code."""
    code, *rest = getattr(driver, name)(*arguments)
    if int(code) != 0:
        raise RuntimeError(f"{name} answers {int(code)}")
    return rest[0] if len(rest) == 1 else tuple(rest)


def function(name):
    """A kernel of the project, compiled by the driver from its PTX."""
    text = (KERNELS / f"{name}.ptx").read_bytes()
    module = call("cuModuleLoadData", text + b"\0")
    return call("cuModuleGetFunction", module, name.encode())


def pattern(index, seed):
    """The words of pattern_fill: the finaliser of MurmurHash3 over index and seed."""
    h = (index ^ seed) & 0xFFFFFFFF
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        h = ((h ^ (h >> shift)) * factor) & 0xFFFFFFFF
    return h


def launch(kernel, stream, grid, arguments):
    """Launches with arguments given as (ctypes-like value, type)."""
    values = tuple(value for value, _ in arguments)
    types = tuple(kind for _, kind in arguments)
    code, = driver.cuLaunchKernel(kernel, grid, 1, 1, 128, 1, 1, 0, stream, (values, types), 0)
    return int(code)


def device_checks(device):
    """Name, SMs and memory are those of the machine file."""
    name = call("cuDeviceGetName", 64, device).split(b"\0")[0].decode()
    check("name", name == MACHINE["gpu"]["product"], name)
    attribute = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
    count = call("cuDeviceGetAttribute", attribute, device)
    check("SMs", count == MACHINE["gpu"]["sm_count"], count)
    total = call("cuDeviceTotalMem", device)
    want = (MACHINE["memory"]["total_mib"] - MACHINE["memory"]["reserved_mib"]) << 20
    check("memory", total == want, total)


def memory_checks(stream):
    """A kernel's results, through a copy within the device and one to the host."""
    import ctypes

    first = call("cuMemAlloc", 4 * WORDS)
    second = call("cuMemAllocAsync", 4 * WORDS, stream)
    fill = function("pattern_fill")
    arguments = ((int(first), ctypes.c_uint64), (WORDS, ctypes.c_uint64), (7, ctypes.c_uint32))
    code = launch(fill, stream, 8, arguments)
    check("launch", code == 0, code)
    call("cuMemcpyDtoDAsync", second, first, 4 * WORDS, stream)
    call("cuStreamSynchronize", stream)
    host = array.array("I", bytes(4 * WORDS))
    call("cuMemcpyDtoH", host.buffer_info()[0], second, 4 * WORDS)
    wrong = [i for i in range(WORDS) if host[i] != pattern(i, 7)]
    check("every word", not wrong, wrong[:4])
    call("cuMemFreeAsync", second, stream)
    call("cuStreamSynchronize", stream)
    call("cuMemFree", first)


def event_checks(stream):
    """Events measure the time of the work between them."""
    begin, end = (call("cuEventCreate", 0) for _ in range(2))
    memory = call("cuMemAlloc", 64 << 20)
    call("cuMemsetD32Async", memory, 1, 16 << 20, stream)
    call("cuEventRecord", begin, stream)
    call("cuMemsetD32Async", memory, 2, 16 << 20, stream)
    call("cuEventRecord", end, stream)
    call("cuEventSynchronize", end)
    passed_ms = call("cuEventElapsedTime", begin, end)
    least_ms = (64 << 20) / (MACHINE["memory"]["dram_gb_per_s"] * 1e6)
    # On the wall clock the fill takes at least the time of the model, and ends.
    check("events", 0.5 * least_ms < passed_ms < 1000, passed_ms)
    call("cuMemFree", memory)


def fault_checks(stream):
    """A store to an unmapped address fails the next waiting call and every later one."""
    import ctypes

    broken = function("fault_illegal_store")
    arguments = ((0xDEAD0000, ctypes.c_uint64), (1, ctypes.c_uint32))
    launch(broken, stream, 1, arguments)
    code = int(driver.cuStreamSynchronize(stream)[0])
    check("fault", code == ILLEGAL_ADDRESS, code)
    code = int(driver.cuMemAlloc(16)[0])
    check("fault sticks", code == ILLEGAL_ADDRESS, code)


RUNTIME = """
import ctypes, sys
runtime = ctypes.CDLL(sys.argv[1])
print(runtime.cudaMalloc(ctypes.byref(ctypes.c_void_p()), 4096))
"""


def runtime_checks():
    """The CUDA runtime needs parts that a virtual GPU lacks; its error names them."""
    from importlib.metadata import files

    name = "libcudart.so.12"
    found = [f.locate() for f in files("nvidia-cuda-runtime-cu12") if f.name == name]
    command = [sys.executable, "-c", RUNTIME, str(found[0])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    check("runtime fails", done.stdout.strip() not in ("", "0"), done.stdout)
    check("runtime says why", "export table" in done.stderr, done.stderr)


def main():
    """Runs every check on the first device."""
    call("cuInit", 0)
    device = call("cuDeviceGet", 0)
    device_checks(device)
    context = call("cuDevicePrimaryCtxRetain", device)
    call("cuCtxSetCurrent", context)
    stream = call("cuStreamCreate", 0)
    memory_checks(stream)
    event_checks(stream)
    fault_checks(stream)
    runtime_checks()
    print(f"{len(failures)} failed")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
