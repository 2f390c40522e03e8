//! What is read of a program and what is refused, on programs that are made here, letter by letter.

use super::*;

const MANIFEST: &str = "<a><longPathAware xmlns='x'>true</longPathAware><activeCodePage>UTF-8</activeCodePage>\
                        <requestedExecutionLevel level=\"asInvoker\"/></a>";

/// Where the only section lies in memory and in the file.
const ADDRESS: usize = 0x1000;
const OFFSET: usize = 0x200;

fn put(bytes: &mut Vec<u8>, place: usize, value: &[u8]) {
    if bytes.len() < place + value.len() {
        bytes.resize(place + value.len(), 0);
    }
    bytes[place..place + value.len()].copy_from_slice(value);
}

fn put_numbers(bytes: &mut Vec<u8>, place: usize, values: &[usize]) {
    for (index, value) in values.iter().enumerate() {
        put(bytes, place + 4 * index, &u32::try_from(*value).unwrap().to_le_bytes());
    }
}

/// A program for x64 that loads `early` when it starts and `late` afterwards.
fn program(early: &[&str], late: &[&str], manifest: Option<&str>) -> Vec<u8> {
    let mut data = Vec::new();
    let (late_table, names) = (0x100, 0x200);
    let mut next = names;
    let mut add_name = |data: &mut Vec<u8>, name: &str| {
        put(data, next, format!("{name}\0").as_bytes());
        next += name.len() + 1;
        ADDRESS + next - name.len() - 1
    };
    for (index, name) in early.iter().enumerate() {
        let place = add_name(&mut data, name);
        put_numbers(&mut data, 20 * index, &[1, 0, 0, place, 1]);
    }
    for (index, name) in late.iter().enumerate() {
        let place = add_name(&mut data, name);
        put_numbers(&mut data, late_table + 32 * index, &[1, place, 1, 1, 1, 0, 0, 0]);
    }
    // Three tables, each of one entry, and the place of the text.
    let resources = 0x400;
    if let Some(text) = manifest {
        let down = 1 << 31;
        for (level, entry) in [[24, down + 24], [1, down + 48], [1033, 72]].iter().enumerate() {
            put_numbers(&mut data, resources + 24 * level, &[0, 0, 0, 1 << 16, entry[0], entry[1]]);
        }
        put_numbers(&mut data, resources + 72, &[ADDRESS + resources + 88, text.len(), 0, 0]);
        put(&mut data, resources + 88, text.as_bytes());
    }
    data.resize(0x800, 0);

    let mut file = Vec::new();
    put(&mut file, 0, b"MZ");
    put_numbers(&mut file, 0x3c, &[0x40]);
    put(&mut file, 0x40, b"PE\0\0");
    put(&mut file, 0x44, &[0x64, 0x86, 1, 0]);
    put(&mut file, 0x48, &STAMP.to_le_bytes());
    put(&mut file, 0x54, &[240, 0, 0x22, 0]);
    let optional = 0x58;
    put(&mut file, optional, &[0x0b, 0x02]);
    put_numbers(&mut file, optional + 32, &[0x1000, 0x200]);
    put_numbers(&mut file, optional + 56, &[0x2000, OFFSET]);
    put(&mut file, optional + 68, &[3, 0, 0x60, 0x01]);
    put_numbers(&mut file, optional + 108, &[16]);
    let directory = |index: usize| optional + 112 + 8 * index;
    if !early.is_empty() {
        put_numbers(&mut file, directory(1), &[ADDRESS, 20 * (early.len() + 1)]);
    }
    if manifest.is_some() {
        put_numbers(&mut file, directory(2), &[ADDRESS + resources, data.len() - resources]);
    }
    if !late.is_empty() {
        put_numbers(&mut file, directory(13), &[ADDRESS + late_table, 32 * (late.len() + 1)]);
    }
    let section = directory(16);
    put(&mut file, section, b".rdata");
    put_numbers(&mut file, section + 8, &[data.len(), ADDRESS, data.len(), OFFSET]);
    put(&mut file, OFFSET, &data);
    file
}

#[test]
fn a_program_is_read() {
    let file = program(&["KERNEL32.dll", "ntdll.dll"], &["pdh.dll"], Some(MANIFEST));
    let facts = parse(&file).unwrap();
    assert_eq!(facts.libraries, ["KERNEL32.dll", "ntdll.dll", "pdh.dll"]);
    assert_eq!(facts.manifest.as_deref(), Some(MANIFEST));
    assert_eq!((facts.machine, facts.subsystem, facts.flags), (0x8664, 3, 0x160));
    judge(&facts, Processor::X64).unwrap();
}

#[test]
fn a_program_that_would_not_start_everywhere_is_refused() {
    #[track_caller]
    fn check(file: &[u8], processor: Processor, message: &str) {
        let error = judge(&parse(file).unwrap(), processor).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    let good = program(&["kernel32.dll"], &[], Some(MANIFEST));
    let with = |place: usize, value: &[u8]| {
        let mut file = good.clone();
        put(&mut file, place, value);
        file
    };
    check(&good, Processor::Arm64, "machine 0x8664, not 0xaa64");
    check(&program(&["libunwind.dll"], &[], Some(MANIFEST)), Processor::X64, "libunwind.dll");
    check(&program(&[], &["VCRUNTIME140.dll"], Some(MANIFEST)), Processor::X64, "VCRUNTIME140.dll");
    check(&program(&["kernel32.dll"], &[], None), Processor::X64, "no manifest");
    for (wish, instead) in
        [("true</long", "false</long"), ("UTF-8", "legacy"), ("asInvoker", "requireAdministrator")]
    {
        let manifest = MANIFEST.replace(wish, instead);
        check(&program(&["kernel32.dll"], &[], Some(&manifest)), Processor::X64, "manifest does not say");
    }
    check(&with(0x48, &[1]), Processor::X64, "when it was linked");
    check(&with(0x50, &[9]), Processor::X64, "9 symbols");
    check(&with(0x58 + 240, b"/4\0\0\0\0"), Processor::X64, "section /4");
    check(&with(0x58 + 68, &[2]), Processor::X64, "console");
    check(&with(0x58 + 70, &[0x20]), Processor::X64, "dynamic base");
    check(&with(0x58 + 70, &[0x40]), Processor::X64, "high entropy");
    check(&with(0x58 + 70, &[0x60, 0]), Processor::X64, "execution of data");
}

#[test]
fn broken_programs_are_errors_or_other_programs() {
    let good = program(&["kernel32.dll"], &["pdh.dll"], Some(MANIFEST));
    for length in 0..good.len() {
        drop(parse(&good[..length]));
    }
    for place in 0..OFFSET + 0x500 {
        let mut file = good.clone();
        file[place] ^= 0xff;
        drop(parse(&file));
    }
    assert!(parse(b"").is_err());
    assert!(parse(b"\x7fELF").is_err());
}
