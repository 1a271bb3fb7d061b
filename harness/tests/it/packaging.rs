//! What packages need of the binary: completions, manual pages and the facts of the build.

use std::process::Command;

use crate::support::{TestResult, finish};

fn gpubench(line: &str) -> Command {
    crate::support::gpubench(line.split_whitespace())
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
    let (_, verbs) = help.split_once("Commands:").ok_or("no verbs")?;
    let verbs = verbs.lines().skip(1).take_while(|line| !line.trim().is_empty());
    let mut count = 0;
    // Descriptions go on in lines that are indented further.
    let verbs = verbs.filter(|line| !line.starts_with("   "));
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

/// The one for zsh also looks up every flag that another one excludes.
#[test]
fn every_shell_has_completions() -> TestResult {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let text = finish(gpubench(&format!("completions {shell}")))?.ended_with(0)?.stdout;
        assert!(text.contains("allow-reconfigure"), "{shell}: {text}");
    }
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
    let dir = tempfile::tempdir()?;
    let mut matrix = gpubench("matrix --device virtual --profile smoke --out out");
    matrix.current_dir(dir.path());
    matrix.env_remove("HOME").env_remove("XDG_STATE_HOME");
    let stderr = finish(matrix)?.ended_with(2)?.stderr;
    assert!(stderr.contains("set XDG_STATE_HOME"), "{stderr}");
    let names: Result<Vec<_>, _> =
        std::fs::read_dir(dir.path())?.map(|entry| entry.map(|entry| entry.file_name())).collect();
    assert_eq!(names?, ["out"]);
    Ok(())
}
