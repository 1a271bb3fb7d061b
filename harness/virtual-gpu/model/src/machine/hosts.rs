//! Hosts that people reported: planted answers and conditions, laid over a machine.

use serde::Deserialize;
use toml::{Table, Value};

use super::error::read;
use super::{BUILT_IN, Machine, MachineError};

/// Where their file is, for messages.
const PATH: &str = "hosts.toml";

/// One host, with what the program is expected to say of it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Name, as in `--device virtual:NAME`.
    pub name: String,
    pub summary: String,
    /// A public report.
    #[serde(default)]
    pub source: Option<String>,
    /// The machine that is changed.
    #[serde(default = "usual")]
    pub on: String,
    /// What is laid over its file.
    pub change: Table,
    /// The exit status of `doctor`, `matrix` and `plan`, where these have no other.
    pub exit: i32,
    /// That of `doctor`, which sets no mechanism up.
    #[serde(default)]
    pub doctor: Option<i32>,
    /// The exit status of `plan`, which starts no tenant.
    #[serde(default)]
    pub plan: Option<i32>,
    /// The mechanisms that run.
    #[serde(default = "plain")]
    pub mechanisms: Vec<String>,
    /// A part of what they print.
    pub says: String,
}

fn usual() -> String {
    "hopper".to_owned()
}

fn plain() -> Vec<String> {
    ["exclusive", "time-slicing", "mps"].map(str::to_owned).to_vec()
}

/// The known hosts.
/// Fails when their file is wrong.
pub fn hosts() -> Result<Vec<Host>, MachineError> {
    #[derive(Deserialize)]
    struct File {
        hosts: Vec<Host>,
    }
    Ok(read::<File>(PATH, gpubench_profiles::HOSTS)?.hosts)
}

impl Host {
    /// Its machine.
    /// Fails when the changes make no valid machine.
    pub fn machine(&self) -> Result<Machine, MachineError> {
        let base = BUILT_IN.iter().find(|(name, _)| *name == self.on);
        let mut machine: Table = read(PATH, base.map_or("", |(_, text)| text))?;
        lay_over(&mut machine, &self.change);
        Machine::parse(PATH, &machine.to_string())
    }
}

fn lay_over(base: &mut Table, change: &Table) {
    for (key, value) in change {
        match (base.get_mut(key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => lay_over(below, above),
            _ => {
                base.insert(key.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_host_is_a_machine() -> Result<(), super::MachineError> {
        for host in super::hosts()? {
            let machine = host.machine()?;
            let is_changed = !machine.answers.is_empty()
                || machine.circumstances != super::super::Circumstances::default();
            assert!(is_changed, "{}", host.name);
        }
        Ok(())
    }
}
