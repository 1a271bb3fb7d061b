//! The profile that the user named: a built-in one, or a file.

use std::path::Path;

use gpubench_plan::profile::load::names;
use gpubench_plan::profile::{Overrides, Profile, built_in, parse};

use crate::error::{ExpectedError, WRITTEN_BYTES_MAX, read_text};

pub fn load(name_or_path: &str, overrides: &Overrides) -> Result<Profile, ExpectedError> {
    if names().any(|name| name == name_or_path) {
        return Ok(built_in(name_or_path, overrides)?);
    }
    let path = Path::new(name_or_path);
    let is_path = name_or_path.contains('/') || name_or_path.ends_with(".toml") || path.exists();
    if !is_path {
        let known = names().chain(["or the path of a .toml file"]).map(str::to_owned).collect();
        let name = name_or_path.to_owned();
        return Err(ExpectedError::UnknownName { kind: "profile", name, known });
    }
    let text = read_text("profile", path, WRITTEN_BYTES_MAX)?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut profile = Profile { name, ..parse(name_or_path, &text, overrides)? };
    if other_key(&profile).is_some() {
        profile.name += ".toml";
    }
    Ok(profile)
}

/// Keys that flags of the command line set, and the text for lists.
const OF_FLAGS: [&str; 7] =
    ["mechanisms", "axes", "seed", "user-victim", "device_time", "faults", "summary"];

/// The first key in which a profile with the name of a built-in one is another than that.
pub fn other_key(profile: &Profile) -> Option<String> {
    let built_in = built_in(&profile.name, &Overrides::default()).ok()?;
    let values = |profile: &Profile| serde_json::to_value(profile).unwrap_or_default();
    let (own, known) = (values(profile), values(&built_in));
    // A key with its usual value is not written.
    let keys = known.as_object()?.keys().chain(own.as_object()?.keys());
    let mut keys = keys.filter(|key| !OF_FLAGS.contains(&key.as_str()));
    keys.find(|key| own.get(key) != known.get(key)).cloned()
}

#[cfg(test)]
mod tests {
    use gpubench_plan::profile::Overrides;

    use super::load;
    use crate::error::ExpectedError;

    const OTHER: &str = "version = 1\n[thresholds]\nretention_l3 = 0.9\n";

    #[test]
    fn a_file_is_found_by_its_path_and_named_after_it() -> Result<(), Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("nights.toml");
        std::fs::write(&path, "version = 1\nseed = 9\n")?;
        let profile = load(&path.to_string_lossy(), &Overrides::default())?;
        assert_eq!((profile.name.as_str(), profile.seed), ("nights", 9));
        // A file is a built-in profile by its values, not by its name.
        let named = folder.path().join("default.toml");
        for (text, name) in [("version = 1\nseed = 9\n", "default"), (OTHER, "default.toml")] {
            std::fs::write(&named, text)?;
            let profile = load(&named.to_string_lossy(), &Overrides::default())?;
            assert_eq!(profile.name, name);
        }
        std::fs::write(&path, [0xff, 0xfe])?;
        let garbage = load(&path.to_string_lossy(), &Overrides::default());
        assert!(matches!(garbage, Err(ExpectedError::Unreadable { .. })));
        let missing = load("no/such.toml", &Overrides::default());
        assert!(matches!(missing, Err(ExpectedError::Unreadable { .. })));
        let unknown = load("nightly-x", &Overrides::default()).map_err(|error| error.to_string());
        let line = "unknown profile \"nightly-x\" (known: default, smoke, nightly, weekly, \
                    online-inference, notebooks, batch-training, student-lab, saas-hostile, \
                    oversubscription, scaling, pairs, equal, shares, depth, \
                    load-curve, transients, energy, attribution, claims, or the path of a \
                    .toml file)";
        assert_eq!(unknown, Err(line.to_owned()));
        Ok(())
    }
}
