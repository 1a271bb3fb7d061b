//! The hash by which two runs know that the same was asked of them.

use serde_json::Value;

use super::Profile;

/// BLAKE3 over what was asked for and the kernels that answer it.
///
/// Covers every key of the resolved profile but `summary` and `faults`, so a file that writes out
/// a default hashes like one that leaves it out; and `ptx_hash`, which the caller computes over
/// the PTX.
#[must_use]
pub fn profile_hash(profile: &Profile, ptx_hash: &str) -> String {
    // A profile is plain numbers, texts and lists, all finite after the check: it serialises.
    let mut written = serde_json::to_value(profile).unwrap_or(Value::Null);
    if let Value::Object(keys) = &mut written {
        keys.remove("summary");
        keys.remove("faults");
    }
    let asked = serde_json::json!({ "profile": written, "ptx": ptx_hash });
    let text = sorted(&asked).to_string();
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

/// The same value with the keys of every table in order. A feature of a dependency may make maps
/// keep insertion order, so the order is made here.
pub(super) fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| key.as_str());
            entries
                .into_iter()
                .map(|(key, value)| (key.clone(), sorted(value)))
                .collect()
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        scalar => scalar.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Overrides, load, parse};
    use super::{profile_hash, sorted};

    fn hash_of(text: &str) -> Result<String, Box<dyn std::error::Error>> {
        let profile =
            parse("t.toml", text, &Overrides::default()).map_err(|error| format!("{error:?}"))?;
        Ok(profile_hash(&profile, "ptx"))
    }

    #[test]
    fn what_is_asked_counts_and_how_it_is_written_does_not()
    -> Result<(), Box<dyn std::error::Error>> {
        let plain = hash_of("version = 1")?;
        for same in [
            "# a comment\nversion = 1",
            "version = 1\nseed = 1",
            "version = 1\nservice = \"1000us\"",
            "version = 1\nsummary = \"mine\"",
            "version = 1\n[faults]\ntrials = 59",
        ] {
            assert_eq!(hash_of(same)?, plain, "{same}");
        }
        for other in [
            "version = 1\nseed = 2",
            "version = 1\nservice = \"1001us\"",
            "version = 1\n[thresholds]\nretention_l3 = 0.96",
            "version = 1\n[time-slicing]\nslice = \"short\"",
        ] {
            assert_ne!(hash_of(other)?, plain, "{other}");
        }
        Ok(())
    }

    #[test]
    fn kernels_and_overrides_count() -> Result<(), crate::error::ExpectedError> {
        let plain = load("default", &Overrides::default())?;
        let seeded = load(
            "default",
            &Overrides {
                seed: Some(7),
                ..Overrides::default()
            },
        )?;
        assert_ne!(profile_hash(&plain, "a"), profile_hash(&plain, "b"));
        assert_ne!(profile_hash(&plain, "a"), profile_hash(&seeded, "a"));
        Ok(())
    }

    #[test]
    fn keys_are_sorted() {
        let value = serde_json::json!({ "b": [1, { "d": 0.5, "c": "x" }], "a": null });
        assert_eq!(
            sorted(&value).to_string(),
            r#"{"a":null,"b":[1,{"c":"x","d":0.5}]}"#
        );
    }
}
