//! What the terminal shows: one screen, the same from `matrix` and `report`, plain in a pipe.

use std::process::Command;

use crate::support::{Error, TestResult, finish, gpubench};

/// Lines and columns of one screen.
const SCREEN: (usize, usize) = (40, 80);

fn printed(command: Command) -> Result<String, Error> {
    Ok(finish(command)?.ended_with(0)?.stdout)
}

/// The binary with these arguments behind `report DIR`.
fn report(dir: &str, more: &[&str]) -> Command {
    let mut command = gpubench(["report", dir]);
    command.args(more).env("COLUMNS", "80");
    command
}

#[test]
fn matrix_and_report_print_the_same_screen() -> TestResult {
    let folder = tempfile::tempdir()?;
    let dir = folder.path().join("out").display().to_string();
    let mut matrix = gpubench(["matrix", "--device", "virtual:turing", "--profile", "smoke"]);
    matrix.args(["--mechanism", "time-slicing", "--out", &dir]).env("COLUMNS", "80");
    let screen = printed(matrix)?;
    assert_eq!(screen, printed(report(&dir, &[]))?);
    let widest = screen.lines().map(|line| line.chars().count()).max();
    let size = (screen.lines().count(), widest.unwrap_or(0));
    // The path of a temporary folder has no joint to break it at.
    assert!(size.0 <= SCREEN.0 && size.1 <= SCREEN.1.max(dir.len()), "{size:?}\n{screen}");
    assert!(screen.starts_with("VIRTUAL GPU") && screen.contains("time-slicing"));

    let colored = printed(report(&dir, &["--color", "always"]))?;
    assert!(colored.contains("\u{1b}[31m"), "{colored}");
    let mut asked = report(&dir, &["--color", "always"]);
    asked.env("NO_COLOR", "1");
    assert!(printed(asked)?.contains('\u{1b}'), "a flag is stronger than NO_COLOR");
    for plain in [&[][..], &["--color", "never"], &["--full"], &["--why"]] {
        let text = printed(report(&dir, plain))?;
        assert!(!text.contains('\u{1b}'), "{plain:?}\n{text}");
        assert!(text.lines().all(|line| line.chars().count() <= SCREEN.1.max(dir.len() + 2)));
    }
    Ok(())
}

#[test]
fn a_refused_command_prints_nothing_on_stdout() -> TestResult {
    let folder = tempfile::tempdir()?;
    let record = "reports/examples/h100_580.159.04_matrix";
    let record = format!("{}/../{record}", env!("CARGO_MANIFEST_DIR"));
    let out = folder.path().join("out").display().to_string();
    for (args, reason) in [
        (vec!["report", &record, "--why", "nvlink"], "unknown mechanism of this record"),
        (vec!["report", &record, "--why", "mps/colour"], "unknown axis"),
        (vec!["report", &record, "--full", "--format", "csv"], "--format terminal"),
        (vec!["matrix", "--device", "virtual:none", "--out", &out], "none"),
        (vec!["matrix", "--device", "virtual", "--out", &record], "record"),
    ] {
        let done = finish(gpubench(&args))?;
        assert_eq!(done.stdout, "", "{args:?}");
        assert!(done.stderr.contains(reason), "{args:?}: {}", done.stderr);
    }
    Ok(())
}

#[test]
fn titles_are_those_of_reports() {
    assert_eq!(gpubench_compare::render::VIRTUAL_TITLE, gpubench_reports::format::VIRTUAL_TITLE);
}
