//! The published JSON Schema of profiles.

use serde_json::Value;

use super::Profile;

/// The schema of a profile file, as `profiles/schema.json` holds it.
pub fn schema() -> Value {
    let mut schema = schemars::schema_for!(Profile).to_value();
    // A file is laid over the default, so only its version is required.
    remove_required(&mut schema);
    if let Value::Object(root) = &mut schema {
        root.insert("required".to_owned(), serde_json::json!(["version"]));
    }
    sorted(&schema)
}

fn remove_required(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.remove("required");
            map.values_mut().for_each(remove_required);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_required),
        _ => {}
    }
}

// The hash of a profile: runs with equal hashes measure the same.

/// BLAKE3 over the profile and the kernels.
///
/// Covers every key of the resolved profile but `summary`, `seed`, `faults` and `margins`, so runs
/// in another random order measure the same, and a file that
/// sets a key to its default has the hash of a file without the key; and `ptx_hash`, which the
/// caller computes over the PTX.
pub fn profile_hash(profile: &Profile, ptx_hash: &str) -> String {
    // A checked profile holds finite numbers, texts and lists, so it always serializes.
    let mut written = serde_json::to_value(profile).unwrap_or(Value::Null);
    if let Value::Object(keys) = &mut written {
        for other in ["summary", "seed", "faults", "margins"] {
            keys.remove(other);
        }
    }
    let hashed = serde_json::json!({ "profile": written, "ptx": ptx_hash });
    let text = sorted(&hashed).to_string();
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

/// The same value with the keys of every table in order. With some features of `serde_json` maps
/// keep the order of insertion.
pub(crate) fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| key.as_str());
            entries.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect()
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        scalar => scalar.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::{profile_hash, sorted};
    use crate::profile::{Overrides, built_in, parse};

    fn hash_of(text: &str) -> Result<String, Box<dyn std::error::Error>> {
        let profile =
            parse("t.toml", text, &Overrides::default()).map_err(|error| format!("{error:?}"))?;
        Ok(profile_hash(&profile, "ptx"))
    }

    #[test]
    fn the_hash_depends_on_values_and_not_on_their_text() -> Result<(), Box<dyn std::error::Error>>
    {
        let plain = hash_of("version = 1")?;
        for same in [
            "# a comment\nversion = 1",
            "version = 1\nseed = 1",
            "version = 1\nseed = 2",
            "version = 1\nservice = \"1000us\"",
            "version = 1\nsummary = \"mine\"",
            "version = 1\n[faults]\ntrials = 59",
            "version = 1\n[margins]\nratio = 0.05",
        ] {
            assert_eq!(hash_of(same)?, plain, "{same}");
        }
        for other in [
            "version = 1\nservice = \"1001us\"",
            "version = 1\n[thresholds]\nretention_l3 = 0.96",
            "version = 1\n[time-slicing]\nslice = \"short\"",
        ] {
            assert_ne!(hash_of(other)?, plain, "{other}");
        }
        Ok(())
    }

    #[test]
    fn kernels_count_and_the_seed_does_not() -> Result<(), crate::profile::ProfileError> {
        let plain = built_in("default", &Overrides::default())?;
        let seeded = built_in("default", &Overrides { seed: Some(7), ..Overrides::default() })?;
        assert_ne!(profile_hash(&plain, "a"), profile_hash(&plain, "b"));
        assert_eq!(profile_hash(&plain, "a"), profile_hash(&seeded, "a"));
        Ok(())
    }

    #[test]
    fn keys_are_sorted() {
        let value = serde_json::json!({ "b": [1, { "d": 0.5, "c": "x" }], "a": null });
        assert_eq!(sorted(&value).to_string(), r#"{"a":null,"b":[1,{"c":"x","d":0.5}]}"#);
    }
}
