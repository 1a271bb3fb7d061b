//! The packing rule: a worked case, layouts against counts by hand, and refused input.

use gpubench_predict::pack::output::page;
use gpubench_predict::pack::{Demand, report};
use gpubench_show::{Look, json};
use proptest::prelude::*;

const WORKED: &str = r#"
gpu = "A100-80"
target = 0.75
price = { per_hour = 2.5 }

[[tenant]]
name = "chat"
count = 100
parameters_billion = 2
bytes_per_parameter = 1
cache_gb = 4
compute = 0.12
"#;

fn demand(text: &str) -> Demand {
    Demand::from_toml(text).expect("a demand")
}

#[test]
fn the_worked_case_has_its_published_figures() {
    let found = report(&demand(WORKED)).expect("a report");
    let kind = &found.kinds[0];
    assert_eq!(kind.memory_gb, 6.0);
    assert_eq!((kind.bound.by_memory, kind.bound.by_compute, kind.bound.tenants), (13, 8, 8));
    assert_eq!((kind.by_mps, kind.by_time_slicing, kind.by_mig), (8, 8, Some(7)));
    assert_eq!(kind.mig_layout.as_deref(), Some("7x1g.10gb"));
    // ceil(100 / (8 * 0.75)), and 100 * 0.12 of 17 GPUs are used.
    assert_eq!(found.fleet_gpus, 17);
    assert!((found.fleet_utilisation - 12.0 / 17.0).abs() < 1e-12);
    let cost = found.cost.expect("a price was given");
    assert!((cost.fleet_per_year - 2.5 * 8760.0 * 17.0).abs() < 1e-6);
    assert!((cost.idle_per_year - 2.5 * 8760.0 * 5.0).abs() < 1e-6);
    let text = page(&found).text(Look::PIPED);
    assert!(text.contains("MIG holds 7; 1 more fit under MPS or time-slicing"), "{text}");
    assert!(json(&found).is_ok_and(|text| text.contains("\"binding\": \"compute\"")));
}

#[test]
fn instances_have_the_memory_and_the_sms_that_a_gpu_reported() {
    let text = "gpu = \"H100-80\"\n[[tenant]]\nname = \"x\"\nmemory_gb = 10\ncompute = 0.1\n";
    let found = report(&demand(text)).expect("a report");
    let layouts = found.layouts.as_ref().expect("layouts");
    let one = layouts.iter().find(|one| one.name == "1g.10gb").expect("the smallest");
    // 9984 MiB and 16 SMs of 132.
    assert!((one.spare_memory_gb - 0.469).abs() < 0.001, "{one:?}");
    assert!(one.spare_sm.is_some_and(|sm| (sm - 2.8).abs() < 1e-9), "{one:?}");
    let text = page(&found).text(Look::PIPED);
    assert!(text.contains("of instances: nvidia-smi mig -lgip on an H100 80GB HBM3"), "{text}");
    assert!(text.contains("includes its context"), "{text}");
}

#[test]
fn what_mig_holds_fits_the_whole_gpu() {
    // An instance of half an H200 has 69.75 GiB, which is 74.9 GB.
    let text = "gpu = \"H200-141\"\n[[tenant]]\nname = \"x\"\nmemory_gb = 74\ncompute = 0.4\n";
    let found = report(&demand(text)).expect("a report");
    let kind = &found.kinds[0];
    assert_eq!((kind.bound.by_memory, kind.by_mps, kind.by_mig), (2, 2, Some(2)));
    assert!((found.gpu_memory_gb - 150.32).abs() < 0.01, "{found:?}");
    for table in gpubench_predict::mig::tables() {
        for mix in gpubench_predict::mig::mixes(table) {
            let held_gb: f64 = mix.iter().map(|profile| profile.memory_gb()).sum();
            assert!(held_gb <= table.usable_gb(), "{}: {held_gb}", table.name);
        }
    }
}

#[test]
fn mixed_tenants_get_mixed_instances() {
    let found = report(&demand(
        r#"
gpu = "A100-40"
[[tenant]]
name = "large"
memory_gb = 18
compute = 0.5
[[tenant]]
name = "small"
count = 3
memory_gb = 4
compute = 0.1
"#,
    ))
    .expect("a report");
    let best = &found.layouts.as_ref().expect("an A100 has MIG")[0];
    // 4g has 56 of 108 SMs; 3g has 42, too few for half. Three small ones fill the remaining slots.
    assert_eq!((best.name.as_str(), best.held), ("3x1g.5gb + 4g.20gb", 4));
    assert_eq!(best.outside_sm, Some(108 - 56 - 3 * 14));
    assert!((best.spare_sm.expect("known") - (98.0 - 0.8 * 108.0)).abs() < 1e-9);
    let large = best.instances.iter().find(|instance| instance.profile == "4g.20gb");
    assert_eq!(large.and_then(|instance| instance.tenant.as_deref()), Some("large"));
}

#[test]
fn a_tenant_larger_than_the_gpu_fits_nowhere() {
    let text = "gpu = \"A30\"\n[[tenant]]\nname = \"x\"\nmemory_gb = 20\ncompute = 1.0\n";
    let found = report(&demand(text)).expect("a report");
    assert_eq!(found.kinds[0].by_mig, Some(1));
    assert_eq!(found.kinds[0].mig_layout.as_deref(), Some("4g.24gb"));
    let refused = report(&demand(&text.replace("= 20", "= 30"))).expect_err("too large");
    assert_eq!(
        refused.to_string(),
        "memory_gb of x is 30: accepted is at most the 24 GB of the GPU"
    );
    let text = text.replace("A30", "H200-141").replace("= 20", "= 151");
    let refused = report(&demand(&text)).expect_err("too large");
    assert_eq!(
        refused.to_string(),
        "memory_gb of x is 151: accepted is at most the 150.32 GB of the GPU"
    );
}

#[test]
fn wrong_values_are_refused_on_one_line() {
    let tenant = "[[tenant]]\nname = \"x\"\nmemory_gb = 6\ncompute = 0.12\n";
    let cases = [
        ("gpu = \"A100-80\"".to_owned(), "a tenant is missing"),
        (tenant.to_owned(), "the memory of the GPU is missing"),
        (format!("gpu = \"V100\"\n{tenant}"), "unknown MIG-capable GPU \"V100\""),
        (format!("memory_gb = -1\n{tenant}"), "memory_gb is -1"),
        (format!("memory_gb = 80\ntarget = 0\n{tenant}"), "target is 0"),
        (format!("memory_gb = 80\nmps_clients = 0\n{tenant}"), "mps_clients is 0"),
        (format!("memory_gb = 80\nprice = {{ per_hour = -2 }}\n{tenant}"), "price.per_hour is -2"),
        (format!("memory_gb = 80\nprice = {{ per_day = 2 }}\n{tenant}"), "demand, line 2"),
        (format!("memory_gb = 80\n{tenant}count = 0"), "count of x is 0"),
        (format!("memory_gb = 80\n{tenant}count = -1"), "demand, line 6"),
        (format!("memory_gb = 80\n{tenant}cache_gb = 1\nutilisation = 2"), "utilisation of x is 2"),
        (
            format!("memory_gb = 80\n{tenant}parameters_billion = 1\nbytes_per_parameter = 1"),
            "memory_gb of x is set twice",
        ),
        (
            "memory_gb = 80\n[[tenant]]\nname = \"y\"\ncompute = 0.1".to_owned(),
            "the memory of y is missing",
        ),
        (
            "memory_gb = 80\n[[tenant]]\nname = \"y\"\nmemory_gb = 1\ncompute = 1.2".to_owned(),
            "compute of y is 1.2",
        ),
    ];
    for (text, expected) in cases {
        let refused = Demand::from_toml(&text).and_then(|demand| report(&demand).map(|_| ()));
        let error = refused.expect_err(&text).to_string();
        assert!(error.contains(expected) && !error.contains('\n'), "{text}: {error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// The bound is the largest number that fits: n fits, n + 1 does not. First fit uses at least
    /// the GPUs of the larger demand and places every tenant.
    #[test]
    fn the_bound_is_tight(
        memory_gb in 0.5..79.0_f64,
        compute in 0.01..1.0_f64,
        count in 1_u64..60,
    ) {
        let text = format!(
            "memory_gb = 80\n[[tenant]]\nname = \"x\"\ncount = {count}\nmemory_gb = {memory_gb}\n\
             compute = {compute}\n"
        );
        let found = report(&demand(&text)).expect("a report");
        let n = found.kinds[0].bound.tenants as f64;
        prop_assert!(n * memory_gb <= 80.0 + 1e-6 && n * compute <= 1.0 + 1e-6);
        prop_assert!((n + 1.0) * memory_gb > 80.0 || (n + 1.0) * compute > 1.0);
        let fill = found.fill;
        prop_assert!(fill.gpus_by_first_fit as f64 + 1e-6 >= fill.memory.max(fill.compute));
        prop_assert_eq!(fill.gpus_by_first_fit, count.div_ceil(n as u64));
        prop_assert_eq!(fill.unplaceable, 0);
    }

    /// Every layout is legal and has one fitting tenant per instance.
    #[test]
    fn layouts_hold_what_they_say(memory_gb in 1.0..40.0_f64, compute in 0.02..0.9_f64) {
        let text = format!(
            "gpu = \"H200-141\"\n[[tenant]]\nname = \"x\"\ncount = 7\nmemory_gb = {memory_gb}\n\
             compute = {compute}\n"
        );
        let found = report(&demand(&text)).expect("a report");
        let layouts = found.layouts.expect("an H200 has MIG");
        prop_assert!(layouts.is_sorted_by(|a, b| a.held >= b.held));
        for layout in layouts {
            prop_assert_eq!(layout.held as usize, layout.instances.len());
            prop_assert!(layout.spare_memory_gb >= -1e-9);
            prop_assert!(layout.spare_sm.is_some_and(|sm| sm >= -1e-6));
        }
    }
}
