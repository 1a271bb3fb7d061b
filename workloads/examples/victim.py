"""A user's victim: runs kernels with NVIDIA's cuda-bindings and reports them to gpubench."""
import ctypes, json, os, socket, time
from cuda.bindings import driver

# One warp with 100 000 dependent multiply-adds: about a millisecond.
KERNEL = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry work(.param .u64 out)
{
    .reg .u32 %i; .reg .f32 %x; .reg .u64 %out; .reg .pred %more;
    ld.param.u64 %out, [out];
    mov.u32 %i, 0;
    mov.f32 %x, 0f3F800000;
again:
    fma.rn.f32 %x, %x, %x, %x;
    add.u32 %i, %i, 1;
    setp.lt.u32 %more, %i, 100000;
    @%more bra again;
    st.global.f32 [%out], %x;
    ret;
}
\0"""

def call(name, *arguments):
    code, *results = getattr(driver, name)(*arguments)
    assert int(code) == 0, f"{name}: {code}"
    return results[0] if results else None

call("cuInit", 0)
call("cuCtxSetCurrent", call("cuDevicePrimaryCtxRetain", call("cuDeviceGet", 0)))
kernel = call("cuModuleGetFunction", call("cuModuleLoadData", KERNEL), b"work")
arguments = ((int(call("cuMemAlloc", 4)),), (ctypes.c_uint64,))

def work():
    call("cuLaunchKernel", kernel, 1, 1, 1, 32, 1, 1, 0, 0, arguments, 0)
    call("cuStreamSynchronize", 0)

# The victim protocol: all that a program needs.
gpubench = socket.socket(fileno=int(os.environ["GPUBENCH_VICTIM_FD"])).makefile("rw")

def report(**what):
    gpubench.write(json.dumps(what) + "\n")
    gpubench.flush()

def request(due_ns=None):
    start_ns = time.monotonic_ns()
    work()
    report(due_ns=due_ns, start_ns=start_ns, end_ns=time.monotonic_ns())

def wait(instant_ns):
    time.sleep(max(0, instant_ns - time.monotonic_ns()) / 1e9)

work()
report(ready=True, arrivals=True)
for line in gpubench:
    run = json.loads(line).get("run")
    if run is None:
        break
    wait(run["from_ns"])
    while time.monotonic_ns() < run["closed_until_ns"]:
        request()
    for due_ns in run["arrivals_ns"]:
        wait(due_ns)
        if time.monotonic_ns() < run["until_ns"]:
            request(due_ns)
    report(done=True)
