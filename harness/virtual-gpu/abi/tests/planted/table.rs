//! Which figure can be planted under which mechanism: each place in the table is taken by a case
//! without noise and one with it, or says why there is no such figure.

use super::case::Case;
use super::mps_support::Error;
use super::mps_support::mechanisms::Mechanism;
use super::{parts, shared, time_slices};

/// What can be planted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Figure {
    /// The part of its bandwidth that a tenant keeps beside one that takes all it can get.
    Bandwidth,
    /// The part of the SMs that a tenant gets.
    SmCap,
    /// What a limit on memory lets through.
    MemoryCap,
    /// Length of a turn.
    Quantum,
    /// Pause between turns.
    Gap,
    /// What a launch costs the host.
    Launch,
    /// The part of the host link that a tenant keeps.
    Link,
    /// The part of its speed that a tenant keeps when another one draws power.
    Power,
    /// Whom a fault reaches.
    Containment,
    /// How long nobody is served after a fault.
    Recovery,
}

impl Figure {
    const ALL: [Self; 10] = [
        Self::Bandwidth,
        Self::SmCap,
        Self::MemoryCap,
        Self::Quantum,
        Self::Gap,
        Self::Launch,
        Self::Link,
        Self::Power,
        Self::Containment,
        Self::Recovery,
    ];
}

/// What stands in a place of the table.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// The figure is planted, and clients look at it here.
    Looked,
    /// These tests of the harness have it, which bring the library along.
    WithHarness(&'static [&'static str]),
    /// There is no such figure, for this reason.
    None(&'static str),
}

const ALONE: &str = "there is nobody else";
const IN_TURNS: &str = "kernels of two processes never run at the same time";
const AT_ONCE: &str = "kernels of all tenants run side by side";
const ONE_FATE: &str = "tenants are one process with one address space: its fault ends them all";
const NO_SERVER: &str = "no server stands between tenants and device that had to recover";
const NOT_LIMITED: &str = "it limits nobody";
const ALL_MEMORY: &str = "memory is not limited, or divided for good";

/// The harness's tests of what is planted under HAMi; those whose figure has noise look at it with
/// and without.
const fn of_harness(figure: Figure) -> &'static [&'static str] {
    match figure {
        Figure::Launch => &["a_launch_costs_what_the_machine_says"],
        Figure::SmCap => &["a_limiter_gives_the_share_that_is_planted"],
        Figure::MemoryCap => &[
            "a_planted_overshoot_is_what_gets_through",
            "noise_changes_nothing_about_what_gets_through",
        ],
        Figure::Quantum | Figure::Gap => {
            &["turns_and_the_pauses_between_them_are_as_long_as_planted"]
        }
        Figure::Link => &["copies_queue_for_one_engine"],
        Figure::Containment => &["a_fault_gets_out_as_often_as_planted"],
        Figure::Bandwidth | Figure::Power | Figure::Recovery => &[],
    }
}

const fn place(figure: Figure, mechanism: Mechanism) -> Place {
    use Figure as F;
    use Mechanism as M;
    use Place::{Looked, WithHarness};
    match (figure, mechanism) {
        (F::Launch, M::Hami) => WithHarness(of_harness(figure)),
        (F::Launch, _) => Looked,

        (F::SmCap, M::Exclusive | M::ExclusiveProcess | M::TimeSlicing) => Place::None(NOT_LIMITED),
        (F::SmCap, M::Mps | M::MpsMemory) => Place::None("every client has all SMs"),
        (F::SmCap, M::StreamPriority) => Place::None("it orders work and caps none"),
        (F::SmCap, M::Hami) => WithHarness(of_harness(figure)),
        (F::SmCap, _) => Looked,

        (F::MemoryCap, M::MpsQuota | M::MpsMemory | M::MigMps) => Looked,
        (F::MemoryCap, M::Hami) => WithHarness(of_harness(figure)),
        (F::MemoryCap, _) => Place::None(ALL_MEMORY),

        (F::Recovery, M::Mps | M::MpsQuota | M::MpsStatic | M::MpsMemory | M::MigMps) => Looked,
        (F::Recovery, _) => Place::None(NO_SERVER),

        (_, M::Exclusive | M::ExclusiveProcess) => Place::None(ALONE),

        (F::Bandwidth | F::Power, M::TimeSlicing | M::Hami) => Place::None(IN_TURNS),
        (F::Bandwidth | F::Power, _) => Looked,

        // Processes that share an instance and have no server take turns in it.
        (F::Quantum | F::Gap, M::TimeSlicing | M::Mig) => Looked,
        (F::Quantum | F::Gap, M::Hami) => WithHarness(of_harness(figure)),
        (F::Quantum | F::Gap, _) => Place::None(AT_ONCE),

        (F::Containment, M::GreenContext | M::StreamPriority) => Place::None(ONE_FATE),
        (F::Containment | F::Link, M::Hami) => WithHarness(of_harness(figure)),
        (F::Containment | F::Link, _) => Looked,
    }
}

/// The harness's tests of HAMi's stand-in.
const OF_HARNESS: &str = concat!(
    include_str!("../../../../tests/it/hami.rs"),
    include_str!("../../../../tests/it/hami_planted.rs")
);

/// Every case of every test.
fn cases() -> Result<Vec<Case>, Error> {
    let of = [
        shared::dram_between_instances()?,
        shared::l2_between_instances()?,
        shared::dram_of_one_device()?,
        shared::link()?,
        shared::power()?,
        parts::percentages()?,
        parts::partitions()?,
        parts::instances()?,
        parts::green_contexts()?,
        parts::memory_limits()?,
        time_slices::time_slices()?,
        time_slices::launches()?,
        time_slices::faults()?,
        time_slices::recoveries()?,
    ];
    Ok(of.concat())
}

#[test]
fn each_place_is_looked_at_with_noise_and_without_or_says_why_not() -> Result<(), Error> {
    let cases = cases()?;
    for &mechanism in Mechanism::ALL {
        for figure in Figure::ALL {
            let what = format!("{figure:?} under {}", mechanism.name());
            let here = cases.iter().filter(|case| {
                let figures = || case.want.iter().map(|(figure, _)| *figure);
                case.under.mechanism() == mechanism && figures().any(|found| found == figure)
            });
            let looks: Vec<bool> = here.map(|case| case.noise).collect();
            match place(figure, mechanism) {
                Place::Looked => {
                    assert!(looks.contains(&false), "{what}: nobody looks without noise");
                    assert!(looks.contains(&true), "{what}: nobody looks with noise");
                }
                Place::WithHarness(tests) => {
                    assert!(looks.is_empty(), "{what}: it is looked at here");
                    assert!(!tests.is_empty(), "{what}: by no test");
                    for test in tests {
                        // Nothing stands between, so that it is neither ignored nor left out.
                        let found = OF_HARNESS.contains(&format!("\n#[test]\nfn {test}()"));
                        assert!(found, "{what}: {test} is no test of the harness");
                    }
                }
                Place::None(reason) => assert!(looks.is_empty(), "{what}: {reason}"),
            }
        }
    }
    Ok(())
}
