//! The checked-in PTX: compiled from its CUDA sources by one compiler version, byte for byte,
//! assembled for every supported architecture without spilled registers, and with few instructions
//! beside its work where a load must fill the issue slots.
//!
//! Needs `ci/install-cuda-wheels.sh`, but neither a GPU nor a toolkit.
#![expect(unsafe_code, reason = "calls NVRTC through its C interface")]

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_LAZY, Symbol};

use crate::tree::repository_root;

/// The NVRTC release. The oldest supported driver accepts its PTX (`.version 7.8`).
const NVRTC_RELEASE: (c_int, c_int) = (11, 8);

/// The virtual architecture of every kernel.
const ARCHITECTURE: &str = "--gpu-architecture=compute_70";

/// Assemblers by folder, with their targets. The newest supports Turing and later; the oldest
/// represents the compiler in the oldest supported driver.
const ASSEMBLERS: &[(&str, &[u32])] = &[
    ("ptxas-newest", &[75, 80, 86, 89, 90, 100, 103, 120, 121]),
    ("ptxas-oldest", &[70, 75, 80, 86, 89, 90]),
];

/// Kernels that may spill, with the reason. A listed kernel without spills is an error.
const SPILLING: &[(&str, &str)] = &[(
    "fault_stack",
    "a recursive function saves registers on the stack, which it overflows on purpose",
)];

/// The folder of `variants.cu`, whose kernels are not in the binary.
const HARDWARE: &str = "ci/hardware";

/// The least part of the instructions of a kernel's loop that must be its work: the kernel, the
/// opcode, the part. What else a loop issues takes slots from the pipe that the kernel saturates.
const ISSUE_SHARES: &[(&str, &str, f64)] = &[("fp32_chain", "FFMA", 0.97)];

/// Regenerates every PTX file, or with `check` fails on a difference; then assembles all files.
pub fn run(check: bool) -> Result<(), String> {
    let root = repository_root();
    let wheels = root.join("target/cuda-wheels");
    let nvrtc = Nvrtc::open(&wheels)?;
    let (sources, texts) = (root.join("kernels/cuda"), root.join("kernels/ptx"));
    let names = stems(&sources, "cu")?;
    let strays: Vec<_> =
        stems(&texts, "ptx")?.into_iter().filter(|name| !names.contains(name)).collect();
    if !strays.is_empty() {
        return Err(format!("PTX without a CUDA source: {}", strays.join(", ")));
    }
    let in_order = names.iter().map(|name| (name.as_str(), sources.as_path(), texts.as_path()));
    let hardware = root.join(HARDWARE);
    let variants = ("variants", hardware.as_path(), hardware.as_path());
    let (mut differing, mut made) = (Vec::new(), Vec::new());
    // In the order of names: NVRTC numbers calls across programs.
    for (name, source, target) in in_order.chain([variants]) {
        let source = read(&source.join(format!("{name}.cu")))?;
        let compiled = nvrtc.compile(name, &source)?;
        let path = target.join(format!("{name}.ptx"));
        if !check {
            fs::write(&path, compiled)
                .map_err(|e| format!("cannot write {}: {e}", path.display()))?;
        } else if fs::read(&path).ok().as_deref() != Some(compiled.as_bytes()) {
            differing.push(name);
        }
        made.push(path);
    }
    if !differing.is_empty() {
        return Err(format!(
            "PTX differs from its source: {} (run `gpubench-ci ptx` and commit)",
            differing.join(", ")
        ));
    }
    assemble_all(&wheels, &made)?;
    ISSUE_SHARES.iter().try_for_each(|&(name, opcode, least)| {
        let text = texts.join(format!("{name}.ptx"));
        check_issue_share(&wheels, &text, opcode, least)
    })
}

/// Disassembles a kernel for every target of the newest assembler and counts its loop.
fn check_issue_share(wheels: &Path, text: &Path, op: &str, least: f64) -> Result<(), String> {
    let (folder, targets) = ASSEMBLERS[0];
    let (ptxas, nvdisasm) = (find(wheels, folder, "ptxas")?, find(wheels, "nvdisasm", "nvdisasm")?);
    let cubin = wheels.join("kernel.cubin");
    let ran = |command: &mut Command| {
        let done = command.output().map_err(|e| format!("cannot start {command:?}: {e}"))?;
        match done.status.success() {
            true => Ok(String::from_utf8_lossy(&done.stdout).into_owned()),
            false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&done.stderr))),
        }
    };
    for target in targets {
        let arch = format!("-arch=sm_{target}");
        ran(Command::new(&ptxas).args([&arch, "-o"]).arg(&cubin).arg(text))?;
        let sass = ran(Command::new(&nvdisasm).arg("-c").arg(&cubin))?;
        let what = format!("{} for sm_{target}", text.display());
        match issue_share(&sass, op) {
            Some(share) if share >= least => {}
            Some(share) => {
                let [found, least] = [share, least].map(|share| 100.0 * share);
                return Err(format!("{what}: {found:.1} % of its loop is {op}, not {least:.0} %"));
            }
            None => return Err(format!("{what}: nvdisasm prints no loop with {op}")),
        }
    }
    fs::remove_file(&cubin).map_err(|e| format!("cannot remove {}: {e}", cubin.display()))
}

/// The part of the instructions that have this opcode, in the loop that has the most of them;
/// `None` without such a loop. A loop is what lies between a label and a later branch to it.
fn issue_share(sass: &str, opcode: &str) -> Option<f64> {
    let mut labels = Vec::new();
    let mut opcodes: Vec<&str> = Vec::new();
    let mut best = None;
    for line in sass.lines().map(str::trim) {
        if let Some(label) = line.strip_suffix(':') {
            labels.push((label, opcodes.len()));
        }
        // `/*01a0*/  @!P0 BRA `(.L_x_1) ;`
        let Some((_, code)) = line.strip_prefix("/*").and_then(|rest| rest.split_once("*/")) else {
            continue;
        };
        let mut words = code.split_whitespace().skip_while(|word| word.starts_with('@'));
        let Some(name) = words.next().map(|word| word.trim_end_matches(';')) else { continue };
        opcodes.push(name);
        let goal = code.split_once("`(").and_then(|(_, rest)| rest.split_once(')'));
        let from = goal.and_then(|(goal, _)| labels.iter().find(|(label, _)| *label == goal));
        if let Some((_, from)) = from.filter(|_| name.starts_with("BRA")) {
            let body = &opcodes[*from..];
            let all = body.iter().filter(|name| name.split('.').next() == Some(opcode)).count();
            best = best.max(Some((all, body.len())));
        }
    }
    best.filter(|(all, _)| *all > 0).map(|(all, length)| all as f64 / length as f64)
}

/// Assembles every file for every target, distributed over the cores.
fn assemble_all(wheels: &Path, texts: &[PathBuf]) -> Result<(), String> {
    let assemblers = ASSEMBLERS
        .iter()
        .map(|(folder, targets)| Ok((find(wheels, folder, "ptxas")?, *targets)))
        .collect::<Result<Vec<_>, String>>()?;
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let one = |text: &PathBuf| {
        assemblers.iter().try_for_each(|(ptxas, targets)| {
            targets.iter().try_for_each(|target| assemble(ptxas, text, *target))
        })
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..workers)
            .map(|worker| {
                scope.spawn(move || texts.iter().skip(worker).step_by(workers).try_for_each(one))
            })
            .collect();
        running.into_iter().try_for_each(|worker| {
            worker.join().map_err(|_| "a worker that assembled PTX panicked".to_owned())?
        })
    })
}

fn assemble(ptxas: &Path, text: &Path, target: u32) -> Result<(), String> {
    let done = Command::new(ptxas)
        .arg(format!("-arch=sm_{target}"))
        .args(["-v", "-o", "/dev/null"])
        .arg(text)
        .output()
        .map_err(|e| format!("cannot start {}: {e}", ptxas.display()))?;
    let output =
        String::from_utf8_lossy(&done.stderr).into_owned() + &String::from_utf8_lossy(&done.stdout);
    let what = format!("{} for sm_{target}", text.display());
    if !done.status.success() {
        return Err(format!("{what}: ptxas failed ({}): {}", done.status, output.trim()));
    }
    let stem = text.file_stem().map(OsStr::to_string_lossy).unwrap_or_default();
    let may_spill = SPILLING.iter().any(|(kernel, _)| *kernel == stem);
    match spilled_bytes(&output) {
        Some(0) if may_spill => Err(format!("{what}: no spills, so remove it from SPILLING")),
        Some(0) => Ok(()),
        Some(_) if may_spill => Ok(()),
        Some(bytes) => Err(format!("{what}: {bytes} bytes of spills, none are allowed")),
        None => Err(format!("{what}: ptxas reports no spills: {}", output.trim())),
    }
}

/// The sum of spill stores and loads in the output of `ptxas -v`; `None` without such a line.
fn spilled_bytes(output: &str) -> Option<u64> {
    let words: Vec<&str> = output.split_whitespace().collect();
    let spills = words.windows(4).filter_map(|w| match *w {
        [count, "bytes", "spill", _] => count.parse::<u64>().ok(),
        _ => None,
    });
    spills.fold(None, |sum, bytes| Some(sum.unwrap_or(0) + bytes))
}

/// Stems of the files with an extension in a folder, in order.
fn stems(folder: &Path, extension: &str) -> Result<Vec<String>, String> {
    let unreadable = |e| format!("cannot read {}: {e}", folder.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension() == Some(OsStr::new(extension)) {
            names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|e| format!("cannot read {}: {e}", path.display()))
}

/// The file of a wheel with this prefix. Folders differ between versions.
fn find(wheels: &Path, wheel: &str, start: &str) -> Result<PathBuf, String> {
    let mut folders = vec![wheels.join(wheel)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if entry.file_name().to_string_lossy().starts_with(start) {
                return Ok(path);
            }
        }
    }
    Err(format!("no {start} under {}: run ci/install-cuda-wheels.sh", wheels.join(wheel).display()))
}

type Program = *mut c_void;

/// The entry points of NVRTC in use (nvrtc.h of CUDA 11.8).
struct Nvrtc {
    create: Symbol<
        unsafe extern "C" fn(
            *mut Program,
            *const c_char,
            *const c_char,
            c_int,
            *const *const c_char,
            *const *const c_char,
        ) -> c_int,
    >,
    compile: Symbol<unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int>,
    ptx_size: Symbol<unsafe extern "C" fn(Program, *mut usize) -> c_int>,
    ptx: Symbol<unsafe extern "C" fn(Program, *mut c_char) -> c_int>,
    log_size: Symbol<unsafe extern "C" fn(Program, *mut usize) -> c_int>,
    log: Symbol<unsafe extern "C" fn(Program, *mut c_char) -> c_int>,
    destroy: Symbol<unsafe extern "C" fn(*mut Program) -> c_int>,
    /// NVRTC opens it by its bare name, which works only while it is loaded.
    _builtins: Library,
    _library: Library,
}

impl Nvrtc {
    fn open(wheels: &Path) -> Result<Self, String> {
        let builtins = open_library(&find(wheels, "nvrtc", "libnvrtc-builtins.so")?)?;
        let library = open_library(&find(wheels, "nvrtc", "libnvrtc.so")?)?;
        let missing = |e| format!("not an NVRTC library: {e}");
        let version: Symbol<unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int> =
            // SAFETY: the signature of this name in nvrtc.h.
            unsafe { library.get(b"nvrtcVersion\0") }.map_err(missing)?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: writes two ints.
        let code = unsafe { version(&raw mut major, &raw mut minor) };
        if code != 0 || (major, minor) != NVRTC_RELEASE {
            return Err(format!(
                "NVRTC {major}.{minor} (code {code}) in {}, but the PTX is made by {}.{}",
                wheels.display(),
                NVRTC_RELEASE.0,
                NVRTC_RELEASE.1
            ));
        }
        // SAFETY: each symbol has the signature of its name in nvrtc.h, and the library lives as
        // long as the pointers.
        unsafe {
            Ok(Self {
                create: library.get(b"nvrtcCreateProgram\0").map_err(missing)?,
                compile: library.get(b"nvrtcCompileProgram\0").map_err(missing)?,
                ptx_size: library.get(b"nvrtcGetPTXSize\0").map_err(missing)?,
                ptx: library.get(b"nvrtcGetPTX\0").map_err(missing)?,
                log_size: library.get(b"nvrtcGetProgramLogSize\0").map_err(missing)?,
                log: library.get(b"nvrtcGetProgramLog\0").map_err(missing)?,
                destroy: library.get(b"nvrtcDestroyProgram\0").map_err(missing)?,
                _builtins: builtins,
                _library: library,
            })
        }
    }

    /// Compiles one source to PTX; warnings are errors.
    fn compile(&self, name: &str, source: &str) -> Result<String, String> {
        let nul = |_| format!("{name}.cu contains a NUL byte");
        let text = CString::new(source).map_err(nul)?;
        let file = CString::new(format!("{name}.cu")).map_err(nul)?;
        let option = CString::new(ARCHITECTURE).map_err(nul)?;
        let none = std::ptr::null();
        let mut program: Program = std::ptr::null_mut();
        // SAFETY: two NUL-terminated texts, and no headers.
        let created =
            unsafe { (self.create)(&raw mut program, text.as_ptr(), file.as_ptr(), 0, none, none) };
        if created != 0 {
            return Err(format!("nvrtcCreateProgram returned {created} for {name}.cu"));
        }
        let options = [option.as_ptr()];
        // SAFETY: the program was created above; one option, a NUL-terminated text.
        let compiled = unsafe { (self.compile)(program, 1, options.as_ptr()) };
        let log = text_of(program, &self.log_size, &self.log);
        let ptx = text_of(program, &self.ptx_size, &self.ptx);
        // SAFETY: created above, destroyed once.
        let destroyed = unsafe { (self.destroy)(&raw mut program) };
        let log = log.map_err(|code| format!("{name}.cu: no log (NVRTC code {code})"))?;
        if compiled != 0 || !log.trim().is_empty() {
            return Err(format!("{name}.cu: NVRTC returned {compiled}: {}", log.trim()));
        }
        if destroyed != 0 {
            return Err(format!("nvrtcDestroyProgram returned {destroyed} for {name}.cu"));
        }
        ptx.map_err(|code| format!("{name}.cu: no PTX (NVRTC code {code})"))
    }
}

fn open_library(path: &Path) -> Result<Library, String> {
    // SAFETY: runs the initialisers of a library from the wheels of this repository.
    unsafe { Library::open(Some(path), RTLD_LAZY | RTLD_GLOBAL) }
        .map_err(|e| format!("cannot load {}: {e}", path.display()))
}

/// A text of a program: NVRTC reports its size with the NUL, then writes it.
fn text_of(
    program: Program,
    size: &Symbol<unsafe extern "C" fn(Program, *mut usize) -> c_int>,
    get: &Symbol<unsafe extern "C" fn(Program, *mut c_char) -> c_int>,
) -> Result<String, c_int> {
    let mut bytes = 0_usize;
    // SAFETY: the program is alive; writes one size.
    match unsafe { size(program, &raw mut bytes) } {
        0 => {}
        code => return Err(code),
    }
    let mut text = vec![0_u8; bytes + 1];
    // SAFETY: the buffer has the reported size and one byte more.
    match unsafe { get(program, text.as_mut_ptr().cast()) } {
        0 => {}
        code => return Err(code),
    }
    let text = CStr::from_bytes_until_nul(&text).unwrap_or_default();
    Ok(text.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spills_are_added_up_over_functions() {
        let clean = "ptxas info: Function properties for spin\n    0 bytes stack frame, \
        0 bytes spill stores, 0 bytes spill loads\nptxas info: Used 12 registers";
        let spilling = "8 bytes stack frame, 16 bytes spill stores, 4 bytes spill loads\n\
        0 bytes stack frame, 0 bytes spill stores, 2 bytes spill loads";
        assert_eq!(spilled_bytes(clean), Some(0));
        assert_eq!(spilled_bytes(spilling), Some(22));
        assert_eq!(spilled_bytes("ptxas info: Used 12 registers"), None);
    }

    #[test]
    fn the_loop_with_the_most_of_an_opcode_counts() {
        let sass = ".L_x_1:\n /*01a0*/ FFMA R13, R13, UR7, R4.reuse ;\n /*01b0*/ FFMA.SAT R1 ;\n \
            /*01c0*/ UIADD3 UR4, UR4, 0x1, URZ ;\n /*01d0*/ @!P0 BRA `(.L_x_1) ;\n /*01e0*/ FFMA \
            R1 ;\n .L_x_2:\n /*01f0*/ BRA `(.L_x_2);\n";
        assert_eq!(issue_share(sass, "FFMA"), Some(0.5));
        assert_eq!(issue_share(sass, "DFMA"), None);
    }

    #[test]
    fn a_missing_wheel_names_the_remedy() {
        let nowhere = std::env::temp_dir().join("gpubench-no-such-wheels");
        let error = find(&nowhere, "nvrtc", "libnvrtc.so").expect_err("nothing there");
        assert!(error.ends_with("run ci/install-cuda-wheels.sh"), "{error}");
    }
}
