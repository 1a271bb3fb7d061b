//! Proofs of `hami` on tables of observations.

use super::{limiter, mapped, serves};
use crate::mechanism::{Observation, TenantObservation};
use gpubench_record::Condition;

const PATH: &str = "/usr/local/vgpu/libvgpu.so";

fn observed(mapped: Option<&str>, allocator: Option<&str>, memory_mib: Option<u64>) -> Observation {
    let reported = [
        ("allocator_file", allocator.map(str::to_owned)),
        ("memory_total_bytes", memory_mib.map(|mib| (mib << 20).to_string())),
    ];
    let tenant = TenantObservation {
        facts: reported
            .into_iter()
            .filter_map(|(name, fact)| Some((name.to_owned(), fact?)))
            .collect(),
        mapped: mapped.map(|file| vec!["/usr/lib/libc.so.6".to_owned(), file.to_owned()]),
        ..TenantObservation::default()
    };
    Observation { tenants: vec![tenant], ..Observation::new(Condition::C, vec![7]) }
}

#[test]
fn the_library_must_be_mapped_and_serve_allocations() {
    for (file, allocator, is_mapped, does_serve) in [
        (Some(PATH), Some(PATH), true, true),
        (Some(PATH), Some("/usr/lib/libcuda.so.1"), true, false),
        (Some("/opt/other/libvgpu.so"), Some(PATH), false, true),
        (None, Some(PATH), false, true),
        (Some(PATH), None, true, false),
    ] {
        let observed = Observation { listed_at_ns: Some(1), ..observed(file, allocator, None) };
        let found = mapped(PATH, &observed).map(|proof| (proof.holds, proof.limiter));
        assert_eq!(found, Some((is_mapped, is_mapped)), "{file:?}");
        assert_eq!(serves(PATH, "00", &observed).holds, does_serve, "{allocator:?}");
    }
    let not_observed = observed(Some(PATH), Some(PATH), None);
    assert_eq!(mapped(PATH, &not_observed), None, "no files were read during the samples");
}

#[test]
fn a_limiter_that_cannot_find_its_process_is_off() {
    let mut observed = observed(None, None, None);
    assert!(limiter(&observed).holds);
    let line = "[HAMI-core ERROR (7:1:utils.c:9)]: host pid is error!".to_owned();
    observed.tenants[0].library_faults = vec![line];
    let proof = limiter(&observed);
    assert!(!proof.holds && proof.evidence.contains("host pid is error!"), "{proof:?}");
}
