//! One tenant per GPU: a pod with a whole GPU, and access rules that exclude other pods.

use super::{ConfigFile, ConfigOptions};

/// A pod with a whole GPU.
pub(super) fn pod(options: &ConfigOptions) -> ConfigFile {
    ConfigFile {
        name: "pod.yaml",
        purpose: "a tenant with a whole GPU: kubectl apply -f pod.yaml".to_owned(),
        text: super::pod(options, "nvidia.com/gpu", ""),
    }
}

/// Single tenancy: hard isolation without MIG.
pub(super) fn single_tenancy(options: &ConfigOptions) -> Vec<ConfigFile> {
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
        ConfigFile {
            name: "taint.sh",
            purpose: "keeps pods without a toleration off the GPU node: sh taint.sh NODE"
                .to_owned(),
            text: "#!/bin/sh\nset -eu\nkubectl taint nodes \"$1\" \
                   nvidia.com/gpu=exclusive:NoSchedule\n"
                .to_owned(),
        },
        ConfigFile {
            name: "access.yaml",
            purpose: "one GPU for the tenant's namespace, which only the tenant can use: \
                      kubectl apply -f access.yaml"
                .to_owned(),
            text: access,
        },
        pod(options),
        super::dra::of_its_own(options, None),
    ]
}
