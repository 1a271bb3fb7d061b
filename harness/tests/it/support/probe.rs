//! A short run of `matrix` with more to ask for than cells, on a virtual machine of one's own.

use std::path::Path;
use std::process::Stdio;

use crate::support::{Error, binary};
use gpubench_record::RunRecord;

/// The shortest run that goes through everything: six blocks of one resource.
const SHORT: &str = include_str!("../data/short.toml");

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
    let at = |what: &str| dir.join(format!("{name}{what}"));
    std::fs::write(at(".toml"), machine)?;
    std::fs::write(at("-profile.toml"), profile(own)?)?;
    let done = binary()
        .arg("matrix")
        .args(arguments)
        .arg("--device")
        .arg(format!("virtual:{}", at(".toml").display()))
        .arg("--profile")
        .arg(at("-profile.toml"))
        .arg("--out")
        .arg(at(""))
        .env("XDG_STATE_HOME", dir.join("state"))
        .stdin(Stdio::null())
        .output()?;
    if !done
        .status
        .code()
        .is_some_and(|code| statuses.contains(&code))
    {
        return Err(String::from_utf8_lossy(&done.stderr).into_owned().into());
    }
    let text = std::fs::read(at("").join("record.json"))?;
    Ok(serde_json::from_slice(&text)?)
}
