//! The catalogues of all rooms as rows of one shape, for `gpubench list`.

use serde_json::{Value, json};

use crate::axis::{self, AxisEntry};
use crate::catalogue;
use crate::profile::built_in;

/// One entry: the name, what it is, and everything else about it by key.
pub struct Row {
    /// The name that flags and profiles take.
    pub name: String,
    /// What it is, in one line.
    pub summary: String,
    /// The rest.
    pub details: Vec<(&'static str, Value)>,
}

/// Ways to share a GPU.
pub fn mechanisms() -> Vec<Row> {
    let row = |entry: &catalogue::MechanismEntry| {
        let options = entry.options.iter().map(|option| {
            json!({
                "key": option.key,
                "summary": option.summary,
                "accepted": option.accepted,
            })
        });
        Row {
            name: entry.name.to_owned(),
            summary: entry.summary.to_owned(),
            details: vec![
                ("group", json!(entry.group)),
                ("reconfigures", json!(entry.reconfigures)),
                ("options", Value::Array(options.collect())),
            ],
        }
    };
    catalogue::CATALOGUE.iter().map(row).collect()
}

/// What a tenant can do.
pub fn workloads() -> Vec<Row> {
    let row = |workload: &&dyn gpubench_workloads::load::Workload| Row {
        name: workload.name().to_owned(),
        summary: workload.summary().to_owned(),
        details: vec![
            ("role", json!(workload.role())),
            ("axis", json!(workload.sub_axis().axis().as_str())),
            ("sub_axis", json!(workload.sub_axis().as_str())),
            ("resource", json!(workload.resource())),
            ("unit", json!(workload.unit())),
            ("counter", json!(workload.counter())),
        ],
    };
    gpubench_workloads::load::CATALOGUE
        .iter()
        .map(row)
        .collect()
}

/// Scored dimensions.
pub fn axes() -> Vec<Row> {
    let sub = |entry: &AxisEntry| Row {
        name: entry.name.to_owned(),
        summary: entry.summary.to_owned(),
        details: vec![
            ("axis", json!(entry.sub_axis.axis().as_str())),
            ("sub_axis", json!(entry.sub_axis.as_str())),
            ("victim", json!(entry.victim)),
            ("aggressor", json!(entry.aggressor)),
            ("unit", json!(entry.unit)),
        ],
    };
    let jitter = Row {
        name: "jitter".to_owned(),
        summary: axis::JITTER_SUMMARY.to_owned(),
        details: vec![("axis", json!("jitter")), ("unit", json!("native medians"))],
    };
    axis::CATALOGUE.iter().map(sub).chain([jitter]).collect()
}

/// Profiles inside the binary.
pub fn profiles() -> Vec<Row> {
    let row = |entry: &built_in::BuiltIn| Row {
        name: entry.name.to_owned(),
        summary: entry.summary(),
        details: Vec::new(),
    };
    built_in::CATALOGUE.iter().map(row).collect()
}

/// Ways to render a record.
pub fn formats() -> Vec<Row> {
    let row = |format: &&dyn gpubench_reports::Format| Row {
        name: format.name().to_owned(),
        summary: format.summary().to_owned(),
        details: vec![("extension", json!(format.extension()))],
    };
    gpubench_reports::CATALOGUE.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use gpubench_record::Role;
    use gpubench_workloads::load;

    use crate::axis;

    #[test]
    fn every_axis_names_workloads_that_exist_and_fit() -> Result<(), load::LoadError> {
        for entry in axis::CATALOGUE {
            for (name, role) in [
                (entry.victim, Role::Victim),
                (entry.aggressor, Role::Aggressor),
            ] {
                let workload = load::find(name)?;
                assert_eq!(workload.role(), role, "{name}");
                assert_eq!(workload.sub_axis(), entry.sub_axis, "{name}");
            }
            assert_eq!(
                load::find(entry.victim)?.unit(),
                entry.unit,
                "{}",
                entry.name
            );
        }
        Ok(())
    }
}
