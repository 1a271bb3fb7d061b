//! The published schemas of what verbs print as JSON.

/// A schema: draft 2020-12 of JSON Schema.
#[derive(Debug, Clone, Copy)]
pub struct Published {
    pub name: &'static str,
    /// The version of the format; another one breaks readers.
    pub version: u32,
    /// The command lines that print it, with `--format json`.
    pub printed_by: &'static str,
    pub text: &'static str,
}

macro_rules! published {
    ($($name:literal $version:expr, $by:literal;)*) => {
        &[$(Published {
            name: $name,
            version: $version,
            printed_by: $by,
            text: include_str!(concat!("../schema/", $name, ".json")),
        }),*]
    };
}

pub const ALL: &[Published] = published! {
    "record" 2, "matrix, nightly, report; record.json (format_version)";
    "plan" 2, "plan (plan_format)";
    "rehearsal" 2, "plan --rehearse (rehearsal_format)";
    "choose" 1, "choose (format)";
    "claims" 2, "claims (claims_format)";
    "diff" 2, "diff (diff_format)";
    "history" 2, "history (history_format)";
    "pins" 1, "history pins (pins_format)";
    "prune" 1, "history prune (prune_format)";
    "compare" 1, "compare (compare_format)";
    "outliers" 1, "outliers (outliers_format)";
    "doctor" 2, "doctor (doctor_format)";
    "spread" 1, "doctor --calibrate (version)";
    "watch" 1, "watch --events (version of its first line)";
    "export" 1, "export (export_format)";
    "cleanup" 1, "cleanup (cleanup_format)";
    "list" 2, "list (list_format)";
    "schemas" 2, "schemas (schemas_format)";
    "advise" 2, "advise (advise_format)";
    "simulate" 2, "simulate (simulate_format)";
    "pack" 2, "pack (pack_format)";
    "virtual-gpu" 2, "virtual-gpu list (virtual_gpu_format)";
    "fidelity" 1, "virtual-gpu fidelity (fidelity_format)";
};

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::ALL;

    /// The descriptions of figures in a schema: objects with both parts of an interval and a unit.
    fn figures<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
        if ["stat_lo", "unit"].iter().all(|name| value["properties"].get(name).is_some()) {
            found.push(value);
        }
        let parts = value.as_object().into_iter().flat_map(|object| object.values());
        parts.chain(value.as_array().into_iter().flatten()).for_each(|one| figures(one, found));
    }

    /// A figure has an interval, a range, or one bound.
    #[test]
    fn every_schema_of_a_figure_allows_each_of_its_forms() -> Result<(), serde_json::Error> {
        let mut count = 0;
        for published in ALL {
            let schema: Value = serde_json::from_str(published.text)?;
            let mut found = Vec::new();
            figures(&schema, &mut found);
            count += found.len();
            for one in found {
                let required = one["required"].as_array().into_iter().flatten();
                let required: Vec<&str> = required.filter_map(Value::as_str).collect();
                let of_one_form = ["lo", "hi", "range", "at_least", "stat_lo", "sys_lo"];
                let extra = required.iter().find(|name| of_one_form.contains(name));
                assert_eq!(extra, None, "{}", published.name);
                for name in ["range", "at_least"] {
                    assert!(one["properties"].get(name).is_some(), "{}: {name}", published.name);
                }
            }
        }
        assert!(count > 3, "{count}");
        Ok(())
    }
}
