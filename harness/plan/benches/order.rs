//! What a plan costs: every cell of a host with several mechanisms, in its order.

use criterion::{Criterion, criterion_group, criterion_main};
use gpubench_plan::profile::{Overrides, built_in};
use gpubench_plan::{Availability, Capabilities, Capability, VariantRef, plan, time_of};
use gpubench_record::MechanismProperties;

fn host(under_test: usize) -> Capabilities {
    let names = (0..under_test).map(|number| format!("m{number}"));
    let capability = |name: String| Capability {
        variant: VariantRef::new(&name, &name),
        group: "g0".to_owned(),
        availability: Availability::Available,
        host_changes: Vec::new(),
        needs_native: true,
        separate: false,
        properties: MechanismProperties::of_format_1_0(&name),
        unprotected: None,
    };
    let all = std::iter::once("exclusive".to_owned()).chain(names);
    Capabilities {
        mechanisms: all.map(capability).collect(),
        required_proofs: std::collections::BTreeMap::new(),
    }
}

fn order(c: &mut Criterion) {
    let profile = built_in("default", &Overrides::default()).unwrap();
    for under_test in [1, 8] {
        let host = host(under_test);
        c.bench_function(&format!("plan of {under_test} mechanisms"), |b| {
            b.iter(|| plan(&profile, &host, "ptx").unwrap());
        });
        let plan = plan(&profile, &host, "ptx").unwrap();
        c.bench_function(&format!("time of {} cells", plan.cells.len()), |b| {
            b.iter(|| time_of(&plan));
        });
    }
}

criterion_group!(benches, order);
criterion_main!(benches);
