//! Configuration files for a cluster: time-slicing, dynamic resource allocation, MIG layouts.

use super::{ConfigFile, ConfigOptions, file};
use crate::error::PredictError;
use crate::mig::{Profile, Table, place};

// Time-slicing in a cluster: by the GPU Operator, or by the device plugin only.

/// The file of the device plugin. `resources` is required. A request for more than one replica
/// gives no more compute, so it is refused.
pub(super) fn plugin_time_slicing(tenants: u32) -> String {
    format!(
        "version: v1\nflags:\n  migStrategy: none\nsharing:\n  timeSlicing:\n    \
         renameByDefault: false\n    failRequestsGreaterThanOne: true\n    resources:\n      - \
         name: nvidia.com/gpu\n        replicas: {tenants}\n"
    )
}

/// The ConfigMap with the file of the GPU Operator's device plugin.
pub(super) fn operator_config_map(plugin: &str) -> ConfigFile {
    file(
        "device-plugin-config.yaml",
        "the device plugin's configuration: kubectl apply -f device-plugin-config.yaml",
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: device-plugin-config\n  \
             namespace: gpu-operator\ndata:\n  any: |-\n{}",
            indented(plugin, 4)
        ),
    )
}

/// The patch of the ClusterPolicy that selects the ConfigMap.
pub(super) fn operator_patch() -> ConfigFile {
    file(
        "cluster-policy-patch.yaml",
        "selects it in the GPU Operator: kubectl patch \
         clusterpolicies.nvidia.com/cluster-policy --type merge --patch-file \
         cluster-policy-patch.yaml",
        "spec:\n  devicePlugin:\n    config:\n      name: device-plugin-config\n      \
         default: any\n",
    )
}

/// Time-slicing if the platform team manages the driver.
pub(super) fn operator_time_slicing(options: &ConfigOptions) -> Vec<ConfigFile> {
    vec![
        operator_config_map(&plugin_time_slicing(options.tenants)),
        operator_patch(),
        tenant(options),
        shared(options, &Sharing::TimeSlicing),
        kai(options),
    ]
}

/// A fraction that KAI books. It limits neither memory nor compute: the tenants take turns.
fn kai(options: &ConfigOptions) -> ConfigFile {
    let ConfigOptions { namespace, image, .. } = options;
    let fraction = f64::from(options.percent()) / 100.0;
    file(
        "kai-pod.yaml",
        "with the KAI scheduler, whose queue `tenants` exists: kubectl apply -f kai-pod.yaml",
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: tenant\n  namespace: {namespace}\n  \
             labels:\n    kai.scheduler/queue: tenants\n  annotations:\n    gpu-fraction: \
             \"{fraction}\"\nspec:\n  schedulerName: kai-scheduler\n  restartPolicy: Never\n  \
             containers:\n    - name: tenant\n      image: {image}\n"
        ),
    )
}

/// Time-slicing if the cloud provider manages the driver.
pub(super) fn direct_time_slicing(options: &ConfigOptions) -> Vec<ConfigFile> {
    let plugin = plugin_time_slicing(options.tenants);
    let values =
        format!("config:\n  default: shared\n  map:\n    shared: |-\n{}", indented(&plugin, 6));
    vec![
        file(
            "device-plugin-values.yaml",
            "the device plugin only: helm upgrade --install nvdp \
             nvdp/nvidia-device-plugin --values device-plugin-values.yaml",
            values,
        ),
        file(
            "gpu-operator-values.yaml",
            "only if the GPU Operator runs beside a driver of the cloud provider: \
             helm upgrade --install gpu-operator nvidia/gpu-operator --values \
             gpu-operator-values.yaml",
            "driver:\n  enabled: false\ntoolkit:\n  enabled: false\n",
        ),
        tenant(options),
        shared(options, &Sharing::TimeSlicing),
    ]
}

fn tenant(options: &ConfigOptions) -> ConfigFile {
    file(
        "pod.yaml",
        "a tenant with one of the time-sliced replicas: kubectl apply -f pod.yaml",
        super::pod(options, "nvidia.com/gpu", ""),
    )
}

pub(super) fn indented(text: &str, spaces: usize) -> String {
    let margin = " ".repeat(spaces);
    text.lines().map(|line| format!("{margin}{line}\n")).collect()
}

// Dynamic resource allocation: claims for NVIDIA's DRA driver, in place of the device plugin.
//
// A claim template gives each pod a device of its own. Tenants in different pods share a device
// through one claim that all of them name. Sharing is a setting of the claim (`GpuConfig`), and
// the driver refuses it unless its feature gate is on.

/// How tenants share the GPU of a claim.
pub(super) enum Sharing {
    /// `TimeSlicing` with the driver's default slice.
    TimeSlicing,
    /// `MPS` with a limit of threads for each tenant, in percent.
    Mps(u32),
}

impl Sharing {
    const fn gate(&self) -> &'static str {
        match self {
            Self::TimeSlicing => "TimeSlicingSettings",
            Self::Mps(_) => "MPSSupport",
        }
    }

    fn settings(&self) -> String {
        match self {
            Self::TimeSlicing => "              strategy: TimeSlicing\n              \
                                  timeSlicingConfig:\n                interval: Default\n"
                .to_owned(),
            Self::Mps(percent) => format!(
                "              strategy: MPS\n              mpsConfig:\n                \
                 defaultActiveThreadPercentage: {percent}\n"
            ),
        }
    }
}

/// A device of its own for each tenant: a GPU, or a MIG instance of a profile.
pub(super) fn of_its_own(options: &ConfigOptions, mig_profile: Option<&str>) -> ConfigFile {
    let namespace = &options.namespace;
    let request = match mig_profile {
        None => "            deviceClassName: gpu.nvidia.com\n".to_owned(),
        Some(profile) => format!(
            "            deviceClassName: mig.nvidia.com\n            selectors:\n              - \
             cel:\n                  expression: device.attributes['gpu.nvidia.com'].profile == \
             '{profile}'\n"
        ),
    };
    let claim = format!(
        "apiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\nmetadata:\n  name: tenant\n  \
         namespace: {namespace}\nspec:\n  spec:\n    devices:\n      requests:\n        - name: \
         gpu\n          exactly:\n{request}"
    );
    file(
        "dra.yaml",
        "with NVIDIA's DRA driver in place of the device plugin (Kubernetes 1.34 or \
         newer): kubectl apply -f dra.yaml",
        claim + &pod(options, "resourceClaimTemplateName"),
    )
}

/// One GPU that all tenants share.
pub(super) fn shared(options: &ConfigOptions, sharing: &Sharing) -> ConfigFile {
    let ConfigOptions { namespace, tenants, .. } = options;
    let (gate, settings) = (sharing.gate(), sharing.settings());
    let claim = format!(
        "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata:\n  name: tenant\n  \
         namespace: {namespace}\nspec:\n  devices:\n    requests:\n      - name: gpu\n        \
         exactly:\n          deviceClassName: gpu.nvidia.com\n    config:\n      - requests: \
         [\"gpu\"]\n        opaque:\n          driver: gpu.nvidia.com\n          \
         parameters:\n            apiVersion: resource.nvidia.com/v1beta1\n            kind: \
         GpuConfig\n            sharing:\n{settings}"
    );
    file(
        "dra.yaml",
        format!(
            "with NVIDIA's DRA driver in place of the device plugin (Kubernetes 1.34 or newer, \
             feature gate {gate}=true of the driver): kubectl apply -f dra.yaml; each of the \
             {tenants} tenants names the same claim"
        ),
        claim + &pod(options, "resourceClaimName"),
    )
}

/// A tenant with the claim of that kind of reference.
fn pod(options: &ConfigOptions, reference: &str) -> String {
    let ConfigOptions { namespace, image, .. } = options;
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: tenant\n  namespace: \
         {namespace}\nspec:\n  restartPolicy: Never\n  tolerations:\n    - key: \
         nvidia.com/gpu\n      operator: Exists\n      effect: NoSchedule\n  resourceClaims:\n    \
         - name: gpu\n      {reference}: tenant\n  containers:\n    - name: tenant\n      image: \
         {image}\n      resources:\n        claims:\n          - name: gpu\n"
    )
}

// MIG: a layout for mig-parted, the mixed strategy of the device plugin, and a pod.

pub(super) fn files(options: &ConfigOptions) -> Result<Vec<ConfigFile>, PredictError> {
    let table = super::table_of(options)?.ok_or_else(|| PredictError::Missing {
        what: "the GPU".to_owned(),
        remedy: "name it with --gpu, because each GPU has its own MIG profiles".to_owned(),
    })?;
    let layout = layout(options, table)?;
    let parted = mig_parted(&layout);
    let map = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: mig-parted-config\n  namespace: \
         gpu-operator\ndata:\n  config.yaml: |-\n{}",
        indented(&parted, 4)
    );
    let resource = resource_name(&layout[0].name);
    let plugin = "version: v1\nflags:\n  migStrategy: mixed\n";
    Ok(vec![
        file(
            "mig-parted.yaml",
            "on a host: nvidia-mig-parted apply -f mig-parted.yaml -c tenants",
            parted,
        ),
        file(
            "mig.sh",
            "the same with nvidia-smi only: sh mig.sh INDEX",
            nvidia_smi(table, &layout),
        ),
        file(
            "mig-parted-config.yaml",
            "in a cluster: kubectl apply -f mig-parted-config.yaml, then label the node \
             nvidia.com/mig.config=tenants",
            map,
        ),
        operator_config_map(plugin),
        operator_patch(),
        file(
            "gpu-operator-values.yaml",
            "for the MIG manager of the GPU Operator: helm upgrade --install gpu-operator \
             nvidia/gpu-operator --values gpu-operator-values.yaml",
            "mig:\n  strategy: mixed\nmigManager:\n  config:\n    name: \
             mig-parted-config\n    default: all-disabled\n",
        ),
        file(
            "pod.yaml",
            "a tenant with one instance: kubectl apply -f pod.yaml",
            super::pod(options, &resource, ""),
        ),
        of_its_own(options, Some(&layout[0].name)),
    ])
}

/// The named profiles, or one instance per tenant of the largest equal profile that fits.
fn layout<'a>(options: &ConfigOptions, table: &'a Table) -> Result<Vec<&'a Profile>, PredictError> {
    if !options.layout.is_empty() {
        let named: Result<Vec<&Profile>, PredictError> =
            options.layout.iter().map(|name| table.profile(name)).collect();
        let named = named?;
        let accepted = format!("a mix that fits on {}", table.name);
        return match place(table, &named) {
            Some(_) => Ok(named),
            None => Err(PredictError::value("layout", options.layout.join(","), &accepted)),
        };
    }
    let equal = |profile: &'a Profile| vec![profile; options.tenants as usize];
    let plain = table.profiles.iter().filter(|profile| !profile.is_variant());
    let fitting = plain.map(equal).filter(|mix| place(table, mix).is_some());
    let largest = fitting.max_by(|a, b| a[0].memory_gb().total_cmp(&b[0].memory_gb()));
    largest.ok_or_else(|| {
        let max = table.profiles.iter().map(|profile| profile.max).max().unwrap_or(0);
        let accepted = format!("at most {max}, the instances of {}", table.name);
        PredictError::value("tenants", options.tenants, &accepted)
    })
}

fn counts<'a>(layout: &[&'a Profile]) -> Vec<(&'a str, usize)> {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for profile in layout {
        match counts.iter_mut().find(|(name, _)| *name == profile.name) {
            Some((_, count)) => *count += 1,
            None => counts.push((&profile.name, 1)),
        }
    }
    counts
}

fn mig_parted(layout: &[&Profile]) -> String {
    let devices: String = counts(layout)
        .iter()
        .map(|(name, count)| format!("        \"{name}\": {count}\n"))
        .collect();
    // This file replaces that of the operator, so it must contain the default layout too.
    format!(
        "version: v1\nmig-configs:\n  all-disabled:\n    - devices: all\n      mig-enabled: \
         false\n  tenants:\n    - devices: all\n      mig-enabled: true\n      \
         mig-devices:\n{devices}"
    )
}

/// Largest first: the driver refuses a large instance if small ones occupy its slots.
fn nvidia_smi(table: &Table, layout: &[&Profile]) -> String {
    let placed = place(table, layout).unwrap_or_default();
    let names: Vec<&str> = placed.iter().map(|placed| placed.profile.name.as_str()).collect();
    format!(
        "#!/bin/sh\nset -eu\nnvidia-smi -i \"$1\" -mig 1\nnvidia-smi mig -i \"$1\" -cgi {} -C\n\
         nvidia-smi mig -i \"$1\" -lgi\n",
        names.join(",")
    )
}

/// Resource name of a profile in the mixed strategy; a plus sign is not allowed in it.
fn resource_name(profile: &str) -> String {
    format!("nvidia.com/mig-{}", profile.replace('+', "."))
}
