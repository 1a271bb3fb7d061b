//! A short run of `matrix` with more to ask for than cells, on a virtual machine of one's own.

use std::path::Path;

use super::{Error, SHORT, record, run_matrix};
use gpubench_record::RunRecord;

pub const HOPPER: &str = include_str!("../../../../profiles/machines/hopper.toml");

/// The shortest profile with these keys and tables in place of its own.
fn profile(own: &str) -> Result<String, Error> {
    let mut profile: toml::Table = SHORT.parse()?;
    profile.extend(own.parse::<toml::Table>()?);
    Ok(profile.to_string())
}

/// Runs `matrix` with these arguments on that machine, under the shortest profile but for what is
/// `own`, into the folder `name`. It may end with `statuses`.
pub fn matrix(
    dir: &Path,
    name: &str,
    machine: &str,
    own: &str,
    arguments: &[&str],
    statuses: &[i32],
) -> Result<RunRecord, Error> {
    let done = run_matrix(dir, name, machine, &profile(own)?, arguments)?;
    if !done.code.is_some_and(|code| statuses.contains(&code)) {
        return Err(done.text().into());
    }
    record(&dir.join(name))
}
