//! The configurations of `advise`, against published schemas and the rules of their readers.
//!
//! Kubernetes objects are read into types generated from the published OpenAPI document and written
//! back: an unknown field would be missing. The patch and the values of the GPU Operator and the
//! values of HAMi are checked against what is published of them (`schemas/`). The device plugin,
//! mig-parted and the DRA driver publish no schema; `readers/` has the rules of their readers.

use gpubench_predict::advise::config::{ConfigFile, ConfigOptions, files};
use gpubench_predict::advise::tree::Leaf;

use crate::readers::{PluginValues, check_claim, check_parted, check_plugin, strict};
use crate::schemas::Schema;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, ResourceQuota};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimTemplate};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_yaml_ng::Value;
use std::io::Write;
use std::process::{Command, Stdio};

fn options() -> ConfigOptions {
    ConfigOptions { gpu: Some("A100-80".to_owned()), ..ConfigOptions::default() }
}

#[test]
fn every_leaf_has_a_configuration_that_its_readers_accept() {
    for leaf in Leaf::ALL {
        let files = files(leaf, &options()).expect("a configuration");
        assert!(files.iter().any(|file| file.name == "pod.yaml"), "{leaf:?}");
        for file in files {
            check(leaf, &file);
        }
    }
}

fn check(leaf: Leaf, file: &ConfigFile) {
    let context = format!("{} of {leaf:?}:\n{}", file.name, file.text);
    assert!(file.text.ends_with('\n') && !file.text.contains('\t'), "{context}");
    match file.name {
        name if name.ends_with(".sh") => check_script(&file.text, &context),
        "mig-parted.yaml" => check_parted(&file.text, &context),
        "device-plugin-values.yaml" => {
            let values: PluginValues = strict(&file.text, &context);
            let named = values.config.map.get(&values.config.default).expect(&context);
            check_plugin(named, &context);
        }
        "gpu-operator-values.yaml" => check_operator_values(&file.text, &context),
        "hami-values.yaml" => check_values(&Schema::hami(), &["values"], &file.text, &context),
        "cluster-policy-patch.yaml" => check_policy_patch(file, &context),
        _ => {
            for document in serde_yaml_ng::Deserializer::from_str(&file.text) {
                check_object(Value::deserialize(document).expect(&context), &context);
            }
        }
    }
}

fn check_object(object: Value, context: &str) {
    match object["kind"].as_str() {
        Some("Pod") => same::<Pod>(object, context),
        Some("Namespace") => same::<Namespace>(object, context),
        Some("ResourceQuota") => same::<ResourceQuota>(object, context),
        Some("Role") => same::<Role>(object, context),
        Some("RoleBinding") => same::<RoleBinding>(object, context),
        Some("ResourceClaimTemplate") => {
            check_claim(&object["spec"]["spec"], context);
            same::<ResourceClaimTemplate>(object, context);
        }
        Some("ResourceClaim") => {
            check_claim(&object["spec"], context);
            same::<ResourceClaim>(object, context);
        }
        Some("ConfigMap") => {
            let data = object["data"].as_mapping().expect(context).clone();
            same::<ConfigMap>(object, context);
            for (name, text) in data {
                let text = text.as_str().expect(context);
                match name.as_str() {
                    Some("any") => check_plugin(text, context),
                    Some("config.yaml") => check_parted(text, context),
                    other => panic!("{other:?} in {context}"),
                }
            }
        }
        kind => panic!("{kind:?} is no object that is checked: {context}"),
    }
}

/// Reads an object into its published type and compares the result with the object.
fn same<T: DeserializeOwned + Serialize>(object: Value, context: &str) {
    let typed: T = serde_yaml_ng::from_value(object.clone()).expect(context);
    let kept = serde_yaml_ng::to_value(typed).expect(context);
    assert_eq!(plain(kept), plain(object), "a field is not in the schema: {context}");
}

/// Quantities can be written as numbers; the types have them as text.
fn plain(value: Value) -> Value {
    match value {
        Value::Number(number) => Value::String(number.to_string()),
        Value::Sequence(items) => items.into_iter().map(plain).collect(),
        Value::Mapping(map) => {
            Value::Mapping(map.into_iter().map(|(key, value)| (key, plain(value))).collect())
        }
        other => other,
    }
}

/// Helm accepts values that no template reads. The template copies these parts into the
/// ClusterPolicy (deployments/gpu-operator/templates/clusterpolicy.yaml), so both schemas apply.
fn check_operator_values(text: &str, context: &str) {
    let paths = ["values", "ClusterPolicy.spec"];
    check_values(&Schema::gpu_operator(), &paths, text, context);
}

fn check_values(schema: &Schema, paths: &[&str], text: &str, context: &str) {
    let values: Value = strict(text, context);
    for path in paths {
        let parts = values.as_mapping().expect(context);
        for (name, part) in parts {
            let path = format!("{path}.{}", name.as_str().expect(context));
            assert_eq!(schema.problem(&path, part), None, "{context}");
        }
    }
}

fn check_policy_patch(file: &ConfigFile, context: &str) {
    let patch: Value = strict(&file.text, context);
    let schema = Schema::gpu_operator();
    let parts = patch.as_mapping().expect(context);
    assert_eq!(parts.len(), 1, "a patch changes the spec alone: {context}");
    let problem = schema.problem("ClusterPolicy.spec", &patch["spec"]);
    assert_eq!(problem, None, "{context}");
    // The name of the object in the chart.
    let command = format!("kubectl patch {}/cluster-policy ", schema.resource());
    assert!(file.purpose.contains(&command), "{}", file.purpose);
}

/// The shell parses the script without running it.
fn check_script(text: &str, context: &str) {
    let mut shell = Command::new("sh").arg("-n").stdin(Stdio::piped()).spawn().expect("a shell");
    let mut stdin = shell.stdin.take().expect("stdin was piped");
    stdin.write_all(text.as_bytes()).expect("the shell reads");
    drop(stdin);
    assert!(shell.wait().expect("the shell ends").success(), "{context}");
    assert!(text.starts_with("#!/bin/sh\nset -eu\n"), "{context}");
    // Commands that appear in guides but do not exist.
    for invented in ["nvidia-smi -mps", "-cip ", "-server -get"] {
        assert!(!text.contains(invented), "{invented} in {context}");
    }
}

#[test]
fn the_checks_refuse_wrong_files() {
    let broken = |file: &ConfigFile, from: &str, to: &str| {
        assert!(file.text.contains(from), "{from} is not in {}", file.text);
        let mut file = file.clone();
        file.text = file.text.replace(from, to);
        std::panic::catch_unwind(|| check(Leaf::Mps, &file)).is_err()
    };
    let of = |leaf: Leaf, name: &str| {
        let files = files(leaf, &options()).expect("a configuration");
        let mut files = files.into_iter();
        files.find(|file| file.name == name).expect("the file")
    };
    let pod = of(Leaf::Mps, "pod.yaml");
    assert!(broken(&pod, "restartPolicy", "restartPolice"));
    let map = of(Leaf::Mps, "device-plugin-config.yaml");
    assert!(broken(&map, "resources:", "resource:"));
    assert!(broken(&map, "flags:\n      migStrategy: none\n    sharing:", "sharing:\n      x: 1"));
    let parted = of(Leaf::Mig, "mig-parted-config.yaml");
    assert!(broken(&parted, "mig-devices:", "mig-instances:"));
    let patch = of(Leaf::Mps, "cluster-policy-patch.yaml");
    assert!(broken(&patch, "devicePlugin:", "devicePlugins:"));
    assert!(broken(&patch, "default: any", "defaultConfig: any"));
    assert!(broken(&patch, "name: device-plugin-config", "name: 1"));
    assert!(broken(&patch, "spec:", "status:"));
    let values = of(Leaf::Mig, "gpu-operator-values.yaml");
    assert!(broken(&values, "strategy: mixed", "strategy: mix"));
    assert!(broken(&values, "default: all-disabled", "default: tenants"));
    assert!(broken(&values, "migManager:", "migParted:"));
    let values = of(Leaf::TimeSlicingDirect, "gpu-operator-values.yaml");
    assert!(broken(&values, "enabled: false", "enabled: \"false\""));
    let values = of(Leaf::Hami, "hami-values.yaml");
    assert!(broken(&values, "Policy: force", "Policy: forced"));
    assert!(broken(&values, "deviceSplitCount: 4", "deviceSplitCount: \"4\""));
    assert!(broken(&values, "deviceSplitCount", "splitCount"));
    let claim = of(Leaf::Mps, "dra.yaml");
    assert!(broken(&claim, "strategy: MPS", "strategy: Mps"));
    assert!(broken(&claim, "strategy: MPS", "strategy: TimeSlicing"));
    assert!(broken(&claim, "ThreadPercentage: 25", "ThreadPercentage: 125"));
    assert!(broken(&claim, "kind: GpuConfig", "kind: MigDeviceConfig"));
    assert!(broken(&claim, "requests: [\"gpu\"]", "requests: [\"gpus\"]"));
    assert!(broken(&claim, "exactly:", "precisely:"));
    let claim = of(Leaf::TimeSlicingOperator, "dra.yaml");
    assert!(broken(&claim, "interval: Default", "interval: 2ms"));
    let claim = of(Leaf::Mig, "dra.yaml");
    assert!(broken(&claim, "mig.nvidia.com", "mig-1g.nvidia.com"));
}

#[test]
fn the_files_contain_the_options() {
    let text = |leaf: Leaf, options: &ConfigOptions| {
        let files = files(leaf, options).expect("a configuration");
        files.into_iter().map(|file| file.text).collect::<String>()
    };
    let mut wanted = options();
    wanted.layout = vec!["1g.10gb".to_owned(), "3g.40gb".to_owned()];
    let mig = text(Leaf::Mig, &wanted);
    assert!(mig.contains("-cgi 3g.40gb,1g.10gb -C"), "{mig}");
    assert!(mig.contains("nvidia.com/mig-1g.10gb: 1"), "{mig}");
    let mps = text(Leaf::Mps, &ConfigOptions { tenants: 5, ..options() });
    assert!(mps.contains("set_default_active_thread_percentage 20 "), "{mps}");
    let hami = text(Leaf::Hami, &ConfigOptions { memory_mib: 3000, ..options() });
    assert!(hami.contains("nvidia.com/gpumem: 3000"), "{hami}");
    assert!(hami.contains("CUDA_DEVICE_MEMORY_LIMIT=3000M"), "{hami}");
}

#[test]
fn wrong_values_are_refused_on_one_line() {
    let refused = |leaf: Leaf, change: fn(&mut ConfigOptions)| {
        let mut options = options();
        change(&mut options);
        let error = files(leaf, &options).expect_err("refused").to_string();
        assert!(!error.contains('\n'), "{error}");
        error
    };
    assert!(refused(Leaf::Mps, |o| o.tenants = 1).contains("tenants is 1"));
    assert!(refused(Leaf::Mig, |o| o.tenants = 9).contains("at most 7"));
    assert!(refused(Leaf::Mig, |o| o.gpu = None).contains("the GPU is missing"));
    assert!(refused(Leaf::Mig, |o| o.layout = vec!["1g.5gb".to_owned()]).contains("1g.10gb"));
    assert!(refused(Leaf::Mig, |o| o.layout = vec!["4g.40gb".to_owned(); 2]).contains("fits on"));
    assert!(refused(Leaf::Hami, |o| o.memory_mib = 0).contains("memory_mib is 0"));
    assert!(refused(Leaf::Hami, |o| "A b".clone_into(&mut o.namespace)).contains("namespace"));
    assert!(refused(Leaf::Hami, |o| "x\ny: 1".clone_into(&mut o.image)).contains("image is"));
}
