//! What keeps the device at one speed: heating, load after an idle, and the check kernel.

use gpubench_record::SoakPlan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Span;
use super::bounds::within;
use super::error::Fault;
use super::options::OptionTable;

/// Fewest windows of a heating: steadiness is a property of several.
pub const WINDOWS_MIN: u64 = 5;
/// A heating takes at most one in so many parts of `device_time`, and a window one in so many.
const LIMIT_PART: u64 = 2;
const WINDOW_PART: u64 = 50;
const HOUR: Span = Span::from_s(3_600);

/// `[soak]`: what keeps the device at one speed. This comes on top of `device_time`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SoakOptions {
    /// Longest heating under load before the first cell, at least five windows; half of
    /// `device_time` where that is less, and 0 for none.
    pub limit: Span,
    /// Window of the heating, 100 ms to 1 min, or a fiftieth of `device_time`: the device is steady
    /// when the rates of five in a row vary by less than 1 % and its temperature by less than 0.5 C
    /// a minute.
    pub window: Span,
    /// Idle time after which the device is loaded for as long, one window at most, before the next
    /// cell; 0 for never.
    pub keep_warm: Span,
    /// Length of one measurement of the check kernel, 1 s at most: one before and after each switch
    /// of the host; 0 for none.
    pub check: Span,
    /// Longest time between two measurements of the check kernel.
    pub every: Span,
}

impl SoakOptions {
    /// As a plan has it, in which the heating is no longer than a part of the cells; `None` where
    /// nothing is done.
    #[must_use]
    pub fn planned(&self, device_time: Span) -> Option<SoakPlan> {
        let any = [self.limit, self.keep_warm, self.check].map(|span| span.ns > 0);
        any.contains(&true).then_some(SoakPlan {
            limit_ns: self.limit.ns.min(device_time.ns / LIMIT_PART),
            window_ns: self.window.ns.min(device_time.ns / WINDOW_PART),
            keep_warm_ns: self.keep_warm.ns,
            check_ns: self.check.ns,
            every_ns: self.every.ns,
        })
    }
}

impl OptionTable for SoakOptions {
    fn check(&self) -> Result<(), Fault> {
        let none = Span::from_ns(0);
        within("soak.window", self.window, Span::from_ms(100), Span::from_s(60))?;
        let shortest = Span::from_ns(self.window.ns * WINDOWS_MIN);
        if self.limit > none {
            within("soak.limit", self.limit, shortest, HOUR)
                .map_err(|fault| fault.bound_by("soak.window"))?;
        }
        within("soak.keep_warm", self.keep_warm, none, HOUR)?;
        within("soak.check", self.check, none, Span::from_s(1))?;
        within("soak.every", self.every, Span::from_s(1), HOUR)
    }
}
