#!/usr/bin/env python3
"""Runs a program on NVIDIA's unmodified `cuda.core`, the layer above its Python bindings, on a
virtual GPU.

    gpubench virtual-gpu exec --machine hopper -- DIR/bin/python ci/conformance_core.py

It loads kernels as libraries, which belong to no context, asks how many blocks fit, fills memory by
words of one, two and four bytes, allocates from a pool of its own and from reserved addresses, and
waits in another process for an event. Every result is compared with what this file computes; a line
is printed for each, and the exit status is 1 when one was wrong.
"""

import array
import ctypes
import multiprocessing
import sys
from pathlib import Path

from cuda.core import (
    Device,
    DeviceMemoryResource,
    DeviceMemoryResourceOptions,
    Event,
    EventOptions,
    LaunchConfig,
    LegacyPinnedMemoryResource,
    ObjectCode,
    VirtualMemoryResource,
    launch,
)

from conformance_cuda import check, failures, pattern

KERNELS = Path(__file__).resolve().parent.parent / "kernels" / "ptx"
WORDS = 4096


def words(buffer, stream, kind="I"):
    """The bytes of a buffer as words of this kind, through pinned memory."""
    host = LegacyPinnedMemoryResource().allocate(buffer.size, stream=stream)
    buffer.copy_to(host, stream=stream)
    stream.sync()
    found = array.array(kind, ctypes.string_at(int(host.handle), buffer.size))
    host.close(stream)
    return found


def kernel_checks(device, stream):
    """A kernel of a library: its parameters, the blocks that fit, and every word that it writes."""
    code = ObjectCode.from_ptx((KERNELS / "pattern_fill.ptx").read_bytes())
    kernel = code.get_kernel("pattern_fill")
    layout = [(one.offset, one.size) for one in kernel.arguments_info]
    check("parameters of a kernel", layout == [(0, 8), (8, 8), (16, 4)], layout)
    threads = device.properties.max_threads_per_multiprocessor
    blocks = kernel.occupancy.max_active_blocks_per_multiprocessor(256, 0)
    check("blocks that fit", blocks == threads // 256, blocks)
    best = kernel.occupancy.max_potential_block_size(0, 0)
    least = device.properties.multiprocessor_count * threads // best.max_block_size
    check("blocks that fill the device", best.min_grid_size == least, best)
    buffer = device.allocate(4 * WORDS, stream=stream)
    config = LaunchConfig(grid=8, block=128)
    launch(stream, config, kernel, buffer, ctypes.c_uint64(WORDS), ctypes.c_uint32(7))
    found = words(buffer, stream)
    wrong = [i for i in range(WORDS) if found[i] != pattern(i, 7)]
    check("every word of a library's kernel", not wrong, wrong[:4])
    buffer.close(stream)


def memory_checks(device, stream):
    """Fills by words of every width: memory of the device, of a pool, of reserved addresses."""
    options = DeviceMemoryResourceOptions(max_size=16 << 20)
    resources = {
        "the device": device.memory_resource,
        "a pool": DeviceMemoryResource(device, options),
        "reserved addresses": VirtualMemoryResource(device),
    }
    for name, resource in resources.items():
        buffer = resource.allocate(2 << 20, stream=stream)
        for kind, value in (("B", 0xA5), ("H", 0xBEEF), ("I", 0xDEADBEEF)):
            width = array.array(kind).itemsize
            buffer.fill(value.to_bytes(width, "little"), stream=stream)
            found = words(buffer, stream, kind)
            wrong = [i for i, word in enumerate(found) if word != value]
            check(f"fill by {width} bytes in memory of {name}", not wrong, wrong[:4])
        buffer.close(stream)


def wait_for(descriptor):
    """In another process: waits for an event of this one."""
    Device().set_current()
    event = Event.from_ipc_descriptor(descriptor)
    event.sync()
    sys.exit(0 if event.is_done else 1)


def event_checks(stream):
    """Another process opens an event and waits until the work before it is done."""
    event = stream.record(options=EventOptions(ipc_enabled=True))
    other = multiprocessing.get_context("spawn").Process(
        target=wait_for, args=(event.ipc_descriptor,)
    )
    other.start()
    other.join(60)
    check("event of another process", other.exitcode == 0, other.exitcode)
    event.close()


def main():
    device = Device()
    device.set_current()
    stream = device.create_stream()
    kernel_checks(device, stream)
    memory_checks(device, stream)
    event_checks(stream)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
