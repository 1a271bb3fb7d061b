//! The data files of gpubench, as texts with their names. The packages that use them parse them.

/// The profiles by name; all others are laid over the first.
pub const PROFILES: &[(&str, &str)] = &[
    ("default", include_str!("default.toml")),
    ("smoke", include_str!("smoke.toml")),
    ("nightly", include_str!("nightly.toml")),
    ("weekly", include_str!("weekly.toml")),
    ("online-inference", include_str!("online-inference.toml")),
    ("notebooks", include_str!("notebooks.toml")),
    ("batch-training", include_str!("batch-training.toml")),
    ("student-lab", include_str!("student-lab.toml")),
    ("saas-hostile", include_str!("saas-hostile.toml")),
    ("oversubscription", include_str!("oversubscription.toml")),
    ("scaling", include_str!("scaling.toml")),
    ("pairs", include_str!("pairs.toml")),
    ("equal", include_str!("equal.toml")),
    ("shares", include_str!("shares.toml")),
    ("depth", include_str!("depth.toml")),
    ("load-curve", include_str!("load-curve.toml")),
    ("transients", include_str!("transients.toml")),
    ("energy", include_str!("energy.toml")),
    ("attribution", include_str!("attribution.toml")),
    // `claims.toml` is the ledger itself.
    ("claims", include_str!("claims-profile.toml")),
];

/// The claims ledger.
pub const CLAIMS: &str = include_str!("claims.toml");

/// Geometry tables of MIG, in report order.
pub const MIG: &[&str] = &[
    include_str!("mig/a100_40.toml"),
    include_str!("mig/a100_80.toml"),
    include_str!("mig/a30.toml"),
    include_str!("mig/h100_80.toml"),
    include_str!("mig/h100_94.toml"),
    include_str!("mig/h200_141.toml"),
    include_str!("mig/gh200_96.toml"),
    include_str!("mig/gh200_144.toml"),
    include_str!("mig/b200.toml"),
    include_str!("mig/gb200.toml"),
    include_str!("mig/b300.toml"),
    include_str!("mig/rtx_pro_6000.toml"),
    include_str!("mig/rtx_pro_5000.toml"),
    include_str!("mig/rtx_pro_4500.toml"),
];

/// Machines of the virtual GPU.
pub const MACHINES: &[(&str, &str)] = &[
    ("hopper", HOPPER),
    ("turing", TURING),
    ("a100-80", include_str!("machines/a100-80.toml")),
    ("h100-80", include_str!("machines/h100-80.toml")),
    ("h200", include_str!("machines/h200.toml")),
    ("b200", include_str!("machines/b200.toml")),
    ("t4", include_str!("machines/t4.toml")),
    ("l4", include_str!("machines/l4.toml")),
    ("a10", include_str!("machines/a10.toml")),
];

/// A data-centre GPU with MIG, on which tests rest.
pub const HOPPER: &str = include_str!("machines/hopper.toml");

/// A small GPU without MIG, on which tests rest.
pub const TURING: &str = include_str!("machines/turing.toml");

/// What documentation says of each fault.
/// Hosts that people reported, each laid over a machine.
pub const HOSTS: &str = include_str!("machines/hosts.toml");

pub const DOCUMENTED_FAULTS: &str = include_str!("machines/documented-faults.toml");
