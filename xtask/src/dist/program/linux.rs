//! What the Linux loader reads in a program before it starts it: processor, libraries, version of the C library.
//!
//! Invariant: bytes that are no such program are an error, whatever they are.

use std::fmt;

use anyhow::{Context, Result, ensure};
use object::elf::{DT_NEEDED, EM_AARCH64, EM_X86_64, ET_DYN};
use object::read::elf::{ElfFile64, FileHeader as _};
use object::{Object as _, ObjectSymbol as _};

use super::{Processor, refuse_unknown_libraries};

/// The oldest GNU C library that the program runs with: the one that ONNX Runtime's own wheels ask for.
pub(in crate::dist) const GLIBC: (u32, u32) = (2, 28);

/// The parts of the GNU C library, which is the only library that every distribution with it has.
const LIBRARIES: &[&str] = &[
    "ld-linux-aarch64.so.1",
    "ld-linux-x86-64.so.2",
    "libc.so.6",
    "libdl.so.2",
    "libm.so.6",
    "libpthread.so.0",
    "librt.so.1",
];

/// What is read of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    machine: u16,
    /// Whether it can be loaded at any address.
    movable: bool,
    libraries: Vec<String>,
    glibc: Option<(u32, u32)>,
    /// Names for a debugger.
    symbols: usize,
    bytes: usize,
}

/// Reads a 64-bit program.
pub(super) fn parse(program: &[u8]) -> Result<Facts> {
    let file: ElfFile64<'_> = ElfFile64::parse(program).context("the program is none for 64-bit Linux")?;
    let endian = file.endian();
    let table = file.elf_dynamic_table().context("cannot read what the program is linked to")?;
    let mut libraries = Vec::new();
    for entry in table.iter().filter(|entry| entry.tag == DT_NEEDED) {
        let name = table.string(entry).context("cannot read which libraries the program loads")?;
        libraries.push(String::from_utf8_lossy(name).into_owned());
    }
    libraries.sort();
    Ok(Facts {
        machine: file.elf_header().e_machine(endian),
        movable: file.elf_header().e_type(endian) == ET_DYN,
        libraries,
        glibc: newest_glibc(program),
        symbols: file.symbols().filter(|symbol| symbol.name().is_ok_and(|name| !name.is_empty())).count(),
        bytes: program.len(),
    })
}

/// Fails where the program would not start on every distribution with this GNU C library.
pub(super) fn judge(facts: &Facts, processor: Processor) -> Result<()> {
    let machine = match processor {
        Processor::X64 => EM_X86_64,
        Processor::Arm64 => EM_AARCH64,
    };
    ensure!(facts.machine == machine, "the program is for the machine {}, not {machine}", facts.machine);
    ensure!(facts.movable, "the program is linked for one address alone");
    ensure!(facts.symbols == 0, "the program is not stripped: {} symbols", facts.symbols);
    refuse_unknown_libraries(&facts.libraries, LIBRARIES, "Linux")?;
    let newest = facts.glibc.context("the program names no version of glibc")?;
    ensure!(
        newest <= GLIBC,
        "the program needs glibc {}.{}, not {}.{}",
        newest.0,
        newest.1,
        GLIBC.0,
        GLIBC.1
    );
    Ok(())
}

/// The newest version among the names `GLIBC_2.17` in the program's table of versions.
fn newest_glibc(program: &[u8]) -> Option<(u32, u32)> {
    const MARK: &[u8] = b"\0GLIBC_";
    let starts = program.windows(MARK.len()).enumerate().filter(|(_, window)| *window == MARK);
    let versions = starts.filter_map(|(start, _)| {
        let rest = &program[start + MARK.len()..];
        let text = std::str::from_utf8(&rest[..rest.iter().take(16).position(|byte| *byte == 0)?]).ok()?;
        let mut parts = text.split('.');
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    });
    versions.max()
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.glibc.unwrap_or_default();
        writeln!(f, "program: {} bytes, machine {}, needs glibc {major}.{minor}", self.bytes, self.machine)?;
        write!(f, "loads {}", self.libraries.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_glibc_of_a_program_is_found() {
        assert_eq!(newest_glibc(b"x\0GLIBC_2.17\0GLIBC_2.2.5\0GLIBC_2.28\0y"), Some((2, 28)));
        assert_eq!(newest_glibc(b"\0GLIBC_PRIVATE\0GLIBC_2"), None);
        assert_eq!(newest_glibc(b""), None);
    }

    #[test]
    fn a_program_that_asks_for_more_is_refused() {
        #[track_caller]
        fn check(facts: &Facts, message: &str) {
            let error = judge(facts, Processor::X64).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
        let good = Facts {
            machine: EM_X86_64,
            movable: true,
            libraries: vec!["libc.so.6".to_owned()],
            glibc: Some(GLIBC),
            symbols: 0,
            bytes: 1,
        };
        judge(&good, Processor::X64).unwrap();
        check(&Facts { machine: EM_AARCH64, ..good.clone() }, "machine 183");
        check(&Facts { movable: false, ..good.clone() }, "one address");
        check(&Facts { libraries: vec!["libssl.so.3".to_owned()], ..good.clone() }, "libssl.so.3");
        check(&Facts { glibc: Some((2, 34)), ..good.clone() }, "glibc 2.34");
        check(&Facts { glibc: None, ..good.clone() }, "no version");
        check(&Facts { symbols: 3, ..good.clone() }, "3 symbols");
    }

    #[test]
    fn bytes_that_are_no_program_are_refused() {
        for bytes in [&b""[..], b"MZ", b"\x7fELF", &[0x7f; 4096]] {
            assert!(parse(bytes).is_err());
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_real_program_is_read() {
        let facts = parse(&std::fs::read(std::env::current_exe().unwrap()).unwrap()).unwrap();
        assert!(facts.libraries.iter().any(|name| name == "libc.so.6"), "{facts}");
        assert!(facts.symbols > 0 && facts.glibc.is_some());
    }
}
