//! Configuration files for a leaf, with the purpose of each.
//!
//! `tests/config.rs` checks Kubernetes and GPU Operator objects and HAMi's values against what is
//! published of them, files of mig-parted, the device plugin and the DRA driver against the rules
//! of their readers, and scripts by a shell.

mod cluster;
mod dra;
mod exclusive;
mod hami;
mod mig_layout;
mod mps;

use super::tree::Leaf;
use crate::error::{POSITIVE, PredictError};
use crate::mig;
use serde::Serialize;
use std::ops::RangeInclusive;

/// One file of a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConfigFile {
    /// File name.
    pub name: &'static str,
    /// Purpose, and the command that applies it.
    pub purpose: String,
    /// Content.
    pub text: String,
}

/// Parameters of a configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigOptions {
    /// Tenants of one GPU.
    pub tenants: u32,
    /// GPU that defines the MIG profiles.
    pub gpu: Option<String>,
    /// MIG profiles of the instances; empty: equal ones.
    pub layout: Vec<String>,
    /// HAMi: memory limit of a tenant, in MiB.
    pub memory_mib: u32,
    /// Namespace of the tenants.
    pub namespace: String,
    /// Image of the example pod.
    pub image: String,
}

impl Default for ConfigOptions {
    fn default() -> Self {
        Self {
            tenants: 4,
            gpu: None,
            layout: Vec::new(),
            memory_mib: 8000,
            namespace: "gpu-tenants".to_owned(),
            image: "registry.example.com/tenant:1".to_owned(),
        }
    }
}

/// Accepted numbers of tenants: the device plugin refuses fewer than two replicas
/// (api/config/v1/replicas.go), and an MPS server serves 48 clients.
pub const TENANTS: RangeInclusive<u32> = 2..=48;

impl ConfigOptions {
    fn check(&self) -> Result<(), PredictError> {
        if !TENANTS.contains(&self.tenants) {
            let accepted = format!("a number from {} to {}", TENANTS.start(), TENANTS.end());
            return Err(PredictError::value("tenants", self.tenants, &accepted));
        }
        POSITIVE.check("memory_mib", f64::from(self.memory_mib))?;
        let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let is_label = !self.namespace.is_empty()
            && self.namespace.len() <= 63
            && self.namespace.chars().all(is_word)
            && !self.namespace.starts_with('-')
            && !self.namespace.ends_with('-');
        if !is_label {
            let accepted = "lowercase letters, digits and inner dashes, at most 63";
            return Err(PredictError::value("namespace", &self.namespace, accepted));
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._/:@".contains(c);
        if self.image.is_empty() || !self.image.chars().all(is_plain) {
            return Err(PredictError::value("image", &self.image, "the name of an image"));
        }
        Ok(())
    }

    /// Share of the GPU for each tenant, in whole percent.
    fn percent(&self) -> u32 {
        100 / self.tenants
    }
}

/// The configuration of a leaf.
pub fn files(leaf: Leaf, options: &ConfigOptions) -> Result<Vec<ConfigFile>, PredictError> {
    options.check()?;
    Ok(match leaf {
        Leaf::NoSharing => vec![exclusive::pod(options), dra::of_its_own(options, None)],
        Leaf::NoSharingNoMig => exclusive::single_tenancy(options),
        Leaf::Mig => mig_layout::files(options)?,
        Leaf::Mps => mps::files(options),
        Leaf::Hami => hami::files(options),
        Leaf::TimeSlicingOperator => cluster::operator_time_slicing(options),
        Leaf::TimeSlicingDirect => cluster::direct_time_slicing(options),
    })
}

/// A pod that requests one unit of a resource, with other limits.
fn pod(options: &ConfigOptions, resource: &str, more_limits: &str) -> String {
    let ConfigOptions { namespace, image, .. } = options;
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: tenant\n  namespace: {namespace}\nspec:\n  \
         restartPolicy: Never\n  tolerations:\n    - key: nvidia.com/gpu\n      operator: \
         Exists\n      effect: NoSchedule\n  containers:\n    - name: tenant\n      image: \
         {image}\n      resources:\n        limits:\n          {resource}: 1\n{more_limits}"
    )
}

fn table_of(options: &ConfigOptions) -> Result<Option<&'static mig::Table>, PredictError> {
    options.gpu.as_deref().map(mig::table).transpose()
}
