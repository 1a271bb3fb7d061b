//! Cores for the threads of a run on the wall clock.
//!
//! The victim's two threads stamp its requests: the issuer and the reaper, which polls for their
//! ends. Each has a core to itself where there are enough, and so has each neighbour's issuer. All
//! other threads stay off these cores: the coordinator, which reads counters and may be in the
//! kernel for a millisecond at a time, and its child processes, which inherit its cores.

use gpubench_workloads::clock::ClockError;
use gpubench_workloads::clock::thread::Cores;

use super::Setup;

/// Cores for the coordinator, the kernel and the rest of the host, before a neighbour has one.
const OTHERS_MIN: usize = 2;

/// The cores of the threads that stamp requests.
#[derive(Debug, Default, PartialEq, Eq)]
struct Layout {
    /// The core of each slot's issuer, as far as there are cores.
    issuers: Vec<u32>,
    /// The core of the victim's reaper; `None` where it runs on those of the other threads.
    reaper: Option<u32>,
    /// The cores of all other threads.
    others: Vec<u32>,
}

impl Layout {
    /// Cores in the order of need: the victim's issuer, its reaper, the neighbours' issuers.
    /// Interrupts go to the first cores, so those stay with the other threads.
    ///
    /// With two cores the issuer has one, because its closed loop decides most rows, and the reaper
    /// shares the other with all other threads. Most neighbours sleep until their requests end and
    /// leave it to the reaper. On the core of the issuer it would wait for the spin before each
    /// arrival, which is up to 2 ms long and in the real-time class.
    fn of(allowed: &[u32], tenants: usize) -> Self {
        let wanted = tenants + 1;
        // Every second core, where there are as many: its neighbour may be the same core to the
        // hardware (hyper-threads).
        let stride = 1 + usize::from(allowed.len() >= 2 * wanted + OTHERS_MIN);
        let kept = OTHERS_MIN.min(allowed.len().saturating_sub(2)).max(1);
        let free = allowed.iter().skip(kept).step_by(stride);
        let own: Vec<u32> = free.take(wanted).copied().collect();
        if own.is_empty() {
            return Self::default();
        }
        let others = allowed.iter().filter(|cpu| !own.contains(cpu));
        let others: Vec<u32> = others.copied().collect();
        Self {
            issuers: own[..1].iter().chain(own.iter().skip(2)).copied().collect(),
            reaper: own.get(1).copied(),
            others,
        }
    }

    /// Which threads share cores, for the reader of the figures; `None` where each of the threads
    /// above has its own.
    fn shortage(&self, cores: usize, tenants: usize) -> Option<String> {
        let list = |cores: &[u32]| {
            let cores: Vec<String> = cores.iter().map(u32::to_string).collect();
            cores.join(", ")
        };
        let (count, others) = (count(cores), list(&self.others));
        let shared = match (self.issuers.first(), self.reaper) {
            (Some(_), None) => {
                format!("the victim's reaper shares core {others} with all other threads")
            }
            (Some(_), _) if self.issuers.len() < tenants => {
                let with = self.issuers.len();
                format!(
                    "{} of {} neighbours share core {others} with all other threads",
                    tenants - with,
                    tenants - 1
                )
            }
            (Some(_), _) => return None,
            (None, _) => "all threads of all tenants share it".to_owned(),
        };
        Some(format!(
            "{count} for {tenants} tenants: {shared}; gate cpu-gap bounds what the victim's rate \
             loses, and its latencies include these waits"
        ))
    }
}

fn count(cores: usize) -> String {
    match cores {
        1 => "1 core".to_owned(),
        _ => format!("{cores} cores"),
    }
}

/// Which threads of a run on the wall clock will share cores of this host; `None` where there are
/// enough. For a user's program, which is not placed, `None` too.
///
/// # Errors
/// When the kernel does not tell the cores of this thread.
pub fn shortage(plan: &gpubench_record::Plan) -> Result<Option<String>, ClockError> {
    if plan.user_victim.is_some() {
        return Ok(None);
    }
    let (allowed, tenants) = (Cores::of_this_thread()?.list(), plan.tenants as usize);
    Ok(Layout::of(&allowed, tenants).shortage(allowed.len(), tenants))
}

/// The cores of a run.
pub struct Placement {
    layout: Layout,
    original: Option<Cores>,
}

impl Placement {
    /// Chooses them for a run, and moves the calling thread off those of issuers and reaper.
    ///
    /// # Errors
    /// When the kernel refuses cores that this thread may use.
    pub fn settle(setup: &Setup) -> Result<Self, ClockError> {
        let unplaced = Self { layout: Layout::default(), original: None };
        // A user's program has the whole host, as without gpubench.
        if setup.clock.is_virtual() || setup.plan.user_victim.is_some() {
            return Ok(unplaced);
        }
        let original = Cores::of_this_thread()?;
        let layout = Layout::of(&original.list(), setup.plan.tenants as usize);
        if layout.issuers.is_empty() {
            return Ok(unplaced);
        }
        let all = original.list();
        let taken = all.iter().filter(|cpu| !layout.others.contains(cpu));
        let others = taken.fold(original, |cores, cpu| cores.without(*cpu));
        others.apply()?;
        Ok(Self { layout, original: Some(original) })
    }

    /// The core of an issuer, if it has one.
    #[must_use]
    pub fn issuer(&self, slot: usize) -> Option<u32> {
        self.layout.issuers.get(slot).copied()
    }

    /// The core of a reaper, if it has one.
    #[must_use]
    pub fn reaper(&self, slot: usize) -> Option<u32> {
        self.layout.reaper.filter(|_| slot == 0)
    }

    /// Restores the cores of the calling thread.
    pub fn leave(&self) -> Result<(), ClockError> {
        self.original.as_ref().map_or(Ok(()), Cores::apply)
    }
}

#[cfg(test)]
mod tests {
    use super::Layout;

    #[test]
    fn the_victim_gets_cores_first_and_the_rest_keeps_one() {
        for (cores, tenants, issuers, reaper, others) in [
            (12, 2, &[2, 6][..], Some(4), &[0, 1, 3, 5, 7, 8, 9, 10, 11][..]),
            (6, 2, &[2, 4], Some(3), &[0, 1, 5]),
            (5, 2, &[2, 4], Some(3), &[0, 1]),
            (4, 2, &[2], Some(3), &[0, 1]),
            (3, 2, &[1], Some(2), &[0]),
            (2, 2, &[1], None, &[0]),
            (1, 2, &[], None, &[]),
            (5, 3, &[2, 4], Some(3), &[0, 1]),
            (4, 1, &[2], Some(3), &[0, 1]),
        ] {
            let allowed: Vec<u32> = (0..cores).collect();
            let layout = Layout::of(&allowed, tenants);
            let found = (&layout.issuers[..], layout.reaper, &layout.others[..]);
            assert_eq!(found, (issuers, reaper, others), "{cores} cores");
        }
        let allowed = [1, 5, 7, 8, 9, 12, 13];
        let layout = Layout::of(&allowed, 2);
        assert_eq!((&layout.issuers[..], layout.reaper), (&[7, 9][..], Some(8)));
    }

    #[test]
    fn a_shortage_names_the_threads_that_share() {
        let shortage = |cores: u32, tenants| {
            let allowed: Vec<u32> = (0..cores).collect();
            Layout::of(&allowed, tenants).shortage(allowed.len(), tenants)
        };
        assert_eq!(shortage(5, 2), None);
        for (cores, tenants, text) in [
            (4, 2, "1 of 1 neighbours share core 0, 1 with all other threads"),
            (5, 3, "1 of 2 neighbours share core 0, 1 with all other threads"),
            (
                2,
                2,
                "2 cores for 2 tenants: the victim's reaper shares core 0 with all other threads",
            ),
            (1, 2, "1 core for 2 tenants: all threads of all tenants share it"),
        ] {
            let found = shortage(cores, tenants).unwrap_or_default();
            assert!(found.contains(text), "{cores} cores: {found}");
        }
    }
}
