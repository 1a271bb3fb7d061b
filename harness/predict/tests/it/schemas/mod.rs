//! The schemas of the GPU Operator and of HAMi's values, derived by `ci/operator_schema.py`, and a
//! check against them.
//!
//! A file has a line for each property: path, type, accepted values. It lacks
//! `required`, because a merge patch and a file of values can leave out keys.

use serde_yaml_ng::{Mapping, Value};
use std::collections::BTreeMap;

struct Property {
    kind: &'static str,
    /// Accepted values, if they are listed.
    accepted: Option<Vec<String>>,
}

pub struct Schema(BTreeMap<&'static str, Property>);

impl Schema {
    /// The ClusterPolicy and the values of the Helm chart.
    pub fn gpu_operator() -> Self {
        Self::read(include_str!("gpu-operator.tsv"))
    }

    /// What `advise` sets of the values of HAMi's chart.
    pub fn hami() -> Self {
        Self::read(include_str!("hami.tsv"))
    }

    fn read(text: &'static str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        Self(lines.map(Self::property).collect())
    }

    fn property(line: &'static str) -> (&'static str, Property) {
        let mut columns = line.split('\t');
        let mut column = || columns.next().expect("three columns");
        let (path, kind, listed) = (column(), column(), column());
        let accepted =
            (listed != "-").then(|| serde_json::from_str(listed).expect("a list of values"));
        (path, Property { kind, accepted })
    }

    /// Name of the kind of object in `kubectl`.
    pub fn resource(&self) -> &str {
        self.0["ClusterPolicy"].kind
    }

    /// The first difference between the value and the schema at the path.
    pub fn problem(&self, path: &str, value: &Value) -> Option<String> {
        let Some(property) = self.0.get(path) else {
            return Some(format!("{path} is not in the schema"));
        };
        let fits = match property.kind {
            "object" => value.is_mapping(),
            "array" => value.is_sequence(),
            "string" => value.is_string(),
            "boolean" => value.is_bool(),
            "integer" => value.is_i64() || value.is_u64(),
            "int-or-string" => value.is_i64() || value.is_u64() || value.is_string(),
            other => {
                return Some(format!(
                    "{path} has the type {other}, which this check does not know"
                ));
            }
        };
        if !fits {
            return Some(format!("{path} is {value:?}, not of type {}", property.kind));
        }
        if let Some(accepted) = &property.accepted
            && !accepted.iter().any(|one| Some(one.as_str()) == value.as_str())
        {
            return Some(format!("{path} is {value:?}, not one of {accepted:?}"));
        }
        match value {
            Value::Mapping(map) => self.problem_in_object(path, map),
            Value::Sequence(items) => {
                let below = format!("{path}[]");
                items.iter().find_map(|item| self.problem(&below, item))
            }
            _ => None,
        }
    }

    fn problem_in_object(&self, path: &str, map: &Mapping) -> Option<String> {
        map.iter().find_map(|(key, value)| {
            let Some(key) = key.as_str() else {
                return Some(format!("{path} has the key {key:?}, which is not a string"));
            };
            let any = format!("{path}.*");
            if self.0.contains_key(any.as_str()) {
                return self.problem(&any, value);
            }
            // A dot in a key is not a step into an object.
            if key.contains('.') {
                return Some(format!("{path} has no key \"{key}\""));
            }
            self.problem(&format!("{path}.{key}"), value)
        })
    }
}
