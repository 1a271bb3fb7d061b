//! The host link: one queue, first come first served, that a busy neighbour never lets run empty.
//!
//! A copy engine serves copies in the order of their submission, whoever submitted them, and does
//! not preempt. A neighbour that keeps `depth` copies outstanding has one under way and the others
//! queued at every instant: a request of the victim that finds them there waits for all of them.

use std::collections::VecDeque;

/// A neighbour's copies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Neighbour {
    /// How long one copy takes.
    pub copy_s: f64,
    /// How many it keeps outstanding.
    pub depth: u32,
}

impl Neighbour {
    /// Finds the depth from the closed loop, in which a request waits for all outstanding copies:
    /// what it takes beside the neighbour is its own time and `depth` copies.
    pub fn from_closed_loop(native_s: f64, contended_s: f64, copy_s: f64) -> Option<Self> {
        let depth = ((contended_s - native_s) / copy_s).round();
        let usable = depth.is_finite() && (1.0..=64.0).contains(&depth) && copy_s > 0.0;
        usable.then_some(Self {
            copy_s,
            depth: depth as u32,
        })
    }

    /// When each of the victim's requests ends. Arrivals are in order.
    pub fn ends_s(&self, arrivals_s: &[f64], service_s: f64) -> Vec<f64> {
        let mut ends_s = Vec::with_capacity(arrivals_s.len());
        // Index of a victim's request, or none for one of the neighbour's copies.
        let mut queue: VecDeque<Option<usize>> = (0..self.depth).map(|_| None).collect();
        let mut arrived = 0;
        let mut now_s = 0.0;
        while ends_s.len() < arrivals_s.len() {
            // The neighbour always has a copy there, so the queue never runs empty.
            let Some(served) = queue.pop_front() else {
                break;
            };
            now_s += if served.is_some() {
                service_s
            } else {
                self.copy_s
            };
            while arrived < arrivals_s.len() && arrivals_s[arrived] <= now_s {
                queue.push_back(Some(arrived));
                arrived += 1;
            }
            match served {
                Some(_) => ends_s.push(now_s),
                None => queue.push_back(None),
            }
        }
        ends_s
    }
}

#[cfg(test)]
mod tests {
    use super::Neighbour;

    #[test]
    fn a_request_waits_for_what_is_outstanding() {
        let neighbour = Neighbour {
            copy_s: 1.0,
            depth: 2,
        };
        // It arrives in the middle of the second copy, when the first one's successor is queued:
        // half a copy and a whole one, then its own time.
        assert_eq!(neighbour.ends_s(&[1.5], 1.0), [4.0]);
        // The second request waits for the first as well, and for the copy submitted between.
        assert_eq!(neighbour.ends_s(&[1.5, 1.6], 1.0), [4.0, 5.0]);
    }

    #[test]
    fn the_depth_follows_from_the_closed_loop() {
        let found = Neighbour::from_closed_loop(1.0, 3.02, 1.0);
        assert_eq!(found.map(|n| n.depth), Some(2));
        for (contended_s, copy_s) in [(1.0, 1.0), (3.0, 0.0), (f64::NAN, 1.0), (200.0, 1.0)] {
            assert_eq!(Neighbour::from_closed_loop(1.0, contended_s, copy_s), None);
        }
    }
}
