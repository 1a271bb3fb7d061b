//! Configuration files for a leaf, with the purpose of each.
//!
//! `tests/config.rs` checks Kubernetes and GPU Operator objects and HAMi's values against what is
//! published of them, files of mig-parted, the device plugin and the DRA driver against the rules
//! of their readers, and scripts by a shell.

mod kubernetes;
use std::ops::RangeInclusive;

use kubernetes::{Sharing, operator_config_map, operator_patch, shared};
use serde::Serialize;

use super::tree::Leaf;
use crate::error::{POSITIVE, PredictError};
use crate::mig;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConfigFile {
    pub name: &'static str,
    pub purpose: String,
    pub text: String,
}

fn file(name: &'static str, purpose: impl Into<String>, text: impl Into<String>) -> ConfigFile {
    ConfigFile { name, purpose: purpose.into(), text: text.into() }
}

#[derive(Debug, Clone, PartialEq)]
pub struct ConfigOptions {
    pub tenants: u32,
    /// GPU that defines the MIG profiles.
    pub gpu: Option<String>,
    /// MIG profiles of the instances; empty: equal ones.
    pub layout: Vec<String>,
    /// HAMi: memory limit of a tenant, in MiB.
    pub memory_mib: u32,
    /// Share of the GPU for each tenant; absent: equal ones.
    pub percent: Option<u32>,
    pub namespace: String,
    pub image: String,
}

impl Default for ConfigOptions {
    fn default() -> Self {
        Self {
            tenants: 4,
            gpu: None,
            layout: Vec::new(),
            memory_mib: 8000,
            percent: None,
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
        self.percent.unwrap_or(100 / self.tenants)
    }
}

pub fn files(leaf: Leaf, options: &ConfigOptions) -> Result<Vec<ConfigFile>, PredictError> {
    options.check()?;
    let mut files = match leaf {
        Leaf::NoSharing => vec![whole_gpu_pod(options), kubernetes::of_its_own(options, None)],
        Leaf::NoSharingNoMig => single_tenancy(options),
        Leaf::Mig => kubernetes::files(options)?,
        Leaf::Mps => mps_files(options),
        Leaf::Hami => hami_files(options),
        Leaf::TimeSlicingOperator => kubernetes::operator_time_slicing(options),
        Leaf::TimeSlicingDirect => kubernetes::direct_time_slicing(options),
    };
    // Each file can be applied alone.
    let namespace = &options.namespace;
    let used = format!("namespace: {namespace}\n");
    for file in &mut files {
        if file.text.contains(&used) && !file.text.contains("kind: Namespace\n") {
            file.text = format!("{}---\n{}", namespace_object(namespace), file.text);
        }
    }
    Ok(files)
}

fn namespace_object(name: &str) -> String {
    format!("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {name}\n")
}

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

// One tenant per GPU: a pod with a whole GPU, and access rules that exclude other pods.

fn whole_gpu_pod(options: &ConfigOptions) -> ConfigFile {
    file(
        "pod.yaml",
        "a tenant with a whole GPU: kubectl apply -f pod.yaml",
        pod(options, "nvidia.com/gpu", ""),
    )
}

/// Single tenancy: hard isolation without MIG.
fn single_tenancy(options: &ConfigOptions) -> Vec<ConfigFile> {
    let namespace = &options.namespace;
    let access = format!(
        "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {namespace}\n---\n\
         apiVersion: v1\nkind: ResourceQuota\nmetadata:\n  name: one-gpu\n  namespace: \
         {namespace}\nspec:\n  hard:\n    requests.nvidia.com/gpu: \"1\"\n---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata:\n  name: tenant\n  \
         namespace: {namespace}\nrules:\n  - apiGroups: [\"\"]\n    resources: [\"pods\", \
         \"pods/log\"]\n    verbs: [\"create\", \"delete\", \"get\", \"list\", \"watch\"]\n---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata:\n  name: tenant\n  \
         namespace: {namespace}\nsubjects:\n  - apiGroup: rbac.authorization.k8s.io\n    kind: \
         Group\n    name: {namespace}\nroleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: \
         Role\n  name: tenant\n"
    );
    vec![
        file(
            "taint.sh",
            "keeps pods without a toleration off the GPU node: sh taint.sh NODE",
            "#!/bin/sh\nset -eu\nkubectl taint nodes \"$1\" \
             nvidia.com/gpu=exclusive:NoSchedule\n",
        ),
        file(
            "access.yaml",
            "one GPU for the tenant's namespace, which only the tenant can use: \
             kubectl apply -f access.yaml",
            access,
        ),
        whole_gpu_pod(options),
        kubernetes::of_its_own(options, None),
    ]
}

// HAMi: a pod with limits in a cluster, and the same limits for a program on a host.

fn hami_files(options: &ConfigOptions) -> Vec<ConfigFile> {
    let (memory_mib, percent) = (options.memory_mib, options.percent());
    let limits = format!(
        "          nvidia.com/gpumem: {memory_mib}\n          nvidia.com/gpucores: {percent}\n"
    );
    vec![
        file(
            "hami-values.yaml",
            "limits that hold also for a tenant alone, and one replica of the GPU for each \
             tenant: helm upgrade --install hami hami-charts/hami --values \
             hami-values.yaml",
            values(options),
        ),
        file(
            "label.sh",
            "enables HAMi's device plugin on the node: sh label.sh NODE",
            "#!/bin/sh\nset -eu\nkubectl label nodes \"$1\" gpu=on\n",
        ),
        file(
            "pod.yaml",
            "a tenant with a memory limit in MiB and a rate limit in percent: \
             kubectl apply -f pod.yaml",
            pod(options, "nvidia.com/gpu", &limits),
        ),
        file(
            "hami-run.sh",
            "the same limits for a program on a host: sh hami-run.sh /path/libvgpu.so \
             COMMAND; start one tenant after another, and no static binaries",
            host(memory_mib, percent),
        ),
    ]
}

/// Without `force` a tenant that is alone on the GPU is not limited. Scalings above 1 promise
/// memory and compute that the GPU does not have.
fn values(options: &ConfigOptions) -> String {
    let tenants = options.tenants;
    format!(
        "devicePlugin:\n  deviceSplitCount: {tenants}\n  deviceMemoryScaling: 1\n  \
         deviceCoreScaling: 1\n  disablecorelimit: \"false\"\ndevices:\n  nvidia:\n    \
         gpuCorePolicy: force\n"
    )
}

/// Each tenant has its own cache file: with a shared one the first process sets the limits of all.
fn host(memory_mib: u32, percent: u32) -> String {
    format!(
        "#!/bin/sh\nset -eu\nlibrary=$1\nshift\nmkdir -p /tmp/vgpulock\n\
         cache=$(mktemp -u /tmp/vgpu-XXXXXX.cache)\n\
         trap 'rm -f \"$cache\"' EXIT\n\
         LD_PRELOAD=\"$library\" CUDA_REDIRECT=\"$library\" \\\n\
         CUDA_DEVICE_MEMORY_SHARED_CACHE=\"$cache\" \\\n\
         CUDA_DEVICE_MEMORY_LIMIT={memory_mib}M CUDA_DEVICE_SM_LIMIT={percent} \\\n\
         GPU_CORE_UTILIZATION_POLICY=FORCE \"$@\"\n"
    )
}

// MPS: the control daemon on a host, or the device plugin in a cluster.

fn mps_files(options: &ConfigOptions) -> Vec<ConfigFile> {
    let tenants = options.tenants;
    let plugin = format!(
        "version: v1\nflags:\n  migStrategy: none\nsharing:\n  mps:\n    renameByDefault: \
         false\n    failRequestsGreaterThanOne: true\n    resources:\n      - name: \
         nvidia.com/gpu\n        replicas: {tenants}\n"
    );
    vec![
        file(
            "mps-start.sh",
            "on a host without Kubernetes: sh mps-start.sh GPU-UUID",
            start(options),
        ),
        file(
            "mps-tenant.sh",
            "runs a tenant in the environment of mps-start.sh, without which it has no MPS: \
             sh mps-tenant.sh GPU-UUID COMMAND",
            format!("{HEAD}shift\nexec \"$@\"\n"),
        ),
        file(
            "mps-stop.sh",
            "ends the daemon of mps-start.sh: sh mps-stop.sh GPU-UUID",
            format!("{HEAD}echo quit -t 30 | nvidia-cuda-mps-control\n"),
        ),
        operator_config_map(&plugin),
        operator_patch(),
        file(
            "pod.yaml",
            "a tenant in the cluster; the device plugin limits its threads and, unlike this record \
             unless memory_pct was set, its memory to 1 / replicas: kubectl apply -f pod.yaml",
            pod(options, "nvidia.com/gpu", ""),
        ),
        shared(options, &Sharing::Mps(options.percent())),
    ]
}

/// One daemon per GPU, with its own folders: a fault under a daemon of two GPUs ends both.
const HEAD: &str = "#!/bin/sh\nset -eu\ngpu=$1\nexport CUDA_VISIBLE_DEVICES=\"$gpu\"\n\
                    export CUDA_MPS_PIPE_DIRECTORY=\"/tmp/mps-$gpu/pipe\"\n\
                    export CUDA_MPS_LOG_DIRECTORY=\"/tmp/mps-$gpu/log\"\n";

fn start(options: &ConfigOptions) -> String {
    let percent = options.percent();
    format!(
        "{HEAD}mkdir -p \"$CUDA_MPS_PIPE_DIRECTORY\" \"$CUDA_MPS_LOG_DIRECTORY\"\n\
         nvidia-cuda-mps-control -d\n\
         echo set_default_active_thread_percentage {percent} | nvidia-cuda-mps-control\n\
         echo get_default_active_thread_percentage | nvidia-cuda-mps-control\n"
    )
}
