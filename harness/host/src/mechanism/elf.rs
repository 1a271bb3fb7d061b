//! The symbols that a shared library exports, and whether a program is static, read from their
//! files before anything is measured: whether a library hooks, and whether a program can be hooked.
//!
//! The loader ignores a library that it cannot preload and reports that on standard error alone, so
//! that a tenant would run without it.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

use gpubench_record::regular_file;
use object::elf::{ELFMAG, EM_AARCH64, EM_X86_64, ET_DYN, FileHeader64, PT_INTERP, SHT_DYNSYM};
use object::read::elf::{FileHeader as _, ProgramHeader as _, Sym as _};
use object::{FileKind, LittleEndian};

use super::host::command::on_path;

/// The bytes of a program that hold its header and its program headers.
const HEAD_BYTES: u64 = 65_536;
/// The machine of this program.
const MACHINE: u16 = if cfg!(target_arch = "aarch64") { EM_AARCH64 } else { EM_X86_64 };

/// Why a file cannot be preloaded as a shared library.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ElfError {
    /// It is not an ELF file.
    #[error("it is no ELF file")]
    NotElf,
    /// The loader of this program cannot load it.
    #[error("it is no 64-bit shared library for this machine")]
    NotLoadable,
    /// Its tables are not within it, or contradict each other.
    #[error("it is cut short or damaged: {0}")]
    Damaged(object::read::Error),
}

impl From<object::read::Error> for ElfError {
    fn from(error: object::read::Error) -> Self {
        Self::Damaged(error)
    }
}

/// Whether the program in a file is static; `None` if the file cannot be read as a program.
pub(super) fn is_static(path: &Path) -> Option<bool> {
    let mut head = Vec::new();
    let file = regular_file::open(path).ok()?;
    file.take(HEAD_BYTES).read_to_end(&mut head).ok()?;
    names_loader(&head).ok().map(|named| !named)
}

/// The header of a 64-bit little-endian file.
fn header(bytes: &[u8]) -> Result<&FileHeader64<LittleEndian>, ElfError> {
    if !bytes.starts_with(&ELFMAG) {
        return Err(ElfError::NotElf);
    }
    if FileKind::parse(bytes)? != FileKind::Elf64 {
        return Err(ElfError::NotLoadable);
    }
    let header = FileHeader64::parse(bytes)?;
    if header.is_big_endian() {
        return Err(ElfError::NotLoadable);
    }
    Ok(header)
}

/// Whether a program names a loader (`PT_INTERP`), which is the program that preloads. A static
/// program names none, position-independent or not; a position-independent one has a `PT_DYNAMIC`.
fn names_loader(head: &[u8]) -> Result<bool, ElfError> {
    let segments = header(head)?.program_headers(LittleEndian, head)?;
    let mut types = segments.iter().map(|segment| segment.p_type(LittleEndian));
    Ok(types.any(|kind| kind == PT_INTERP))
}

/// The program that a shell command starts; `None` if only a shell can tell.
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
    let (header, endian) = (header(bytes)?, LittleEndian);
    if header.e_type(endian) != ET_DYN || header.e_machine(endian) != MACHINE {
        return Err(ElfError::NotLoadable);
    }
    let symbols = header.sections(endian, bytes)?.symbols(endian, bytes, SHT_DYNSYM)?;
    let defined = symbols.iter().filter(|symbol| !symbol.is_undefined(endian));
    let names = defined.map(|symbol| symbol.name(endian, symbols.strings()));
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    Ok(names.map(|name| name.map(text)).collect::<Result<_, object::read::Error>>()?)
}

#[cfg(test)]
mod tests {
    use procfs::process::MMapPath;

    use super::{ElfError, exports, is_static, names_loader, program_of};
    use std::path::Path;

    #[test]
    fn exports_are_the_defined_symbols() -> Result<(), Box<dyn std::error::Error>> {
        let maps = procfs::process::Process::myself()?.maps()?;
        let mut files = maps.into_iter().filter_map(|map| match map.pathname {
            MMapPath::Path(path) => Some(path),
            _ => None,
        });
        let libc = files.find(|path| path.to_string_lossy().contains("/libc.so"));
        let bytes = std::fs::read(libc.ok_or("a program without libc")?)?;
        let names = exports(&bytes)?;
        assert!(names.contains("dlsym") && names.contains("malloc"));
        // The loader defines this one.
        assert!(!names.contains("_rtld_global"));
        for cut in [5, 40, 64, bytes.len() / 2] {
            let cut_short = exports(&bytes[..cut]);
            assert!(matches!(cut_short, Err(ElfError::Damaged(_))), "{cut}");
        }
        Ok(())
    }

    fn program(types: &[u32]) -> Vec<u8> {
        let mut bytes = vec![0_u8; 64];
        bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
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
        let is_damaged = |bytes| matches!(names_loader(bytes), Err(ElfError::Damaged(_)));
        assert!(is_damaged(&whole[..130]));
        let mut far = whole.clone();
        far[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(is_damaged(&far));
        assert_eq!(is_static(&std::env::current_exe()?), Some(false), "this one is dynamic");
        assert_eq!(is_static(Path::new("/proc/self/status")), None);
        Ok(())
    }

    #[test]
    fn finds_the_program_of_a_command_that_needs_no_shell() {
        let found = |command| program_of(command).map(|path| path.display().to_string());
        assert_eq!(found("A=1 exec ./serve --port 1").as_deref(), Some("./serve"));
        assert!(found("sh serve.sh").is_some_and(|path| path.ends_with("/sh")));
        for none in ["", "cd x && ./serve", "$SERVE", "no-such-program-here"] {
            assert_eq!(found(none), None, "{none}");
        }
    }

    #[test]
    fn refuses_a_file_that_is_no_library_for_this_machine() {
        assert_eq!(exports(b"#!/bin/sh\n"), Err(ElfError::NotElf));
        assert_eq!(exports(b""), Err(ElfError::NotElf));
        let mut other = vec![0_u8; 64];
        other[..6].copy_from_slice(b"\x7fELF\x01\x01");
        assert_eq!(exports(&other), Err(ElfError::NotLoadable), "32 bits");
    }
}
