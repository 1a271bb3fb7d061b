//! `gpubench schemas`: what verbs print as JSON, each with its schema and version.

use gpubench_record::ExitCode;
use gpubench_reports::schemas::ALL;
use gpubench_show::Table;
use serde_json::{Map, Value, json};

use super::common::{OutputFlag, TextFormat, exit_codes_help, versioned_json};
use super::ui::Ui;
use crate::error::ExpectedError;

pub const EXIT_CODES: &[ExitCode] =
    &[ExitCode::Done, ExitCode::Internal, ExitCode::Usage, ExitCode::OutputFailed];

/// Lists the schemas of what verbs print as JSON, or prints one of them
#[derive(Debug, clap::Args)]
#[command(after_long_help = exit_codes_help(EXIT_CODES))]
pub struct Args {
    /// Name of a schema; without one all are listed
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Output format of the list
    #[arg(long, value_enum, default_value = "text")]
    format: TextFormat,
    #[command(flatten)]
    output: OutputFlag,
}

pub fn run(args: &Args, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    let text = match &args.name {
        Some(name) => {
            let unknown = || ExpectedError::UnknownName {
                kind: "schema",
                name: name.clone(),
                known: ALL.iter().map(|one| one.name.to_owned()).collect(),
            };
            ALL.iter().find(|one| one.name == name).ok_or_else(unknown)?.text.to_owned()
        }
        None if args.format == TextFormat::Json => {
            let all = ALL.iter().map(|one| {
                json!({ "name": one.name, "version": one.version, "printed_by": one.printed_by })
            });
            versioned_json("schemas", &all.collect::<Vec<_>>())?
        }
        None => {
            let rows = ALL.iter().map(|one| {
                [one.name.to_owned(), one.version.to_string(), one.printed_by.to_owned()]
            });
            Table::plain(["schema", "version", "printed by, with --format json"], rows)
                .text(args.output.look(ui))
        }
    };
    args.output.write(&text, ui)?;
    Ok(ExitCode::Done)
}

/// A value with the version of its format, as `plan_format`. A list becomes `rows`.
pub fn versioned(name: &str, value: Value) -> Value {
    let version = ALL.iter().find(|one| one.name == name).map(|one| one.version);
    let key = format!("{}_format", name.replace('-', "_"));
    let first = Map::from_iter([(key, json!(version))]);
    let rest = match value {
        Value::Object(fields) => fields,
        rows => Map::from_iter([("rows".to_owned(), rows)]),
    };
    Value::Object(first.into_iter().chain(rest).collect())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use gpubench_record::RunRecord;
    use schemars::generate::SchemaSettings;
    use schemars::{JsonSchema, Schema};
    use serde_json::{Value, json};

    use super::super::{command, export, history, nightly, plan};
    use super::{ALL, versioned};
    use crate::verbs::recovery::UndoReport;
    use crate::verbs::{Rehearsed, listing, watch};

    /// The schema of what is printed: a field that is always printed is required.
    fn schema_of<T: JsonSchema>() -> Schema {
        let settings = SchemaSettings::draft2020_12().for_serialize();
        settings.into_generator().into_root_schema_for::<T>()
    }

    /// The schema of a value with the version of its format.
    fn with_version(name: &str, mut schema: Value) -> Value {
        if ["record", "watch"].contains(&name) {
            return schema;
        }
        let mut version = versioned(name, json!({}));
        for (_, value) in version.as_object_mut().into_iter().flatten() {
            *value = json!({ "const": value, "description": "Version of the format" });
        }
        let Some(fields) = schema.as_object_mut() else { return schema };
        if let Some(rows) = fields.remove("items") {
            let rows = json!({ "type": "array", "items": rows });
            fields.insert("properties".to_owned(), json!({ "rows": rows }));
            fields.insert("required".to_owned(), json!(["rows"]));
            fields.insert("type".to_owned(), json!("object"));
        }
        if let Some(required) = fields["required"].as_array_mut() {
            required.extend(
                version.as_object().into_iter().flat_map(|all| all.keys()).map(|key| json!(key)),
            );
        }
        if let (Some(all), Some(version)) =
            (fields["properties"].as_object_mut(), version.as_object_mut())
        {
            all.append(version);
        }
        schema
    }

    /// Compares a schema with the one checked in, or writes it where `GPUBENCH_REGENERATE` is set.
    #[test]
    fn the_published_schemas_are_up_to_date() -> Result<(), Box<dyn std::error::Error>> {
        for (name, schema) in [
            ("record", schema_of::<RunRecord>()),
            ("plan", schema_of::<plan::AsJson<'_>>()),
            ("rehearsal", schema_of::<Vec<Rehearsed>>()),
            ("watch", schema_of::<watch::line::Line>()),
            ("cleanup", schema_of::<UndoReport>()),
            ("nightly", schema_of::<nightly::end::Verdict<'_>>()),
            ("export", schema_of::<export::Exported>()),
            ("pins", schema_of::<history::PinsJson>()),
            ("prune", schema_of::<history::PruneJson>()),
            ("list", schema_of::<Vec<listing::Entry<'_>>>()),
        ] {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reports/schema");
            let path = folder.join(format!("{name}.json"));
            let mut value = schema.to_value();
            // With some features of serde_json maps keep the order of insertion.
            value.sort_all_objects();
            let value = with_version(name, value);
            let text = serde_json::to_string_pretty(&value)? + "\n";
            if std::env::var_os("GPUBENCH_REGENERATE").is_some() {
                std::fs::write(&path, &text)?;
            }
            assert!(
                std::fs::read_to_string(&path)? == text,
                "{name}.json is out of date: GPUBENCH_REGENERATE=1 cargo test -p gpubench schemas"
            );
        }
        Ok(())
    }

    /// Every verb with `--format json` is named by a schema, and every file is listed.
    #[test]
    fn no_json_is_without_a_schema() -> Result<(), Box<dyn std::error::Error>> {
        fn with_json(command: &clap::Command, name: &str, found: &mut Vec<String>) {
            let formats = command.get_arguments().filter(|arg| arg.get_id() == "format");
            let mut values = formats.flat_map(|arg| arg.get_possible_values());
            if values.any(|one| one.get_name() == "json") {
                found.push(name.trim().to_owned());
            }
            for verb in command.get_subcommands() {
                with_json(verb, &format!("{name} {}", verb.get_name()), found);
            }
        }
        let mut verbs = Vec::new();
        with_json(&command(), "", &mut verbs);
        let words = |text: &str| {
            let all = text.split([',', ';', '(']).map(|one| one.trim().to_owned());
            all.collect::<Vec<_>>()
        };
        let named: Vec<String> = ALL.iter().flat_map(|one| words(one.printed_by)).collect();
        verbs.retain(|verb| !named.contains(verb));
        assert!(verbs.is_empty(), "verbs whose JSON has no schema: {verbs:?}");
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reports/schema");
        for entry in std::fs::read_dir(folder)? {
            let name = entry?.file_name().to_string_lossy().replace(".json", "");
            assert!(ALL.iter().any(|one| one.name == name), "{name} is not listed");
        }
        Ok(())
    }
}
