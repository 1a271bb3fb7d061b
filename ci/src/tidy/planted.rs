//! The harness measures what a machine file plants and never reads it.

use crate::package::product_tokens;
use crate::scan::reads;
use crate::tidy::Finding;
use crate::tree::Tree;

/// The virtual GPU, which does what its machine file says.
const VIRTUAL_GPU: &str = "harness/virtual-gpu/";

/// The listing of `doctor`, from the session to the text.
const LISTING: &[&str] = &[
    "harness/src/judge/device_session.rs",
    "harness/src/judge/host_report/",
    "harness/src/cli/doctor.rs",
];

/// How code reads planted defects and noise of a machine, in tokens separated by spaces.
const READS: &[&str] = &[
    "Defects",
    "Noise",
    ". defects",
    ". noise",
    ". planted (",
    ". noise_lines (",
    "Machine :: planted",
    "Machine :: noise_lines",
];

/// Product code outside the virtual GPU and the listing of `doctor` reads no planted defect: a real
/// host has no list of its defects either.
pub fn unread(tree: &Tree) -> Vec<Finding> {
    let is_allowed = |path: &str| {
        path.starts_with(VIRTUAL_GPU) || LISTING.iter().any(|listed| path.starts_with(listed))
    };
    let mut found = Vec::new();
    for file in tree.rust().filter(|file| is_product(&file.path)) {
        if is_allowed(&file.path) {
            continue;
        }
        let scanned = product_tokens(&file.text);
        for (at, token) in scanned.iter().enumerate() {
            if let Some(read) = READS.iter().find(|read| reads(&scanned, at, read)) {
                let read = read.replace(' ', "");
                let message = format!("{read}: measure it, as on a host without a machine file");
                found.push(Finding::new(&file.path, token.line, message));
            }
        }
    }
    found
}

/// Files under `src`: tests and examples plant defects themselves.
fn is_product(path: &str) -> bool {
    path.contains("/src/") && !path.contains("/tests/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        unread(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn planted_defects_are_read_by_the_virtual_gpu_and_doctor_only() {
        for bad in [
            "fn f(m: &Machine) -> bool { m.defects.mps_unreachable }",
            "use gpubench_virtual_gpu::machine::Defects;",
            "fn f(d: &Device) { d.machine().planted() }",
            "fn f(s: Option<&Machine>) { s.map(Machine::planted) }",
            "fn f(m: &Machine) -> f64 { m.noise.request }",
        ] {
            assert_eq!(count("harness/src/plan/a.rs", bad), 1, "{bad}");
            assert_eq!(count("workloads/src/a.rs", bad), 1, "{bad}");
            assert_eq!(count("harness/virtual-gpu/model/src/a.rs", bad), 0, "{bad}");
            assert_eq!(count("harness/src/cli/doctor.rs", bad), 0, "{bad}");
            assert_eq!(count("harness/tests/it/a.rs", bad), 0, "{bad}");
        }
        for good in [
            "fn f(fault: &Fault) -> bool { fault.planted_only }",
            "// the machine's .defects\nfn f(m: &Machine) -> u32 { m.sms }",
            "#[cfg(test)] mod t { fn f(m: &mut Machine) { m.defects.fault_xid = 1; } }",
        ] {
            assert_eq!(count("harness/src/plan/a.rs", good), 0, "{good}");
        }
    }
}
