//! Every figure of a row, made once: a rate, a ratio of rates, a latency, the growth of a tail.
//! Each is a series over blocks, with what disturbances can have done to it and what it leaves out.
//!
//! Pure: no I/O, no clock. `gate` makes the figures of a cell from its samples; this room alone
//! combines the figures of cells. Scores, claims, the operator's view and the sessions that are
//! compared read what it makes. The rule `figures` of `gpubench-ci tidy` keeps it so.
//!
//! | figure | made by |
//! |---|---|
//! | which cells a row has, and which blocks it leaves out | [`Cells`], [`Pairs`] |
//! | rate, retention, guarantee, efficiency, effectiveness, A/A, clock part | [`Logs`] |
//! | by how much each may be higher or lower | [`Systematic`] |
//! | service jitter, stalls | [`lone`] |
//! | growth of the tail at the offered load | [`latency`] |
//! | median and p99 of the open loop, and their ratios | [`latency`] |
//! | progress of every tenant | [`rates::Progress`] |
//! | the retention that native and solo cells let expect, which is no figure | [`expected`] |
//! | the retention of each block, for charts | [`retention_charts`] |

mod cells;
pub mod expected;
pub mod latency;
pub mod lone;
pub mod rates;
mod systematic;

pub use cells::CellsError;
pub use cells::{Cells, Planned, Reading};
pub use cells::{Key, Pair};
pub use rates::{Alone, LeftOut, Pairs};
pub use rates::{Logs, MODES_RATIO_MIN, achieved_doses, ln_rate};
pub use rates::{TwoModes, two_modes};
pub use rates::{below_zero, retention_charts};
pub use rates::{in_words, printed};
pub use systematic::{Systematic, starved};
