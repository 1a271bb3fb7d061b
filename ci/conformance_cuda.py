#!/usr/bin/env python3
"""Runs a program on NVIDIA's unmodified Python bindings of the driver on a virtual GPU.

    python3 -m venv DIR
    DIR/bin/pip install cuda-bindings==13.0.3 nvidia-cuda-runtime-cu12==12.9.79
    gpubench virtual-gpu exec --machine hopper -- DIR/bin/python ci/conformance_cuda.py

A kernel fills memory with a known pattern, the bytes go through an asynchronous allocation, and
every word is compared with the pattern computed here; kernels in the shape of other compilers run,
and images that cannot run are refused; a broken kernel must give its documented code; a program on
the CUDA runtime must fail with a message that says why. A line is printed for every check; the exit
status is 1 when one failed. Without a virtual GPU the first device of the host is checked, where no
machine file says what to expect of it.
"""

import array
import subprocess
import sys
import tomllib
from os import environ
from pathlib import Path

from cuda.bindings import driver

KERNELS = Path(__file__).resolve().parent.parent / "kernels" / "ptx"
VIRTUAL = environ.get("GPUBENCH_VIRTUAL_GPU")
MACHINE = tomllib.loads((Path(VIRTUAL) / "machine.toml").read_text()) if VIRTUAL else None
FATBINS = KERNELS.parent.parent / "harness" / "virtual-gpu" / "abi" / "tests" / "data"
NO_BINARY_FOR_GPU = 209
INVALID_PTX = 218
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


def sms(device):
    attribute = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
    return call("cuDeviceGetAttribute", attribute, device)


def device_checks(device):
    """Name, SMs and memory are those of the machine file."""
    name = call("cuDeviceGetName", 64, device).split(b"\0")[0].decode()
    total = call("cuDeviceTotalMem", device)
    if not MACHINE:
        print(f"real device: {name}, {sms(device)} SMs, {total} bytes", flush=True)
        return
    check("name", name == MACHINE["gpu"]["product"], name)
    check("SMs", sms(device) == MACHINE["gpu"]["sm_count"], sms(device))
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
    # No device has 100 TB/s.
    rate_gb_per_s = MACHINE["memory"]["dram_gb_per_s"] if MACHINE else 1e5
    least_ms = (64 << 20) / (rate_gb_per_s * 1e6)
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


REVERSE = b"""
.version 9.0
.target sm_75
.address_size 64
.visible .entry reverse(.param .u64 out)
{
    .reg .b32 %r<8>; .reg .b64 %rd<5>; .shared .align 4 .b8 s[1024];
    ld.param.u64 %rd1, [out]; cvta.to.global.u64 %rd2, %rd1;
    mov.u32 %r1, %tid.x; mul.lo.s32 %r2, %r1, 3; shl.b32 %r3, %r1, 2;
    mov.u32 %r4, s; add.s32 %r5, %r4, %r3; st.shared.b32 [%r5], %r2; bar.sync 0;
    sub.s32 %r6, %r4, %r3; ld.shared.b32 %r7, [%r6+508];
    mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd2, %rd3; st.global.b32 [%rd4], %r7; ret;
}
\0"""

MEET = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry meet(.param .u64 arrived)
{
    .reg .pred %p<3>; .reg .b32 %r<5>; .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [arrived]; mov.u32 %r1, %tid.x; mov.u32 %r2, %nctaid.x;
    setp.ne.u32 %p1, %r1, 0; @%p1 bra MEET;
    atom.global.add.u32 %r3, [%rd1], 1;
WAIT:
    ld.volatile.global.u32 %r4, [%rd1]; setp.lt.u32 %p2, %r4, %r2; @%p2 bra WAIT;
MEET:
    bar.sync 0; ret;
}
\0"""


def load(image):
    """Loads an image; returns the code and the module."""
    code, module = driver.cuModuleLoadData(image)
    return int(code), module


def module_checks(stream, sm_count):
    """Kernels in the shape of other compilers, and images other than PTX text."""
    import ctypes

    memory = call("cuMemAlloc", 4 * 128)
    kernel = call("cuModuleGetFunction", load(REVERSE)[1], b"reverse")
    launch(kernel, stream, 1, ((int(memory), ctypes.c_uint64),))
    host = array.array("I", bytes(4 * 128))
    call("cuStreamSynchronize", stream)
    call("cuMemcpyDtoH", host.buffer_info()[0], memory, 4 * 128)
    check("32-bit addresses", list(host) == [3 * (127 - i) for i in range(128)], host[:4])
    call("cuMemsetD32", memory, 0, 1)
    kernel = call("cuModuleGetFunction", load(MEET)[1], b"meet")
    launch(kernel, stream, sm_count, ((int(memory), ctypes.c_uint64),))
    code = int(driver.cuStreamSynchronize(stream)[0])
    check("a barrier of the grid", code == 0, code)
    fatbin = load((FATBINS / "zstd.fatbin").read_bytes())[0]
    check("a fatbin with PTX", fatbin == 0, fatbin)
    cubins = load((FATBINS / "cubins.fatbin").read_bytes())[0]
    check("no fatbin without PTX", cubins == NO_BINARY_FOR_GPU, cubins)
    if MACHINE:
        newer = load(b".version 8.7\n.target sm_121\n.address_size 64\n\0")[0]
        check("no PTX for a newer target", newer == INVALID_PTX, newer)
    call("cuMemFree", memory)


def early_checks():
    """Physical memory needs no context."""
    properties = driver.CUmemAllocationProp()
    properties.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    code, handle = driver.cuMemCreate(2 << 20, properties, 0)
    check("memory before a context", int(code) == 0, int(code))
    call("cuMemRelease", handle)


RUNTIME = """
import ctypes, sys
runtime = ctypes.CDLL(sys.argv[1])
print(runtime.cudaMalloc(ctypes.byref(ctypes.c_void_p()), 4096))
"""


def runtime_checks():
    """The CUDA runtime needs parts that a virtual GPU lacks; its error names them. A real one has
    them."""
    from importlib.metadata import files

    name = "libcudart.so.12"
    found = [f.locate() for f in files("nvidia-cuda-runtime-cu12") if f.name == name]
    command = [sys.executable, "-c", RUNTIME, str(found[0])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not MACHINE:
        check("runtime allocates", done.stdout.strip() == "0", done.stdout + done.stderr)
        return
    check("runtime fails", done.stdout.strip() not in ("", "0"), done.stdout)
    check("runtime says why", "export table" in done.stderr, done.stderr)


def main():
    """Runs every check on the first device."""
    call("cuInit", 0)
    device = call("cuDeviceGet", 0)
    device_checks(device)
    early_checks()
    context = call("cuDevicePrimaryCtxRetain", device)
    call("cuCtxSetCurrent", context)
    stream = call("cuStreamCreate", 0)
    memory_checks(stream)
    event_checks(stream)
    module_checks(stream, sms(device))
    fault_checks(stream)
    runtime_checks()
    print(f"{len(failures)} failed")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
