//! Mechanisms that a TOML file describes: the commands that enter, leave and prove one, and the
//! environment of its tenants. The guard makes and undoes them like every other change.
//!
//! `leave` runs after every run, after a crash, and by `gpubench cleanup`, also if `enter` did not
//! run to its end, so it must succeed where there is nothing to undo. All commands are run by
//! `sh -c` with [`variables`]; values of the environment may name the same ones as `{folder}`,
//! `{device}` and `{slot}`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use gpubench_catalogue::mechanism as catalogue;
use gpubench_plan::Availability;
use gpubench_record::{Proof, Sharing, regular_file};
use serde::Deserialize;

use super::host::{Change, ControlError, Guard, HostError, Step};
use super::interface::{Requirement, USUAL};
use super::waivers::{
    device_is_partitioned, settings_locked, sharing_is_off, too_little_for_share,
};
use super::{
    Compute, ComputeLimit, Configuration, HostStage, InForce, Mechanism, MechanismContext,
    MechanismEntry, Observation, OpeningChecks, ProofCommand, TenantEnv, interface, memory_cap,
    user_program,
};

/// A mechanism as its file describes it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Description {
    name: String,
    summary: String,
    /// What remains without its protection: contexts that take turns, or that run side by side.
    unprotected: Unprotected,
    enter: Option<Step>,
    /// Required with `enter`.
    leave: Option<Step>,
    prove: Step,
    /// What `enter` changes, one line each.
    #[serde(default)]
    changes: Vec<String>,
    /// Whether it changes settings of the device, which needs `--allow-reconfigure`.
    #[serde(default)]
    reconfigures: bool,
    /// Limits of each tenant, in percent of the device.
    memory_pct: Option<u32>,
    compute_pct: Option<u32>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Unprotected {
    TimeSlicing,
    Mps,
}

/// Most bytes of a description.
const BYTES_MAX: u64 = 1 << 20;

/// Longest limit of a command.
const LIMIT_MAX_S: u64 = 600;

static OWN: OnceLock<Vec<&'static dyn Mechanism>> = OnceLock::new();

/// The described mechanisms, in the order of their files.
pub(super) fn own() -> &'static [&'static dyn Mechanism] {
    OWN.get().map_or(&[], Vec::as_slice)
}

/// Adds the mechanisms of these files to the catalogue of this process.
/// Fails with one line: the file, the key, and what is accepted.
pub fn load(files: &[PathBuf]) -> Result<(), String> {
    let mut all: Vec<&'static dyn Mechanism> = Vec::new();
    for file in files {
        let at = |what: String| format!("{}: {what}", file.display());
        let bytes = regular_file::read(file, BYTES_MAX).map_err(|error| at(error.to_string()))?;
        let text = String::from_utf8(bytes).map_err(|error| at(error.to_string()))?;
        let one = read(&text).map_err(at)?;
        let mut known = super::all().chain(all.iter().copied());
        if known.any(|mechanism| mechanism.name() == one.entry.name) {
            return Err(at(format!("a mechanism {} exists already", one.entry.name)));
        }
        all.push(Box::leak(Box::new(one)));
    }
    if all.is_empty() {
        return Ok(());
    }
    let names = all.iter().map(|mechanism| mechanism.name()).collect();
    match catalogue::add(names) && OWN.set(all).is_ok() {
        true => Ok(()),
        false => Err("mechanisms were described already".to_owned()),
    }
}

#[derive(Debug)]
struct Described {
    entry: &'static MechanismEntry,
    text: Description,
    variant: String,
}

fn read(text: &str) -> Result<Described, String> {
    let described: Description = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
        format!("line {line}: {}", error.message().replace('\n', "; "))
    })?;
    check(&described)?;
    let leak = |text: &str| -> &'static str { Box::leak(text.to_owned().into_boxed_str()) };
    let name = leak(&described.name);
    let entry = MechanismEntry {
        name,
        summary: leak(&described.summary),
        group: name,
        reconfigures: described.reconfigures,
        sharing: match described.unprotected {
            Unprotected::TimeSlicing => Sharing::InTime,
            Unprotected::Mps => Sharing::InSpace,
        },
        ..USUAL
    };
    // Another text is another mechanism.
    let hash = blake3::hash(text.as_bytes()).to_hex();
    let variant = format!("{name}[file={}]", &hash[..8]);
    Ok(Described { entry: Box::leak(Box::new(entry)), text: described, variant })
}

fn check(described: &Description) -> Result<(), String> {
    let Description { name, enter, leave, prove, memory_pct, compute_pct, .. } = described;
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || !name.chars().all(fits) {
        return Err(format!("name = {name:?} (accepted: lower-case letters, digits and -)"));
    }
    if enter.is_some() != leave.is_some() {
        return Err("enter and leave belong together (accepted: both, or neither)".to_owned());
    }
    for (key, step) in
        [("enter", enter.as_ref()), ("leave", leave.as_ref()), ("prove", Some(prove))]
    {
        if step.is_some_and(|step| !(1..=LIMIT_MAX_S).contains(&step.limit_s)) {
            return Err(format!("{key}.limit-s (accepted: 1 to {LIMIT_MAX_S})"));
        }
    }
    for (key, pct) in [("memory-pct", memory_pct), ("compute-pct", compute_pct)] {
        if pct.is_some_and(|pct| !(1..=100).contains(&pct)) {
            return Err(format!("{key} (accepted: 1 to 100)"));
        }
    }
    Ok(())
}

impl Described {
    fn memory_mib(&self, cx: &MechanismContext<'_>) -> Option<u64> {
        self.text.memory_pct.and_then(|pct| memory_cap::limit_mib(cx.facts, pct))
    }
}

const PROVED: Requirement = Requirement::during("the command `prove` of its description succeeds");

impl Mechanism for Described {
    fn entry(&self) -> &'static MechanismEntry {
        self.entry
    }

    fn availability(&self, cx: &MechanismContext<'_>) -> Availability {
        let facts = cx.facts;
        let locked = || settings_locked(facts, &format!("settings of {}", self.entry.name));
        let share = |what, pct: Option<u32>| too_little_for_share(cx, what, pct.unwrap_or(100));
        device_is_partitioned(facts)
            .or_else(|| sharing_is_off(facts))
            .or_else(|| share("device memory", self.text.memory_pct))
            .or_else(|| share("device", self.text.compute_pct))
            .or_else(|| self.entry.reconfigures.then(locked).flatten())
            .unwrap_or(Availability::Available)
    }

    fn configuration(&self, cx: &MechanismContext<'_>) -> Configuration {
        let memory_mib = self.memory_mib(cx);
        let capped = memory_mib.map(|_| memory_cap::OVER_LIMIT);
        let program = user_program::required(cx);
        let enters = self.text.enter.iter().map(|enter| format!("the command: {}", enter.run));
        Configuration {
            variant: self.variant.clone(),
            host_changes: self.text.changes.iter().cloned().chain(enters).collect(),
            stage: Some(HostStage { key: self.variant.clone(), allows_native: false }),
            checks: OpeningChecks {
                over_limit_bytes: memory_mib.map(|mib| memory_cap::beyond_bytes(cx.facts, mib)),
                ..OpeningChecks::default()
            },
            refuses_outsiders: false,
            memory_limit_bytes: memory_mib.map(|mib| mib << 20),
            compute_limit: self.text.compute_pct.filter(|pct| *pct < 100).map(|pct| ComputeLimit {
                share: f64::from(pct) / 100.0,
                of: match self.entry.sharing {
                    Sharing::InTime => Compute::Time,
                    _ => Compute::Arithmetic,
                },
            }),
            required: [PROVED].into_iter().chain(capped).chain(program).collect(),
        }
    }

    fn enter(&self, cx: &MechanismContext<'_>, guard: &mut Guard) -> Result<InForce, HostError> {
        let folder = interface::short_folder()
            .ok_or_else(|| ControlError::new("making a private folder", "none can be made"))?;
        guard.make(Change::Folder { path: folder.clone() })?;
        let variables = variables(cx, &folder);
        if let (Some(enter), Some(leave)) = (&self.text.enter, &self.text.leave) {
            guard.make(Change::Command {
                mechanism: self.entry.name.to_owned(),
                enter: enter.clone(),
                leave: leave.clone(),
                variables: variables.clone(),
            })?;
        }
        let proof = ProofCommand { step: self.text.prove.clone(), variables };
        Ok(InForce { folder: Some(folder), proof: Some(proof), ..InForce::default() })
    }

    fn tenant_env(&self, cx: &MechanismContext<'_>, set_up: &InForce, slot: usize) -> TenantEnv {
        let folder = set_up.folder.as_ref().map_or_else(String::new, |it| it.display().to_string());
        let filled = |text: &String| {
            let text = text.replace("{folder}", &folder).replace("{slot}", &slot.to_string());
            text.replace("{device}", &cx.facts.uuid)
        };
        let variables = self.text.environment.iter();
        variables.map(|(name, value)| (name.into(), filled(value).into())).collect()
    }

    fn prove(&self, _cx: &MechanismContext<'_>, observed: &Observation) -> Vec<Proof> {
        if observed.condition.is_native() {
            return Vec::new();
        }
        let proved = observed.proof_command.as_ref().map(|ended| match ended {
            Ok(printed) => PROVED.proof(true, format!("it printed {:?}", printed.trim())),
            Err(error) => PROVED.proof(false, error),
        });
        let mut proofs: Vec<Proof> = proved.into_iter().collect();
        proofs.extend(memory_cap::over_limit(observed));
        proofs.extend(user_program::has_variables(observed));
        proofs
    }
}

/// What the commands of a description find in their environment.
fn variables(cx: &MechanismContext<'_>, folder: &Path) -> BTreeMap<String, String> {
    [
        ("GPUBENCH_DEVICE", cx.facts.uuid.clone()),
        ("GPUBENCH_FOLDER", folder.display().to_string()),
        ("GPUBENCH_TENANTS", cx.profile.tenants.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn a_description_is_read_or_refused_with_its_key() {
        let good = "name = \"quota\"\nsummary = \"s\"\nunprotected = \"time-slicing\"\n\
                    prove = { run = \"true\", limit-s = 1 }\n";
        let described = read(good).expect("a description");
        assert!(described.variant.starts_with("quota[file="), "{}", described.variant);
        let other = read(&format!("{good}memory-pct = 50\n")).expect("a description");
        assert_ne!(other.variant, described.variant, "another text is another variant");
        for (from, to, error) in [
            ("quota", "My Quota", "name = \"My Quota\" (accepted: lower-case"),
            ("limit-s = 1", "limit-s = 0", "prove.limit-s (accepted: 1 to 600)"),
            ("prove =", "enter =", "line 1: missing field `prove`"),
            ("summary", "summery", "line 2: unknown field `summery`"),
            ("time-slicing", "mig", "line 3: unknown variant `mig`"),
            ("prove =", "memory-pct = 101\nprove =", "memory-pct (accepted: 1 to 100)"),
            (
                "prove =",
                "leave = { run = \"true\", limit-s = 1 }\nprove =",
                "enter and leave belong together",
            ),
        ] {
            let found = read(&good.replace(from, to)).map(|_| ());
            assert!(found.as_ref().is_err_and(|text| text.starts_with(error)), "{to}: {found:?}");
        }
    }
}
