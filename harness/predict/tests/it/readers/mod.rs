//! The rules of programs that read a configuration and publish no schema: the device plugin
//! (k8s-device-plugin api/config/v1), mig-parted (api/spec/v1) and the DRA driver
//! (dra-driver-nvidia-gpu api/nvidia.com/resource/v1beta1).

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_yaml_ng::Value;
use std::collections::BTreeMap;

/// Reads YAML, and panics with the context where it does not fit.
pub fn strict<T: DeserializeOwned>(text: &str, context: &str) -> T {
    serde_yaml_ng::from_str(text).unwrap_or_else(|error| panic!("{error} in {context}"))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Plugin {
    version: String,
    flags: Flags,
    sharing: Option<Sharing>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Flags {
    mig_strategy: String,
}

/// Exactly one of the two: the plugin refuses both together.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Sharing {
    time_slicing: Option<Replicated>,
    mps: Option<Replicated>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Replicated {
    rename_by_default: bool,
    fail_requests_greater_than_one: bool,
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Resource {
    name: String,
    replicas: u32,
}

pub fn check_plugin(text: &str, context: &str) {
    let plugin: Plugin = strict(text, context);
    assert_eq!(plugin.version, "v1", "{context}");
    assert!(["none", "single", "mixed"].contains(&plugin.flags.mig_strategy.as_str()), "{context}");
    let Some(sharing) = plugin.sharing else {
        assert_eq!(plugin.flags.mig_strategy, "mixed", "{context}");
        return;
    };
    assert!(sharing.mps.is_none() || sharing.time_slicing.is_none(), "{context}");
    let replicated = sharing.mps.or(sharing.time_slicing).expect(context);
    // The plugin refuses a rename together with the default name, and fewer than two replicas.
    assert!(!replicated.rename_by_default && replicated.fail_requests_greater_than_one);
    let [resource] = replicated.resources.as_slice() else { panic!("{context}") };
    assert_eq!((resource.name.as_str(), resource.replicas), ("nvidia.com/gpu", 4), "{context}");
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Parted {
    version: String,
    mig_configs: BTreeMap<String, Vec<PartedDevices>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct PartedDevices {
    devices: String,
    mig_enabled: bool,
    mig_devices: Option<BTreeMap<String, u32>>,
}

pub fn check_parted(text: &str, context: &str) {
    let parted: Parted = strict(text, context);
    assert_eq!(parted.version, "v1", "{context}");
    for entry in parted.mig_configs.values().flatten() {
        assert_eq!(entry.devices, "all", "{context}");
        // The reader requires devices if, and only if, MIG is enabled.
        assert_eq!(entry.mig_enabled, entry.mig_devices.is_some(), "{context}");
    }
    let tenants = parted.mig_configs["tenants"][0].mig_devices.as_ref().expect(context);
    assert_eq!(tenants, &BTreeMap::from([("1g.20gb".to_owned(), 4)]), "{context}");
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginValues {
    pub config: PluginConfig,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginConfig {
    pub default: String,
    pub map: BTreeMap<String, String>,
}

/// The settings of a claim that the DRA driver reads, strictly.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct GpuConfig {
    api_version: String,
    kind: String,
    sharing: GpuSharing,
}

/// The setting of the other strategy must be absent.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct GpuSharing {
    strategy: String,
    time_slicing_config: Option<TimeSlicing>,
    mps_config: Option<Mps>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TimeSlicing {
    interval: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Mps {
    default_active_thread_percentage: u32,
}

/// The spec of a claim: one request of a class of the driver, and settings for that request.
pub fn check_claim(spec: &Value, context: &str) {
    let devices = &spec["devices"];
    let requests = devices["requests"].as_sequence().expect(context);
    let [request] = requests.as_slice() else { panic!("{context}") };
    let class = request["exactly"]["deviceClassName"].as_str();
    let class = class.expect(context);
    assert!(["gpu.nvidia.com", "mig.nvidia.com"].contains(&class), "{context}");
    let configs = devices["config"].as_sequence();
    for config in configs.into_iter().flatten() {
        assert_eq!(config["requests"][0], request["name"], "{context}");
        assert_eq!(config["opaque"]["driver"], "gpu.nvidia.com", "{context}");
        let parameters = config["opaque"]["parameters"].clone();
        check_gpu_config(serde_yaml_ng::from_value(parameters).expect(context), context);
    }
}

fn check_gpu_config(config: GpuConfig, context: &str) {
    let kind = (config.api_version.as_str(), config.kind.as_str());
    assert_eq!(kind, ("resource.nvidia.com/v1beta1", "GpuConfig"), "{context}");
    let sharing = config.sharing;
    match (sharing.strategy.as_str(), sharing.time_slicing_config, sharing.mps_config) {
        ("TimeSlicing", Some(slice), None) => {
            let known = ["Default", "Short", "Medium", "Long"];
            assert!(known.contains(&slice.interval.as_str()), "{context}");
        }
        ("MPS", None, Some(mps)) => {
            assert!(mps.default_active_thread_percentage <= 100, "{context}");
        }
        (strategy, ..) => panic!("{strategy} with other settings in {context}"),
    }
}
