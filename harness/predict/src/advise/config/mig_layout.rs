//! MIG: a layout for mig-parted, the mixed strategy of the device plugin, and a pod.

use super::cluster::{indented, operator_config_map, operator_patch};
use super::{ConfigFile, ConfigOptions};
use crate::error::PredictError;
use crate::mig::placement::place;
use crate::mig::{Profile, Table};

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
        ConfigFile {
            name: "mig-parted.yaml",
            purpose: "on a host: nvidia-mig-parted apply -f mig-parted.yaml -c tenants".to_owned(),
            text: parted,
        },
        ConfigFile {
            name: "mig.sh",
            purpose: "the same with nvidia-smi only: sh mig.sh INDEX".to_owned(),
            text: nvidia_smi(table, &layout),
        },
        ConfigFile {
            name: "mig-parted-config.yaml",
            purpose: "in a cluster: kubectl apply -f mig-parted-config.yaml, then label the node \
                      nvidia.com/mig.config=tenants"
                .to_owned(),
            text: map,
        },
        operator_config_map(plugin),
        operator_patch(),
        ConfigFile {
            name: "gpu-operator-values.yaml",
            purpose:
                "for the MIG manager of the GPU Operator: helm upgrade --install gpu-operator \
                      nvidia/gpu-operator --values gpu-operator-values.yaml"
                    .to_owned(),
            text: "mig:\n  strategy: mixed\nmigManager:\n  config:\n    name: \
                   mig-parted-config\n    default: all-disabled\n"
                .to_owned(),
        },
        ConfigFile {
            name: "pod.yaml",
            purpose: "a tenant with one instance: kubectl apply -f pod.yaml".to_owned(),
            text: super::pod(options, &resource, ""),
        },
        super::dra::of_its_own(options, Some(&layout[0].name)),
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
