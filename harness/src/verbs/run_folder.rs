//! The folder of a run.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use gpubench_host::device::DeviceSelector;
use gpubench_judge::score;
use gpubench_plan::profile::Profile;
use gpubench_record::RunSettings;
use gpubench_run::rfc3339_now;
use gpubench_store::StoreError;
use gpubench_store::{EVENTS_FILE, RECORD_FILE};

use super::{HostOptions, Reconfigure, verdict};
use crate::error::ExpectedError;

/// The folder of a run without `--out`: a new one for each run.
pub fn default_path(profile: &str) -> PathBuf {
    let stamp = rfc3339_now().replace([':', '-'], "");
    PathBuf::from("gpubench-out").join(format!("{stamp}-{profile}-{}", std::process::id()))
}

/// The folder of a run, which no other run can use until this is dropped.
#[derive(Debug)]
pub struct RunFolder {
    _lock: Option<File>,
}

/// Checks that a folder holds no record and that no run uses it. Changes nothing.
pub fn check(out: &Path) -> Result<(), ExpectedError> {
    // A folder that does not exist is free; what else is wrong with it shows when it is made.
    // Opening a pipe in its place would wait for a writer.
    if !out.is_dir() {
        return Ok(());
    }
    match File::open(out) {
        Ok(folder) => lock(out, folder).map(|_| ()),
        Err(_) => Ok(()),
    }
}

/// Makes the folder and checks that it is free and writable, before anything is measured.
pub fn make(out: &Path) -> Result<RunFolder, ExpectedError> {
    let refused = |error| ExpectedError::from_write(out, error);
    std::fs::create_dir_all(out).map_err(refused)?;
    let folder = lock(out, File::open(out).map_err(refused)?)?;
    let file = out.join(".writable");
    std::fs::write(&file, b"").map_err(refused)?;
    std::fs::remove_file(&file).map_err(refused)?;
    Ok(folder)
}

/// Holds the folder of an interrupted run. Changes nothing.
pub fn hold(out: &Path) -> Result<RunFolder, ExpectedError> {
    let refused = |error: std::io::Error| ExpectedError::unreadable_record(out, error.to_string());
    locked(out, File::open(out).map_err(refused)?)
}

/// Locks the folder itself, so that no file is needed.
fn locked(out: &Path, folder: File) -> Result<RunFolder, ExpectedError> {
    let dir = out.to_path_buf();
    let lock = match folder.try_lock() {
        Ok(()) => Some(folder),
        Err(TryLockError::WouldBlock) => {
            return Err(verdict::from_store(out, StoreError::InUse { dir }));
        }
        // Some network file systems lock no folders. The events are locked too.
        Err(TryLockError::Error(_)) => None,
    };
    Ok(RunFolder { _lock: lock })
}

/// Locks the folder and checks that it holds no record.
fn lock(out: &Path, folder: File) -> Result<RunFolder, ExpectedError> {
    let dir = out.to_path_buf();
    let folder = locked(out, folder)?;
    let is_there = |name: &str| out.join(name).symlink_metadata().is_ok();
    if [RECORD_FILE, EVENTS_FILE].into_iter().any(is_there) {
        return Err(verdict::from_store(out, StoreError::Occupied { dir }));
    }
    let refused = |problem: String| {
        let accepted = "a new folder, or an empty one";
        ExpectedError::usage(
            format!("--out {}: {problem} (accepted: {accepted})", out.display()),
            None,
        )
    };
    if let Some(problem) = is_of_others(out) {
        return Err(refused(problem.to_owned()));
    }
    let entries = std::fs::read_dir(out).map_err(|error| refused(error.to_string()))?;
    // An empty file system has this folder.
    let names =
        entries.flatten().map(|entry| entry.file_name()).filter(|name| name != "lost+found");
    match names.min() {
        Some(name) => Err(refused(format!("it holds {}", name.display()))),
        None => Ok(folder),
    }
}

/// Refuses a folder that many records go to and that has other uses: `/`, the home folder, or a
/// file.
pub fn check_of_many(name: &str, dir: &Path) -> Result<(), ExpectedError> {
    let problem = match std::fs::metadata(dir) {
        Ok(found) if !found.is_dir() => Some("it is no folder"),
        Ok(_) => is_of_others(dir),
        Err(_) => None,
    };
    problem.map_or(Ok(()), |problem| {
        let dir = dir.display();
        let text = format!("{name} {dir}: {problem} (accepted: a folder for this alone)");
        Err(ExpectedError::usage(text, None))
    })
}

fn is_of_others(dir: &Path) -> Option<&'static str> {
    let is_home = || std::env::var_os("HOME").is_some_and(|home| is_same(dir, Path::new(&home)));
    match () {
        () if is_same(dir, Path::new("/")) => Some("it is the root of all files"),
        () if is_home() => Some("it is the home folder"),
        () => None,
    }
}

fn is_same(a: &Path, b: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    real(a).is_some() && real(a) == real(b)
}

// What a run writes about its command line, so that a later start can go on with it.

/// The settings of a run that begins.
pub fn of_run(
    profile: &Profile,
    options: &HostOptions,
    device: Option<&DeviceSelector>,
    ptx_hash: &str,
) -> Result<RunSettings, ExpectedError> {
    let json = serde_json::to_string(profile)
        .map_err(|error| ExpectedError::internal(format!("the profile of the run: {error}")))?;
    let hami_lib = options.hami_lib.as_deref();
    Ok(RunSettings {
        profile: json,
        rotation_run: profile.run,
        scoring: score::VERSION.to_owned(),
        ptx_hash: ptx_hash.to_owned(),
        device: device.map(ToString::to_string),
        hami_lib: hami_lib.map(|path| path.display().to_string()),
        may_reconfigure: match options.reconfigure {
            Reconfigure::OnVirtual => None,
            Reconfigure::Allowed => Some(true),
            Reconfigure::Refused => Some(false),
        },
        boot_id: boot_id(),
    })
}

/// The boot of this host, where it is readable.
pub fn boot_id() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use gpubench_plan::profile::load::names;
    use gpubench_plan::profile::{Overrides, restored};

    use super::{check, make, of_run};
    use crate::verbs::HostOptions;
    use crate::verbs::profile::load;

    #[test]
    fn a_folder_has_one_run_and_a_record_is_kept() -> Result<(), Box<dyn std::error::Error>> {
        let dir = tempfile::tempdir()?;
        let out = dir.path().join("out");
        check(&out)?;
        assert!(!out.exists(), "a check changes nothing");
        let first = make(&out)?;
        for refused in [check(&out), make(&out).map(|_| ())] {
            let error = refused.err().ok_or("a second run was accepted")?;
            assert_eq!(error.exit_code().code(), 2);
            assert!(error.to_string().contains("a run is still writing"), "{error}");
        }
        drop(first);
        drop(make(&out)?);
        std::fs::write(out.join("events.jsonl"), "")?;
        let error = check(&out).err().ok_or("a record was accepted")?;
        assert!(error.to_string().contains("already holds a record"), "{error}");
        Ok(())
    }

    #[test]
    fn every_profile_is_restored_from_its_settings() -> Result<(), Box<dyn std::error::Error>> {
        for name in names() {
            let overrides = Overrides {
                seed: Some(u64::MAX),
                rotation: Some(3),
                mechanisms: vec!["mps".to_owned()],
                ..Overrides::default()
            };
            let profile = load(name, &overrides)?;
            let settings = of_run(&profile, &HostOptions::default(), None, "ptx")?;
            let again = restored(&settings.profile, name, settings.rotation_run);
            assert_eq!(again.as_ref(), Some(&profile), "{name}");
        }
        assert_eq!(restored("{}", "default", 0), None);
        Ok(())
    }
}
