//! Records of every format version that is read, through `diff`, `history` and `report`: each is
//! compared with itself without a regression, and rendered in every format, as scored and scored
//! again.

use std::path::{Path, PathBuf};

use gpubench::judge::{Repair, open_scored, rescore, session::sessions};
use gpubench_compare::diff::{Options, Report, diff};
use gpubench_compare::history::History;
use gpubench_compare::render::{self, Detail, Format, HistoryFormat};
use gpubench_record::ExitCode;
use gpubench_reports::{RenderOptions, format};

use crate::support::{Error, TestResult};

const VERSIONS: [&str; 2] = ["1.0", "2.3"];
const KINDS: [&str; 2] = ["real", "virtual"];

/// A record as a version wrote it, in a folder of its own.
fn record(dir: &Path, kind: &str, version: &str) -> Result<PathBuf, Error> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reports/golden");
    let folder = dir.join(format!("{kind}-{version}"));
    std::fs::create_dir(&folder)?;
    let file = golden.join(format!("{kind}.format-{version}.json"));
    std::fs::copy(file, folder.join("record.json"))?;
    Ok(folder)
}

fn compared(before: &Path, after: &Path, options: &Options) -> Result<Report, Error> {
    let side = |path: &Path| sessions(&[path.to_path_buf()]);
    Ok(diff(&side(before)?.sessions, &side(after)?.sessions, options)?)
}

#[test]
fn a_record_of_every_version_is_compared_and_rendered() -> TestResult {
    let dir = tempfile::tempdir()?;
    for kind in KINDS {
        for version in VERSIONS {
            let folder = record(dir.path(), kind, version)?;
            let report = compared(&folder, &folder, &Options::default())?;
            assert!(report.comparable, "{kind} {version}: {:?}", report.differences);
            assert_eq!(report.counts.regressed, 0, "{kind} {version}");
            for (name, format) in Format::ALL {
                let text = render::diff(&report, format, Detail::Full)?;
                assert!(text.len() > 100, "{kind} {version} as {name}: {text}");
            }
            let mut run = open_scored(&folder, Repair::No)?.run;
            for scored in ["as the run was scored", "scored again"] {
                for format in format::CATALOGUE {
                    let mut text = Vec::new();
                    format.render(&run, &RenderOptions::default(), &mut text)?;
                    let said = (kind, version, scored, format.name());
                    assert!(text.len() > 100, "{said:?}");
                }
                rescore(&mut run, &[])?;
            }
        }
    }
    Ok(())
}

/// Records of different versions are compared only on demand: their scoring differs.
#[test]
fn versions_beside_each_other_give_a_history_and_no_regression() -> TestResult {
    let dir = tempfile::tempdir()?;
    for kind in KINDS {
        let mut folders = Vec::new();
        for version in VERSIONS {
            folders.push(record(dir.path(), kind, version)?);
        }
        for pair in folders.windows(2) {
            let strict = compared(&pair[0], &pair[1], &Options::default())?;
            let refused = strict.exit == ExitCode::NotComparable.code();
            assert!(strict.comparable || refused, "{pair:?}: {}", strict.exit);
            let options = Options { force: true, ..Options::default() };
            let forced = compared(&pair[0], &pair[1], &options)?;
            assert!(forced.comparable && forced.counts.regressed == 0, "{pair:?}");
        }
        let found = sessions(&folders)?;
        assert_eq!(found.sessions.len(), VERSIONS.len());
        let history = History::of(&found.sessions, found.left_out, &[], None)?;
        for (name, format) in HistoryFormat::ALL {
            let text = render::history(&history, format)?;
            assert!(text.contains(kind) || text.len() > 100, "{name}: {text}");
        }
    }
    Ok(())
}
