//! The catalogue: what gpubench knows by name. Axes, mechanisms, workloads and faults, with the
//! facts that profiles, plans, reports and lists need. Data only; device code is in
//! `gpubench-workloads`, and what sets a mechanism up is in `gpubench-host`.

pub mod axis;
pub mod fault;
pub mod mechanism;
pub mod workload;
