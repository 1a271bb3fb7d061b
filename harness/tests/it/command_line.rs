//! The outputs of the built binary and its exit status.

use std::fs::OpenOptions;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{Error, Lab, TestResult, finish, program};

fn gpubench(line: &str) -> Command {
    crate::support::gpubench(line.split_whitespace())
}

fn run(line: &str) -> Result<(i32, String, String), Error> {
    let done = finish(gpubench(line))?;
    let code = done.code.ok_or("ended by a signal")?;
    Ok((code, done.stdout, done.stderr))
}

#[test]
fn usage_errors_end_with_two_and_print_nothing_on_stdout() -> TestResult {
    for line in [
        "plan --device virtual --victim-cmd=",
        "plan --device virtual --victim-reports lines",
        "plan --device virtual --profile no-such-profile",
    ] {
        let (code, stdout, stderr) = run(line)?;
        assert_eq!((code, stdout.as_str()), (2, ""), "gpubench {line}: {stderr}");
        assert!(!stderr.is_empty(), "gpubench {line}");
    }
    Ok(())
}

#[test]
fn a_wrong_word_on_the_command_line_is_named_with_what_is_accepted() -> TestResult {
    let folder = tempfile::tempdir()?;
    let place = folder.path().display();
    for (line, parts) in [
        (
            format!("history declare {place} x --at 2026-99-99T00:00:00Z"),
            &["2026-99-99", "calendar"][..],
        ),
        (
            format!("history prune {place} --before 2026-02-30T00:00:00Z"),
            &["2026-02-30", "calendar"],
        ),
        (format!("history prune {place}"), &["--keep <N>", "--before <TIME>"]),
        ("history prun".to_owned(), &["unknown folder or action of history \"prun\"", "prune"]),
        ("history declared x".to_owned(), &["\"declared\"", "known: declare, acknowledge, pin"]),
        (
            format!("diff {place} -- --full"),
            &["--full stands where a record is named", "before --"],
        ),
        ("outliers -- --by".to_owned(), &["--by stands where a record is named"]),
        (format!("history unpin {place} none"), &["unknown baseline \"none\" (known: none)"]),
    ] {
        let (code, stdout, stderr) = run(&line)?;
        assert_eq!((code, stdout.as_str()), (2, ""), "gpubench {line}: {stderr}");
        assert!(parts.iter().all(|part| stderr.contains(part)), "gpubench {line}: {stderr}");
    }
    assert_eq!(std::fs::read_dir(folder.path())?.count(), 0, "a wrong time was stored");
    let (code, _, stderr) = run(&format!(
        "pack --gpu H200-141 --tenant-memory-gb 9 --tenant-compute 0.1 -o {place}/none/file"
    ))?;
    assert_eq!(code, 5);
    assert!(stderr.contains("none/file: No such file or directory (os error 2)\n"), "{stderr}");
    assert!(stderr.contains("make its folder") && !stderr.contains(".gpubench-"), "{stderr}");
    Ok(())
}

#[test]
fn a_missing_driver_is_one_line_that_names_the_flag() -> TestResult {
    // The loader stops at a file that is not a library, so it does not find this host's driver.
    let folder = tempfile::tempdir()?;
    for name in ["libnvidia-ml.so.1", "libcuda.so", "libcuda.so.1"] {
        std::fs::write(folder.path().join(name), b"no library")?;
    }
    let out = folder.path().join("out");
    for line in ["plan --profile smoke", &format!("matrix --out {}", out.display())] {
        let mut command = gpubench(line);
        command.env("LD_LIBRARY_PATH", folder.path());
        let done = finish(command)?.ended_with(3)?;
        let errors = done.stderr.lines().filter(|line| line.starts_with("error: "));
        assert_eq!((errors.count(), done.stdout.as_str()), (1, ""), "{line}: {}", done.stderr);
        for part in ["error: no NVIDIA driver found", "--device virtual"] {
            assert!(done.stderr.contains(part), "{line}: {}", done.stderr);
        }
        assert!(!done.stderr.contains("panic"), "{line}: {}", done.stderr);
    }
    assert!(!out.exists(), "the output folder was created");
    Ok(())
}

/// A driver whose every answer is NVML_ERROR_UNKNOWN is there, and no GPU of it can be used.
#[test]
fn a_driver_that_does_not_start_is_not_called_missing() -> TestResult {
    let folder = tempfile::tempdir()?;
    let source = folder.path().join("driver.c");
    std::fs::write(
        &source,
        "int nvmlInit_v2(void) { return 999; }\n\
         int nvmlInitWithFlags(unsigned flags) { return (int)flags * 0 + 999; }\n",
    )?;
    let library = folder.path().join("libnvidia-ml.so.1");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
    assert!(compiler.status()?.success());
    let output = gpubench("plan --profile smoke").env("LD_LIBRARY_PATH", folder.path()).output()?;
    let stderr = String::from_utf8(output.stderr)?;
    assert_eq!((output.status.code(), output.stdout.len()), (Some(3), 0), "{stderr}");
    assert!(stderr.contains("the NVIDIA driver is installed and does not start"), "{stderr}");
    Ok(())
}

#[test]
fn too_little_device_time_is_a_usage_error_with_a_remedy() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("hasty.toml");
    std::fs::write(&path, "version = 1\ndevice_time = \"5s\"\n")?;
    let (code, _, stderr) = run(&format!(
        "plan --device virtual --mechanism exclusive --mechanism time-slicing --profile {}",
        path.display()
    ))?;
    assert_eq!(code, 2);
    assert!(stderr.contains("device_time 5s is too short for 176 cells"), "{stderr}");
    assert!(stderr.contains("hint: set device_time = \"60.72s\""), "{stderr}");
    Ok(())
}

#[test]
fn the_largest_seed_is_exact_in_json() -> TestResult {
    let two = "--mechanism exclusive --mechanism time-slicing --seed 18446744073709551615";
    let (_, json, _) = run(&format!("plan --device virtual --format json {two}"))?;
    let plan: serde_json::Value = serde_json::from_str(&json)?;
    assert_eq!(plan["plan"]["seed"], u64::MAX);
    assert_eq!(plan["plan"]["cells"].as_array().map(Vec::len), Some(216));
    Ok(())
}

#[test]
fn a_plan_is_one_screen_and_markdown_begins_with_the_answer() -> TestResult {
    for line in ["plan --device virtual", "plan --device virtual:hopper --profile nightly"] {
        let mut command = gpubench(line);
        command.env("COLUMNS", "80");
        let text = finish(command)?.ended_with(0)?.stdout;
        assert!(text.lines().count() <= 40, "{text}");
        for part in ["Virtual ", ", driver ", "EXCLUSIVE_PROCESS *", "*: device settings"] {
            assert!(text.contains(part) && !text.contains("; 2 more"), "{part}: {text}");
        }
        // A mechanism with cells is in no line of those that do not run.
        let (with_cells, rest) =
            text.split_once("\n\n").ok_or("a table")?.1.split_once("\n\n").ok_or("reasons")?;
        for line in rest.lines().filter_map(|line| line.strip_prefix("will not run: ")) {
            let label = line.split(':').next().unwrap_or(line);
            assert!(!with_cells.contains(&format!(" {label} ")), "{text}");
        }
    }
    let record = "../reports/examples/h100_580.159.04_matrix";
    let (_, brief, _) = run(&format!("report {record} --format md"))?;
    let at = ["## Answer", "## Matrix", "gpubench claims"].map(|part| brief.find(part));
    assert!(at.is_sorted() && at[0].is_some() && brief.len() < 15_000, "{brief}");
    let (_, full, _) = run(&format!("report {record} --format md --full"))?;
    assert!(full.len() > 50_000, "{}", full.len());
    Ok(())
}

#[test]
fn the_cells_of_a_plan_add_up_under_every_mechanism_alone() -> TestResult {
    for name in gpubench_catalogue::mechanism::names() {
        let line = format!("plan --device virtual --mechanism {name} --axis compute");
        let run = finish(gpubench(&line))?;
        // Some need a newer driver.
        if run.code != Some(0) {
            continue;
        }
        let all = run.stdout.lines().find_map(|line| line.split_once(" cells: "));
        let all: usize = all.ok_or("cells")?.0.parse()?;
        let table = run.stdout.split("\n\n").nth(1).ok_or("a table")?;
        let counts = table.lines().skip(1).map(|line| {
            let mut words = line.split("  ").map(str::trim).filter(|word| !word.is_empty());
            words.nth(1).and_then(|count| count.parse::<usize>().ok())
        });
        let sum: usize = counts.collect::<Option<Vec<_>>>().ok_or("counts")?.iter().sum();
        assert_eq!(sum, all, "{}", run.stdout);
        assert!(*name != "mig" || table.contains("(mps, as reference)"), "{table}");
    }
    Ok(())
}

#[test]
fn a_full_disk_ends_with_five_and_a_closed_pipe_with_zero() -> TestResult {
    let full = OpenOptions::new().write(true).open("/dev/full")?;
    let output = gpubench("list axes").stdout(full).stderr(Stdio::piped()).output()?;
    assert_eq!(output.status.code(), Some(5));
    assert!(String::from_utf8(output.stderr)?.starts_with("error: no space left"));
    for line in ["plan --device virtual --format json", "--help", "list axes"] {
        let (reader, writer) = std::io::pipe()?;
        drop(reader);
        let output = gpubench(line).stdout(writer).stderr(Stdio::piped()).output()?;
        let stderr = String::from_utf8(output.stderr)?;
        assert_eq!((output.status.code(), stderr.as_str()), (Some(0), ""), "gpubench {line}");
    }
    Ok(())
}

#[test]
fn a_running_virtual_gpu_shows_the_path_of_its_kernel_log() -> TestResult {
    let program = program().display();
    let line = format!("virtual-gpu exec --machine turing -- {program} virtual-gpu show");
    let (code, stdout, stderr) = run(&line)?;
    assert_eq!(code, 0, "{stderr}");
    let shown: Vec<&str> = stdout.lines().collect();
    assert_eq!(shown.len(), 3, "{stdout}");
    assert_eq!(shown[0], "machine     turing");
    let folder = shown[1].strip_prefix("folder      ").ok_or("a folder")?;
    let log = format!("kernel log  {folder}/kernel.log (0 lines)");
    assert_eq!(shown[2], log);
    Ok(())
}

#[test]
fn files_are_those_of_the_sources_and_are_not_replaced_unasked() -> TestResult {
    let dir = tempfile::tempdir()?;
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let write = |more: &str| run(&format!("files {} {more}", dir.path().display()));
    assert_eq!(write("")?.0, 0);
    let names = ["profiles/default.toml", "reports/schema/record.json", "ci/nightly/github.yml"];
    for name in names.iter().chain(&["reports/book/src/start.md", "ci/kubernetes/base/job.yaml"]) {
        assert_eq!(
            std::fs::read(dir.path().join(name))?,
            std::fs::read(root.join(name))?,
            "{name}"
        );
    }
    let mine = dir.path().join(names[0]);
    std::fs::write(&mine, "mine")?;
    assert!(write("")?.1.starts_with("0 files in "));
    assert_eq!(std::fs::read(&mine)?, b"mine");
    assert_eq!(write("--force")?.0, 0);
    assert_ne!(std::fs::read(&mine)?, b"mine");
    assert_eq!(run("files /dev/null/x")?.0, 5);
    Ok(())
}

// What packages need of the binary: completions, manual pages and the facts of the build.

#[test]
fn a_folder_of_records_names_them() -> TestResult {
    let (code, _, stderr) = run("report ../reports/examples")?;
    assert!(code == 2 && stderr.contains("records, such as ../reports/examples/"), "{stderr}");
    Ok(())
}

/// Bash ends a word at a colon; the other words are those of flags.
#[test]
fn bash_completes_the_values_of_flags() -> TestResult {
    let script = finish(gpubench("completions bash"))?.ended_with(0)?.stdout;
    for (words, wanted) in [
        ("plan --device virt", "virtual:h100-80"),
        ("plan --device virtual :", "h100-80"),
        ("plan --device virtual : h1", "h100-80"),
        ("report R --why mps/j", "mps/jitter"),
        ("report R --why mps-q", "mps-quota"),
        ("choose R --need no-ro", "no-root"),
        ("choose R --need bandwidth/d", "bandwidth/dram"),
        ("diff A B --vary dri", "driver"),
    ] {
        let last = words.split(' ').count();
        let ask = format!(
            "{script}\nCOMP_WORDS=(gpubench {words}); COMP_CWORD={last}\n\
             _gpubench_with_colons gpubench; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        let mut shell = Command::new("bash");
        shell.args(["--norc", "-c", &ask]).stdout(Stdio::piped());
        let found = finish(shell)?.ended_with(0)?.stdout;
        assert!(found.lines().any(|line| line == wanted), "{words}: {found}");
    }
    Ok(())
}

#[test]
fn completions_and_manual_pages_name_every_verb() -> TestResult {
    let bash = finish(gpubench("completions bash"))?.ended_with(0)?.stdout;
    let mut shell = Command::new("bash");
    shell.args(["-n", "-c", &bash]);
    finish(shell)?.ended_with(0)?;
    let dir = tempfile::tempdir()?;
    let mut pages = gpubench("man --output");
    pages.arg(dir.path());
    finish(pages)?.ended_with(0)?;
    let help = finish(gpubench("--help"))?.ended_with(0)?.stdout;
    let (verbs, _) = help.split_once("Options:").ok_or("no verbs")?;
    let mut count = 0;
    // Descriptions go on in lines that are indented further than verbs, headings not at all.
    let is_verb = |line: &&str| line.starts_with("  ") && !line.starts_with("   ");
    let verbs = verbs.lines().filter(is_verb);
    for verb in verbs.filter_map(|line| line.split_whitespace().next()) {
        assert!(bash.contains(verb), "{verb}");
        if verb != "help" {
            let page = std::fs::read_to_string(dir.path().join(format!("gpubench-{verb}.1")))?;
            assert!(page.contains(".TH") && page.contains(verb), "{verb}: {page}");
        }
        count += 1;
    }
    assert!(count > 15, "{help}");
    let page = finish(gpubench("man"))?.ended_with(0)?.stdout;
    assert!(page.contains("EXIT") || page.contains("Exit codes"), "{page}");
    Ok(())
}

#[test]
fn the_long_version_names_commit_compiler_and_target() -> TestResult {
    let long = finish(gpubench("--version"))?.ended_with(0)?.stdout;
    let starts: Vec<&str> = long.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(starts, ["gpubench", "commit", "built", "for"], "{long}");
    let short = finish(gpubench("-V"))?.ended_with(0)?.stdout;
    assert_eq!(short.lines().count(), 1, "{short}");
    Ok(())
}

/// The user of a container can be without a home: then there is no place that the next run knows.
#[test]
fn a_change_without_a_folder_for_its_journal_is_refused() -> TestResult {
    let lab = Lab::on("turing")?;
    let mut matrix = lab.matrix("out", &["--mechanism=mps"]);
    matrix.env_remove("HOME").env_remove("XDG_STATE_HOME");
    let stderr = finish(matrix)?.ended_with(2)?.stderr;
    assert!(stderr.contains("set XDG_STATE_HOME"), "{stderr}");
    let names: Result<Vec<_>, _> = std::fs::read_dir(lab.path(""))?
        .map(|entry| entry.map(|entry| entry.file_name()))
        .collect();
    let mut names = names?;
    names.sort();
    assert_eq!(names, ["short.toml"]);
    Ok(())
}

/// Nothing is measured that could not be kept, and a spread that cannot be kept is printed.
#[test]
fn a_spread_without_a_folder_is_not_measured() -> TestResult {
    let mut doctor = gpubench("doctor --device=virtual --calibrate --sessions=1");
    doctor.env_remove("HOME").env_remove("XDG_STATE_HOME");
    let stderr = finish(doctor)?.ended_with(2)?.stderr;
    assert!(!stderr.contains("session") && stderr.contains("set XDG_STATE_HOME"), "{stderr}");
    let lab = Lab::on("turing")?;
    let doctor = |more: &[&str]| {
        let args = ["doctor", "--format=json", "--profile=smoke", "--device"];
        let mut doctor = lab.gpubench(args);
        doctor.arg(lab.device()).args(more);
        finish(doctor)
    };
    let host: Value = serde_json::from_str(&doctor(&[])?.ended_with(0)?.stdout)?;
    let uuid = host["device"]["uuid"].as_str().ok_or("a UUID")?;
    // The place of the file is taken.
    std::fs::create_dir_all(lab.path(&format!("state/gpubench/spread/{uuid}.json")))?;
    let printed = doctor(&["--calibrate", "--sessions=1"])?.ended_with(2)?.stdout;
    let spread: Value = serde_json::from_str(&printed)?;
    assert_eq!(spread["sessions"].as_array().map(Vec::len), Some(1), "{printed}");
    Ok(())
}

/// A clock that is five seconds before 1970.
const OLD_CLOCK: &str = "#include <time.h>\n#include <sys/syscall.h>\n#include <unistd.h>\n\
     int clock_gettime(clockid_t id, struct timespec *at) {\n\
     if (id != CLOCK_REALTIME) return syscall(SYS_clock_gettime, id, at);\n\
     at->tv_sec = -5; at->tv_nsec = 0; return 0; }\n";

#[test]
fn a_limit_of_the_host_is_one_line_with_the_number_needed() -> TestResult {
    let lab = Lab::on("hopper")?;
    lab.write("clock.c", OLD_CLOCK)?;
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o", &lab.arg("clock.so"), &lab.arg("clock.c")]);
    finish(compiler)?.ended_with(0)?;
    let run = format!(
        "matrix --device {} --profile short.toml --mechanism exclusive --out out",
        lab.device()
    );
    let old_clock = format!("export LD_PRELOAD={}", lab.arg("clock.so"));
    let limited = |before: &str, line: &str| {
        let script = format!("{before}; exec {} {line}", program().display());
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).env("XDG_STATE_HOME", lab.path("state"));
        shell.current_dir(lab.path(""));
        finish(shell)
    };
    for (before, line, said) in [
        ("ulimit -n 32", "list axes", "open files is 32 files, and 64 are needed (ulimit -n)"),
        ("ulimit -n 80", &run, "open files is 80 files, and 96 are needed (ulimit -n)"),
        ("ulimit -v 1000000", "list axes", "address space is 1000000 KiB, and 2097152 are needed"),
        ("ulimit -v 9000000", &run, "address space is 9000000 KiB, and "),
        ("ulimit -d 9000", "list axes", "data is 9000 KiB, and 262144 are needed (ulimit -d)"),
        ("ulimit -d 300000", &run, "data is 300000 KiB, and 1048576 are needed (ulimit -d)"),
        ("ulimit -t 3", "list axes", "CPU time is 3 s, and 10 are needed (ulimit -t)"),
        ("ulimit -t 15", &run, "CPU time is 15 s, and "),
        ("ulimit -f 4000000", &run, "the size of a file is "),
        (&old_clock, "list axes", "the clock of this host is before 1970 (accepted: "),
    ] {
        let ended = limited(before, line)?.ended_with(7)?;
        let lines: Vec<&str> = ended.stderr.lines().collect();
        assert!(lines.len() == 1 && lines[0].contains(said), "{before}: {}", ended.stderr);
        assert!(!lab.path("out").exists(), "{before}");
    }
    // A limit that the host lets a process raise is none.
    limited("ulimit -Sn 32", &run)?.ended_with(0)?;
    Ok(())
}
