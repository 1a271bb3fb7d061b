//! The option tables of mechanisms and of the user's own program. To add options of a mechanism,
//! add the type here, the field in [`super::Profile`], and the keys in the entry of the mechanism.

use gpubench_record::user_victim::{Reports, UserVictim};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Span;
use super::error::Fault;
use super::units::within;

/// A table of options, of a mechanism or of the user's own program.
pub(super) trait OptionTable {
    /// Reports the first rule that the table breaks.
    fn check(&self) -> Result<(), Fault>;
}

/// `[user-victim]`: the user's own program as the victim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UserVictimOptions {
    /// The shell command that runs in place of every victim; empty for none.
    pub command: String,
    /// How it reports its work: `requests` by the victim protocol, or `lines` that it prints.
    pub reports: Reports,
    /// Longest wait until it is ready after each start; 1 s to 1 h.
    pub ready: Span,
}

impl UserVictimOptions {
    /// The program; `None` without a command.
    pub fn victim(&self) -> Option<UserVictim> {
        (!self.command.is_empty()).then(|| UserVictim {
            command: self.command.clone(),
            reports: self.reports,
            ready_ns: self.ready.ns,
        })
    }
}

/// `[time-slicing]`: processes share the whole GPU in time slices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimeSlicingOptions {
    /// Length of a time slice; `default` leaves the setting of the host.
    pub slice: Slice,
}

/// The length of a time slice, in the words of the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Slice {
    /// The setting of the host.
    Default,
    /// The driver's short slice.
    Short,
    /// The driver's medium slice.
    Medium,
    /// The driver's long slice.
    Long,
}

impl Slice {
    /// The word in profiles and variants.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Short => "short",
            Self::Medium => "medium",
            Self::Long => "long",
        }
    }
}

/// `[mps]`: settings of every MPS server of the whole device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MpsOptions {
    /// Whether the compute mode is EXCLUSIVE_PROCESS while the server runs, so that no process
    /// bypasses it.
    pub exclusive_process: bool,
}

/// `[mps-quota]`: an MPS server with limits for each client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MpsQuotaOptions {
    /// Limit of the SMs of each client, as a percentage of the device: 1 to 100.
    pub pct: u32,
    /// Memory limit of each client, as a percentage of the device: 1 to 100; 100 is no limit.
    pub memory_pct: u32,
    /// Priority of the neighbours, a hint to the server: `normal` or `below-normal`.
    pub neighbours: Priority,
}

/// The priority of an MPS client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Priority {
    /// The same as every other client.
    Normal,
    /// Below every other client.
    BelowNormal,
}

/// `[mps-static]`: an MPS server that gives each client its own SMs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MpsStaticOptions {
    /// Chunks of SMs for each tenant; 0 divides the device evenly.
    pub chunks: u32,
}

/// `[mps-memory]` and `[time-slicing-capped]`: an MPS daemon of the third version of the interface,
/// with memory limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MpsMemoryOptions {
    /// Memory limit of each tenant, as a percentage of the device: 1 to 100; 100 is no limit.
    pub memory_pct: u32,
    /// What enforces the limit: `cgroup`, the driver by the tenant's control group; `namespace`,
    /// the MPS server by the namespace that the tenant connects to; or `file`, the same from a
    /// configuration file.
    pub by: LimitBy,
}

/// What enforces a memory limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LimitBy {
    /// The driver, by the tenant's control group.
    Cgroup,
    /// The MPS server, by the namespace that the tenant connects to.
    Namespace,
    /// The same, from a configuration file that the daemon applies when it starts.
    File,
}

impl LimitBy {
    /// The word in profiles and variants.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cgroup => "cgroup",
            Self::Namespace => "namespace",
            Self::File => "file",
        }
    }
}

/// `[mig]`: hardware instances of the device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MigOptions {
    /// Sizes of the instances, the victim's first: `3g+3g`, `3g.40gb+4g.40gb`; `auto` selects the
    /// largest equal sizes.
    pub layout: String,
}

/// `[mig-mps]`: one hardware instance, shared by all tenants through an MPS server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MigMpsOptions {
    /// Size of the instance: `7g`, `3g.40gb`; `auto` selects the largest.
    pub layout: String,
}

/// `[hami]`: a preloaded library that counts memory and launches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HamiOptions {
    /// Memory limit of each tenant, as a percentage of the device: 1 to 100; 100 is no limit.
    pub memory_pct: u32,
    /// Limit of the SM time of each tenant, as a percentage: 1 to 100; 100 is no limit.
    pub sm_pct: u32,
}

impl OptionTable for UserVictimOptions {
    fn check(&self) -> Result<(), Fault> {
        let command = &self.command;
        if command.contains('\0') || (!command.is_empty() && command.trim().is_empty()) {
            let accepted = "a shell command; \"\" for no program";
            return Err(Fault::at("user-victim.command", "no command", accepted));
        }
        let (min, max) = (Span::from_s(1), Span::from_s(3_600));
        within("user-victim.ready", self.ready, min, max)
    }
}

impl OptionTable for TimeSlicingOptions {
    fn check(&self) -> Result<(), Fault> {
        Ok(())
    }
}

impl OptionTable for MpsOptions {
    fn check(&self) -> Result<(), Fault> {
        Ok(())
    }
}

impl OptionTable for MpsQuotaOptions {
    fn check(&self) -> Result<(), Fault> {
        percentage("mps-quota.pct", self.pct)?;
        percentage("mps-quota.memory_pct", self.memory_pct)
    }
}

impl OptionTable for MpsStaticOptions {
    fn check(&self) -> Result<(), Fault> {
        within("mps-static.chunks", self.chunks, 0, 64)
    }
}

impl MpsMemoryOptions {
    /// Reports the first rule that its table of this name breaks.
    pub(super) fn check(self, table: &str) -> Result<(), Fault> {
        percentage(&format!("{table}.memory_pct"), self.memory_pct)
    }
}

impl OptionTable for MigOptions {
    fn check(&self) -> Result<(), Fault> {
        layout("mig.layout", &self.layout)
    }
}

impl OptionTable for MigMpsOptions {
    fn check(&self) -> Result<(), Fault> {
        layout("mig-mps.layout", &self.layout)
    }
}

impl OptionTable for HamiOptions {
    fn check(&self) -> Result<(), Fault> {
        percentage("hami.memory_pct", self.memory_pct)?;
        percentage("hami.sm_pct", self.sm_pct)
    }
}

fn percentage(key: &str, pct: u32) -> Result<(), Fault> {
    within(key, pct, 1, 100)
}

fn layout(key: &str, text: &str) -> Result<(), Fault> {
    let size = |name: &str| {
        let digits = name.split('g').next().unwrap_or_default();
        name.contains('g') && !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
    };
    // A MIG profile name can contain a plus sign: 1g.10gb+me.
    let mut sizes = text.split('+').filter(|part| !part.starts_with("me"));
    if text == "auto" || sizes.all(size) {
        return Ok(());
    }
    let accepted = "auto, or sizes such as 3g+3g, 3g.40gb+4g.40gb, 7x1g";
    Err(Fault::at(key, format!("\"{text}\" is not a layout"), accepted))
}
