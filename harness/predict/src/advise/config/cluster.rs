//! Time-slicing in a cluster: by the GPU Operator, or by the device plugin only.

use super::dra::{Sharing, shared};
use super::{ConfigFile, ConfigOptions};

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
    ConfigFile {
        name: "device-plugin-config.yaml",
        purpose: "the device plugin's configuration: kubectl apply -f device-plugin-config.yaml"
            .to_owned(),
        text: format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: device-plugin-config\n  \
             namespace: gpu-operator\ndata:\n  any: |-\n{}",
            indented(plugin, 4)
        ),
    }
}

/// The patch of the ClusterPolicy that selects the ConfigMap.
pub(super) fn operator_patch() -> ConfigFile {
    ConfigFile {
        name: "cluster-policy-patch.yaml",
        purpose: "selects it in the GPU Operator: kubectl patch \
                  clusterpolicies.nvidia.com/cluster-policy --type merge --patch-file \
                  cluster-policy-patch.yaml"
            .to_owned(),
        text: "spec:\n  devicePlugin:\n    config:\n      name: device-plugin-config\n      \
               default: any\n"
            .to_owned(),
    }
}

/// Time-slicing if the platform team manages the driver.
pub(super) fn operator_time_slicing(options: &ConfigOptions) -> Vec<ConfigFile> {
    vec![
        operator_config_map(&plugin_time_slicing(options.tenants)),
        operator_patch(),
        tenant(options),
        shared(options, &Sharing::TimeSlicing),
    ]
}

/// Time-slicing if the cloud provider manages the driver.
pub(super) fn direct_time_slicing(options: &ConfigOptions) -> Vec<ConfigFile> {
    let plugin = plugin_time_slicing(options.tenants);
    let values =
        format!("config:\n  default: shared\n  map:\n    shared: |-\n{}", indented(&plugin, 6));
    vec![
        ConfigFile {
            name: "device-plugin-values.yaml",
            purpose: "the device plugin only: helm upgrade --install nvdp \
                      nvdp/nvidia-device-plugin --values device-plugin-values.yaml"
                .to_owned(),
            text: values,
        },
        ConfigFile {
            name: "gpu-operator-values.yaml",
            purpose: "only if the GPU Operator runs beside a driver of the cloud provider: \
                      helm upgrade --install gpu-operator nvidia/gpu-operator --values \
                      gpu-operator-values.yaml"
                .to_owned(),
            text: "driver:\n  enabled: false\ntoolkit:\n  enabled: false\n".to_owned(),
        },
        tenant(options),
        shared(options, &Sharing::TimeSlicing),
    ]
}

fn tenant(options: &ConfigOptions) -> ConfigFile {
    ConfigFile {
        name: "pod.yaml",
        purpose: "a tenant with one of the time-sliced replicas: kubectl apply -f pod.yaml"
            .to_owned(),
        text: super::pod(options, "nvidia.com/gpu", ""),
    }
}

/// The text with each line indented.
pub(super) fn indented(text: &str, spaces: usize) -> String {
    let margin = " ".repeat(spaces);
    text.lines().map(|line| format!("{margin}{line}\n")).collect()
}
