#!/usr/bin/env python3
"""Runs unmodified NVML clients on a virtual GPU and checks their output.

The clients are nvidia-ml-py, gpustat and nvitop from their wheels; the load is a tenant process
that calls libcuda through ctypes. The expected figures are those of the machine file.

    python3 -m venv DIR
    DIR/bin/pip install nvidia-ml-py==13.615.71 gpustat==1.1.1 nvitop==1.7.2
    gpubench virtual-gpu exec --machine turing -- DIR/bin/python ci/conformance_nvml.py
    gpubench virtual-gpu exec --machine hopper -- DIR/bin/python ci/conformance_nvml.py

A line is printed for every check; the exit status is 1 when one failed, 2 when a client is missing.
With `--real` the first device of the host is checked instead, without a fault, without MIG, and
without figures that only a machine file knows.
"""

import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from importlib.util import find_spec
from pathlib import Path

KERNELS = Path(__file__).resolve().parent.parent / "kernels" / "ptx"
MIB = 1 << 20
PATIENCE_S = 60.0
XID_MMU_FAULT = 31
ILLEGAL_ADDRESS = 700

MACHINE = Path(os.environ.get("GPUBENCH_VIRTUAL_GPU", "")) / "machine.toml"

failures = []


def check(what, good, found=""):
    """Prints the outcome of one check and counts a failure."""
    print(f"PASS {what}" if good else f"FAIL {what}: found {found!r}", flush=True)
    if not good:
        failures.append(what)


def equal(what, found, expected):
    check(f"{what} is {expected!r}", found == expected, found)


def eventually(what, read, holds):
    """Checks that a reading satisfies a condition within PATIENCE_S."""
    end = time.monotonic() + PATIENCE_S
    found = read()
    while not holds(found) and time.monotonic() < end:
        time.sleep(0.05)
        found = read()
    check(what, holds(found), found)
    return found


def buffer_mib(machine):
    """Size of each of the tenant's two buffers, in whole pages: together more than the L2 holds."""
    if machine is None:
        return 512
    half = machine["memory"]["l2_kib"] // 1024 // 2
    return max(4, half // 2 * 2 + 2)


# The tenant: a driver-API program of its own.

class Cuda:
    """The libcuda calls of the tenant; any error ends it."""

    def __init__(self):
        self.lib = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        context = ctypes.c_void_p()
        self.call("cuCtxCreate_v2", ctypes.byref(context), 0, 0)

    def call(self, name, *args):
        code = getattr(self.lib, name)(*args)
        if code != 0:
            raise SystemExit(f"{name} returned {code}")

    def alloc(self, size):
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        return pointer

    def kernel(self, name):
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        text = (KERNELS / f"{name}.ptx").read_bytes() + b"\0"
        self.call("cuModuleLoadData", ctypes.byref(module), text)
        self.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        return function

    def launch(self, function, grid, block, *args):
        pointers = (ctypes.c_void_p * len(args))(
            *(ctypes.cast(ctypes.pointer(arg), ctypes.c_void_p) for arg in args)
        )
        self.call("cuLaunchKernel", function, grid, 1, 1, block, 1, 1, 0, None, pointers, None)


def tenant():
    """Holds 256 MiB, loads the device until the fault order, and prints the fault's error code."""
    cuda = Cuda()
    cuda.alloc(256 * MIB)
    print("ready", flush=True)
    sys.stdin.readline()
    size = buffer_mib(tomllib.loads(MACHINE.read_text()) if MACHINE.exists() else None) * MIB
    to, source = cuda.alloc(size), cuda.alloc(size)
    copy = cuda.kernel("stream_copy")
    os.set_blocking(sys.stdin.fileno(), False)
    print("loading", flush=True)
    while sys.stdin.read(1) in ("", None):
        for _ in range(200):
            # Four SMs: they draw four times the bandwidth that the machine file gives to one.
            cuda.launch(copy, 4, 256, to, source, ctypes.c_uint64(size // 16))
        cuda.call("cuCtxSynchronize")
    store = cuda.kernel("fault_illegal_store")
    cuda.launch(store, 1, 1, ctypes.c_uint64(16), ctypes.c_uint32(1))
    print(cuda.lib.cuCtxSynchronize(), flush=True)
    time.sleep(PATIENCE_S * 10)


class Tenant:
    """A tenant process, controlled by lines."""

    def __init__(self):
        command = [sys.executable, __file__, "--tenant"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.pid = self.process.pid
        equal("the tenant's first word", self.hear(), "ready")

    def hear(self):
        return self.process.stdout.readline().strip()

    def tell(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


# The clients.

def run(*command):
    """The output of a client that must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    check(f"{Path(command[0]).name} exits with 0", done.returncode == 0, done.stderr[-400:])
    return done.stdout


def beside_python(name):
    return str(Path(sys.executable).parent / name)


def identity(nvml, device, machine):
    gpu = machine["gpu"]
    major, minor = (int(part) for part in gpu["compute_capability"].split("."))
    cuda = [int(part) for part in gpu["cuda"].split(".")]
    memory = machine["memory"]
    equal("driver version", nvml.nvmlSystemGetDriverVersion(), gpu["driver"])
    equal("CUDA version", nvml.nvmlSystemGetCudaDriverVersion(), cuda[0] * 1000 + cuda[1] * 10)
    equal("number of devices", nvml.nvmlDeviceGetCount(), 1)
    equal("name", nvml.nvmlDeviceGetName(device), gpu["product"])
    equal("capability", nvml.nvmlDeviceGetCudaComputeCapability(device), (major, minor))
    uuid = nvml.nvmlDeviceGetUUID(device)
    form = r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    check("the UUID has NVML's form", re.fullmatch(form, uuid) is not None, uuid)
    by_uuid = nvml.nvmlDeviceGetHandleByUUID(uuid)
    equal("index of the device with that UUID", nvml.nvmlDeviceGetIndex(by_uuid), 0)
    pci = nvml.nvmlDeviceGetPciInfo(device)
    equal("bus id", pci.busId, "00000000:01:00.0")
    by_bus = nvml.nvmlDeviceGetHandleByPciBusId(pci.busId.encode())
    equal("index of the device on that bus", nvml.nvmlDeviceGetIndex(by_bus), 0)
    cores = gpu["sm_count"] * gpu["fp32_lanes_per_clock"]
    equal("cores", nvml.nvmlDeviceGetNumGpuCores(device), cores)
    equal("SM clock", nvml.nvmlDeviceGetClockInfo(device, nvml.NVML_CLOCK_SM), gpu["sm_clock_mhz"])
    cap_mw = round(machine["power"]["cap_w"] * 1000)
    equal("enforced power limit", nvml.nvmlDeviceGetEnforcedPowerLimit(device), cap_mw)
    total = nvml.nvmlDeviceGetMemoryInfo(device).total
    equal("memory", total, memory["total_mib"] * MIB)
    for call, error in [
        (lambda: nvml.nvmlDeviceGetHandleByIndex(1), nvml.NVMLError_InvalidArgument),
        (lambda: nvml.nvmlDeviceGetFanSpeed(device), nvml.NVMLError_NotSupported),
        (lambda: nvml.nvmlDeviceGetSerial(device), nvml.NVMLError_NotSupported),
        (lambda: nvml.nvmlDeviceGetHandleByUUID(b"GPU-0"), nvml.NVMLError_NotFound),
    ]:
        try:
            found = call()
        except nvml.NVMLError as raised:
            found = raised
        good = isinstance(found, error)
        check(f"what is not there is answered with {error.__name__}", good, found)


def idle(nvml, device, machine):
    idle_mw = round(machine["power"]["idle_w"] * 1000)
    equal("idle power", nvml.nvmlDeviceGetPowerUsage(device), idle_mw)
    equal("idle utilisation", nvml.nvmlDeviceGetUtilizationRates(device).gpu, 0)
    equal("reason for idle clocks", nvml.nvmlDeviceGetCurrentClocksEventReasons(device), 1)
    equal("idle processes", nvml.nvmlDeviceGetComputeRunningProcesses(device), [])
    fields = nvml.nvmlDeviceGetFieldValues(device, [nvml.NVML_FI_DEV_POWER_INSTANT, 230, 7])
    equal("field 186", (fields[0].nvmlReturn, fields[0].value.uiVal), (0, idle_mw))
    equal("recovery action", (fields[1].nvmlReturn, fields[1].value.uiVal), (0, 0))
    equal("result of an unsupported field", fields[2].nvmlReturn, nvml.NVML_ERROR_NOT_SUPPORTED)


def memory_of(nvml, device, machine, tenant_process):
    taken = (256 + machine["memory"]["context_mib"]) * MIB
    memory = nvml.nvmlDeviceGetMemoryInfo(device, version=nvml.nvmlMemory_v2)
    equal("used memory beside the tenant", memory.used, taken)
    equal("parts of the memory", memory.reserved + memory.used + memory.free, memory.total)
    found = nvml.nvmlDeviceGetComputeRunningProcesses(device)
    pairs = [(process.pid, process.usedGpuMemory) for process in found]
    equal("process list", pairs, [(tenant_process.pid, taken)])
    name = nvml.nvmlSystemGetProcessName(tenant_process.pid)
    equal("process name", name, sys.executable)
    gpustat = json.loads(run(sys.executable, "-m", "gpustat", "--json"))["gpus"][0]
    equal("gpustat: memory", (gpustat["memory.used"], gpustat["memory.total"]),
          (taken // MIB, machine["memory"]["total_mib"]))
    listed = [(p["pid"], p["gpu_memory_usage"]) for p in gpustat["processes"]]
    equal("gpustat: processes", listed, [(tenant_process.pid, taken // MIB)])


def loaded(nvml, device, machine, tenant_process):
    gpu = machine["gpu"]
    first_mj, first_s = nvml.nvmlDeviceGetTotalEnergyConsumption(device), time.monotonic()
    memory = machine["memory"]
    share = round(100 * 4 * memory["sm_dram_gb_per_s"] / memory["dram_gb_per_s"])
    eventually(
        f"utilisation rises above 50 %, of DRAM to {share} % of that",
        lambda: nvml.nvmlDeviceGetUtilizationRates(device),
        lambda rates: rates.gpu > 50 and abs(rates.memory - rates.gpu * share / 100) <= 1.5,
    )
    idle_mw = machine["power"]["idle_w"] * 1000
    eventually(
        "power rises above idle", lambda: nvml.nvmlDeviceGetPowerUsage(device),
        lambda found: found > idle_mw + 1000,
    )
    eventually(
        "no reason is given for idle clocks",
        lambda: nvml.nvmlDeviceGetCurrentClocksEventReasons(device), lambda found: found == 0,
    )

    def samples():
        try:
            found = nvml.nvmlDeviceGetProcessUtilization(device, 0)
        except nvml.NVMLError_NotFound:
            return []
        return [(sample.pid, sample.smUtil) for sample in found]

    eventually(
        "the tenant's own utilisation is reported", samples,
        lambda found: len(found) == 1 and found[0][0] == tenant_process.pid and found[0][1] > 0,
    )
    spent_mj = nvml.nvmlDeviceGetTotalEnergyConsumption(device) - first_mj
    spent_mw = spent_mj / (time.monotonic() - first_s)
    check("energy grows faster than at idle", spent_mw > idle_mw, spent_mw)
    text = run(beside_python("gpustat"), "--no-color", "--show-pid", "--show-power")
    check("gpustat prints the product", gpu["product"] in text, text)
    check("gpustat prints the tenant", f"/{tenant_process.pid}(" in text, text)
    monitored(nvml, device, machine)
    text = run(beside_python("nvitop"), "--once", "--ascii")
    for what in [gpu["product"], gpu["driver"], f"CUDA Driver Version: {gpu['cuda']}", "Default"]:
        check(f"nvitop prints {what}", what in text, text)
    row = re.search(rf"^\|\s+0\s+{tenant_process.pid}\b.*$", text, re.MULTILINE)
    megabytes = 256 + machine["memory"]["context_mib"] + 2 * buffer_mib(machine)
    check(f"nvitop lists the tenant with {megabytes} MiB",
          row is not None and f"{megabytes}.0MiB" in row.group(), text)


def metrics_between(nvml, device, seconds, ids):
    """Metrics of the performance monitor over an interval."""
    samples = [nvml.nvmlGpmSampleAlloc() for _ in range(2)]
    nvml.nvmlGpmSampleGet(device, samples[0])
    time.sleep(seconds)
    nvml.nvmlGpmSampleGet(device, samples[1])
    get = nvml.c_nvmlGpmMetricsGet_t()
    get.version, get.numMetrics = nvml.NVML_GPM_METRICS_GET_VERSION, len(ids)
    get.sample1, get.sample2 = samples
    for place, number in zip(get.metrics, ids):
        place.metricId = number
    nvml.nvmlGpmMetricsGet(get)
    for sample in samples:
        nvml.nvmlGpmSampleFree(sample)
    return [(place.nvmlReturn, place.value) for place in get.metrics[:len(ids)]]


def monitored(nvml, device, machine):
    """The performance monitor, where the chip has one: the tenant's load is on four SMs."""
    has_one = int(machine["gpu"]["compute_capability"].split(".")[0]) >= 9
    supported = nvml.nvmlGpmQueryDeviceSupport(device).isSupportedDevice
    equal("support of the performance monitor", supported, int(has_one))
    if not has_one:
        return
    sms = machine["gpu"]["sm_count"]
    eventually(
        "the monitor sees the four SMs for as long as kernels run",
        lambda: metrics_between(nvml, device, 0.2, [1, 2]),
        lambda found: found[0][1] > 20
        and abs(found[1][1] - found[0][1] * 4 / sms) < 0.02 * found[0][1],
    )


def divided(nvml, device, machine):
    """MIG: two equal halves are created, found by every query, and destroyed again."""
    mig, profile = machine["mig"], next(p for p in machine["mig"]["profile"] if p["nvml"] == 2)
    equal("MIG mode", nvml.nvmlDeviceGetMigMode(device), [0, 0])
    activation = nvml.nvmlDeviceSetMigMode(device, nvml.NVML_DEVICE_MIG_ENABLE)
    equal("activation of MIG mode", activation, nvml.NVML_SUCCESS)
    equal("MIG devices at most", nvml.nvmlDeviceGetMaxMigDeviceCount(device), mig["slices"])
    info = nvml.nvmlDeviceGetGpuInstanceProfileInfo(device, 2)
    name = f"MIG {profile['name']}"
    equal("profile", (info.id, info.sliceCount, info.multiprocessorCount, info.name),
          (profile["id"], profile["slices"], profile["sm"], name))
    made = []
    for _ in range(2):
        gpu = nvml.nvmlDeviceCreateGpuInstance(device, info.id)
        size = nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(gpu, 2, 0)
        compute = nvml.nvmlGpuInstanceCreateComputeInstance(gpu, size.id)
        made.append((gpu, compute, nvml.nvmlComputeInstanceGetInfo(compute).device))
    try:
        found = nvml.nvmlDeviceCreateGpuInstance(device, info.id)
    except nvml.NVMLError as raised:
        found = raised
    check("a third half has no room",
          isinstance(found, nvml.NVMLError_InsufficientResources), found)
    usable = machine["memory"]["total_mib"] - machine["memory"]["reserved_mib"]
    slots_mib = usable * profile["memory_slots"] // mig["slots"]
    uuids = []
    for index, (_, _, mig_device) in enumerate(made):
        by_index = nvml.nvmlDeviceGetMigDeviceHandleByIndex(device, index)
        uuids.append(nvml.nvmlDeviceGetUUID(by_index))
        equal(f"UUID of MIG device {index}", nvml.nvmlDeviceGetUUID(mig_device), uuids[-1])
        by_uuid = nvml.nvmlDeviceGetHandleByUUID(uuids[-1])
        equal("its index", nvml.nvmlDeviceGetIndex(by_uuid), index)
        total = nvml.nvmlDeviceGetMemoryInfo(by_index).total
        equal("its memory", total, profile.get("memory_mib", slots_mib) * MIB)
        attributes = nvml.nvmlDeviceGetAttributes(by_index)
        equal("its SMs", attributes.multiprocessorCount, profile["sm"])
    check("the UUIDs differ", len(set(uuids)) == 2, uuids)
    text = run(beside_python("nvitop"), "--once", "--ascii")
    check("nvitop lists both halves", text.count(profile["name"]) >= 2, text)
    for gpu, compute, _ in made:
        nvml.nvmlComputeInstanceDestroy(compute)
        nvml.nvmlGpuInstanceDestroy(gpu)
    activation = nvml.nvmlDeviceSetMigMode(device, nvml.NVML_DEVICE_MIG_DISABLE)
    equal("end of MIG mode", (activation, nvml.nvmlDeviceGetMigMode(device)), (0, [0, 0]))


def faulted(nvml, device, tenant_process):
    events = nvml.nvmlEventSetCreate()
    nvml.nvmlDeviceRegisterEvents(device, nvml.nvmlEventTypeXidCriticalError, events)
    tenant_process.tell()
    equal("what the fault says in the tenant", tenant_process.hear(), str(ILLEGAL_ADDRESS))
    event = nvml.nvmlEventSetWait_v2(events, int(PATIENCE_S * 1000))
    equal("Xid", (event.eventType, event.eventData), (8, XID_MMU_FAULT))
    try:
        found = nvml.nvmlEventSetWait_v2(events, 50)
    except nvml.NVMLError as raised:
        found = raised
    check("the Xid comes once", isinstance(found, nvml.NVMLError_Timeout), found)
    nvml.nvmlEventSetFree(events)
    recovery = nvml.nvmlDeviceGetFieldValues(device, [230])[0].value.uiVal
    equal("recovery action after the fault", recovery, 0)


def real(nvml, device):
    """What holds of every device, beside a tenant that only computes."""
    by_uuid = nvml.nvmlDeviceGetHandleByUUID(nvml.nvmlDeviceGetUUID(device))
    equal("name by UUID", nvml.nvmlDeviceGetName(by_uuid), nvml.nvmlDeviceGetName(device))
    memory = nvml.nvmlDeviceGetMemoryInfo(device, version=nvml.nvmlMemory_v2)
    equal("parts of the memory", memory.reserved + memory.used + memory.free, memory.total)
    tenant_process = Tenant()
    try:
        tenant_process.tell()
        equal("the tenant's second word", tenant_process.hear(), "loading")
        for what, read, holds in [
            ("processes", lambda: nvml.nvmlDeviceGetComputeRunningProcesses(device),
             lambda found: tenant_process.pid in [process.pid for process in found]),
            ("utilisation", lambda: nvml.nvmlDeviceGetUtilizationRates(device).gpu,
             lambda found: found > 50),
            ("no idle clocks", lambda: nvml.nvmlDeviceGetCurrentClocksEventReasons(device),
             lambda found: not found & 1),
        ]:
            eventually(f"{what} with the tenant", read, holds)
        # One of them cuts long names.
        product = nvml.nvmlDeviceGetName(device).removeprefix("NVIDIA ")[:8]
        for client in (["gpustat"], ["nvitop", "--once", "--ascii"]):
            text = run(beside_python(client[0]), *client[1:])
            check(f"{client[0]} prints {product}", product in text, text)
    finally:
        tenant_process.kill()
    eventually("the tenant is gone", lambda: nvml.nvmlDeviceGetComputeRunningProcesses(device),
               lambda found: tenant_process.pid not in [process.pid for process in found])


def main():
    is_real = sys.argv[1:] == ["--real"]
    if not is_real and not os.environ.get("GPUBENCH_VIRTUAL_GPU"):
        print("no virtual GPU: run this under `gpubench virtual-gpu exec`, or with --real",
              file=sys.stderr)
        return 2
    # Only looked up: importing gpustat would change pynvml.
    missing = [name for name in ("pynvml", "gpustat", "nvitop") if find_spec(name) is None]
    if missing:
        print(f"clients are missing: {', '.join(missing)}", file=sys.stderr)
        return 2
    import pynvml as nvml

    try:
        nvml.nvmlDeviceGetCount()
        found = None
    except nvml.NVMLError as raised:
        found = raised
    check("nothing is answered before nvmlInit",
          isinstance(found, nvml.NVMLError_Uninitialized), found)
    nvml.nvmlInit()
    device = nvml.nvmlDeviceGetHandleByIndex(0)
    if is_real:
        real(nvml, device)
        print(f"{len(failures)} failed", flush=True)
        return 1 if failures else 0
    machine = tomllib.loads(MACHINE.read_text())
    identity(nvml, device, machine)
    idle(nvml, device, machine)
    tenant_process = Tenant()
    try:
        memory_of(nvml, device, machine, tenant_process)
        tenant_process.tell()
        equal("the tenant's second word", tenant_process.hear(), "loading")
        loaded(nvml, device, machine, tenant_process)
        faulted(nvml, device, tenant_process)
    finally:
        tenant_process.kill()
    memory = nvml.nvmlDeviceGetMemoryInfo(device, version=nvml.nvmlMemory_v2)
    equal("used memory after the tenant was killed", memory.used, 0)
    equal("processes after it", nvml.nvmlDeviceGetComputeRunningProcesses(device), [])
    if "mig" in machine:
        divided(nvml, device, machine)
    nvml.nvmlShutdown()
    print(f"{len(failures)} failed", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--tenant"]:
        tenant()
    else:
        sys.exit(main())
