//! Operations on words in memory, as cuda.h passes them, and what each means.

use std::ffi::{c_int, c_uint};

use crate::code::{self, Code};
use crate::operation::Word;
use gpubench_virtual_gpu_model::state::stream_wait::Test;

/// `CUstreamBatchMemOpType` (cuda.h).
pub const WAIT_32: c_int = 1;

/// Writes a word of 32 bits.
pub const WRITE_32: c_int = 2;

const FLUSH: c_int = 3;

/// Waits for a word of 64 bits.
pub const WAIT_64: c_int = 4;

/// Writes a word of 64 bits.
pub const WRITE_64: c_int = 5;

const BARRIER: c_int = 6;

const REDUCTION: c_int = 8;

/// `CU_STREAM_WAIT_VALUE_FLUSH` and `CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER` (cuda.h).
const WAIT_FLUSH: c_uint = 1 << 30;

const NO_BARRIER: c_uint = 1;

/// Which form of the calls: they differ in what they take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The calls without a suffix.
    First,
    /// The calls with the suffix `_v2`.
    Second,
}

/// `CUstreamBatchMemOpParams`: a union of which all members begin with the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct MemOp {
    pub operation: c_int,
    /// Flags of operations that have no address.
    pub flags: c_uint,
    /// Address, value, and the flags in the low half of the third.
    pub words: [u64; 5],
}

/// What an operation is to the device.
#[derive(Debug, Clone, Copy)]
pub enum Meaning {
    Write(Word),
    Await(Word),
    /// Orders what the model orders anyway.
    Barrier,
}

impl MemOp {
    /// An operation on a word.
    pub fn on(operation: c_int, pointer: u64, value: u64, flags: c_uint) -> Self {
        Self {
            operation,
            flags: 0,
            words: [pointer, value, flags.into(), 0, 0],
        }
    }

    /// What it is, if it can be done at all.
    pub fn meaning(&self, form: Form) -> Result<Meaning, Code> {
        let [pointer, value, flags, ..] = self.words;
        let flags = flags as c_uint;
        let word = |bytes, kind| {
            let value = match bytes {
                4 => value & u64::from(u32::MAX),
                _ => value,
            };
            let test = Test { bytes, kind, value };
            Word { pointer, test }
        };
        match self.operation {
            WAIT_32 => check_wait(flags).map(|kind| Meaning::Await(word(4, kind))),
            WAIT_64 => check_wait(flags).map(|kind| Meaning::Await(word(8, kind))),
            WRITE_32 => check_write(flags, form).map(|()| Meaning::Write(word(4, 0))),
            WRITE_64 => check_write(flags, form).map(|()| Meaning::Write(word(8, 0))),
            // System-wide or of the device, and of the second form only (cuda.h).
            BARRIER if self.flags > 1 => Err(code::INVALID_VALUE),
            BARRIER if form == Form::Second => Ok(Meaning::Barrier),
            FLUSH | REDUCTION if self.flags != 0 => Err(code::INVALID_VALUE),
            // The device says that it cannot flush (CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES).
            BARRIER | FLUSH | REDUCTION => Err(code::NOT_SUPPORTED),
            _ => Err(code::INVALID_VALUE),
        }
    }
}

/// The kind of comparison.
fn check_wait(flags: c_uint) -> Result<c_uint, Code> {
    match flags & !3 {
        0 => Ok(flags),
        // The flush needs a device that can do one, as above.
        WAIT_FLUSH => Err(code::NOT_SUPPORTED),
        _ => Err(code::INVALID_VALUE),
    }
}

fn check_write(flags: c_uint, form: Form) -> Result<(), Code> {
    match flags {
        0 => Ok(()),
        NO_BARRIER if form == Form::First => Ok(()),
        // "Not supported in the v2 API" (CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER, cuda.h).
        NO_BARRIER => Err(code::NOT_SUPPORTED),
        _ => Err(code::INVALID_VALUE),
    }
}

#[cfg(test)]
mod tests {
    use super::{Form, Meaning, MemOp};

    #[test]
    fn the_structure_is_that_of_the_header() {
        assert_eq!(size_of::<MemOp>(), 48);
        assert_eq!(std::mem::offset_of!(MemOp, words), 8);
    }

    #[test]
    fn each_type_of_operation_means_what_the_header_says() {
        let op = |operation, flags, third| MemOp {
            operation,
            flags,
            words: [64, (7 << 32) | 5, third, 0, 0],
        };
        for (operation, flags, third, first, second) in [
            (1, 0, 3, 0, 0),
            (1, 0, 1 << 30, 801, 801),
            (1, 0, 4, 1, 1),
            (2, 0, 1, 0, 801),
            (2, 0, 2, 1, 1),
            (3, 0, 0, 801, 801),
            (3, 1, 0, 1, 1),
            (4, 0, 1, 0, 0),
            (5, 0, 0, 0, 0),
            (6, 1, 0, 801, 0),
            (6, 2, 0, 1, 1),
            (7, 0, 0, 1, 1),
            (8, 0, 0, 801, 801),
            (0, 0, 0, 1, 1),
        ] {
            let op = op(operation, flags, third);
            let code = |form| op.meaning(form).map_or_else(|code| code.0, |_| 0);
            let found = (code(Form::First), code(Form::Second));
            assert_eq!(found, (first, second), "{op:?}");
        }
        let narrow = op(2, 0, 0).meaning(Form::First);
        assert!(matches!(narrow, Ok(Meaning::Write(word)) if word.test.value == 5));
        let wide = op(4, 0, 1).meaning(Form::First);
        assert!(matches!(wide, Ok(Meaning::Await(word))
            if word.test.value == (7 << 32) | 5 && word.test.kind == 1));
    }
}
