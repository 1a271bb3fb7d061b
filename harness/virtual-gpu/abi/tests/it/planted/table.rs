//! The planted figures under each mechanism: each entry of the table has a case without noise and
//! one with it, or the reason why the figure does not exist.

use super::case::Case;
use super::{contention, limits, time_slices};
use crate::mps_support::Error;
use crate::mps_support::mechanisms::Mechanism;

/// A figure that can be planted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Figure {
    /// Share of its bandwidth that a tenant keeps beside a saturating one.
    Bandwidth,
    SmCap,
    MemoryCap,
    Quantum,
    /// Gap between time slices.
    Gap,
    Launch,
    /// Share of the host link that a tenant keeps.
    Link,
    /// Share of its speed that a tenant keeps beside a tenant that draws power.
    Power,
    Containment,
    /// Time without service after a fault.
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

#[derive(Debug, PartialEq, Eq)]
enum Entry {
    /// Clients measure the figure here.
    Measured,
    /// These tests of the harness measure it, which provides the library.
    WithHarness(&'static [&'static str]),
    /// The figure does not exist, for this reason.
    None(&'static str),
}

const ONE_TENANT: &str = "there is only one tenant";
const TIME_SLICED: &str = "kernels of two processes never run at the same time";
const CONCURRENT: &str = "kernels of all tenants run concurrently";
const ONE_PROCESS: &str = "tenants are one process with one address space: its fault ends them all";
const NO_SERVER: &str = "there is no server that has to recover";
const NOT_LIMITED: &str = "it limits no tenant";
const OWN_CONTEXTS: &str =
    "clients take turns as under time-slicing; the harness plants and finds its cap";
const ALL_MEMORY: &str = "memory is not limited, or divided physically";

/// The harness's tests of figures planted under HAMi. A figure with noise has its test with and
/// without noise.
const fn of_harness(figure: Figure) -> &'static [&'static str] {
    match figure {
        Figure::Launch => &["a_launch_costs_what_the_machine_says"],
        Figure::SmCap => &["a_limiter_gives_the_share_that_is_planted"],
        Figure::MemoryCap => &["noise_changes_nothing_about_what_gets_through"],
        Figure::Quantum | Figure::Gap => {
            &["time_slices_and_the_pauses_between_them_are_as_long_as_planted"]
        }
        Figure::Link => &["copies_queue_for_one_engine"],
        Figure::Containment => &["a_fault_gets_out_as_often_as_planted"],
        Figure::Bandwidth | Figure::Power | Figure::Recovery => &[],
    }
}

const fn entry(figure: Figure, mechanism: Mechanism) -> Entry {
    use Entry::{Measured, WithHarness};
    use Figure as F;
    use Mechanism as M;
    match (figure, mechanism) {
        (_, M::TimeSlicingCapped) => Entry::None(OWN_CONTEXTS),

        (F::Launch, M::Hami) => WithHarness(of_harness(figure)),
        (F::Launch, _) => Measured,

        (F::SmCap, M::Exclusive | M::ExclusiveProcess | M::TimeSlicing) => Entry::None(NOT_LIMITED),
        (F::SmCap, M::Mps | M::MpsMemory) => Entry::None("every client has all SMs"),
        (F::SmCap, M::StreamPriority) => Entry::None("it orders work without a cap"),
        (F::SmCap, M::Hami) => WithHarness(of_harness(figure)),
        (F::SmCap, _) => Measured,

        (F::MemoryCap, M::MpsQuota | M::MpsMemory | M::MigMps) => Measured,
        (F::MemoryCap, M::Hami) => WithHarness(of_harness(figure)),
        (F::MemoryCap, _) => Entry::None(ALL_MEMORY),

        (F::Recovery, M::Mps | M::MpsQuota | M::MpsStatic | M::MpsMemory | M::MigMps) => Measured,
        (F::Recovery, _) => Entry::None(NO_SERVER),

        (_, M::Exclusive | M::ExclusiveProcess) => Entry::None(ONE_TENANT),

        (F::Bandwidth | F::Power, M::TimeSlicing | M::Hami) => Entry::None(TIME_SLICED),
        (F::Bandwidth | F::Power, _) => Measured,

        // Without a server, processes in one instance are time-sliced.
        (F::Quantum | F::Gap, M::TimeSlicing | M::Mig) => Measured,
        (F::Quantum | F::Gap, M::Hami) => WithHarness(of_harness(figure)),
        (F::Quantum | F::Gap, _) => Entry::None(CONCURRENT),

        (F::Containment, M::GreenContext | M::StreamPriority) => Entry::None(ONE_PROCESS),
        (F::Containment | F::Link, M::Hami) => WithHarness(of_harness(figure)),
        (F::Containment | F::Link, _) => Measured,
    }
}

fn cases() -> Result<Vec<Case>, Error> {
    let of = [
        contention::dram_between_instances()?,
        contention::l2_between_instances()?,
        contention::dram_of_one_device()?,
        contention::link()?,
        contention::power()?,
        limits::percentages()?,
        limits::partitions()?,
        limits::instances()?,
        limits::green_contexts()?,
        limits::memory_limits()?,
        time_slices::time_slices()?,
        time_slices::launches()?,
        time_slices::faults()?,
        time_slices::recoveries()?,
    ];
    Ok(of.concat())
}

#[test]
fn every_entry_is_measured_with_and_without_noise_or_has_a_reason() -> Result<(), Error> {
    let cases = cases()?;
    let of_harness = crate::harness_test("hami.rs")? + &crate::harness_test("hami_planted.rs")?;
    for &mechanism in Mechanism::ALL {
        for figure in Figure::ALL {
            let what = format!("{figure:?} under {}", mechanism.name());
            let here = cases.iter().filter(|case| {
                let figures = || case.want.iter().map(|(figure, _)| *figure);
                case.sharing.mechanism() == mechanism && figures().any(|found| found == figure)
            });
            let noise_of_cases: Vec<bool> = here.map(|case| case.noise).collect();
            match entry(figure, mechanism) {
                Entry::Measured => {
                    assert!(noise_of_cases.contains(&false), "{what}: no case without noise");
                    assert!(noise_of_cases.contains(&true), "{what}: no case with noise");
                }
                Entry::WithHarness(tests) => {
                    assert!(noise_of_cases.is_empty(), "{what}: it has a case here");
                    assert!(!tests.is_empty(), "{what}: no test");
                    for test in tests {
                        // Adjacent lines, so that the test is neither ignored nor conditional.
                        let found = of_harness.contains(&format!("\n#[test]\nfn {test}()"));
                        assert!(found, "{what}: {test} is not a test of the harness");
                    }
                }
                Entry::None(reason) => assert!(noise_of_cases.is_empty(), "{what}: {reason}"),
            }
        }
    }
    Ok(())
}
