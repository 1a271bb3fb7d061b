//! The vendor's rules of MIG partitioning under random steps. The test derives them a second time
//! from the state and compares what is accepted and refused.

use gpubench_virtual_gpu_model::machine::{Machine, Mig};
use gpubench_virtual_gpu_model::mig::{self, MigError};
use gpubench_virtual_gpu_model::state::{Context, State};
use proptest::prelude::*;

#[derive(Debug, Clone, Copy)]
enum Step {
    /// Creates an instance of a profile, at this start or at the first free one.
    Make(u32, Option<u32>),
    /// Creates a compute instance of that many slices in the n-th instance.
    Divide(usize, u32),
    /// Opens a context on the n-th compute instance.
    Use(usize),
    /// Closes the n-th context.
    Release(usize),
    /// Destroys the n-th compute instance, or the n-th instance.
    EndEngine(usize),
    EndInstance(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let pick = || 0usize..8;
    prop_oneof![
        4 => (0u32..7, prop::option::of(0u32..8)).prop_map(|(p, at)| Step::Make(p, at)),
        2 => (pick(), 1u32..4).prop_map(|(at, slices)| Step::Divide(at, slices)),
        2 => pick().prop_map(Step::Use),
        1 => pick().prop_map(Step::Release),
        2 => pick().prop_map(Step::EndEngine),
        2 => pick().prop_map(Step::EndInstance),
    ]
}

/// Where an instance of a profile can start by the rules: its memory slots are free, the compute
/// slices suffice, and the profile's maximum is not reached.
fn allowed(state: &State, mig: &Mig, index: u32) -> Vec<u32> {
    let profile = &mig.profile[index as usize];
    let mut taken = [false; 8];
    let (mut slices, mut same) = (profile.slices, 1);
    for (_, row) in mig::instances(state) {
        (row.slot_start..row.slot_start + row.slots).for_each(|slot| taken[slot as usize] = true);
        slices += mig.profile[row.profile as usize].slices;
        same += u32::from(row.profile == index);
    }
    if slices > mig.slices || same > profile.max {
        return Vec::new();
    }
    let is_clear = |&start: &u32| {
        (start..start + profile.memory_slots).all(|slot| taken.get(slot as usize) == Some(&false))
    };
    profile.starts.iter().copied().filter(is_clear).collect()
}

fn instance(state: &State, at: usize) -> Option<u32> {
    mig::instances(state).nth(at).map(|(row, _)| row)
}

fn engine(state: &State, at: usize) -> Option<u32> {
    let all = mig::instances(state).map(|(row, _)| row);
    let mut engines = all.flat_map(|row| mig::engines(state, row).map(|(engine, _)| engine));
    engines.nth(at)
}

fn contexts_on(state: &State, engine: u32) -> usize {
    let on = |context: &&Context| context.live && context.engine == engine;
    state.contexts.live().iter().filter(on).count()
}

/// Creates an instance and checks the outcome against the rules.
fn make(
    state: &mut State,
    machine: &Machine,
    profile: u32,
    at: Option<u32>,
) -> Result<(), TestCaseError> {
    let mig = machine.mig.as_ref().ok_or_else(|| TestCaseError::fail("no MIG"))?;
    let free = allowed(state, mig, profile);
    let known = |start: &u32| mig.profile[profile as usize].starts.contains(start);
    let made = mig::create_instance(state, machine, profile, at);
    match (at, free.first()) {
        (Some(start), _) if !known(&start) => prop_assert_eq!(made, Err(MigError::Unknown)),
        (Some(start), _) if !free.contains(&start) => {
            prop_assert_eq!(made, Err(MigError::NoRoom));
        }
        (None, None) => prop_assert_eq!(made, Err(MigError::NoRoom)),
        (start, first) => {
            let row = made.map_err(|error| TestCaseError::fail(format!("{error}: {free:?}")))?;
            let begins = state.instances.rows[row as usize].slot_start;
            prop_assert_eq!(Some(begins), start.or(first.copied()));
        }
    }
    Ok(())
}

/// Runs a step and checks that exactly the unused instances can be destroyed.
fn run_step(state: &mut State, machine: &Machine, step: Step) -> Result<(), TestCaseError> {
    match step {
        Step::Make(profile, at) => make(state, machine, profile, at)?,
        Step::Divide(at, slices) => {
            if let Some(row) = instance(state, at) {
                // A refusal is a valid outcome here: slices have tests of their own.
                let _ = mig::create_engine(state, machine, row, slices);
            }
        }
        Step::Use(at) => {
            let free = state.contexts.claim(|context| !context.live);
            if let (Some(engine), Some(row)) = (engine(state, at), free) {
                state.contexts.rows[row] = Context { live: true, engine, ..Context::default() };
            }
        }
        Step::Release(at) => {
            let mut live = state.contexts.live_mut().iter_mut().filter(|c| c.live);
            if let Some(context) = live.nth(at) {
                context.live = false;
            }
        }
        Step::EndEngine(at) => {
            if let Some(row) = engine(state, at) {
                let busy = contexts_on(state, row) > 0;
                let expected = if busy { Err(MigError::InUse) } else { Ok(()) };
                prop_assert_eq!(mig::destroy_engine(state, row), expected);
                prop_assert_eq!(state.engines.rows[row as usize].live, busy);
            }
        }
        Step::EndInstance(at) => {
            if let Some(row) = instance(state, at) {
                let busy = mig::engines(state, row).next().is_some();
                let expected = if busy { Err(MigError::InUse) } else { Ok(()) };
                prop_assert_eq!(mig::destroy_instance(state, row), expected);
                prop_assert_eq!(state.instances.rows[row as usize].live, busy);
            }
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn refusals_follow_from_the_rules(
        steps in prop::collection::vec(step(), 1..60),
        machine in prop::sample::select(vec!["hopper", "h200", "h100-80", "a100-80"]),
    ) {
        let machine = Machine::load(machine).map_err(|e| TestCaseError::fail(e.to_string()))?;
        let mut state = State::new(7, 0);
        mig::undivided(&mut state, &machine);
        mig::set_mode(&mut state, &machine, true);
        for step in steps {
            run_step(&mut state, &machine, step)?;
        }
        // Open contexts block the mode and a reset.
        let busy = state.contexts.live().iter().any(|context| context.live);
        let before = state.mig.current;
        let answer = mig::request_mode(&mut state, &machine, false);
        prop_assert_eq!(answer == mig::Activation::InUse, busy);
        prop_assert!(!busy || state.mig.current == before);
        prop_assert_eq!(mig::reset(&mut state, &machine).is_err(), busy);
    }
}

/// On each machine every profile can stand beside one of another size, except the one that takes
/// the whole device.
#[test]
fn every_profile_fits_beside_one_of_another_size() -> Result<(), Box<dyn std::error::Error>> {
    for name in ["hopper", "h200", "h100-80", "a100-80"] {
        let machine = Machine::load(name)?;
        let mig = machine.mig.as_ref().ok_or("no MIG")?;
        for (first, profile) in (0..).zip(&mig.profile) {
            let mut beside = (0u32..).zip(&mig.profile).filter(|(second, other)| {
                let mut state = State::new(7, 0);
                mig::undivided(&mut state, &machine);
                mig::set_mode(&mut state, &machine, true);
                other.slices != profile.slices
                    && mig::create_instance(&mut state, &machine, first, None).is_ok()
                    && mig::create_instance(&mut state, &machine, *second, None).is_ok()
            });
            let is_whole = profile.slices == mig.slices;
            assert_eq!(beside.next().is_none(), is_whole, "{name}: {}", profile.name);
        }
    }
    Ok(())
}
