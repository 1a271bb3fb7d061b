//! The stand-in for HAMi-core from the view of a program: what it limits, how exactly, and which
//! calls bypass it.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use gpubench_host::device::VirtualGpu;
use gpubench_virtual_gpu::crash::{self, Place};
use gpubench_virtual_gpu::session::SAMPLE_ENV;
use gpubench_virtual_gpu::session::TimeMode;

use crate::support::{Error, TestResult, driver_client};

// The mechanisms that the virtual GPU's own tests cover.
#[path = "../../virtual-gpu/abi/tests/it/mps_support/mechanisms.rs"]
mod mechanisms;

const MIB: u64 = 1 << 20;

/// Starts a `hopper` with a change to its machine file.
fn start(change: impl Fn(String) -> String) -> Result<(VirtualGpu, tempfile::TempDir), Error> {
    let dir = tempfile::tempdir()?;
    let text = gpubench_profiles::HOPPER.to_owned();
    let file = dir.path().join("machine.toml");
    std::fs::write(&file, change(text))?;
    let gpu = VirtualGpu::start(&file.display().to_string(), TimeMode::Wall, 1)?;
    Ok((gpu, dir))
}

/// Runs the client under the stand-in and returns its standard output.
fn run(
    gpu: &VirtualGpu,
    cache: &Path,
    variables: &[(&str, &str)],
    arguments: &[&str],
) -> Result<String, Error> {
    let library = gpu.hami_library().ok_or("the machine has no stand-in")?;
    let out = Command::new(driver_client()?)
        .args(arguments)
        .envs(gpu.environment())
        .env("LD_PRELOAD", library)
        .env("CUDA_DEVICE_MEMORY_SHARED_CACHE", cache)
        .envs(variables.iter().copied())
        .output()?;
    let text = String::from_utf8(out.stdout)?.trim().to_owned();
    if out.status.success() {
        Ok(text)
    } else {
        Err(format!("{text}: {}", String::from_utf8_lossy(&out.stderr)).into())
    }
}

/// Each documented bypass with its calls. `durations` is a rule of the limiter without a call.
const BYPASSES: [(&str, &[&str]); 9] = [
    ("arrays", &["cuArrayCreate_v2"]),
    ("pools", &["cuMemAllocFromPoolAsync"]),
    ("per-thread", &["cuMemAllocAsync_ptsz", "cuLaunchKernel_ptsz"]),
    ("globals", &["cuModuleLoadDataEx"]),
    ("ipc", &["cuIpcOpenMemHandle_v2"]),
    ("graphs", &["cuGraphLaunch"]),
    ("graph-memory", &["cuGraphAddMemAllocNode"]),
    ("cooperative", &["cuLaunchCooperativeKernel"]),
    ("durations", &[]),
];

#[test]
fn patches_close_every_bypass_but_the_one_left_open() -> TestResult {
    for (open, _) in BYPASSES {
        let others = BYPASSES.iter().map(|(bypass, _)| *bypass).filter(|bypass| *bypass != open);
        let closed: Vec<String> = others.map(|bypass| format!("\"{bypass}\"")).collect();
        let defects = format!("\n[defects]\nhami_closed = [{}]\n", closed.join(", "));
        let (gpu, dir) = start(|text| text + &defects)?;
        for (bypass, calls) in BYPASSES {
            for call in calls {
                let found = run(&gpu, &dir.path().join("cache"), &[], &["where", call])?;
                let is_hooked = found.ends_with("libvgpu.so");
                assert_eq!(is_hooked, bypass != open, "{open} is open: {call} is in {found}");
            }
        }
    }
    Ok(())
}

#[test]
fn the_memory_limit_is_reported_and_includes_the_context() -> TestResult {
    let (gpu, dir) = start(|text| text)?;
    let limit = [("CUDA_DEVICE_MEMORY_LIMIT", "2048M")];
    let cache = |name: &str| dir.path().join(name);
    assert_eq!(run(&gpu, &cache("a"), &limit, &["total"])?, (2048 * MIB).to_string());
    let allocated: u64 = run(&gpu, &cache("b"), &limit, &["fill", "16"])?.parse()?;
    // The context of this machine takes 512 of 2048 MiB.
    assert_eq!(allocated, 1536 * MIB);
    Ok(())
}

#[test]
fn a_context_that_the_program_creates_is_not_counted() -> TestResult {
    let (gpu, dir) = start(|text| text)?;
    let limit = [("CUDA_DEVICE_MEMORY_LIMIT", "2048M")];
    let allocated = run(&gpu, &dir.path().join("made"), &limit, &["fill", "16", "made"])?;
    assert_eq!(allocated.parse::<u64>()?, 2048 * MIB);
    // A process that is not in the list of processes is not charged for its primary context.
    let hidden = "\n[defects]\nhami_pid_hidden = true\n";
    let (gpu, dir) = start(|text| text + hidden)?;
    let allocated = run(&gpu, &dir.path().join("hidden"), &limit, &["fill", "16"])?;
    assert_eq!(allocated.parse::<u64>()?, 2048 * MIB);
    Ok(())
}

/// `MemoryCap`: what a process allocates beyond its limit.
#[test]
fn noise_changes_nothing_about_what_gets_through() -> TestResult {
    let text = gpubench_profiles::HOPPER;
    let mut machine: toml::Table = text.parse()?;
    let noise = machine.get_mut("noise").and_then(toml::Value::as_table_mut);
    let noise = noise.ok_or("no noise")?;
    for key in ["request", "epoch", "session", "call", "turn"] {
        noise.insert(key.to_owned(), 0.05.into());
    }
    let text = format!("{machine}\n[defects]\nhami_memory_overshoot = 0.25\n");
    for seed in 1..=8 {
        let dir = tempfile::tempdir()?;
        let file = dir.path().join("machine.toml");
        std::fs::write(&file, &text)?;
        let gpu = VirtualGpu::start(&file.display().to_string(), TimeMode::Wall, seed)?;
        let limit = [("CUDA_DEVICE_MEMORY_LIMIT", "2048M")];
        let allocated: u64 = run(&gpu, &dir.path().join("c"), &limit, &["fill", "16"])?.parse()?;
        assert_eq!(allocated + 512 * MIB, 2560 * MIB, "seed {seed}");
    }
    Ok(())
}

#[test]
fn the_first_process_sets_the_limit_of_a_shared_cache() -> TestResult {
    let (gpu, dir) = start(|text| text)?;
    let cache = dir.path().join("shared");
    let first = [("CUDA_DEVICE_MEMORY_LIMIT", "1024M")];
    let second = [("CUDA_DEVICE_MEMORY_LIMIT", "4096M")];
    run(&gpu, &cache, &first, &["total"])?;
    assert_eq!(run(&gpu, &cache, &second, &["total"])?, (1024 * MIB).to_string());
    Ok(())
}

#[test]
fn clients_that_die_in_the_library_leave_nothing_on_the_device() -> TestResult {
    let (gpu, dir) = start(|text| text)?;
    let limit = ("CUDA_DEVICE_MEMORY_LIMIT", "2048M");
    let library = gpu.hami_library().ok_or("the machine has no stand-in")?;
    // Under the lock of the shared state, each after more allocations than the one before.
    let points = [Place::Locked, Place::Copied, Place::Changed, Place::Published, Place::Reading];
    for number in 0..25 {
        let point = points[number % points.len()];
        let crash_at = format!("{}:{}", point.name(), 3 + number);
        let died = Command::new(driver_client()?)
            .args(["fill", "16"])
            .envs(gpu.environment())
            .env("LD_PRELOAD", &library)
            .env("CUDA_DEVICE_MEMORY_SHARED_CACHE", dir.path().join(number.to_string()))
            .envs([limit, (crash::ENV, crash_at.as_str())])
            .stdout(Stdio::null())
            .status()?;
        assert_eq!(died.signal(), Some(9), "{crash_at}: {died}");
    }
    nothing_is_left(&gpu)?;
    let allocated: u64 = run(&gpu, &dir.path().join("new"), &[limit], &["fill", "16"])?.parse()?;
    assert_eq!(allocated, 1536 * MIB, "the next client has its whole limit");
    Ok(())
}

/// The device has no processes, contexts, streams or allocations.
fn nothing_is_left(gpu: &VirtualGpu) -> TestResult {
    let device = gpu.open()?;
    device.reap_dead_processes()?;
    let left = device.shared().read(|state| {
        let processes = state.processes.live().iter().filter(|p| p.pid != 0);
        let contexts = state.contexts.live().iter().filter(|c| c.live);
        let streams = state.streams.live().iter().filter(|s| s.live);
        let memory = state.allocations.live().iter().filter(|a| a.live);
        [processes.count(), contexts.count(), streams.count(), memory.count()]
    })?;
    assert_eq!(left, [0; 4]);
    Ok(())
}

#[test]
fn clients_that_die_at_random_instants_leave_nothing_behind() -> TestResult {
    const DEAD: u64 = 60;
    let (gpu, dir) = start(|text| text)?;
    let library = gpu.hami_library().ok_or("the machine has no stand-in")?;
    // All share one cache file and its lock, as the processes of a container do.
    let cache = dir.path().join("shared");
    let limits = [
        ("CUDA_DEVICE_MEMORY_LIMIT", "8192M"),
        ("CUDA_DEVICE_SM_LIMIT", "60"),
        ("GPU_CORE_UTILIZATION_POLICY", "FORCE"),
    ];
    let mut running: Vec<Child> = Vec::new();
    // Xorshift (Marsaglia, Xorshift RNGs, 2003).
    let mut number = 23_u64;
    for _ in 0..DEAD {
        let mut client = Command::new(driver_client()?)
            .arg("busy")
            .envs(gpu.environment())
            .envs(limits)
            .env(SAMPLE_ENV, "1")
            .env("LD_PRELOAD", &library)
            .env("CUDA_DEVICE_MEMORY_SHARED_CACHE", &cache)
            .stdout(Stdio::piped())
            .spawn()?;
        number ^= number << 13;
        number ^= number >> 7;
        number ^= number << 17;
        // Half of the clients die at work, the others at any point of their start.
        if number & 1 == 0 {
            let stdout = client.stdout.as_mut().ok_or("no output")?;
            let mut line = [0; 5];
            stdout.read_exact(&mut line)?;
            assert_eq!(&line, b"busy\n");
        }
        running.push(client);
        if running.len() == 3 {
            std::thread::sleep(Duration::from_micros(number % 30_000));
            end(running.swap_remove((number >> 40) as usize % 3))?;
        }
    }
    running.into_iter().try_for_each(end)?;
    nothing_is_left(&gpu)?;
    let allocated: u64 = run(&gpu, &cache, &[], &["fill", "16"])?.parse()?;
    assert_eq!(allocated, (8192 - 512) * MIB, "the next client has the whole limit");
    Ok(())
}

/// Kills a client, which must not have failed before.
fn end(mut client: Child) -> TestResult {
    client.kill()?;
    let out = client.wait_with_output()?;
    let stdout = String::from_utf8_lossy(&out.stdout);
    assert_eq!(out.status.signal(), Some(9), "{}: {stdout}", out.status);
    Ok(())
}

#[test]
fn the_tests_of_the_device_cover_every_mechanism_of_the_harness() {
    let covered = mechanisms::Mechanism::ALL.iter().map(|m| m.name());
    assert_eq!(covered.collect::<Vec<_>>(), gpubench_catalogue::mechanism::names());
}

#[test]
fn a_machine_without_hami_has_no_library() -> TestResult {
    let gpu = VirtualGpu::start("turing", TimeMode::Wall, 1)?;
    assert_eq!(gpu.hami_library(), None);
    Ok(())
}
