//! What decides which driver a tenant talks to: the variables of its process, and the libraries of
//! the driver in it. The wall clock and the CPU quota of the host, beside the run.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use gpubench_host::mechanism::fitness::answers_for_the_driver;
use gpubench_record::mechanism::{MappedAs, TenantProcess};
use gpubench_workloads::command::is_notable;
use procfs::process::{MMapPath, MemoryMap, Process};

/// Beginnings of the names of the driver's libraries; the last is the virtual GPU's.
const DRIVER: [&str; 3] = ["libcuda.so", "libnvidia-", "virtual_gpu.so"];
/// Words in the names of variables with secrets.
const SECRET: [&str; 4] = ["KEY", "TOKEN", "SECRET", "PASSWORD"];
/// Beginnings of the names of folders that only one run has.
const PRIVATE: [&str; 2] = ["/gpubench-", "/virtual-gpu-"];

/// The process as it is now; without what is not readable, or where it has ended.
pub fn of(pid: u32) -> TenantProcess {
    let files = mapped(pid).unwrap_or_default();
    let libraries = files.into_iter().filter_map(|path| Some((plain(&path), kind(&path)?)));
    TenantProcess { environment: notable(environment(pid)), libraries: libraries.collect() }
}

fn notable(all: impl IntoIterator<Item = (OsString, OsString)>) -> BTreeMap<String, String> {
    let text = |text: &OsStr| text.to_string_lossy().into_owned();
    let kept = all.into_iter().filter(|(name, _)| is_notable(name));
    let named = kept.map(|(name, value)| {
        let (name, value) = (text(&name), text(&value));
        let is_secret = SECRET.iter().any(|word| name.contains(word));
        let value = if is_secret { "not recorded".to_owned() } else { plain(&value) };
        (name, value)
    });
    named.collect()
}

/// A list of paths without the folders that only this run has.
fn plain(list: &str) -> String {
    let paths = list.split(':').map(|path| {
        let last = PRIVATE.iter().filter_map(|name| path.rfind(name)).max();
        let own = last.map(|at| &path[at + 1..]);
        match own {
            Some(own) => own.find('/').map_or("*".to_owned(), |end| format!("*{}", &own[end..])),
            None => path.to_owned(),
        }
    });
    paths.collect::<Vec<_>>().join(":")
}

/// A process; `None` also where it has ended. Every observation of it is then missing, and the
/// proof that needs one fails.
pub fn process(pid: u32) -> Option<Process> {
    Process::new(pid.try_into().ok()?).ok()
}

/// The environment that a process was started with; empty where it is not readable.
pub fn environment(pid: u32) -> HashMap<OsString, OsString> {
    let environment = process(pid).and_then(|process| process.environ().ok());
    environment.unwrap_or_default()
}

/// The files that a process has mapped, each once; `None` where the list is not readable.
pub fn mapped(pid: u32) -> Option<Vec<String>> {
    let path = |map: MemoryMap| match map.pathname {
        MMapPath::Path(path) => Some(path.to_string_lossy().into_owned()),
        _ => None,
    };
    let maps = process(pid)?.maps().ok()?;
    let mut files: Vec<String> = maps.into_iter().filter_map(path).collect();
    files.sort();
    files.dedup();
    Some(files)
}

/// What a mapped file is; `None` where it has no part in the driver.
fn kind(path: &str) -> Option<MappedAs> {
    let file = Path::new(path).file_name()?.to_str()?;
    if DRIVER.iter().any(|name| file.starts_with(name)) {
        return Some(MappedAs::Driver);
    }
    let is_library = file.ends_with(".so") || file.contains(".so.");
    (is_library && answers_for_the_driver(Path::new(path))).then_some(MappedAs::Interposer)
}

/// A library that gets the calls of the driver first, which no mechanism put there: a mechanism
/// preloads its own.
pub fn interposer(process: &TenantProcess) -> Option<&str> {
    if process.environment.contains_key("LD_PRELOAD") {
        return None;
    }
    let mut libraries = process.libraries.iter();
    libraries.find(|(_, kind)| **kind == MappedAs::Interposer).map(|(path, _)| path.as_str())
}

/// A larger step of the wall clock against the monotonic clock is named.
const STEP: Duration = Duration::from_secs(1);

/// The wall clock beside the monotonic one, from which every duration comes.
#[derive(Debug)]
pub struct WallClock {
    wall: SystemTime,
    monotonic: Instant,
}

impl WallClock {
    #[expect(clippy::disallowed_methods, reason = "it is compared with the monotonic clock")]
    pub fn now() -> Self {
        Self { wall: SystemTime::now(), monotonic: Instant::now() }
    }

    /// How far the wall clock was stepped since the last call, where that is more than
    /// a second. Slow corrections by a time service are none.
    pub fn stepped(&mut self) -> Option<String> {
        let before = std::mem::replace(self, Self::now());
        step(&before, self)
    }
}

fn step(before: &WallClock, now: &WallClock) -> Option<String> {
    let expected = before.wall + now.monotonic.duration_since(before.monotonic);
    let (by, sign) = match now.wall.duration_since(expected) {
        Ok(ahead) => (ahead, '+'),
        Err(behind) => (behind.duration(), '-'),
    };
    (by > STEP).then(|| {
        format!(
            "the wall clock of the host was stepped by {sign}{:.1} s, or the host was suspended: \
             times of day before and after do not compare; durations come from the monotonic \
             clock",
            by.as_secs_f64()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_recorded_without_secrets_and_private_folders() {
        let all = [
            ("CUDA_MPS_PIPE_DIRECTORY", "/tmp/gpubench-1f-0/pipe"),
            ("LD_LIBRARY_PATH", "/opt/lib:/tmp/gpubench-private-x/gpubench-y/lib:"),
            ("NVIDIA_API_KEY", "nvapi-1"),
            ("LD_AUDIT", "/opt/cache/gpubench/virtual-gpu-f9/lib/a.so"),
            ("CUDA_X", "/tmp/gpubench-1"),
            ("HOME", "/opt/u"),
        ];
        let found = notable(all.map(|(name, value)| (name.into(), value.into())));
        let found: Vec<_> = found.iter().map(|(name, value)| (&**name, &**value)).collect();
        let expected = [
            ("CUDA_MPS_PIPE_DIRECTORY", "*/pipe"),
            ("CUDA_X", "*"),
            ("LD_AUDIT", "*/lib/a.so"),
            ("LD_LIBRARY_PATH", "/opt/lib:*/lib:"),
            ("NVIDIA_API_KEY", "not recorded"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn an_interposer_that_no_mechanism_put_there_is_named() {
        let library = |path: &str, kind| (path.to_owned(), kind);
        let mut process = TenantProcess {
            libraries: BTreeMap::from([
                library("/a/libcuda.so.580.95.05", MappedAs::Driver),
                library("/b/libvgpu.so", MappedAs::Interposer),
            ]),
            ..TenantProcess::default()
        };
        assert_eq!(interposer(&process), Some("/b/libvgpu.so"));
        process.environment.insert("LD_PRELOAD".to_owned(), "/b/libvgpu.so".to_owned());
        assert_eq!(interposer(&process), None);
        assert_eq!(kind("/usr/lib/libcuda.so.580.95.05"), Some(MappedAs::Driver));
        assert_eq!(kind("/usr/lib/libm.so.6"), None);
    }

    #[test]
    fn a_step_of_the_wall_clock_is_named_and_a_slow_correction_is_not() {
        let before = WallClock::now();
        let after = |wall: i64, monotonic: u64| {
            let moved = Duration::from_millis(wall.unsigned_abs());
            let wall = if wall < 0 { before.wall - moved } else { before.wall + moved };
            let monotonic = before.monotonic + Duration::from_millis(monotonic);
            step(&before, &WallClock { wall, monotonic })
        };
        assert_eq!(after(60_900, 60_000), None);
        assert!(after(3_660_000, 60_000).is_some_and(|text| text.contains("by +3600.0 s")));
        assert!(after(-3_540_000, 60_000).is_some_and(|text| text.contains("by -3600.0 s")));
    }
}
