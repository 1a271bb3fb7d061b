//! Images of modules: PTX as text or in a fat binary, and the targets that a device can run.
//!
//! No document specifies the layout of a fat binary. Offsets and flags are those that `fatbinary`
//! of CUDA 13.5 writes: a header, then entries, each with a header of its own.

use std::io::Read;

use crate::code::{self, Code};
use gpubench_virtual_gpu_model::machine::Machine;

/// A code with the message of the compiler.
pub type Refusal = (Code, String);

/// A refusal without a message.
pub fn plain(code: Code) -> Refusal {
    (code, String::new())
}

pub const HEADER_BYTES: usize = 16;

/// First bytes of a fat binary: 0xBA55ED50.
const FATBIN: &[u8] = &[0x50, 0xed, 0x55, 0xba];

/// First bytes of a cubin.
const ELF: &[u8] = b"\x7fELF";

/// Kinds of entries.
const PTX: u16 = 1;

/// Flags of an entry: how its payload is compressed.
const LZ4: u64 = 1 << 13;

const ZSTD: u64 = 1 << 15;

/// Most bytes of a fat binary and of the text in it. Larger sizes are taken for damage.
const MAX_BYTES: u64 = 1 << 30;

/// Whether an image is a fat binary, by its first bytes.
pub fn is_fatbin(image: &[u8]) -> bool {
    image.starts_with(FATBIN)
}

/// Whether an image is a cubin, by its first bytes.
pub fn is_cubin(image: &[u8]) -> bool {
    image.starts_with(ELF)
}

pub fn cubin() -> Refusal {
    let text =
        "this is a cubin, and only PTX can run here: compile to PTX, or to a fatbin with PTX";
    (code::NO_BINARY_FOR_GPU, text.to_owned())
}

/// Bytes of a fat binary, by its header.
pub fn fatbin_bytes(header: &[u8; HEADER_BYTES]) -> Result<usize, Refusal> {
    let (own, rest) = (read(header, 6, 2)?, read(header, 8, 8)?);
    if own < HEADER_BYTES as u64 || rest > MAX_BYTES {
        return Err(damaged("its header"));
    }
    Ok((own + rest) as usize)
}

/// The PTX in a fat binary for the newest target that the device can run.
pub fn ptx_in(image: &[u8], machine: &Machine) -> Result<String, Refusal> {
    let mut entries = Vec::new();
    let mut rest = &image[read(image, 6, 2)?.min(image.len() as u64) as usize..];
    while !rest.is_empty() {
        let entry = Entry::first(rest)?;
        rest = &rest[entry.bytes..];
        entries.push(entry);
    }
    let texts = || entries.iter().filter(|entry| entry.kind == PTX);
    let fits = |entry: &&Entry<'_>| entry.target <= target_of(machine);
    match texts().filter(fits).max_by_key(|entry| entry.target) {
        Some(entry) => entry.text(),
        None if texts().next().is_some() => {
            let targets = names(texts());
            let own = target_of(machine);
            let text =
                format!("this fatbin has PTX for {targets}, newer than the device (sm_{own})");
            Err((code::NO_BINARY_FOR_GPU, text))
        }
        None => {
            let targets = names(entries.iter());
            let text = format!(
                "this fatbin has no PTX, only cubins ({targets}), and only PTX can run here: \
                 with nvcc -gencode arch=compute_NN,code=compute_NN"
            );
            Err((code::NO_BINARY_FOR_GPU, text))
        }
    }
}

/// Refuses PTX that the device cannot run. Targets with an `a` run on their own chip only, those
/// with an `f` on its family (PTX ISA, ".target").
pub fn check_target(machine: &Machine, target: &str) -> Result<(), Refusal> {
    let name = target.trim_start_matches("sm_");
    let number: u32 = name.trim_end_matches(['a', 'f']).parse().unwrap_or(0);
    let own = target_of(machine);
    let runs = match name.as_bytes().last() {
        Some(b'a') => number == own,
        Some(b'f') => number <= own && number / 10 == own / 10,
        _ => number <= own,
    };
    if runs {
        return Ok(());
    }
    let text = format!("ptx target {target} does not run on the device: it is an sm_{own}");
    // The compiler in the driver fails, as with any other PTX that it cannot compile.
    Err((code::INVALID_PTX, text))
}

/// The number of the device's target, such as 90.
fn target_of(machine: &Machine) -> u32 {
    let (major, minor) = machine.compute_capability();
    major * 10 + minor
}

fn names<'e>(entries: impl Iterator<Item = &'e Entry<'e>>) -> String {
    let names: Vec<String> = entries.map(|entry| format!("sm_{}", entry.target)).collect();
    names.join(", ")
}

struct Entry<'i> {
    kind: u16,
    target: u32,
    flags: u64,
    payload: &'i [u8],
    text_bytes: u64,
    /// Its length, header included.
    bytes: usize,
}

impl<'i> Entry<'i> {
    /// The entry at the start of some bytes.
    fn first(image: &'i [u8]) -> Result<Self, Refusal> {
        let (header, padded) = (read(image, 4, 4)?, read(image, 8, 8)?);
        let flags = read(image, 40, 8)?;
        let compressed = flags & (LZ4 | ZSTD) != 0;
        let payload_bytes = match compressed {
            true => read(image, 16, 4)?,
            false => padded,
        };
        let text_bytes = if compressed { read(image, 56, 8)? } else { padded };
        let end = header.checked_add(padded).filter(|end| *end <= image.len() as u64);
        let (Some(end), true) = (end, header >= 64 && payload_bytes <= padded) else {
            return Err(damaged("the sizes of an entry"));
        };
        Ok(Self {
            kind: read(image, 0, 2)? as u16,
            target: read(image, 28, 4)? as u32,
            flags,
            payload: &image[header as usize..(header + payload_bytes) as usize],
            text_bytes,
            bytes: end as usize,
        })
    }

    fn text(&self) -> Result<String, Refusal> {
        if self.text_bytes > MAX_BYTES {
            return Err(damaged("the size of its PTX"));
        }
        let bytes = self.text_bytes as usize;
        let text = if self.flags & ZSTD != 0 {
            of_zstd(self.payload, bytes).ok_or_else(|| damaged("its zstd data"))?
        } else if self.flags & LZ4 != 0 {
            lz4_flex::block::decompress(self.payload, bytes).map_err(|_| damaged("its LZ4 data"))?
        } else {
            self.payload.to_vec()
        };
        let text = String::from_utf8(text).map_err(|_| damaged("the text of its PTX"))?;
        Ok(text.trim_end_matches('\0').to_owned())
    }
}

/// The text of a zstd frame of at most this many bytes.
fn of_zstd(frame: &[u8], bytes: usize) -> Option<Vec<u8>> {
    let decoder = ruzstd::decoding::StreamingDecoder::new(frame).ok()?;
    let mut text = Vec::with_capacity(bytes);
    decoder.take(bytes as u64 + 1).read_to_end(&mut text).ok()?;
    (text.len() <= bytes).then_some(text)
}

fn damaged(what: &str) -> Refusal {
    (code::INVALID_IMAGE, format!("this fatbin is damaged: {what}"))
}

/// A little-endian number of some bytes.
fn read(image: &[u8], at: usize, bytes: usize) -> Result<u64, Refusal> {
    let found = image.get(at..at + bytes).ok_or_else(|| damaged("it is cut off"))?;
    let mut raw = [0; 8];
    raw[..bytes].copy_from_slice(found);
    Ok(u64::from_le_bytes(raw))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_run_on_their_chip_on_their_family_or_on_everything_newer() {
        for (name, target, runs) in [
            ("turing", "sm_75", true),
            ("turing", "sm_52", true),
            ("turing", "sm_80", false),
            ("turing", "sm_90", false),
            ("hopper", "sm_90", true),
            ("hopper", "sm_90a", true),
            ("hopper", "sm_100f", false),
            ("hopper", "sm_80", true),
            ("hopper", "sm_80a", false),
        ] {
            let machine = Machine::load(name).expect("built in");
            let found = check_target(&machine, target);
            assert_eq!(found.is_ok(), runs, "{target} on {name}: {found:?}");
        }
    }

    #[test]
    fn damage_is_named_at_every_length() {
        let machine = Machine::load("turing").expect("built in");
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../abi/tests/data/lz4.fatbin");
        let whole = std::fs::read(path).expect("a checked-in file");
        assert!(ptx_in(&whole, &machine).is_ok());
        for length in 0..whole.len() {
            let found = ptx_in(&whole[..length], &machine).expect_err("cut off");
            assert!(
                [code::INVALID_IMAGE, code::NO_BINARY_FOR_GPU].contains(&found.0),
                "{length}: {found:?}"
            );
        }
    }
}
