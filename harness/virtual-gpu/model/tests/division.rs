//! MIG placement and MPS admission.

use gpubench_virtual_gpu_model::machine::Machine;
use gpubench_virtual_gpu_model::mig::{self, MigError};
use gpubench_virtual_gpu_model::mps::{self, ClientRequest, Refusal};
use gpubench_virtual_gpu_model::state::{
    Context, MpsDaemon, NONE, ServerState, SmPartition, State, WHOLE,
};
use proptest::prelude::*;

type Error = Box<dyn std::error::Error>;

fn device(name: &str) -> Result<(Machine, Box<State>), Error> {
    let machine = Machine::load(name)?;
    let mut state = State::new(7, 0);
    mig::undivided(&mut state, &machine);
    Ok((machine, state))
}

fn index(machine: &Machine, name: &str) -> u32 {
    let mig = machine.mig.as_ref().expect("a machine with MIG");
    let found = mig.profile.iter().position(|p| p.name == name);
    found.expect("a profile of that name") as u32
}

#[test]
fn instances_need_the_mode_and_those_in_use_cannot_be_destroyed() -> Result<(), Error> {
    let (machine, mut state) = device("hopper")?;
    assert_eq!(mig::create_instance(&mut state, &machine, 0, None), Err(MigError::Off));
    mig::set_mode(&mut state, &machine, true);
    let gi = mig::create_instance(&mut state, &machine, index(&machine, "3g.40gb"), None)?;
    let ci = mig::create_engine(&mut state, &machine, gi, 1)?;
    let other = mig::create_engine(&mut state, &machine, gi, 2)?;
    assert_ne!(mig::uuid(&state, &machine, ci), mig::uuid(&state, &machine, other));
    assert_eq!(mig::create_engine(&mut state, &machine, gi, 1), Err(MigError::NoRoom));
    assert_eq!(mig::destroy_instance(&mut state, gi), Err(MigError::InUse));
    state.contexts.rows[0] = Context { live: true, engine: ci, ..Context::default() };
    state.contexts.used = 1;
    assert_eq!(mig::destroy_engine(&mut state, ci), Err(MigError::InUse));
    state.contexts.rows[0].live = false;
    mig::destroy_engine(&mut state, ci)?;
    mig::destroy_engine(&mut state, other)?;
    mig::destroy_instance(&mut state, gi)?;
    assert_eq!(mig::destroy_engine(&mut state, WHOLE), Err(MigError::Unknown));
    Ok(())
}

proptest! {
    /// In any order of steps: slots are disjoint, slices suffice, memory ranges are disjoint, and
    /// SMs add up to no more than the device has.
    #[test]
    fn no_order_of_steps_breaks_the_rules(
        steps in prop::collection::vec((0u32..7, prop::option::of(0u32..8), any::<bool>()), 1..40),
        machine in prop::sample::select(vec!["hopper", "h200", "a100-80"]),
    ) {
        let (machine, mut state) = device(machine).expect("built in");
        mig::set_mode(&mut state, &machine, true);
        let geometry = machine.mig.clone().expect("MIG");
        for (profile, start, make) in steps {
            if make {
                // A refusal is a valid outcome; the result is checked below.
                let _ = mig::create_instance(&mut state, &machine, profile, start);
            } else {
                let _ = mig::destroy_instance(&mut state, 1 + profile);
            }
            let parts: Vec<_> = mig::instances(&state).map(|(_, row)| *row).collect();
            let slices = |profile: u32| geometry.profile[profile as usize].slices;
            prop_assert!(parts.iter().map(|p| slices(p.profile)).sum::<u32>() <= geometry.slices);
            prop_assert!(parts.iter().map(|p| p.sm_count).sum::<u32>() <= machine.gpu.sm_count);
            for (a, first) in parts.iter().enumerate() {
                for second in &parts[a + 1..] {
                    let apart = |a: u64, la: u64, b: u64, lb: u64| a + la <= b || b + lb <= a;
                    let (s, t) = (first, second);
                    prop_assert!(apart(s.slot_start.into(), s.slots.into(),
                        t.slot_start.into(), t.slots.into()));
                    prop_assert!(apart(s.memory_offset, s.memory_bytes,
                        t.memory_offset, t.memory_bytes));
                    prop_assert_ne!(s.id, t.id);
                }
            }
        }
    }
}

/// A daemon with one server, and a context for a client of it.
fn served(
    machine: &Machine,
    state: &mut State,
    daemon: MpsDaemon,
) -> Result<(u32, Context), Error> {
    let daemon = mps::add_daemon(state, daemon).ok_or("room")?;
    let server = mps::add_server(state, machine, daemon, 90, 1000).ok_or("room")?;
    let client = Context { process: 1, ..Context::default() };
    Ok((server, client))
}

const DAEMON: MpsDaemon = MpsDaemon {
    live: true,
    static_partitions: false,
    process: 91,
    pipe: 5,
    engine: WHOLE,
    percentage: 100,
    memory_limit: 0,
    priority: 0,
};

#[test]
fn a_client_gets_the_lower_of_two_limits_rounded_down() -> Result<(), Error> {
    let (machine, mut state) = device("hopper")?;
    let daemon = MpsDaemon { percentage: 50, memory_limit: 4 << 30, ..DAEMON };
    let (server, mut client) = served(&machine, &mut state, daemon)?;
    let wish = ClientRequest {
        percentage: Some(33),
        memory_limit: Some(8 << 30),
        ..ClientRequest::default()
    };
    mps::admit(&state, &machine, server, &wish, &mut client).map_err(|r| format!("{r:?}"))?;
    // 33 % of 132 SMs are 43.56.
    assert_eq!((client.sm_count, client.memory_limit), (42, 4 << 30));
    assert_eq!(client.group, state.servers.rows[server as usize].context);
    let more = ClientRequest { percentage: Some(80), ..ClientRequest::default() };
    mps::admit(&state, &machine, server, &more, &mut client).map_err(|r| format!("{r:?}"))?;
    assert_eq!(client.sm_count, 66, "a client cannot raise the server's percentage");
    Ok(())
}

/// What an H200 of 132 SMs answered, driver 580.159.04.
#[test]
fn percentages_give_the_sms_that_an_h200_gave() -> Result<(), Error> {
    let facts = "/../../../reports/facts/h200_580.159.04/mps-percentages.txt";
    let facts = std::fs::read_to_string(env!("CARGO_MANIFEST_DIR").to_owned() + facts)?;
    let (machine, _) = device("h200")?;
    for line in facts.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [_, percentage, _, sms, ..] = words[..] else { return Err(line.into()) };
        assert_eq!(machine.mps_sms(percentage.parse()?, 132), sms.parse::<u32>()?, "{line}");
    }
    Ok(())
}

#[test]
fn planted_errors_apply_to_percentages() -> Result<(), Error> {
    let (mut machine, _) = device("hopper")?;
    machine.defects.mps_percentage_error = 0.2;
    assert_eq!(machine.mps_sms(50, 132), 78);
    machine.defects.mps_percentage_ignored = true;
    assert_eq!(machine.mps_sms(50, 132), 132);
    Ok(())
}

#[test]
fn a_full_a_faulty_and_a_dead_server_refuse() -> Result<(), Error> {
    let (machine, mut state) = device("hopper")?;
    let (server, client) = served(&machine, &mut state, DAEMON)?;
    let admit = |state: &State, process: u32| {
        let mut client = Context { process, ..client };
        mps::admit(state, &machine, server, &ClientRequest::default(), &mut client)
    };
    for process in 0..60 {
        let slot = state.contexts.claim(|c| !c.live).ok_or("room")?;
        state.contexts.rows[slot] = Context { live: true, process, server, ..Context::default() };
    }
    assert_eq!(admit(&state, 60), Err(Refusal::Full));
    assert_eq!(admit(&state, 59), Ok(()), "a second context of a client");
    state.servers.rows[server as usize].state = ServerState::Fault;
    assert_eq!(admit(&state, 59), Err(Refusal::NotReady));
    mps::remove_server(&mut state, &machine.rules(), server);
    assert_eq!(admit(&state, 59), Err(Refusal::Gone));
    let codes: Vec<i32> =
        state.contexts.live().iter().filter(|c| c.server != NONE).map(|c| c.sticky).collect();
    assert_eq!(codes, [806; 60]);
    Ok(())
}

#[test]
fn static_partitions_are_exclusive_and_must_be_named() -> Result<(), Error> {
    let (machine, mut state) = device("hopper")?;
    let daemon = MpsDaemon { static_partitions: true, ..DAEMON };
    let (server, mut client) = served(&machine, &mut state, daemon)?;
    let slot = state.partitions.claim(|p| !p.live).ok_or("room")?;
    state.partitions.rows[slot] =
        SmPartition { live: true, daemon: 0, id: 2, sm_first: 16, sm_count: 24 };
    let none = mps::admit(&state, &machine, server, &ClientRequest::default(), &mut client);
    assert_eq!(none, Err(Refusal::NoPartition));
    let wish = ClientRequest { partition: Some(2), ..ClientRequest::default() };
    mps::admit(&state, &machine, server, &wish, &mut client).map_err(|r| format!("{r:?}"))?;
    assert_eq!((client.sm_first, client.sm_count), (16, 24));
    Ok(())
}
