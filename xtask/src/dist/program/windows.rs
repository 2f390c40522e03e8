//! What Windows reads in a program before it starts it: processor, libraries, manifest, flags.
//!
//! <https://learn.microsoft.com/en-us/windows/win32/debug/pe-format>. Invariant: bytes that are no such program are
//! an error, whatever they are.

use std::collections::BTreeSet;
use std::fmt;

use anyhow::{Context, Result, ensure};
use object::LittleEndian as LE;
use object::pe::{
    IMAGE_DLLCHARACTERISTICS_DYNAMIC_BASE as DYNAMIC_BASE,
    IMAGE_DLLCHARACTERISTICS_HIGH_ENTROPY_VA as HIGH_ENTROPY,
    IMAGE_DLLCHARACTERISTICS_NX_COMPAT as NO_EXECUTE, IMAGE_FILE_MACHINE_AMD64, IMAGE_FILE_MACHINE_ARM64,
    IMAGE_SUBSYSTEM_WINDOWS_CUI, RT_MANIFEST,
};
use object::read::pe::{ImageNtHeaders as _, ImageOptionalHeader as _, PeFile64};

use super::{Processor, refuse_unknown_libraries};

/// Libraries that every desktop of Windows 10 and 11 has, on x64 and on ARM64, in small letters. Only those that the
/// program loads today stand here: another one is looked up before it is added.
///
/// The names that begin with `api-ms-win-` are not files but contracts, which came with Windows 10 at the latest.
const LIBRARIES: &[&str] = &[
    "advapi32.dll",
    "api-ms-win-core-synch-l1-2-0.dll",
    "api-ms-win-crt-environment-l1-1-0.dll",
    "api-ms-win-crt-heap-l1-1-0.dll",
    "api-ms-win-crt-math-l1-1-0.dll",
    "api-ms-win-crt-private-l1-1-0.dll",
    "api-ms-win-crt-runtime-l1-1-0.dll",
    "api-ms-win-crt-stdio-l1-1-0.dll",
    "api-ms-win-crt-string-l1-1-0.dll",
    "api-ms-win-crt-time-l1-1-0.dll",
    "api-ms-win-crt-utility-l1-1-0.dll",
    "bcryptprimitives.dll",
    "cfgmgr32.dll",
    "combase.dll",
    "dxgi.dll",
    "gdi32.dll",
    "kernel32.dll",
    "ntdll.dll",
    "oleaut32.dll",
    "pdh.dll",
    "powrprof.dll",
    "shell32.dll",
    "userenv.dll",
];

/// What the manifest has to ask for: see the build script of the program.
const WISHES: &[&str] = &[">true</longPathAware>", ">UTF-8</activeCodePage>", "\"asInvoker\""];

/// The time that is written into every program instead of that at which it was linked: the first that a ZIP archive can
/// hold. It is no time of the sources, since cargo keeps a program that none of them changed.
pub(in crate::dist) const STAMP: u32 = 315_532_800;

/// What is read of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    machine: u16,
    subsystem: u16,
    flags: u16,
    /// The time at which it was linked, in seconds since 1970.
    stamp: u32,
    /// Loaded before the program starts, and when the first function of one is called.
    libraries: Vec<String>,
    manifest: Option<String>,
    /// Names for a debugger: symbols, and the names of sections that hold more.
    debug: Vec<String>,
    bytes: usize,
}

/// Reads a 64-bit program.
pub(super) fn parse(program: &[u8]) -> Result<Facts> {
    let file = PeFile64::parse(program).context("the program is none for 64-bit Windows")?;
    let header = file.nt_headers().file_header();
    let optional = file.nt_headers().optional_header();
    let mut debug = Vec::new();
    match header.number_of_symbols.get(LE) {
        0 => {}
        symbols => debug.push(format!("{symbols} symbols")),
    }
    let sections = file.section_table();
    for section in sections.iter() {
        let name = String::from_utf8_lossy(section.raw_name()).into_owned();
        // Names longer than eight letters, such as those of debug sections, are numbers of the table of strings.
        if name.starts_with('/') || name.starts_with(".debug") {
            debug.push(format!("section {name}"));
        }
    }
    Ok(Facts {
        machine: header.machine.get(LE),
        subsystem: optional.subsystem(),
        flags: optional.dll_characteristics(),
        stamp: header.time_date_stamp.get(LE),
        libraries: parse_libraries(&file).context("cannot read which libraries the program loads")?,
        manifest: parse_manifest(&file).context("cannot read the program's manifest")?,
        debug,
        bytes: program.len(),
    })
}

fn parse_libraries(file: &PeFile64<'_>) -> object::Result<Vec<String>> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut names = BTreeSet::new();
    if let Some(table) = file.import_table()? {
        let mut libraries = table.descriptors()?;
        while let Some(library) = libraries.next()? {
            names.insert(text(table.name(library.name.get(LE))?));
        }
    }
    let late = file.data_directories().delay_load_import_table(file.data(), &file.section_table())?;
    if let Some(table) = late {
        let mut libraries = table.descriptors()?;
        while let Some(library) = libraries.next()? {
            names.insert(text(table.name(library.dll_name_rva.get(LE))?));
        }
    }
    Ok(names.into_iter().collect())
}

/// The first manifest among the resources, which are a tree of types, names and languages.
fn parse_manifest(file: &PeFile64<'_>) -> object::Result<Option<String>> {
    let sections = file.section_table();
    let Some(resources) = file.data_directories().resource_directory(file.data(), &sections)? else {
        return Ok(None);
    };
    let types = resources.root()?;
    let Some(manifests) = types.entries.iter().find(|entry| entry.name_or_id().id() == Some(RT_MANIFEST))
    else {
        return Ok(None);
    };
    let Some(names) = manifests.data(resources)?.table() else { return Ok(None) };
    let Some(name) = names.entries.first() else { return Ok(None) };
    let Some(languages) = name.data(resources)?.table() else { return Ok(None) };
    let Some(language) = languages.entries.first() else { return Ok(None) };
    let Some(place) = language.data(resources)?.data() else { return Ok(None) };
    let bytes = sections.pe_data_at(file.data(), place.offset_to_data.get(LE));
    let text = bytes.and_then(|bytes| bytes.get(..usize::try_from(place.size.get(LE)).ok()?));
    Ok(text.map(|text| String::from_utf8_lossy(text).into_owned()))
}

/// Fails where the program would not start on every Windows 10 and 11 of this `processor`, or asks for more there
/// than it should.
pub(super) fn judge(facts: &Facts, processor: Processor) -> Result<()> {
    let machine = match processor {
        Processor::X64 => IMAGE_FILE_MACHINE_AMD64,
        Processor::Arm64 => IMAGE_FILE_MACHINE_ARM64,
    };
    ensure!(
        facts.machine == machine,
        "the program is for the machine {:#06x}, not {machine:#06x}",
        facts.machine
    );
    ensure!(facts.subsystem == IMAGE_SUBSYSTEM_WINDOWS_CUI, "the program is none for a console");
    refuse_unknown_libraries(&facts.libraries, LIBRARIES, "Windows")?;
    let manifest = facts.manifest.as_deref().context("the program has no manifest")?;
    for wish in WISHES {
        ensure!(manifest.contains(wish), "the program's manifest does not say {wish}: {manifest}");
    }
    ensure!(facts.debug.is_empty(), "the program is not stripped: {}", facts.debug.join(", "));
    ensure!(facts.stamp == STAMP, "the program tells when it was linked: {}", facts.stamp);
    for (flag, what) in
        [(DYNAMIC_BASE, "dynamic base"), (HIGH_ENTROPY, "high entropy"), (NO_EXECUTE, "no execution of data")]
    {
        ensure!(facts.flags & flag != 0, "the program is linked without the protection `{what}`");
    }
    Ok(())
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "program: {} bytes, machine {:#06x}, flags {:#06x}, stamp {:#010x}, manifest of {} bytes",
            self.bytes,
            self.machine,
            self.flags,
            self.stamp,
            self.manifest.as_ref().map_or(0, String::len)
        )?;
        write!(f, "loads {}", self.libraries.join(", "))
    }
}

#[cfg(test)]
mod tests;
