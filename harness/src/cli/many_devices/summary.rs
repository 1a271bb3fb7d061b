//! One line for each device of a run of several.

use std::path::Path;

use gpubench_record::{ExitCode, RunRecord, counted, excerpt};
use gpubench_show::{Page, Table};

use super::child::End;
use crate::error::{RECORD_BYTES_MAX, read_text};
use crate::verbs::targets::Target;

/// What stands for an unknown value.
const UNKNOWN: &str = "-";

/// The table, which fits into 80 columns, and below it the reasons of devices that did not run.
pub fn page(targets: &[Target], ends: &[End], out: &Path) -> Page {
    let ended = || targets.iter().zip(ends);
    let rows = ended().map(|(target, end)| row(target, end, &out.join(&target.folder)));
    let done = ends.iter().filter(|end| end.code() == ExitCode::Done);
    let mut page = Page::default();
    page.say(format!(
        "{} of {} done; records in {}",
        done.count(),
        counted(targets.len(), "GPU"),
        out.display()
    ));
    page.push(Table::plain(["GPU", "name", "status", "worst", "record"], rows));
    for (target, end) in ended() {
        if let End::Lost(reason) | End::Unstartable(reason) = end {
            page.say(format!("{}: {}", target.folder, excerpt(reason)));
        }
    }
    page
}

fn row(target: &Target, end: &End, folder: &Path) -> [String; 5] {
    let record = record(folder);
    let of_record = record.as_ref().map(|record| record.device.name.as_str());
    let name = of_record.unwrap_or(&target.name);
    let index = target.index;
    [
        index.map_or_else(|| UNKNOWN.to_owned(), |index| index.to_string()),
        excerpt(name.strip_prefix("NVIDIA ").unwrap_or(name)),
        status(end),
        record.as_ref().and_then(worst_level).unwrap_or_else(|| UNKNOWN.to_owned()),
        if folder.is_dir() { target.folder.clone() } else { UNKNOWN.to_owned() },
    ]
}

/// The scored record, if the run left one.
fn record(folder: &Path) -> Option<RunRecord> {
    let path = folder.join(gpubench_store::RECORD_FILE);
    let text = read_text("record", &path, RECORD_BYTES_MAX).ok()?;
    serde_json::from_str(&text).ok()
}

/// The lowest overall level of all mechanisms.
fn worst_level(record: &RunRecord) -> Option<String> {
    let levels = record.overall.iter().filter_map(|row| row.level.clone());
    levels.min()
}

fn status(end: &End) -> String {
    let words = match end {
        End::Code(ExitCode::Done) => return "done".to_owned(),
        End::NotStarted => return "not started".to_owned(),
        End::Killed(signal) => return format!("killed by signal {signal}"),
        End::Unstartable(_) => "not started",
        End::Lost(_) => "no answer",
        End::Code(code) => match code {
            ExitCode::Usage => "refused",
            ExitCode::NothingRan => "nothing ran",
            ExitCode::TrialFailed => "trial failed",
            ExitCode::OutputFailed => "not written",
            ExitCode::NotRestored => "not restored",
            ExitCode::HostLimit => "a limit of the host",
            ExitCode::Inconclusive => "inconclusive",
            ExitCode::Interrupted => "interrupted",
            _ => "internal error",
        },
    };
    format!("{words} ({})", end.code().code())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use gpubench_record::ExitCode;

    use gpubench_show::Look;

    use super::{Target, page, status};
    use crate::cli::many_devices::child::End;

    #[test]
    fn every_device_has_a_line_of_80_columns_with_its_end() {
        let target = |index: u32, folder: &str| Target {
            index: Some(index),
            name: "NVIDIA H100 80GB HBM3".to_owned(),
            device: String::new(),
            folder: folder.to_owned(),
            problem: None,
        };
        let targets = [target(0, "GPU-1a2b3c4d"), target(1, "index-1")];
        let ends = [End::Killed(9), End::Lost("the GPU is lost".to_owned())];
        let look = Look::new(Some(80), false);
        let text = page(&targets, &ends, Path::new("/nowhere")).text(look);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "0 of 2 GPUs done; records in /nowhere");
        assert!(lines[2].contains("H100 80GB HBM3") && lines[2].contains("killed by signal 9"));
        assert!(lines[3].contains("no answer (3)"), "{text}");
        assert_eq!(lines[4], "index-1: the GPU is lost");
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn each_status_has_its_number_where_it_is_not_done() {
        for code in ExitCode::BY_PRECEDENCE {
            let text = status(&End::Code(code));
            let has_number = text.contains(&format!("({})", code.code()));
            assert_eq!(has_number, code != ExitCode::Done, "{text}");
        }
    }
}
