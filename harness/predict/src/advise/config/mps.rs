//! MPS: the control daemon on a host, or the device plugin in a cluster.

use super::cluster::{operator_config_map, operator_patch};
use super::dra::{Sharing, shared};
use super::{ConfigFile, ConfigOptions};

pub(super) fn files(options: &ConfigOptions) -> Vec<ConfigFile> {
    let tenants = options.tenants;
    let plugin = format!(
        "version: v1\nflags:\n  migStrategy: none\nsharing:\n  mps:\n    renameByDefault: \
         false\n    failRequestsGreaterThanOne: true\n    resources:\n      - name: \
         nvidia.com/gpu\n        replicas: {tenants}\n"
    );
    vec![
        ConfigFile {
            name: "mps-start.sh",
            purpose: "on a host without Kubernetes: sh mps-start.sh GPU-UUID".to_owned(),
            text: start(options),
        },
        ConfigFile {
            name: "mps-tenant.sh",
            purpose:
                "runs a tenant in the environment of mps-start.sh, without which it has no MPS: \
                      sh mps-tenant.sh GPU-UUID COMMAND"
                    .to_owned(),
            text: format!("{HEAD}shift\nexec \"$@\"\n"),
        },
        ConfigFile {
            name: "mps-stop.sh",
            purpose: "ends the daemon of mps-start.sh: sh mps-stop.sh GPU-UUID".to_owned(),
            text: format!("{HEAD}echo quit -t 30 | nvidia-cuda-mps-control\n"),
        },
        operator_config_map(&plugin),
        operator_patch(),
        ConfigFile {
            name: "pod.yaml",
            purpose: "a tenant in the cluster; the device plugin limits its threads and memory to \
                      1 / replicas: kubectl apply -f pod.yaml"
                .to_owned(),
            text: super::pod(options, "nvidia.com/gpu", ""),
        },
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
