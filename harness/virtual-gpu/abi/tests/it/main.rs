//! The virtual GPU through its C interface, by processes that each have a device of their own. The
//! other programs of this folder open the device of their own process, of which there is one.
#![allow(clippy::disallowed_methods, reason = "tests start processes and read the clock")]

/// The full name of the test that this stands in, for processes that run it in another role.
macro_rules! test_name {
    () => {{
        fn here() {}
        $crate::name_around(here)
    }};
}

fn name_around<F>(_: F) -> &'static str {
    let name = std::any::type_name::<F>().trim_end_matches("::here");
    name.trim_end_matches("::{{closure}}")
}

fn harness_test(file: &str) -> std::io::Result<String> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/it");
    std::fs::read_to_string(folder.join(file))
}

mod clients;
mod compute_mode;
mod crash_points;
mod determinism;
mod driver_ipc;
mod driver_lock;
#[path = "../driver_support/mod.rs"]
mod driver_support;
mod green_contexts;
mod kills;
mod mps;
mod mps_faults;
mod mps_limits;
mod mps_support;
mod mps_v3;
mod nvml_circumstances;
mod nvml_counters;
mod nvml_events;
mod nvml_h100;
mod nvml_identity;
mod nvml_layout;
mod nvml_library;
mod nvml_load;
mod nvml_mig;
mod nvml_mig_device;
mod nvml_monitor;
mod nvml_mps_clients;
mod nvml_support;
mod peaks;
mod planted;
mod process_exit;
mod run_time_limit;
mod virtual_time;

/// The filter that runs one test of this program, whose crate's name filters leave out.
fn filter_of(test: &str) -> &str {
    test.split_once("::").map_or(test, |(_, name)| name)
}
