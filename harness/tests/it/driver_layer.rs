//! Every call of the driver layer on the virtual GPU: its result, and its error when the driver
//! refuses it.
//!
//! A process finds the library of the virtual device through its environment, so the calls run in a
//! child process.
#![expect(unsafe_code, reason = "destroys a context under its work")]

use gpubench_host::device::VirtualGpu;
use gpubench_kernels::Kernel;
use gpubench_kernels::driver::{
    AllocKind, Args, Attribute, Context, Device, DeviceBuffer, Driver, DriverError, Event,
    EventKind, FuncAttribute, Function, Graph, Grid, IpcMapping, Limit, Module, OtherMemory,
    PinnedBuffer, RegisteredBuffer, Stream, WaitMode, drop_errors,
};
use gpubench_virtual_gpu::machine::Machine;
use gpubench_virtual_gpu::session::TimeMode;

use crate::support::{Error, TestResult, finish, rerun};

/// Destination and source of a copy.
type Ends = [DeviceBuffer<u32>; 2];

/// Set for the child process.
const CHILD: &str = "GPUBENCH_TEST_DRIVER_LAYER";
const MACHINE: &str = "turing";
const COPY: &str = Kernel::StreamCopy.info().ptx;

/// `CUresult`s (cuda.h).
const INVALID_VALUE: i32 = 1;
const OUT_OF_MEMORY: i32 = 2;
const INVALID_DEVICE: i32 = 101;
const INVALID_IMAGE: i32 = 200;
const INVALID_CONTEXT: i32 = 201;
const INVALID_PTX: i32 = 218;
const INVALID_HANDLE: i32 = 400;
const COOPERATIVE_TOO_LARGE: i32 = 720;

#[test]
fn every_call_succeeds_or_reports_its_error() -> TestResult {
    if std::env::var_os(CHILD).is_some() {
        return in_child();
    }
    let gpu = VirtualGpu::start(MACHINE, TimeMode::Wall, 1)?;
    let mut command = rerun("driver_layer::every_call_succeeds_or_reports_its_error")?;
    command.env(CHILD, "1").envs(gpu.environment());
    let done = finish(command)?.ended_with(0)?;
    assert!(done.stdout.contains("1 passed"), "{}", done.text());
    Ok(())
}

/// The driver's error code, if the call failed.
fn code<T>(result: Result<T, DriverError>) -> Option<i32> {
    result.err().and_then(|error| error.code())
}

fn in_child() -> TestResult {
    let machine = Machine::load(MACHINE)?;
    let driver = Driver::load()?;
    let device = driver.device(0)?;
    identity(driver, &device, &machine)?;
    let context = Context::primary(&device, WaitMode::BlockingSync)?;
    contexts(&device, &context)?;
    streams_and_events(&context)?;
    buffers(&context)?;
    host_memory(&context)?;
    other_memory(&context)?;
    kernels(&context, &machine)?;
    graphs(&context)?;
    green(&device)?;
    assert_eq!(drop_errors().count, 0, "{:?}", drop_errors());
    Ok(())
}

fn identity(driver: &'static Driver, device: &Device, machine: &Machine) -> TestResult {
    assert_eq!(driver.cuda_version()?, machine.cuda_version());
    assert_eq!(driver.device_count()?, 1);
    assert_eq!(code(driver.device(1)), Some(INVALID_DEVICE));
    let file = driver.allocator_file().ok_or("no file")?;
    assert!(file.contains("libcuda"), "{file}");
    assert_eq!(device.name()?, machine.gpu.product);
    assert_eq!(format!("GPU-{}", device.uuid()?), machine.uuid());
    assert_eq!(device.pci_bus_id()?.matches(':').count(), 2);
    let props = device.props()?;
    assert_eq!(props.sm_count, machine.gpu.sm_count);
    assert_eq!(props.total_bytes, device.total_bytes()?);
    for (attribute, expected) in [
        (Attribute::MultiprocessorCount, machine.gpu.sm_count),
        (Attribute::WarpSize, 32),
        (Attribute::MaxThreadsPerBlock, machine.gpu.max_threads_per_block),
        (Attribute::CooperativeLaunch, 1),
    ] {
        assert_eq!(device.attribute(attribute)?.unsigned_abs(), expected, "{attribute:?}");
    }
    Ok(())
}

fn contexts(device: &Device, context: &Context) -> TestResult {
    assert_eq!(context.device().name()?, device.name()?);
    context.bind()?;
    context.synchronize()?;
    let memory = context.mem_info()?;
    assert!(memory.free_bytes < memory.total_bytes, "{memory:?}");
    assert_eq!(context.stream_priority_range()?, (0, -5));
    for limit in [Limit::StackBytes, Limit::PrintfBytes, Limit::HeapBytes] {
        let bytes = context.limit_bytes(limit)?;
        context.set_limit_bytes(limit, 2 * usize::try_from(bytes)?)?;
        assert_eq!(context.limit_bytes(limit)?, 2 * bytes, "{limit:?}");
    }
    let own = Context::create(device, WaitMode::Spin)?;
    let used = context.mem_info()?.free_bytes;
    // SAFETY: the context has no other object and no clone.
    unsafe { own.destroy_under_work() }?;
    context.bind()?;
    assert!(context.mem_info()?.free_bytes > used, "its memory is free again");
    Ok(())
}

fn streams_and_events(context: &Context) -> TestResult {
    let (stream, urgent) = (Stream::new(context)?, Stream::with_priority(context, -5)?);
    assert_eq!(urgent.context().mem_info()?, context.mem_info()?);
    let (start, end) =
        (Event::new(context, EventKind::Timing)?, Event::new(context, EventKind::TimingBlocking)?);
    let mark = Event::new(context, EventKind::MarkBlocking)?;
    assert!(mark.is_done()?, "never recorded");
    assert_eq!(code(end.elapsed_ms_since(&start)), Some(INVALID_HANDLE), "not recorded");
    let buffer = DeviceBuffer::<u32>::alloc(context, 1 << 20)?;
    let pinned = PinnedBuffer::<u32>::alloc(context, 1 << 20)?;
    start.record(&stream)?;
    buffer.write_async(0, &pinned, 0, 1 << 20, &stream)?;
    end.record(&stream)?;
    urgent.wait_event(&end)?;
    mark.record(&urgent)?;
    mark.synchronize()?;
    assert!(stream.is_done()? && urgent.is_done()? && end.is_done()?);
    stream.synchronize()?;
    assert!(end.elapsed_ms_since(&start)? > 0.0);
    assert_eq!(code(end.elapsed_ms_since(&mark)), Some(INVALID_HANDLE), "a mark records no time");
    Ok(())
}

fn buffers(context: &Context) -> TestResult {
    let stream = Stream::new(context)?;
    let buffer = DeviceBuffer::from_slice(context, &[1_u32, 2, 3, 4])?;
    assert_eq!((buffer.len(), buffer.bytes(), buffer.is_empty()), (4, 16, false));
    buffer.write(1, &[9, 8])?;
    assert_eq!(buffer.to_vec()?, [1, 9, 8, 4]);
    let mut last = [0_u32; 1];
    buffer.device_ptr().offset_bytes(12).read(context, &mut last)?;
    assert_eq!(last, [4]);
    let mut pinned = PinnedBuffer::<u32>::alloc(context, 4)?;
    pinned.write(0, &[5, 6, 7, 8])?;
    buffer.write_async(2, &pinned, 0, 2, &stream)?;
    buffer.read_async(1, &pinned, 0, 3, &stream)?;
    stream.synchronize()?;
    let mut values = [0_u32; 4];
    pinned.read(0, &mut values)?;
    assert_eq!(values, [9, 5, 6, 8]);
    let other = DeviceBuffer::<u32>::alloc(context, 8)?;
    other.fill(3)?;
    assert_eq!(other.to_vec()?, [3; 8]);
    buffer.fill_bytes(0xAB)?;
    assert_eq!(buffer.to_vec()?, [0xABAB_ABAB; 4]);
    // The layer refuses accesses beyond a buffer before it calls the driver.
    for refused in [
        buffer.write(3, &[1, 2]),
        buffer.read(5, &mut []),
        buffer.write_async(0, &pinned, 3, 2, &stream),
    ] {
        assert!(matches!(refused, Err(DriverError::Range { .. })), "{refused:?}");
    }
    assert_eq!(code(DeviceBuffer::<u8>::alloc(context, 0)), Some(INVALID_VALUE));
    assert_eq!(code(DeviceBuffer::<u8>::alloc(context, 1 << 50)), Some(OUT_OF_MEMORY));
    assert_eq!(code(other.free_twice()), Some(INVALID_VALUE));
    let handle = buffer.ipc_handle()?;
    let own = code(IpcMapping::open(context, handle));
    assert_eq!(own, Some(INVALID_CONTEXT), "the exporter cannot map its own handle");
    Ok(buffer.free()?)
}

fn host_memory(context: &Context) -> TestResult {
    let mut pinned = PinnedBuffer::<u64>::alloc(context, 3)?;
    assert_eq!((pinned.len(), pinned.is_empty()), (3, false));
    pinned.write(1, &[u64::MAX])?;
    assert_ne!(pinned.device_ptr()?.0, 0);
    let mut values = [0_u64; 3];
    pinned.read(0, &mut values)?;
    assert_eq!(values, [0, u64::MAX, 0]);
    let outside = pinned.write(2, &[1, 2]);
    assert!(matches!(outside, Err(DriverError::Range { .. })), "{outside:?}");
    assert_eq!(code(PinnedBuffer::<u64>::alloc(context, 0)), Some(INVALID_VALUE));
    let registered = RegisteredBuffer::register(context, 8192)?;
    assert_eq!(registered.bytes(), 8192);
    assert_eq!(code(RegisteredBuffer::register(context, 0)), Some(INVALID_VALUE));
    Ok(())
}

fn other_memory(context: &Context) -> TestResult {
    for kind in AllocKind::ALL {
        let memory = OtherMemory::alloc(context, kind, 4 << 20)?;
        assert_eq!(memory.kind(), kind);
        let has_address = memory.device_ptr().is_some();
        let has_none = [AllocKind::Array, AllocKind::Global].contains(&kind);
        assert_eq!(has_address, !has_none, "{kind:?}");
        let too_large = code(OtherMemory::alloc(context, kind, 1 << 46));
        let expected = match kind {
            // The driver checks the dimensions of an array before its size.
            AllocKind::Array => INVALID_VALUE,
            // PTX cannot declare a variable of this size.
            AllocKind::Global => INVALID_PTX,
            _ => OUT_OF_MEMORY,
        };
        assert_eq!(too_large, Some(expected), "{}", kind.function());
    }
    context.synchronize()?;
    Ok(())
}

/// The copy kernel, the arguments of a launch for a number of vectors, and its buffers.
fn copy(context: &Context) -> Result<(Function, impl Fn(u64) -> Args, Ends), Error> {
    let module = Module::load(context, "stream_copy", COPY)?;
    let (to, from) = (
        DeviceBuffer::<u32>::alloc(context, 256)?,
        DeviceBuffer::from_slice(context, &[6_u32; 256])?,
    );
    to.fill(0)?;
    let (target, source) = (to.device_ptr(), from.device_ptr());
    let args = move |vectors| Args::new().ptr(target).ptr(source).u64(vectors);
    Ok((module.function("stream_copy")?, args, [to, from]))
}

fn kernels(context: &Context, machine: &Machine) -> TestResult {
    // The codes of an H100 80GB HBM3 (driver 580.159.04, 2026-11-22).
    let bad = ".version 7.8\n.target sm_70\n.address_size 64\n.visible .entry x() { bogus; }\n";
    for (text, refused_with) in [(bad, INVALID_PTX), ("this is not PTX", INVALID_IMAGE)] {
        let wrong = Module::load(context, "wrong", text);
        assert!(
            matches!(&wrong, Err(DriverError::Module { code, .. }) if *code == refused_with),
            "{wrong:?}"
        );
    }
    let (function, args, [to, _from]) = copy(context)?;
    let module = function.module();
    assert_eq!(function.name(), "stream_copy");
    assert!(!module.jit_log().contains("error"), "{}", module.jit_log());
    let missing = module.function("nothing");
    assert!(matches!(missing, Err(DriverError::NoEntry { .. })), "{missing:?}");
    let max_threads = function.attribute(FuncAttribute::MaxThreadsPerBlock)?;
    assert_eq!(max_threads.unsigned_abs(), machine.gpu.max_threads_per_block);
    assert!(function.attribute(FuncAttribute::Registers)? > 0);
    let blocks = function.blocks_per_sm(256, 0)?;
    assert_eq!(blocks, machine.gpu.max_threads_per_sm / 256);
    let stream = Stream::new(context)?;
    function.launch(Grid::new(1, 32), &stream, &args(32))?;
    function.launch_cooperative(Grid::new(2, 32), &stream, &args(64))?;
    stream.synchronize()?;
    assert_eq!(to.to_vec()?, [6; 256]);
    let short = function.launch(Grid::new(1, 32), &stream, &Args::new().u32(1));
    assert!(matches!(short, Err(DriverError::Arguments { .. })), "{short:?}");
    let wide = function.launch(Grid::new(1, 4096), &stream, &args(1));
    assert_eq!(code(wide), Some(INVALID_VALUE));
    let many = Grid::new(machine.gpu.sm_count * 1000, 256);
    let too_large = function.launch_cooperative(many, &stream, &args(1));
    assert_eq!(code(too_large), Some(COOPERATIVE_TOO_LARGE));
    Ok(())
}

fn graphs(context: &Context) -> TestResult {
    let (function, args, [to, _from]) = copy(context)?;
    let stream = Stream::new(context)?;
    let graph = Graph::capture(&stream, |s| function.launch(Grid::new(1, 64), s, &args(64)))?;
    assert_eq!(to.to_vec()?, [0; 256], "a captured launch does not run");
    graph.launch(&stream)?;
    stream.synchronize()?;
    assert_eq!(to.to_vec()?, [6; 256]);
    let short = |s: &Stream| function.launch(Grid::new(1, 64), s, &Args::new().u32(1));
    let failed = Graph::capture(&stream, short);
    assert!(matches!(failed, Err(DriverError::Arguments { .. })), "{failed:?}");
    // The failure ended the capture, so the stream executes launches again.
    function.launch(Grid::new(1, 64), &stream, &args(64))?;
    Ok(stream.synchronize()?)
}

fn green(device: &Device) -> TestResult {
    let green = |index| Context::green(device, WaitMode::Spin, index, 2);
    let stream = Stream::new(&green(1)?)?;
    stream.synchronize()?;
    assert_eq!(code(green(5)), Some(INVALID_VALUE));
    Ok(())
}
