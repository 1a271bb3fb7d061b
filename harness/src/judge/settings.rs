//! What a run writes about its command line, so that a later start can go on with it.

use gpubench_record::RunSettings;

use super::{HostOptions, Reconfigure};
use crate::device::DeviceSelector;
use crate::error::ExpectedError;
use crate::profile::Profile;
use crate::score;

/// The settings of a run that begins.
///
/// # Errors
/// When the profile has no JSON form, which is a bug.
pub fn of_run(
    profile: &Profile,
    options: &HostOptions,
    device: Option<&DeviceSelector>,
    ptx_hash: &str,
) -> Result<RunSettings, ExpectedError> {
    let json = serde_json::to_string(profile).map_err(|error| ExpectedError::Internal {
        what: format!("the profile of the run: {error}"),
    })?;
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
#[must_use]
pub fn boot_id() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::of_run;
    use crate::judge::HostOptions;
    use crate::profile::built_in::CATALOGUE;
    use crate::profile::{Overrides, load, restored};

    #[test]
    fn every_profile_is_restored_from_its_settings() -> Result<(), Box<dyn std::error::Error>> {
        for entry in CATALOGUE {
            let overrides = Overrides {
                seed: Some(u64::MAX),
                rotation: Some(3),
                mechanisms: vec!["mps".to_owned()],
                ..Overrides::default()
            };
            let profile = load(entry.name, &overrides)?;
            let settings = of_run(&profile, &HostOptions::default(), None, "ptx")?;
            let again = restored(&settings.profile, entry.name, settings.rotation_run);
            assert_eq!(again.as_ref(), Some(&profile), "{}", entry.name);
        }
        assert_eq!(restored("{}", "default", 0), None);
        Ok(())
    }
}
