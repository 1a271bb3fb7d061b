//! Proofs of `hami` on tables of observations.

use super::{hooked, limiter};
use crate::mechanism::{Observation, TenantObservation};
use gpubench_record::Condition;

const PATH: &str = "/usr/local/vgpu/libvgpu.so";

fn observed(mapped: Option<&str>, allocator: Option<&str>, memory_mib: Option<u64>) -> Observation {
    let reported = [
        ("allocator_file", allocator.map(str::to_owned)),
        (
            "memory_total_bytes",
            memory_mib.map(|mib| (mib << 20).to_string()),
        ),
    ];
    let tenant = TenantObservation {
        facts: reported
            .into_iter()
            .filter_map(|(name, fact)| Some((name.to_owned(), fact?)))
            .collect(),
        mapped: mapped.map(|file| vec!["/usr/lib/libc.so.6".to_owned(), file.to_owned()]),
        ..TenantObservation::default()
    };
    Observation {
        tenants: vec![tenant],
        ..Observation::new(Condition::C, vec![7])
    }
}

#[test]
fn the_library_must_be_mapped_and_serve_allocations() {
    for (mapped, allocator, expected) in [
        (Some(PATH), Some(PATH), true),
        (Some(PATH), Some("/usr/lib/libcuda.so.1"), false),
        (Some("/opt/other/libvgpu.so"), Some(PATH), false),
        (None, Some(PATH), false),
        (Some(PATH), None, false),
    ] {
        let proof = hooked(PATH, "00", &observed(mapped, allocator, None));
        assert_eq!(
            (proof.holds, proof.limiter),
            (expected, expected),
            "{proof:?}"
        );
    }
}

#[test]
fn a_limiter_that_cannot_find_its_process_is_off() {
    for (stderr_tail, expected) in [
        ("", true),
        ("[HAMI-core Warn(7:1:utils.c:9)]: something else\n", true),
        (
            "x\n[HAMI-core ERROR (7:1:utils.c:9)]: host pid is error!\n",
            false,
        ),
        ("[vgpu stand-in 7] SET_TASK_PID FAILED.\n", false),
    ] {
        let mut observed = observed(None, None, None);
        observed.tenants[0].stderr_tail = stderr_tail.to_owned();
        assert_eq!(limiter(&observed).holds, expected, "{stderr_tail}");
    }
}
