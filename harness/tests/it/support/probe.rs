//! Short runs of `matrix` with additions to the profile.

use std::path::Path;

use super::{Error, SHORT, record, run_matrix};
use gpubench_record::RunRecord;

pub const HOPPER: &str = include_str!("../../../../profiles/machines/hopper.toml");

/// The shortest profile with these keys and tables.
fn profile(changes: &str) -> Result<String, Error> {
    let mut profile: toml::Table = SHORT.parse()?;
    profile.extend(changes.parse::<toml::Table>()?);
    Ok(profile.to_string())
}

/// Runs `matrix` into the folder `name` with `changes` to the shortest profile. A status that is
/// not in `statuses` is an error.
pub fn matrix(
    dir: &Path,
    name: &str,
    machine: &str,
    changes: &str,
    arguments: &[&str],
    statuses: &[i32],
) -> Result<RunRecord, Error> {
    let done = run_matrix(dir, name, machine, &profile(changes)?, arguments)?;
    if !done.code.is_some_and(|code| statuses.contains(&code)) {
        return Err(done.text().into());
    }
    record(&dir.join(name))
}
