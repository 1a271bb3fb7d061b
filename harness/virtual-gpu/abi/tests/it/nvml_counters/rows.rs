//! The counters and their expected changes on each machine.

use Want::{AppearsFrom, Falls, Ignored, Refused, Rises, Stays};

/// Codes of the header.
const NOT_SUPPORTED: i32 = 3;
const NOT_FOUND: i32 = 6;
const TIMEOUT: i32 = 10;

/// Expected change from one reading to the next.
#[derive(Debug, Clone, Copy)]
pub enum Want {
    /// Higher than before.
    Rises,
    /// Lower than before, but positive.
    Falls,
    /// This value, both times.
    Stays(f64),
    /// This code, both times.
    Refused(i32),
    /// This code before, then at min this value.
    AppearsFrom(i32, f64),
    /// Any value; only a code is an error.
    Ignored,
}

impl Want {
    /// Describes the mismatch, if there is one.
    pub fn complaint(self, before: Result<f64, i32>, after: Result<f64, i32>) -> Option<String> {
        let holds = match (self, before, after) {
            (Rises, Ok(before), Ok(after)) => before >= 0.0 && after > before,
            (Falls, Ok(before), Ok(after)) => after > 0.0 && after < before,
            (Stays(want), Ok(before), Ok(after)) => before == want && after == want,
            (Refused(want), Err(before), Err(after)) => before == want && after == want,
            (AppearsFrom(code, min), Err(before), Ok(after)) => before == code && after >= min,
            (Ignored, _, Ok(_)) => true,
            _ => false,
        };
        (!holds).then(|| format!("wanted {self:?}, found {before:?} and then {after:?}"))
    }
}

/// One counter with its changes from idle to load and from load to fault, on Hopper and Turing.
pub struct Row {
    pub name: &'static str,
    pub wants: [[Want; 2]; 2],
}

/// The same on both machines.
const fn both(name: &'static str, work: Want, fault: Want) -> Row {
    Row { name, wants: [[work, fault]; 2] }
}

/// On Hopper only; Turing lacks the unit.
const fn hopper(name: &'static str, work: Want, fault: Want) -> Row {
    let none = Refused(NOT_SUPPORTED);
    Row { name, wants: [[work, fault], [none, none]] }
}

pub const ROWS: &[Row] = &[
    both("utilisation gpu", Rises, Ignored),
    both("utilisation memory", Rises, Ignored),
    both("process utilisation", AppearsFrom(NOT_FOUND, 1.0), Ignored),
    Row { name: "gpm supported", wants: [[Stays(1.0), Stays(1.0)], [Stays(0.0), Stays(0.0)]] },
    hopper("gpm 1 graphics", Rises, Ignored),
    hopper("gpm 2 sm", Rises, Ignored),
    hopper("gpm 3 occupancy", Rises, Ignored),
    hopper("gpm 4 integer", Rises, Ignored),
    hopper("gpm 5 tensor", Rises, Ignored),
    // The unit exists, but no supported kernel uses it.
    hopper("gpm 6 dfma", Stays(0.0), Stays(0.0)),
    hopper("gpm 7 hmma", Rises, Ignored),
    hopper("gpm 8 dmma", Stays(0.0), Stays(0.0)),
    hopper("gpm 9 imma", Stays(0.0), Stays(0.0)),
    hopper("gpm 10 dram", Rises, Ignored),
    hopper("gpm 11 fp64", Rises, Ignored),
    hopper("gpm 12 fp32", Rises, Ignored),
    hopper("gpm 13 fp16", Stays(0.0), Stays(0.0)),
    hopper("gpm 20 pcie sent", Rises, Ignored),
    hopper("gpm 21 pcie received", Rises, Ignored),
    // The links exist, but there is no second device.
    hopper("gpm 60 nvlink received", Stays(0.0), Stays(0.0)),
    hopper("gpm 61 nvlink sent", Stays(0.0), Stays(0.0)),
    both("memory v2 used", Rises, Ignored),
    both("processes", Rises, Ignored),
    both("processes' memory", Rises, Ignored),
    both("mps clients", Stays(0.0), Stays(0.0)),
    both("power usage", Rises, Ignored),
    Row {
        name: "field 185 average power",
        wants: [[Rises, Ignored], [Refused(NOT_SUPPORTED), Refused(NOT_SUPPORTED)]],
    },
    both("field 186 instant power", Rises, Ignored),
    both("energy", Rises, Rises),
    both("pcie sent", Rises, Ignored),
    both("pcie received", Rises, Ignored),
    both("sm clock", Falls, Ignored),
    // From idle to the power cap.
    both("clock reasons", Rises, Ignored),
    both("field 74 power cap", Rises, Rises),
    both("field 269 sw thermal", Stays(0.0), Stays(0.0)),
    both("field 270 hw thermal", Stays(0.0), Stays(0.0)),
    both("field 271 power brake", Stays(0.0), Stays(0.0)),
    both("ecc corrected", Stays(0.0), Rises),
    both("ecc uncorrected", Stays(0.0), Rises),
    hopper("field 143 remapped rows", Stays(0.0), Rises),
    hopper("field 144 remap pending", Stays(0.0), Rises),
    both("field 230 recovery", Stays(0.0), Rises),
    both("xid", Refused(TIMEOUT), AppearsFrom(TIMEOUT, 1.0)),
    hopper("mig mode", Stays(0.0), Stays(0.0)),
    hopper("confidential state", Stays(0.0), Stays(0.0)),
    both("virtualisation", Stays(0.0), Stays(0.0)),
];
