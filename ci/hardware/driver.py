#!/usr/bin/env python3
"""What the CUDA driver of a GPU answers, and how fast variants of two kernels are on it.

    python3 driver.py attributes      each attribute of the device, or its CUresult
    python3 driver.py splits          SMs of the device, and their groups for green contexts
    python3 driver.py sms             SMs that this process sees; run it as a client of MPS
    python3 driver.py kernels         rates of the kernels of variants.ptx, the fastest named

Needs Python 3.8, and libcuda through ctypes. It changes no setting.
"""

import ctypes
import os
import sys
import time
from ctypes import byref, c_float, c_int, c_size_t, c_uint, c_uint32, c_uint64, c_void_p
from pathlib import Path

# Numbers of cuda.h.
SMS, THREADS_PER_SM, L2_BYTES = 16, 39, 38
LAST_ATTRIBUTE = 160
RESOURCE_OF_SMS = 1
THREADS = 256
LAUNCHES = 3
# A size for which one launch takes about a millisecond.
ITERATIONS = 4096


class Resource(ctypes.Structure):
    """CUdevResource; the last three figures of an SM resource are there from CUDA 13 on. The rest
    is as long as in any version."""

    _fields_ = [("kind", c_uint), ("internal", ctypes.c_ubyte * 92), ("smCount", c_uint),
                ("minSmPartitionSize", c_uint), ("smCoscheduledAlignment", c_uint),
                ("flags", c_uint), ("rest", ctypes.c_ubyte * 64)]


class Refused(Exception):
    """A call that did not succeed."""


class Driver:
    """libcuda with one device."""

    def __init__(self):
        try:
            self.lib = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise Refused(str(error)) from error
        self.device = c_int()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", byref(self.device), 0)

    def code(self, name, *arguments):
        """The CUresult of a call; -1 where this driver has none of that name."""
        function = getattr(self.lib, name, None)
        return -1 if function is None else function(*arguments)

    def call(self, name, *arguments):
        code = self.code(name, *arguments)
        if code != 0:
            raise Refused(f"{name}: " + ("absent" if code == -1 else f"CUresult {code}"))

    def attribute(self, number):
        value = c_int()
        self.call("cuDeviceGetAttribute", byref(value), number, self.device)
        return value.value

    def context(self):
        context = c_void_p()
        self.call("cuDevicePrimaryCtxRetain", byref(context), self.device)
        self.call("cuCtxSetCurrent", context)
        return context

    def buffer(self, size):
        pointer = c_uint64()
        self.call("cuMemAlloc_v2", byref(pointer), c_size_t(size))
        self.call("cuMemsetD8_v2", pointer, 1, c_size_t(size))
        return pointer


def attributes(driver):
    for number in range(1, LAST_ATTRIBUTE):
        value = c_int()
        code = driver.code("cuDeviceGetAttribute", byref(value), number, driver.device)
        print(number, value.value if code == 0 else f"CUresult {code}")


def splits(driver):
    whole = Resource()
    driver.call("cuDeviceGetDevResource", driver.device, byref(whole), RESOURCE_OF_SMS)
    for name in ("flags", "minSmPartitionSize", "smCoscheduledAlignment", "smCount"):
        print("resource", name, getattr(whole, name))
    sms = whole.smCount
    for flags in (0, 1, 2):
        for least in range(1, sms + 1):
            for wanted, name in ((sms, "all"), (2, "at most 2")):
                groups, rest, made = (Resource * sms)(), Resource(), c_uint(wanted)
                code = driver.code("cuDevSmResourceSplitByCount", groups, byref(made),
                                   byref(whole), byref(rest), flags, least)
                found = (f"{made.value} of {groups[0].smCount}, rest {rest.smCount}"
                         if code == 0 else f"CUresult {code}")
                print(f"flags {flags} min {least} groups {name}: {found}")


def sms(driver):
    context, resource = driver.context(), Resource()
    code = driver.code("cuCtxGetDevResource", context, byref(resource), RESOURCE_OF_SMS)
    print("attr_sms", driver.attribute(SMS), "ctx_res",
          resource.smCount if code == 0 else f"CUresult {code}")


class Kernels:
    """The kernels of variants.ptx on one stream, with two events."""

    def __init__(self, driver):
        self.driver = driver
        driver.context()
        text = Path(__file__).with_name("variants.ptx").read_bytes() + b"\0"
        self.module = c_void_p()
        driver.call("cuModuleLoadData", byref(self.module), text)
        self.events = [c_void_p(), c_void_p()]
        for event in self.events:
            driver.call("cuEventCreate", byref(event), 0)

    def shortest_s(self, name, blocks, *arguments):
        """The shortest of the launches behind one that warms up; of one alone where they take
        long, as on a virtual GPU."""
        call, function, elapsed = self.driver.call, c_void_p(), c_float()
        call("cuModuleGetFunction", byref(function), self.module, name.encode())
        pointers = (c_void_p * len(arguments))(
            *(ctypes.cast(ctypes.pointer(one), c_void_p) for one in arguments))
        times, begun = [], time.monotonic()
        while len(times) < 2 or len(times) <= LAUNCHES and time.monotonic() - begun < 0.5:
            call("cuEventRecord", self.events[0], None)
            call("cuLaunchKernel", function, blocks, 1, 1, THREADS, 1, 1, 0, None, pointers, None)
            call("cuEventRecord", self.events[1], None)
            call("cuEventSynchronize", self.events[1])
            call("cuEventElapsedTime", byref(elapsed), *self.events)
            times.append(elapsed.value / 1e3)
        return min(times[1:])


def kernels(driver):
    made = Kernels(driver)
    wave = driver.attribute(SMS) * (driver.attribute(THREADS_PER_SM) // THREADS)
    rates = {}
    out = driver.buffer(4 * wave * THREADS)
    for chains, steps in ((8, 4), (8, 16), (8, 32), (16, 16)):
        loops = ITERATIONS * 32 // (chains * steps)
        time_s = made.shortest_s(f"fma_{chains}_{steps}", wave, out, c_uint32(loops),
                                 c_float(0.99975586), c_float(0.125))
        done = 2 * chains * steps * loops * wave * THREADS
        note(rates, f"fma_{chains}_{steps}", done / time_s / 1e12, "Top/s")
    print_fastest("FMA", rates, "Top/s")
    # Both buffers are eight times the L2, in whole tiles of the largest. A virtual GPU copies on
    # the cores of its host, and its rates are those of its model.
    tile = 16 * 8 * THREADS
    size = min(4 * driver.attribute(L2_BYTES), 2 << 30)
    size //= 8 if os.environ.get("GPUBENCH_VIRTUAL_GPU") else 1
    size = size // tile * tile
    target, source = driver.buffer(size), driver.buffer(size)
    rates = {}
    print(f"copies of {size} bytes; waves=0: one pass without a loop")
    for layout in ("grid", "tile"):
        for flight in (1, 2, 4, 8):
            for hint in ("plain", "cs"):
                for waves in (1, 0):
                    blocks = wave if waves else size // (16 * flight * THREADS)
                    name = f"copy_{layout}_{flight}_{hint}"
                    time_s = made.shortest_s(name, blocks, target, source, c_uint64(size // 16))
                    note(rates, f"{name} waves={waves}", 2 * size / time_s / 1e9, "GB/s")
    print_fastest("copy", rates, "GB/s")


def note(rates, name, rate, unit):
    """Prints a rate at once: what is measured before a limit stays."""
    rates[name] = rate
    print(f"{name} {rate:.2f} {unit}", flush=True)


def print_fastest(what, rates, unit):
    best = max(rates, key=rates.get)
    print(f"fastest {what}: {best} with {rates[best]:.2f} {unit}")


COMMANDS = {"attributes": attributes, "splits": splits, "sms": sms, "kernels": kernels}


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in COMMANDS:
        print(f"usage: driver.py {'|'.join(COMMANDS)}", file=sys.stderr)
        return 2
    try:
        COMMANDS[sys.argv[1]](Driver())
    except Refused as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
