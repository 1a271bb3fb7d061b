//! Every error: one lowercase line, its exit code, and the facts that it must name.

use std::io::{Error, ErrorKind};
use std::path::PathBuf;

use gpubench_host::device::limits::LimitError;
use gpubench_host::mechanism::host::state_dir;
use gpubench_plan::profile::ProfileError;
use gpubench_record::ExitCode;

use super::ExpectedError;

fn one_of_each() -> Vec<(ExpectedError, u8)> {
    let mut all = before_a_run();
    all.extend(in_a_run());
    let resumed = ExpectedError::CannotResume {
        path: path(),
        differs: "driver: 580.1 before, 590.2 now".to_owned(),
    };
    all.push((resumed, 20));
    all
}

fn path() -> PathBuf {
    PathBuf::from("out")
}

fn busy() -> ExpectedError {
    ExpectedError::Busy { gpu: "GPU-1".to_owned(), holder: "process 1".to_owned() }
}

fn before_a_run() -> Vec<(ExpectedError, u8)> {
    let profile = ExpectedError::Profile(ProfileError {
        file: "mine.toml".to_owned(),
        line: Some(3),
        key: "axes".to_owned(),
        problem: "unknown axis \"l3\"".to_owned(),
        accepted: "compute, bandwidth".to_owned(),
    });
    let unreadable = ExpectedError::Unreadable {
        what: "profile",
        path: path(),
        source: Error::from(ErrorKind::NotFound),
    };
    let unknown = ExpectedError::UnknownName {
        kind: "format",
        name: "pdf".to_owned(),
        known: vec!["json".to_owned()],
    };
    vec![
        (profile, 2),
        (unreadable, 2),
        (unknown, 2),
        (ExpectedError::Usage { problem: "no axis left".to_owned(), remedy: None }, 2),
        (
            ExpectedError::NoBaseline {
                path: path(),
                problem: "no segment is long enough".to_owned(),
            },
            20,
        ),
        (ExpectedError::NoDriver { reason: "no /dev/nvidiactl".to_owned() }, 3),
        (ExpectedError::NoDevice { wanted: "7".to_owned(), found: vec![] }, 3),
        (
            ExpectedError::DevicesHidden {
                problem: "CUDA_VISIBLE_DEVICES=\"-1\" leaves none".to_owned(),
            },
            3,
        ),
        (ExpectedError::HostLimit(LimitError::Clock("before 1970")), 7),
        (ExpectedError::NothingRan { reason: "all waived".to_owned() }, 3),
        (
            ExpectedError::ProgramNotStarted {
                program: "trian".to_owned(),
                error: Error::from(ErrorKind::NotFound),
            },
            3,
        ),
        (
            ExpectedError::VictimProgram { problem: "the program ended: exit status 1".to_owned() },
            3,
        ),
        (busy(), 3),
    ]
}

fn in_a_run() -> Vec<(ExpectedError, u8)> {
    let stopped = ExpectedError::FaultTrialsStopped {
        reason: "Xid 79 requests a reset (in f0003)".to_owned(),
        not_run: 1,
        planned: 5,
    };
    let failed = ExpectedError::TrialFailed {
        failed: 1,
        cells: 9,
        first: "0001".to_owned(),
        reason: "victim killed by signal 9".to_owned(),
    };
    let problem = || "torn".to_owned();
    vec![
        (ExpectedError::from_write("out", Error::from(ErrorKind::PermissionDenied)), 5),
        (ExpectedError::from_write("out", Error::from(ErrorKind::StorageFull)), 5),
        (ExpectedError::RecordUnreadable { path: path(), problem: problem() }, 2),
        (ExpectedError::IncompatibleVersion { path: path(), problem: problem() }, 2),
        (failed, 4),
        (ExpectedError::RunFailed { problem: problem() }, 4),
        (ExpectedError::WatchFailed { problem: problem() }, 4),
        (busy().after_cells(), 4),
        (ExpectedError::RecordUnreadable { path: path(), problem: problem() }.after_cells(), 4),
        (ExpectedError::Interrupted { record: path() }.after_cells(), 130),
        (stopped, 4),
        (ExpectedError::NotRestored { what: "compute mode".to_owned() }, 6),
        (ExpectedError::Interrupted { record: path() }, 130),
        (ExpectedError::Internal { what: "an index out of range".to_owned() }, 1),
    ]
}

#[test]
fn every_error_is_one_lowercase_line_with_its_code() {
    for (error, code) in one_of_each() {
        let text = error.to_string();
        assert_eq!(error.exit_code().code(), code, "{text}");
        assert!(!text.contains('\n'), "{text}");
        assert!(!text.ends_with('.'), "{text}");
        // "GPU" is a name, not a sentence that begins with a capital.
        let capital = text.starts_with(char::is_uppercase) && !text.starts_with("GPU ");
        assert!(!capital, "{text}");
    }
}

#[test]
fn a_full_disk_and_a_forbidden_folder_are_different_errors() {
    let full = ExpectedError::from_write("out", Error::from(ErrorKind::StorageFull));
    assert!(matches!(full, ExpectedError::DiskFull { .. }));
    let refused = ExpectedError::from_write("out", Error::from(ErrorKind::PermissionDenied));
    assert!(matches!(refused, ExpectedError::NotWritable { .. }));
    assert_eq!(refused.exit_code(), ExitCode::OutputFailed);
    assert!(refused.hint().is_some_and(|hint| hint == "choose a place that this user may write"));
    // What is kept between runs has another place by a variable.
    let kept = state_dir().expect("a home").join("calibrations");
    let refused = ExpectedError::from_write(kept, Error::from(ErrorKind::PermissionDenied));
    assert!(refused.hint().is_some_and(|hint| hint.contains("set XDG_STATE_HOME")));
}

#[test]
fn a_missing_driver_names_the_virtual_gpu() {
    let text = ExpectedError::NoDriver { reason: "no libcuda".to_owned() }.to_string();
    assert!(text.starts_with("no NVIDIA driver found"));
    assert!(text.contains("--device virtual"));
}
