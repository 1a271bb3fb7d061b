//! What a shared library exports, and whether a program is static, read from their files: enough to
//! tell one that hooks from one that does not, and one that can be hooked from one that cannot,
//! before anything is measured with it.
//!
//! The loader ignores what it cannot preload and says so on standard error alone, so that a tenant
//! would run without it. Layout as in elf.h (System V ABI, "Object files").

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::host::command::on_path;

/// Sizes of the 64-bit forms, and where in them the fields are that are read here.
const HEADER_BYTES: usize = 64;
const SECTION_BYTES: usize = 64;
const SYMBOL_BYTES: usize = 24;
/// As much of a program as its header and its segments' headers take.
const HEAD_BYTES: u64 = 65_536;
/// `PT_INTERP`.
const INTERPRETER: u32 = 3;
/// `SHT_DYNSYM`.
const DYNAMIC_SYMBOLS: u32 = 11;
/// `ET_DYN`.
const SHARED_OBJECT: u16 = 3;
/// `EI_CLASS`: `ELFCLASS64`; `EI_DATA`: `ELFDATA2LSB`.
const CLASS_64_LITTLE: [u8; 2] = [2, 1];

/// What is wrong with a file that should be a shared library.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ElfError {
    /// It is something else.
    #[error("it is no ELF file")]
    NotElf,
    /// The loader of this program could not load it.
    #[error("it is no 64-bit shared library for this machine")]
    NotLoadable,
    /// Its tables do not lie within it.
    #[error("it is cut short")]
    CutShort,
}

/// Whether the program in a file is static; absent if it is no program that can be read.
pub(super) fn is_static(path: &Path) -> Option<bool> {
    let mut head = Vec::new();
    let file = std::fs::File::open(path).ok()?;
    file.take(HEAD_BYTES).read_to_end(&mut head).ok()?;
    names_loader(&head).ok().map(|named| !named)
}

/// Whether a program names a loader (`PT_INTERP`), which is who preloads. A static one names none,
/// position-independent or not; one that is has a `PT_DYNAMIC` all the same.
fn names_loader(head: &[u8]) -> Result<bool, ElfError> {
    if head.get(..4) != Some(b"\x7fELF") {
        return Err(ElfError::NotElf);
    }
    let header = head.get(..HEADER_BYTES).ok_or(ElfError::CutShort)?;
    if header[4..6] != CLASS_64_LITTLE {
        return Err(ElfError::NotLoadable);
    }
    let cut = ElfError::CutShort;
    let table = place(header, 32).ok_or(cut.clone())?;
    let size = usize::from(u16_at(header, 54).ok_or(cut.clone())?);
    let count = usize::from(u16_at(header, 56).ok_or(cut)?);
    for number in 0..count {
        let segment = part(head, table.saturating_add(number * size), size)?;
        if u32_at(segment, 0) == Some(INTERPRETER) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The program that a shell command starts, where that can be told without a shell.
pub(super) fn program_of(command: &str) -> Option<PathBuf> {
    if command.contains(|c: char| "$`\"'\\;&|()<>*?".contains(c)) {
        return None;
    }
    let mut words = command.split_whitespace();
    // Variables for the program stand before it.
    let name = words.find(|word| !word.contains('=') && *word != "exec")?;
    if name.contains('/') {
        return Some(PathBuf::from(name));
    }
    on_path(name)
}

/// The names that a shared library for this machine defines for others.
pub(super) fn exports(bytes: &[u8]) -> Result<BTreeSet<String>, ElfError> {
    if bytes.get(..4) != Some(b"\x7fELF") {
        return Err(ElfError::NotElf);
    }
    let header = bytes.get(..HEADER_BYTES).ok_or(ElfError::CutShort)?;
    if header[4..6] != CLASS_64_LITTLE
        || u16_at(header, 16) != Some(SHARED_OBJECT)
        || u16_at(header, 18) != Some(machine())
    {
        return Err(ElfError::NotLoadable);
    }
    let cut = ElfError::CutShort;
    let table = place(header, 40).ok_or(cut.clone())?;
    let count = usize::from(u16_at(header, 60).ok_or(cut.clone())?);
    let mut found = BTreeSet::new();
    for number in 0..count {
        let section = part(bytes, table + number * SECTION_BYTES, SECTION_BYTES)?;
        if u32_at(section, 4) == Some(DYNAMIC_SYMBOLS) {
            let link = u32_at(section, 40).ok_or(cut.clone())? as usize;
            let strings = part(bytes, table + link * SECTION_BYTES, SECTION_BYTES)?;
            let (symbols, texts) = (contents(bytes, section)?, contents(bytes, strings)?);
            found.extend(
                symbols
                    .chunks_exact(SYMBOL_BYTES)
                    .filter_map(|s| defined(s, texts)),
            );
        }
    }
    Ok(found)
}

/// The name of a symbol that is defined here; none for one that is wanted from elsewhere.
fn defined(symbol: &[u8], texts: &[u8]) -> Option<String> {
    let section = u16_at(symbol, 6)?;
    let name = texts.get(u32_at(symbol, 0)? as usize..)?;
    let name = name.split(|byte| *byte == 0).next()?;
    (section != 0 && !name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned())
}

/// `e_machine` of this program (elf.h: `EM_X86_64`, `EM_AARCH64`).
const fn machine() -> u16 {
    if cfg!(target_arch = "aarch64") {
        183
    } else {
        62
    }
}

fn contents<'a>(bytes: &'a [u8], section: &[u8]) -> Result<&'a [u8], ElfError> {
    let (from, length) = (place(section, 24), place(section, 32));
    match (from, length) {
        (Some(from), Some(length)) => part(bytes, from, length),
        _ => Err(ElfError::CutShort),
    }
}

fn part(bytes: &[u8], from: usize, length: usize) -> Result<&[u8], ElfError> {
    let to = from.checked_add(length).ok_or(ElfError::CutShort)?;
    bytes.get(from..to).ok_or(ElfError::CutShort)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// A 64-bit offset or size.
fn place(bytes: &[u8], at: usize) -> Option<usize> {
    let value = u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?);
    usize::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::{ElfError, exports, is_static, names_loader, program_of};
    use std::path::Path;

    #[test]
    fn a_library_s_own_names_are_told_and_those_it_wants_are_not()
    -> Result<(), Box<dyn std::error::Error>> {
        let maps = std::fs::read_to_string("/proc/self/maps")?;
        let libc = maps.lines().find(|line| line.contains("/libc.so"));
        let path = libc.and_then(|line| line.find('/').map(|at| &line[at..]));
        let bytes = std::fs::read(path.ok_or("a program without libc")?)?;
        let names = exports(&bytes)?;
        assert!(names.contains("dlsym") && names.contains("malloc"));
        // Its loader gives it this one.
        assert!(!names.contains("_rtld_global"));
        for cut in [5, 40, 64, bytes.len() / 2] {
            assert_eq!(exports(&bytes[..cut]), Err(ElfError::CutShort), "{cut}");
        }
        Ok(())
    }

    /// The head of a program with segments of these types.
    fn program(types: &[u32]) -> Vec<u8> {
        let mut bytes = vec![0_u8; 64];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[32..40].copy_from_slice(&64_u64.to_le_bytes());
        bytes[54..56].copy_from_slice(&56_u16.to_le_bytes());
        bytes[56..58].copy_from_slice(&(types.len() as u16).to_le_bytes());
        for kind in types {
            bytes.extend(kind.to_le_bytes());
            bytes.extend([0; 52]);
        }
        bytes
    }

    #[test]
    fn a_program_without_a_loader_is_static() -> Result<(), Box<dyn std::error::Error>> {
        let (load, dynamic, interp) = (1, 2, 3);
        for (types, named) in [
            (vec![interp, load, dynamic], true),
            (vec![load], false),
            (vec![load, dynamic], false),
            (vec![], false),
        ] {
            assert_eq!(names_loader(&program(&types)), Ok(named), "{types:?}");
        }
        let whole = program(&[load, interp]);
        assert_eq!(names_loader(&whole[..130]), Err(ElfError::CutShort));
        let mut far = whole.clone();
        far[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(names_loader(&far), Err(ElfError::CutShort));
        assert_eq!(
            is_static(&std::env::current_exe()?),
            Some(false),
            "this one is dynamic"
        );
        assert_eq!(is_static(Path::new("/proc/self/status")), None);
        Ok(())
    }

    #[test]
    fn a_command_names_its_program_where_no_shell_is_needed() {
        let told = |command| program_of(command).map(|path| path.display().to_string());
        assert_eq!(
            told("A=1 exec ./serve --port 1").as_deref(),
            Some("./serve")
        );
        assert!(told("sh serve.sh").is_some_and(|path| path.ends_with("/sh")));
        for none in ["", "cd x && ./serve", "$SERVE", "no-such-program-here"] {
            assert_eq!(told(none), None, "{none}");
        }
    }

    #[test]
    fn what_is_no_library_says_what_it_is_not() {
        assert_eq!(exports(b"#!/bin/sh\n"), Err(ElfError::NotElf));
        assert_eq!(exports(b""), Err(ElfError::NotElf));
        let mut other = vec![0_u8; 64];
        other[..6].copy_from_slice(b"\x7fELF\x01\x01");
        assert_eq!(exports(&other), Err(ElfError::NotLoadable), "32 bits");
    }
}
