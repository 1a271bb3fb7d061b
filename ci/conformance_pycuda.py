#!/usr/bin/env python3
"""PyCUDA on a virtual GPU: memory, copies, a kernel with a constant, streams and events, held
against NumPy. Its own compiler makes cubins, so the kernel is PTX.

    gpubench virtual-gpu exec --machine hopper -- DIR/bin/python ci/conformance_pycuda.py
"""

import sys

import numpy as np
import pycuda.driver as cuda
import pycuda.tools

PTX = b""".version 7.0
.target sm_70
.address_size 64
.const .align 4 .f32 factor = 0f40000000;
.visible .entry scale(.param .u64 a, .param .u32 n) {
    .reg .pred %p<2>; .reg .b32 %r<6>; .reg .f32 %f<4>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [a]; ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4; setp.ge.u32 %p1, %r5, %r1; @%p1 bra DONE;
    mul.wide.u32 %rd2, %r5, 4; add.s64 %rd3, %rd1, %rd2;
    ld.global.f32 %f1, [%rd3]; ld.const.f32 %f2, [factor];
    mul.f32 %f3, %f1, %f2; st.global.f32 [%rd3], %f3;
DONE: ret;
}
"""
N, SHAPE = 1000, {"block": (128, 1, 1), "grid": (8, 1)}
failures = []


def check(what, good):
    """Prints the outcome of one check and counts a failure."""
    print("PASS" if good else "FAIL", "PyCUDA:", what, flush=True)
    if not good:
        failures.append(what)


def rows(source, target, pitches, aligned):
    """Copies 48 rows of 256 bytes."""
    copy = cuda.Memcpy2D()
    getattr(copy, f"set_src_{'host' if isinstance(source, np.ndarray) else 'device'}")(source)
    getattr(copy, f"set_dst_{'host' if isinstance(target, np.ndarray) else 'device'}")(target)
    copy.width_in_bytes, copy.height = 256, 48
    copy.src_pitch, copy.dst_pitch = pitches
    copy(aligned=aligned)


def main():
    cuda.init()
    device = cuda.Device(0)
    context = device.make_context()
    module = cuda.module_from_buffer(PTX)
    scale = module.get_function("scale")
    x = np.arange(N, dtype=np.float32)
    y = x.copy()
    scale(cuda.InOut(y), np.uint32(N), **SHAPE)
    check("arguments in both directions", np.array_equal(y, x * 2))
    there = cuda.mem_alloc(x.nbytes)
    cuda.memcpy_htod(there, x)
    scale.prepare("Pi").prepared_call((8, 1), (128, 1, 1), there, N)
    cuda.memcpy_dtoh(y, there)
    check("a prepared call", np.array_equal(y, x * 2))
    place, size = module.get_global("factor")
    cuda.memcpy_htod(place, np.float32([3]))
    scale(there, np.uint32(N), **SHAPE)
    cuda.memcpy_dtoh(y, there)
    check("a constant", size == 4 and np.array_equal(y, x * 6))
    stream, first, last = cuda.Stream(), cuda.Event(), cuda.Event()
    pinned = cuda.pagelocked_empty(N, np.float32)
    pinned[:] = 1
    first.record(stream)
    cuda.memcpy_htod_async(there, pinned, stream)
    scale(there, np.uint32(N), stream=stream, **SHAPE)
    cuda.memcpy_dtoh_async(pinned, there, stream)
    last.record(stream).synchronize()
    check("a stream and events", (pinned == 3).all() and first.time_till(last) > 0)
    image = np.arange(48 * 64, dtype=np.float32).reshape(48, 64)
    back = np.zeros_like(image)
    pitched, pitch = cuda.mem_alloc_pitch(256, 48, 4)
    rows(image, pitched, (256, pitch), True)
    rows(pitched, back, (pitch, 256), False)
    check("copies of rows", np.array_equal(image, back))
    cuda.memset_d32(there, 7, N)
    cuda.memcpy_dtoh(y, there)
    check("a fill", (y.view(np.int32) == 7).all())
    check("attributes of a kernel", scale.num_regs > 0 and scale.max_threads_per_block == 1024)
    scale.set_cache_config(cuda.func_cache.PREFER_L1)
    free, total = cuda.mem_get_info()
    check("memory and attributes", 0 < free < total and len(device.get_attributes()) > 80)
    pool = pycuda.tools.DeviceMemoryPool()
    pool.allocate(4096).free()
    pool.stop_holding()
    check("a pool", pool.active_blocks == 0)
    context.pop()
    context.detach()
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
