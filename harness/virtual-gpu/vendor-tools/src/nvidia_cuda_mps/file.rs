//! The configuration file of protocol version 3, applied once when the daemon starts (MPS
//! documentation, release 615, "MPS v3 Configuration File"). Servers and namespaces become
//! commands.

use std::path::Path;
use std::sync::Arc;

use toml::{Table, Value};

use super::daemon::{Daemon, Features};
use super::{MpsError, v3};

const SERVER: [&str; 5] = [
    "allowed_devices",
    "pinned_memory_limit",
    "active_thread_percentage",
    "client_priority",
    "uid",
];
const NAMESPACE: [&str; 3] = ["pinned_memory_limit", "active_thread_percentage", "client_priority"];

/// Applies a configuration file.
/// Fails at the first key that the driver does not know, or that the stand-in lacks.
pub fn apply(daemon: &Arc<Daemon>, path: &Path) -> Result<(), MpsError> {
    let text = std::fs::read_to_string(path).map_err(MpsError::io(path))?;
    let (features, commands) = read(&text).map_err(|what| {
        MpsError::Refused(format!("{}: configuration error: {what}", path.display()))
    })?;
    daemon.shared().features = features;
    for command in commands {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        v3::run(daemon, &words)?;
    }
    Ok(())
}

type Commands = Vec<Vec<String>>;

/// The features and the commands of a configuration file, or what is wrong with it.
fn read(text: &str) -> Result<(Features, Commands), String> {
    let file: Table = text.parse().map_err(|error: toml::de::Error| error.message().to_owned())?;
    let (mut features, mut commands) = (Features::default(), Commands::new());
    known(&file, "", &["schema_version", "servers", "features"])?;
    for (name, server) in table(&file, "servers")? {
        let at = format!("servers.{name}.");
        let server = as_table(&server, &at)?;
        known(server, &at, &[&SERVER[..], &["namespaces"]].concat())?;
        let settings = |table: &Table, keys: &[&str]| -> Vec<String> {
            let set = keys.iter().filter_map(|key| Some((key, table.get(*key)?)));
            set.map(|(key, value)| format!("--{}={}", key.replace('_', "-"), plain(value)))
                .collect()
        };
        let create = words(&["server", "create", &name]);
        commands.push([create, settings(server, &["allowed_devices", "uid"])].concat());
        let of = vec![format!("--server={name}")];
        let limits = settings(server, &NAMESPACE);
        if !limits.is_empty() {
            let set = words(&["namespace", "set", "default"]);
            commands.push([set, of.clone(), limits].concat());
        }
        for (space, limits) in table(server, "namespaces")? {
            let at = format!("{at}namespaces.{space}.");
            let limits = as_table(&limits, &at)?;
            known(limits, &at, &NAMESPACE)?;
            if space != "default" {
                commands.push([words(&["namespace", "create", &space]), of.clone()].concat());
            }
            let limits = settings(limits, &NAMESPACE);
            if !limits.is_empty() {
                let set = words(&["namespace", "set", &space]);
                commands.push([set, of.clone(), limits].concat());
            }
        }
    }
    let all = table(&file, "features")?;
    known(&all, "features.", &["memacct", "context-share"])?;
    let flag = |table: &Table, key: &str, otherwise: bool| match table.get(key) {
        None => Ok(otherwise),
        Some(Value::Boolean(on)) => Ok(*on),
        Some(Value::String(word)) if word == "on" || word == "off" => Ok(word == "on"),
        Some(_) => Err(format!("{key} is no boolean")),
    };
    let memacct = table(&all, "memacct")?;
    known(&memacct, "features.memacct.", &["enabled", "audit_log"])?;
    features.memacct = flag(&memacct, "enabled", true)?;
    let share = table(&all, "context-share")?;
    known(&share, "features.context-share.", &["enabled", "default_socket"])?;
    features.context_share = flag(&share, "enabled", true)?;
    features.default_socket = flag(&share, "default_socket", true)?;
    Ok((features, commands))
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// A value without quotes, as a command has it.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn as_table<'a>(value: &'a Value, at: &str) -> Result<&'a Table, String> {
    value.as_table().ok_or_else(|| format!("{} is no table", at.trim_end_matches('.')))
}

/// A table of a table; empty if it is absent.
fn table(of: &Table, key: &str) -> Result<Table, String> {
    of.get(key).map_or_else(|| Ok(Table::new()), |value| as_table(value, key).cloned())
}

fn known(table: &Table, at: &str, keys: &[&str]) -> Result<(), String> {
    match table.keys().find(|key| !keys.contains(&key.as_str())) {
        Some(key) => Err(format!("{at}{key} is unknown (accepted: {})", keys.join(", "))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Features, read};

    #[test]
    fn a_file_becomes_features_and_commands() {
        let text = "schema_version = \"1.0\"\n\
            [servers.shared]\nallowed_devices = \"0\"\npinned_memory_limit = \"10G\"\nuid = 7\n\
            [servers.shared.namespaces.small]\npinned_memory_limit = \"5G\"\n\
            [servers.shared.namespaces.whole]\n\
            [features.memacct]\nenabled = true\naudit_log = true\n\
            [features.context-share]\nenabled = true\ndefault_socket = \"off\"\n";
        let (features, commands) = read(text).expect("a valid file");
        let want = Features { memacct: true, context_share: true, default_socket: false };
        assert_eq!(features, want);
        let lines: Vec<String> = commands.iter().map(|words| words.join(" ")).collect();
        assert_eq!(
            lines,
            [
                "server create shared --allowed-devices=0 --uid=7",
                "namespace set default --server=shared --pinned-memory-limit=10G",
                "namespace create small --server=shared",
                "namespace set small --server=shared --pinned-memory-limit=5G",
                "namespace create whole --server=shared",
            ]
        );
    }

    #[test]
    fn keys_that_release_615_does_not_have_are_errors() {
        for (text, error) in [
            ("[compute_policy]\ntimeslice = \"long\"", "compute_policy is unknown"),
            ("[servers.a]\ntimeslice_pct = \"50\"", "servers.a.timeslice_pct is unknown"),
            ("[servers.a.namespaces.b]\ncgroup = \"/x\"", "servers.a.namespaces.b.cgroup is"),
            ("[features.memacct]\nforce_polling = true", "features.memacct.force_polling is"),
            ("[features.context-share]\nenabled = 3", "enabled is no boolean"),
            ("servers = 3", "servers is no table"),
            ("[servers", "expected"),
        ] {
            let found = read(text).map(|_| ());
            assert!(found.as_ref().is_err_and(|what| what.contains(error)), "{text}: {found:?}");
        }
    }
}
