//! Random calls through the C interface, with random, freed, foreign and null arguments: every one
//! has to come back with a code that has a name, and none may crash, hang or panic.
//!
//! Pointers that the driver itself would read or write through are null or valid, as it demands.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use std::ffi::{CString, c_void};
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use gpubench_virtual_gpu::abi::code::describe;
use gpubench_virtual_gpu::abi::cuda::calls::*;
use gpubench_virtual_gpu::abi::cuda::layout::{
    AccessDescriptor, AllocNode, AllocationProperties, Array3dDescriptor, ArrayDescriptor, Copy2d,
    IpcHandle, KernelNode, LaunchAttribute, LaunchConfig, Location, MemsetNode, PoolProperties,
    Side2d,
};
use gpubench_virtual_gpu::abi::handles::Handle;
use gpubench_virtual_gpu::abi::process::device;
use gpubench_virtual_gpu::machine::Machine;
use gpubench_virtual_gpu::session::{ENV, Session, TimeMode};

const COPY: &str = include_str!("../../../kernels/ptx/stream_copy.ptx");

/// Real time that one run may take.
const LIMIT: Duration = Duration::from_secs(8);

/// Bytes of each host buffer; no valid call moves more.
const BUFFER: usize = 1 << 16;

/// A small generator of random numbers (xorshift64*, Vigna 2016).
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.roll() % end as u64) as usize
    }

    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }
}

/// Everything that calls gave out, live or not.
struct Fuzz {
    dice: Dice,
    handles: Vec<u64>,
    pointers: Vec<u64>,
    buffer: Vec<u8>,
    registered: Vec<u8>,
    calls: u64,
    successes: u64,
}

unsafe extern "C" fn nothing(_: *mut c_void) {}
unsafe extern "C" fn nothing_either(_: Handle, _: i32, _: *mut c_void) {}

impl Fuzz {
    fn handle(&mut self) -> Handle {
        let wild = [0, 1, 2, 3, 16, 0x1230, u64::MAX, 1 << 45];
        let value = match self.dice.below(8) {
            0 => self.dice.of(&wild),
            1 => self.handles[self.dice.below(self.handles.len())] ^ (self.dice.roll() & 0xFFF0),
            _ => self.handles[self.dice.below(self.handles.len())],
        };
        value as Handle
    }

    fn stream(&mut self) -> Handle {
        if self.dice.below(3) == 0 {
            null_mut()
        } else {
            self.handle()
        }
    }

    /// A device address: known, near a known one, or wild but never the host's.
    fn pointer(&mut self) -> u64 {
        let known = self.pointers[self.dice.below(self.pointers.len())];
        let wild = [
            0,
            1,
            64,
            0x6000_0000_0000,
            0x7000_0000_0000,
            0x7000_0000_1001,
            1 << 62,
        ];
        match self.dice.below(6) {
            0 => self.dice.of(&wild),
            1 => known + self.dice.below(64) as u64,
            _ => known,
        }
    }

    fn host(&mut self) -> *mut c_void {
        if self.dice.below(12) == 0 {
            null_mut()
        } else {
            self.buffer.as_mut_ptr().cast()
        }
    }

    /// A size that fits the host buffers.
    fn small(&mut self) -> usize {
        let sizes = [
            0,
            1,
            2,
            3,
            4,
            8,
            15,
            16,
            100,
            512,
            4095,
            4096,
            BUFFER / 4,
            BUFFER,
        ];
        self.dice.of(&sizes)
    }

    fn size(&mut self) -> usize {
        let huge = [
            1 << 20,
            2 << 20,
            4 << 20,
            1 << 34,
            1 << 45,
            usize::MAX,
            usize::MAX / 2 + 1,
        ];
        if self.dice.below(3) == 0 {
            self.dice.of(&huge)
        } else {
            self.small()
        }
    }

    fn number(&mut self) -> i32 {
        let numbers = [
            0,
            0,
            1,
            1,
            2,
            3,
            4,
            5,
            6,
            8,
            9,
            16,
            100,
            -1,
            -2,
            i32::MIN,
            i32::MAX,
        ];
        self.dice.of(&numbers)
    }

    fn flags(&mut self) -> u32 {
        self.dice
            .of(&[0, 0, 0, 1, 1, 2, 3, 4, 7, 8, 1 << 30, u32::MAX])
    }

    fn side(&mut self) -> u32 {
        self.dice
            .of(&[0, 1, 1, 1, 2, 3, 32, 64, 1024, 1025, 65_535, u32::MAX])
    }

    fn check(&mut self, name: &str, code: i32) {
        self.calls += 1;
        self.successes += u64::from(code == 0);
        assert!(
            describe(code).is_some(),
            "{name} gave {code}, which has no name"
        );
        assert_ne!(
            code, 999,
            "{name}: an internal error (its reason was printed)"
        );
    }

    /// Keeps what a call gave out, also when it failed.
    fn keep(&mut self, handle: Handle) {
        self.handles.push(handle as u64);
    }
}

/// One call by its name, in an unsafe block: `$fuzz` checks the code.
macro_rules! call {
    ($fuzz:ident, $name:ident($($arg:expr),* $(,)?)) => {{
        // SAFETY: places are locals or buffers, structures are whole; the rest is what is tested.
        let code = unsafe { $name($($arg),*) };
        $fuzz.check(stringify!($name), code);
        code
    }};
}

fn properties(fuzz: &mut Fuzz) -> AllocationProperties {
    AllocationProperties {
        kind: fuzz.dice.of(&[1, 1, 1, 2]),
        handle_types: fuzz.dice.of(&[0, 1, 1, 8]),
        location: location(fuzz),
        win32_metadata: null_mut(),
        flags: [0; 8],
    }
}

fn location(fuzz: &mut Fuzz) -> Location {
    let other = Location {
        kind: fuzz.number(),
        id: fuzz.number(),
    };
    fuzz.dice
        .of(&[Location::DEVICE, Location::DEVICE, Location::DEVICE, other])
}

fn pool_properties(fuzz: &mut Fuzz) -> PoolProperties {
    PoolProperties {
        kind: 1,
        handle_types: fuzz.dice.of(&[0, 0, 1]),
        location: location(fuzz),
        win32_attributes: null_mut(),
        max_bytes: fuzz.dice.of(&[0, 0, 1 << 20, 4 << 20]),
        reserved: [0; 56],
    }
}

fn memory(fuzz: &mut Fuzz) {
    let (mut at, mut more, bytes) = (0, 0, fuzz.size());
    let (pointer, handle, stream) = (fuzz.pointer(), fuzz.handle(), fuzz.stream());
    let (mut word, number, flags) = ([0_u64; 8], fuzz.number(), fuzz.flags());
    let place: *mut c_void = word.as_mut_ptr().cast();
    match fuzz.dice.below(24) {
        0..=2 => drop(call!(fuzz, cuMemAlloc_v2(&raw mut at, bytes))),
        3 | 4 => drop(call!(fuzz, cuMemFree_v2(pointer))),
        5 => {
            let height = fuzz.size();
            call!(
                fuzz,
                cuMemAllocPitch_v2(&raw mut at, &raw mut more, bytes, height, 4)
            );
        }
        6 | 7 => drop(call!(fuzz, cuMemAllocAsync(&raw mut at, bytes, stream))),
        8 => drop(call!(
            fuzz,
            cuMemAllocFromPoolAsync(&raw mut at, bytes, handle, stream)
        )),
        9 => drop(call!(fuzz, cuMemFreeAsync(pointer, stream))),
        10 => {
            let (properties, mut pool) = (pool_properties(fuzz), null_mut());
            call!(fuzz, cuMemPoolCreate(&raw mut pool, &raw const properties));
            fuzz.keep(pool);
        }
        11 => drop(call!(fuzz, cuMemPoolDestroy(handle))),
        12 => drop(call!(fuzz, cuMemPoolTrimTo(handle, bytes))),
        13 => drop(call!(fuzz, cuMemPoolGetAttribute(handle, number, place))),
        14 => drop(call!(fuzz, cuMemPoolSetAttribute(handle, number, place))),
        15 => drop(call!(fuzz, cuMemAllocManaged(&raw mut at, bytes, flags))),
        16 => drop(call!(fuzz, cuMemAdvise(pointer, bytes, number, 0))),
        17 => drop(call!(
            fuzz,
            cuMemPrefetchAsync(pointer, bytes, number, stream)
        )),
        18 => drop(call!(
            fuzz,
            cuMemRangeGetAttribute(place, 8, number, pointer, bytes)
        )),
        19 => drop(call!(fuzz, cuPointerGetAttribute(place, number, pointer))),
        20 => drop(call!(
            fuzz,
            cuMemGetAddressRange_v2(&raw mut at, &raw mut more, pointer)
        )),
        21 => drop(call!(fuzz, cuMemGetInfo_v2(&raw mut more, null_mut()))),
        22 => {
            let mut ipc = IpcHandle([0; 64]);
            call!(fuzz, cuIpcGetMemHandle(&raw mut ipc, pointer));
            ipc.0[fuzz.dice.below(64)] ^= 1;
            call!(fuzz, cuIpcOpenMemHandle_v2(&raw mut at, ipc, 1));
            call!(fuzz, cuIpcCloseMemHandle(pointer));
        }
        _ => drop(call!(fuzz, cuDeviceSetMemPool(0, handle))),
    }
    fuzz.pointers.push(at);
}

fn mapping(fuzz: &mut Fuzz) {
    let (mut at, mut handle_out, bytes) = (0, 0, fuzz.size());
    let (pointer, handle) = (fuzz.pointer(), fuzz.handle() as u64);
    let page = fuzz.dice.of(&[2 << 20, 4 << 20, bytes]);
    match fuzz.dice.below(9) {
        0 => drop(call!(
            fuzz,
            cuMemAddressReserve(&raw mut at, page, 0, pointer, 0)
        )),
        1 => drop(call!(fuzz, cuMemAddressFree(pointer, page))),
        2 | 3 => {
            let properties = properties(fuzz);
            call!(
                fuzz,
                cuMemCreate(&raw mut handle_out, page, &raw const properties, 0)
            );
        }
        4 => drop(call!(fuzz, cuMemRelease(handle))),
        5 => drop(call!(fuzz, cuMemMap(pointer, page, 0, handle, 0))),
        6 => drop(call!(fuzz, cuMemUnmap(pointer, page))),
        7 => {
            let (location, flags) = (location(fuzz), fuzz.number());
            let access = AccessDescriptor { location, flags };
            call!(fuzz, cuMemSetAccess(pointer, page, &raw const access, 1));
        }
        _ => {
            let retained = pointer as *mut c_void;
            call!(
                fuzz,
                cuMemRetainAllocationHandle(&raw mut handle_out, retained)
            );
        }
    }
    fuzz.pointers.push(at);
    fuzz.handles.push(handle_out);
}

fn copying(fuzz: &mut Fuzz) {
    let (to, from, bytes) = (fuzz.pointer(), fuzz.pointer(), fuzz.small());
    let (host, stream, large) = (fuzz.host(), fuzz.stream(), fuzz.size());
    let (array, pitch) = (fuzz.handle(), fuzz.small());
    match fuzz.dice.below(13) {
        0 => drop(call!(fuzz, cuMemcpyHtoD_v2(to, host, bytes))),
        1 => drop(call!(fuzz, cuMemcpyDtoH_v2(host, from, bytes))),
        2 => drop(call!(fuzz, cuMemcpyHtoDAsync_v2(to, host, bytes, stream))),
        3 => drop(call!(fuzz, cuMemcpyDtoHAsync_v2(host, from, bytes, stream))),
        4 => drop(call!(fuzz, cuMemcpyDtoDAsync_v2(to, from, large, stream))),
        5 => drop(call!(fuzz, cuMemsetD8_v2(to, 1, large))),
        6 => drop(call!(fuzz, cuMemsetD32Async(to, 1, large, stream))),
        7 => drop(call!(fuzz, cuMemsetD2D16_v2(to, pitch, 1, bytes, 3))),
        8 => drop(call!(fuzz, cuMemcpyHtoA_v2(array, pitch, host, bytes))),
        9 => drop(call!(fuzz, cuMemcpyAtoH_v2(host, array, pitch, bytes))),
        10 => drop(call!(fuzz, cuStreamWriteValue32_v2(stream, to, 7, 0))),
        11 => drop(call!(fuzz, cuStreamWaitValue32_v2(stream, to, 7, 0))),
        _ => {
            let kind = fuzz.dice.of(&[2, 2, 3, 5]);
            let side = |kind, device, array, pitch| Side2d {
                x_bytes: 0,
                y: 0,
                kind,
                host: null_mut(),
                device,
                array,
                pitch,
            };
            let copy = Copy2d {
                from: side(2, from, null_mut(), pitch),
                to: side(kind, to, array, bytes),
                width_bytes: fuzz.small(),
                height: fuzz.size(),
            };
            call!(fuzz, cuMemcpy2DAsync_v2(&raw const copy, stream));
        }
    }
}

fn objects(fuzz: &mut Fuzz) {
    let (handle, stream, number) = (fuzz.handle(), fuzz.stream(), fuzz.number());
    let (mut made, mut value, flags) = (null_mut(), 0, fuzz.flags());
    match fuzz.dice.below(22) {
        0 => drop(call!(
            fuzz,
            cuStreamCreateWithPriority(&raw mut made, flags, number)
        )),
        1 => drop(call!(fuzz, cuStreamDestroy_v2(handle))),
        2 => drop(call!(fuzz, cuStreamSynchronize(stream))),
        3 => drop(call!(fuzz, cuStreamQuery(stream))),
        4 => drop(call!(fuzz, cuEventCreate(&raw mut made, flags))),
        5 => drop(call!(fuzz, cuEventDestroy_v2(handle))),
        6 => drop(call!(fuzz, cuEventRecord(handle, stream))),
        7 => {
            let event = fuzz.handle();
            call!(fuzz, cuStreamWaitEvent(stream, event, flags));
        }
        8 => drop(call!(fuzz, cuEventSynchronize(handle))),
        9 => drop(call!(fuzz, cuEventQuery(handle))),
        10 => drop(call!(
            fuzz,
            cuLaunchHostFunc(stream, Some(nothing), null_mut())
        )),
        11 => {
            let callback = Some(nothing_either as _);
            call!(
                fuzz,
                cuStreamAddCallback(stream, callback, null_mut(), flags)
            );
        }
        12 => {
            let (format, channels) = (fuzz.number(), fuzz.dice.of(&[1, 2, 4, 3]));
            let (width, height) = (fuzz.size(), fuzz.small());
            let array = ArrayDescriptor {
                width,
                height,
                format,
                channels,
            };
            call!(fuzz, cuArrayCreate_v2(&raw mut made, &raw const array));
        }
        13 => {
            let (width, height, depth) = (fuzz.small(), fuzz.small(), fuzz.small());
            let (format, channels) = (fuzz.number(), 4);
            let array = Array3dDescriptor {
                width,
                height,
                depth,
                format,
                channels,
                flags,
            };
            call!(fuzz, cuArray3DCreate_v2(&raw mut made, &raw const array));
        }
        14 => drop(call!(fuzz, cuArrayDestroy(handle))),
        15 => drop(call!(
            fuzz,
            cuFuncGetAttribute(&raw mut value, number, handle)
        )),
        16 => drop(call!(fuzz, cuFuncSetAttribute(handle, number, number))),
        17 => {
            let (threads, shared) = (fuzz.number(), fuzz.size());
            let place = &raw mut value;
            let name = cuOccupancyMaxActiveBlocksPerMultiprocessor;
            // SAFETY: a valid place.
            let code = unsafe { name(place, handle, threads, shared) };
            fuzz.check("cuOccupancyMaxActiveBlocksPerMultiprocessor", code);
        }
        18 => {
            let mut block = 0;
            let (grid, block, limit) = (&raw mut value, &raw mut block, fuzz.number());
            call!(
                fuzz,
                cuOccupancyMaxPotentialBlockSize(grid, block, handle, None, 0, limit)
            );
        }
        19 => {
            let (place, bytes) = (fuzz.registered.as_mut_ptr().cast(), BUFFER);
            if fuzz.dice.below(2) == 0 {
                call!(fuzz, cuMemHostRegister_v2(place, bytes, flags));
            } else {
                call!(fuzz, cuMemHostUnregister(place));
            }
        }
        20 => drop(call!(fuzz, cuCtxSynchronize())),
        _ => {
            call!(
                fuzz,
                cuPointerGetAttribute((&raw mut made).cast(), 1, handle as u64)
            );
        }
    }
    fuzz.keep(made);
}

fn launching(fuzz: &mut Fuzz, copy: Handle) {
    let function = if fuzz.dice.below(4) == 0 {
        fuzz.handle()
    } else {
        copy
    };
    // The addresses are in range of nothing or of what is there; the count is small, so that a
    // fault, which would end the context, stays rare.
    let mut args = [fuzz.pointer(), fuzz.pointer(), 0];
    let mut list: Vec<*mut c_void> = args
        .iter_mut()
        .map(|arg| std::ptr::from_mut(arg).cast())
        .collect();
    let (grid, block) = ([fuzz.side(), 1, 1], [fuzz.side(), 1, 1]);
    let grid = if grid[0] > 65_535 {
        grid
    } else {
        [grid[0].min(64), 1, 1]
    };
    let (shared_bytes, stream) = (fuzz.dice.of(&[0, 0, 1024, u32::MAX]), fuzz.stream());
    let grid = if block[0] <= 1024 {
        [grid[0].min(64), 1, 1]
    } else {
        grid
    };
    let attribute = LaunchAttribute {
        id: fuzz.number(),
        pad: [0; 4],
        value: [1; 16],
    };
    let config = LaunchConfig {
        grid,
        block,
        shared_bytes,
        stream,
        attributes: &raw const attribute,
        attribute_count: fuzz.dice.of(&[0, 1]),
    };
    let params = if fuzz.dice.below(8) == 0 {
        null_mut()
    } else {
        list.as_mut_ptr()
    };
    call!(
        fuzz,
        cuLaunchKernelEx(&raw const config, function, params, null_mut())
    );
}

fn graphs(fuzz: &mut Fuzz, copy: Handle) {
    let (mut made, graph, handle) = (null_mut(), fuzz.handle(), fuzz.handle());
    let (stream, mut count) = (fuzz.stream(), 4);
    let after = [fuzz.handle(), fuzz.handle()];
    let (before, length) = (after.as_ptr(), fuzz.dice.below(3));
    let mut list = [null_mut(); 4];
    let out = &raw mut made;
    match fuzz.dice.below(19) {
        0 | 1 => drop(call!(fuzz, cuGraphCreate(out, 0))),
        2 => drop(call!(fuzz, cuGraphDestroy(graph))),
        3 => drop(call!(fuzz, cuGraphAddEmptyNode(out, graph, before, length))),
        4 => {
            let (to, value, width) = (fuzz.pointer(), 1, fuzz.small());
            let node = MemsetNode {
                to,
                pitch: 0,
                value,
                element_bytes: 4,
                width,
                height: 1,
            };
            let node = &raw const node;
            call!(
                fuzz,
                cuGraphAddMemsetNode(out, graph, before, length, node, null_mut())
            );
        }
        5 => {
            let mut args = [fuzz.pointer(), fuzz.pointer(), 0];
            let mut params: Vec<*mut c_void> = args
                .iter_mut()
                .map(|arg| std::ptr::from_mut(arg).cast())
                .collect();
            let node = KernelNode {
                function: copy,
                grid: [1, 1, 1],
                block: [fuzz.side(), 1, 1],
                shared_bytes: 0,
                params: params.as_mut_ptr(),
                extra: null_mut(),
            };
            call!(
                fuzz,
                cuGraphAddKernelNode(out, graph, before, length, &raw const node)
            );
            call!(
                fuzz,
                cuGraphExecKernelNodeSetParams(handle, made, &raw const node)
            );
        }
        6 => drop(call!(
            fuzz,
            cuGraphAddChildGraphNode(out, graph, before, length, handle)
        )),
        7 => {
            let mut node = AllocNode {
                pool: pool_properties(fuzz),
                access: std::ptr::null(),
                access_count: 0,
                bytes: fuzz.size(),
                pointer: 0,
            };
            call!(
                fuzz,
                cuGraphAddMemAllocNode(out, graph, before, length, &raw mut node)
            );
            fuzz.pointers.push(node.pointer);
        }
        8 => {
            let pointer = fuzz.pointer();
            call!(
                fuzz,
                cuGraphAddMemFreeNode(out, graph, before, length, pointer)
            );
        }
        9 => drop(call!(
            fuzz,
            cuGraphAddDependencies(graph, before, &raw const handle, 1)
        )),
        10 => drop(call!(fuzz, cuGraphDestroyNode(handle))),
        11 => drop(call!(
            fuzz,
            cuGraphGetNodes(graph, list.as_mut_ptr(), &raw mut count)
        )),
        12 => drop(call!(fuzz, cuGraphInstantiateWithFlags(out, graph, 0))),
        13 => drop(call!(fuzz, cuGraphLaunch(handle, stream))),
        14 => drop(call!(fuzz, cuGraphExecDestroy(handle))),
        15 => drop(call!(fuzz, cuGraphClone(out, graph))),
        16 => {
            let mode = fuzz.number();
            call!(fuzz, cuStreamBeginCapture_v2(stream, mode));
        }
        17 => drop(call!(fuzz, cuStreamEndCapture(stream, out))),
        _ => drop(call!(
            fuzz,
            cuGraphExecUpdate(handle, graph, null_mut(), null_mut())
        )),
    }
    fuzz.keep(made);
}

/// A fresh context with a kernel in it.
fn begin() -> (Handle, Handle) {
    let (mut context, mut module, mut copy): (Handle, Handle, Handle) =
        (null_mut(), null_mut(), null_mut());
    let text = CString::new(COPY).expect("text without null bytes");
    // SAFETY: valid places and strings.
    unsafe {
        assert_eq!(cuCtxCreate_v2(&raw mut context, 0, 0), 0);
        assert_eq!(cuModuleLoadData(&raw mut module, text.as_ptr().cast()), 0);
        let name = c"stream_copy".as_ptr();
        assert_eq!(cuModuleGetFunction(&raw mut copy, module, name), 0);
    }
    (context, copy)
}

#[test]
fn random_calls_get_codes() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let machine = Machine::load("turing").expect("built in");
    Session::new(TimeMode::Virtual, 1)
        .create(dir.path(), &machine)
        .expect("a device");
    // SAFETY: the only test of this binary; no other thread reads the environment.
    unsafe { std::env::set_var(ENV, dir.path()) };
    let device = device().expect("a device");
    device.expect(0).expect("a free number");
    device.join(0).expect("announced");
    // SAFETY: no arguments of consequence.
    assert_eq!(unsafe { cuInit(0) }, 0);
    let started = Instant::now();
    let mut fuzz = Fuzz {
        dice: Dice(0x9E37_79B9_7F4A_7C15),
        handles: vec![0],
        pointers: vec![0],
        buffer: vec![0; BUFFER],
        registered: vec![0; BUFFER],
        calls: 0,
        successes: 0,
    };
    let mut contexts = 0;
    while started.elapsed() < LIMIT {
        let (context, copy) = begin();
        contexts += 1;
        fuzz.keep(copy);
        for _ in 0..400 {
            match fuzz.dice.below(6) {
                0 => memory(&mut fuzz),
                1 => mapping(&mut fuzz),
                2 => copying(&mut fuzz),
                3 => objects(&mut fuzz),
                4 => launching(&mut fuzz, copy),
                _ => graphs(&mut fuzz, copy),
            }
        }
        call!(
            fuzz,
            cuMemHostUnregister(fuzz.registered.as_mut_ptr().cast())
        );
        call!(fuzz, cuCtxDestroy_v2(context));
        // Older things than these say nothing new.
        let keep = |list: &mut Vec<u64>| drop(list.drain(..list.len().saturating_sub(40)));
        keep(&mut fuzz.handles);
        keep(&mut fuzz.pointers);
    }
    let left = device.transact(|state, _| {
        let allocations = state.allocations.live().iter().filter(|a| a.live).count();
        (
            allocations,
            state.streams.live().iter().filter(|s| s.live).count(),
        )
    });
    assert_eq!(
        left.expect("the state"),
        (0, 0),
        "allocations and streams left behind"
    );
    device.leave().expect("the clock");
    assert!(
        contexts > 3,
        "{contexts} contexts are too few to say anything"
    );
    // Calls that all fail would test nothing.
    let share = fuzz.successes as f64 / fuzz.calls as f64;
    assert!(
        share > 0.1,
        "only {} of {} calls succeeded",
        fuzz.successes,
        fuzz.calls
    );
    println!(
        "{} calls in {contexts} contexts, {share:.2} of them successful",
        fuzz.calls
    );
}
