//! Virtual time: the clock goes on only while every participant waits, straight to the next event.
//!
//! At most one participant runs at a time. When it waits, [`pump`] lets the device go on until
//! somebody's condition holds, and grants the clock to that one. Ties are broken by the plan: the
//! device first, then waiting participants by ready time and number. Who wins a race on the host
//! therefore decides nothing.

use crate::simulation::{Queues, Rules, advance_to, next_event_ns, settle};
use crate::state::{Condition, NEVER, Participant, RING, Standing, State, stream_wait};

/// Why nobody was granted the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// Somebody runs, or is expected: the clock stands until they wait.
    Busy,
    /// Nobody waits: time has no reason to pass.
    Nobody,
    /// Everybody waits for something that can no longer happen.
    Deadlock,
}

/// Lets the device go on until a participant can run, and marks it as running.
///
/// # Errors
/// Says why nobody was granted the clock.
pub fn pump(state: &mut State, queues: &dyn Queues, rules: &Rules) -> Result<usize, Held> {
    let mut waiting = false;
    for participant in state.participants.live() {
        match participant.standing {
            Standing::Running | Standing::Expected => return Err(Held::Busy),
            Standing::Waiting => waiting = true,
            Standing::Free => {}
        }
    }
    if !waiting {
        return Err(Held::Nobody);
    }
    loop {
        settle(state, queues, rules);
        let mut chosen: Option<(u64, usize)> = None;
        for (index, participant) in state.participants.live().iter().enumerate() {
            if participant.standing == Standing::Waiting && holds(state, participant) {
                let key = (ready_ns(state, participant), index);
                chosen = Some(chosen.map_or(key, |best| best.min(key)));
            }
        }
        let ready_ns = chosen.map_or(NEVER, |(ready_ns, _)| ready_ns);
        if let Some((_, index)) = chosen.filter(|&(ready_ns, _)| ready_ns <= state.now_ns) {
            let now = state.now_ns;
            let participant = &mut state.participants.rows[index];
            participant.standing = Standing::Running;
            participant.granted_ns = now;
            if participant.condition == Condition::Unpark {
                participant.token = false;
            }
            return Ok(index);
        }
        let next = next_event_ns(state, queues).min(ready_ns);
        if next == NEVER {
            return Err(Held::Deadlock);
        }
        advance_to(state, queues, rules, next);
    }
}

/// Whether what the participant waits for has happened.
#[must_use]
pub fn holds(state: &State, participant: &Participant) -> bool {
    let target = participant.target as usize;
    match participant.condition {
        Condition::Time => true,
        Condition::Stream => {
            let stream = &state.streams.rows[target];
            !stream.live || stream.completed >= participant.seq
        }
        Condition::Context => state.streams.live().iter().all(|s| {
            let space = state.contexts.rows[s.context as usize].space as usize;
            let idle = s.completed == s.submitted && s.taken >= s.given;
            !s.live || space != target || idle
        }),
        Condition::Room => {
            let stream = &state.streams.rows[target];
            !stream.live || stream.submitted - stream.completed + participant.seq <= RING as u64
        }
        Condition::Unpark => participant.token,
        Condition::Held => {
            let stream = &state.streams.rows[target];
            !stream.live || stream.taken >= participant.seq
        }
        Condition::Word => stream_wait::is_over(state, target, participant.seq),
    }
}

/// Not before then may the participant go on: its own time, and that of what it waits for.
fn ready_ns(state: &State, participant: &Participant) -> u64 {
    let met_ns = match participant.condition {
        Condition::Word => state.stream_waits.rows[participant.target as usize].met_ns,
        _ => 0,
    };
    participant.ready_ns.max(met_ns)
}
