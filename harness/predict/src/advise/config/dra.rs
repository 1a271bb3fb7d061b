//! Dynamic resource allocation: claims for NVIDIA's DRA driver, in place of the device plugin.
//!
//! A claim template gives each pod a device of its own. Tenants in different pods share a device
//! through one claim that all of them name. Sharing is a setting of the claim (`GpuConfig`), and
//! the driver refuses it unless its feature gate is on.

use super::{ConfigFile, ConfigOptions};

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
    ConfigFile {
        name: "dra.yaml",
        purpose: "with NVIDIA's DRA driver in place of the device plugin (Kubernetes 1.34 or \
                  newer): kubectl apply -f dra.yaml"
            .to_owned(),
        text: claim + &pod(options, "resourceClaimTemplateName"),
    }
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
    ConfigFile {
        name: "dra.yaml",
        purpose: format!(
            "with NVIDIA's DRA driver in place of the device plugin (Kubernetes 1.34 or newer, \
             feature gate {gate}=true of the driver): kubectl apply -f dra.yaml; each of the \
             {tenants} tenants names the same claim"
        ),
        text: claim + &pod(options, "resourceClaimName"),
    }
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
