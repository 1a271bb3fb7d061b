//! HAMi: a pod with limits in a cluster, and the same limits for a program on a host.

use super::{ConfigFile, ConfigOptions};

pub(super) fn files(options: &ConfigOptions) -> Vec<ConfigFile> {
    let (memory_mib, percent) = (options.memory_mib, options.percent());
    let limits = format!(
        "          nvidia.com/gpumem: {memory_mib}\n          nvidia.com/gpucores: {percent}\n"
    );
    vec![
        ConfigFile {
            name: "hami-values.yaml",
            purpose:
                "limits that hold also for a tenant alone, and one replica of the GPU for each \
                      tenant: helm upgrade --install hami hami-charts/hami --values \
                      hami-values.yaml"
                    .to_owned(),
            text: values(options),
        },
        ConfigFile {
            name: "label.sh",
            purpose: "enables HAMi's device plugin on the node: sh label.sh NODE".to_owned(),
            text: "#!/bin/sh\nset -eu\nkubectl label nodes \"$1\" gpu=on\n".to_owned(),
        },
        ConfigFile {
            name: "pod.yaml",
            purpose: "a tenant with a memory limit in MiB and a rate limit in percent: \
                      kubectl apply -f pod.yaml"
                .to_owned(),
            text: super::pod(options, "nvidia.com/gpu", &limits),
        },
        ConfigFile {
            name: "hami-run.sh",
            purpose: "the same limits for a program on a host: sh hami-run.sh /path/libvgpu.so \
                      COMMAND; start one tenant after another, and no static binaries"
                .to_owned(),
            text: host(memory_mib, percent),
        },
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
