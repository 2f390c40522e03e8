//! Entries of the I/O registry and power sources, turned into plain tables.
//!
//! Invariant: every object is released, no more of an answer is kept than its limits allow, and only `power` and
//! `counters` call this, in threads with a deadline.

use std::ffi::CString;

use objc2_core_foundation::{CFBoolean, CFDictionary, CFNumber, CFRetained, CFString, CFType};
use objc2_io_kit::{
    IOIteratorNext, IOObjectRelease, IOPSCopyPowerSourcesInfo, IOPSCopyPowerSourcesList,
    IOPSGetPowerSourceDescription, IOPSGetProvidingPowerSourceType, IORegistryEntryCreateCFProperty,
    IOServiceGetMatchingServices, IOServiceMatching, io_object_t,
};
use siliconroute_core::Reading;

use crate::macos_power::{BATTERY_KEYS, NO_ENTRY, PowerAnswers};
use crate::macos_table::{Table, Value};

/// The registry's port, for which nought stands.
const DEFAULT_PORT: libc::mach_port_t = 0;
/// More entries than a machine has of one class that is asked for here.
const ENTRY_LIMIT: usize = 64;
/// More keys than a table has that is read here.
const KEY_LIMIT: usize = 512;
/// Longer than any text that is read here.
const TEXT_LIMIT: usize = 256;
/// A table in a table is as deep as is read here.
const DEEPEST: u32 = 2;

/// An object of the registry.
struct Object(io_object_t);

impl Drop for Object {
    fn drop(&mut self) {
        // A failure leaves nothing to do.
        let _status = IOObjectRelease(self.0);
    }
}

/// The entries of a class of drivers, each with those of the properties `keys` that it has.
pub(super) fn entries(class: &str, keys: &[&str]) -> Reading<Vec<Table>> {
    let Ok(name) = CString::new(class) else {
        return Reading::unavailable("the name of a class holds a NUL character");
    };
    // SAFETY: the name ends with a NUL.
    let Some(matching) = (unsafe { IOServiceMatching(name.as_ptr()) }) else {
        return Reading::unavailable(format!("the I/O registry cannot be searched for {class}"));
    };
    // SAFETY: a mutable dictionary is a dictionary.
    let matching: CFRetained<CFDictionary> = unsafe { CFRetained::cast_unchecked(matching) };
    let mut found = 0;
    // SAFETY: the call takes the dictionary over and writes one number.
    let status = unsafe { IOServiceGetMatchingServices(DEFAULT_PORT, Some(matching), &raw mut found) };
    if status != libc::KERN_SUCCESS {
        return Reading::unavailable(format!("the I/O registry failed with {status:#x} for {class}"));
    }
    let found = Object(found);
    let next = || Some(IOIteratorNext(found.0)).filter(|object| *object != 0).map(Object);
    let properties = |entry: Object| {
        Table(keys.iter().filter_map(|key| Some(((*key).to_owned(), property(&entry, key)?))).collect())
    };
    Reading::Available(std::iter::from_fn(next).take(ENTRY_LIMIT).map(properties).collect())
}

fn property(entry: &Object, key: &str) -> Option<Value> {
    // SAFETY: the entry is alive, the key is a text, and the default allocator is asked for.
    let value = unsafe { IORegistryEntryCreateCFProperty(entry.0, Some(&CFString::from_str(key)), None, 0) }?;
    plain(&value, 0)
}

/// The name of the source that feeds the machine, and nothing else of it.
pub(super) fn providing_source() -> Reading<PowerAnswers> {
    snapshot().map(|snapshot| PowerAnswers::of_source(providing(&snapshot)))
}

fn snapshot() -> Reading<CFRetained<CFType>> {
    Reading::from_option(IOPSCopyPowerSourcesInfo(), "macOS lists no power sources")
}

fn providing(snapshot: &CFType) -> Option<String> {
    // SAFETY: the snapshot is one of power sources.
    unsafe { IOPSGetProvidingPowerSourceType(Some(snapshot)) }.map(|text| text.to_string())
}

/// The power sources, and the battery's entry.
pub(super) fn power() -> Reading<PowerAnswers> {
    snapshot().map(|snapshot| PowerAnswers {
        providing: providing(&snapshot),
        sources: sources(&snapshot),
        battery: entries("AppleSmartBattery", &BATTERY_KEYS)
            .and_then(|entries| Reading::from_option(entries.into_iter().next(), NO_ENTRY)),
    })
}

/// The descriptions of the power sources.
fn sources(snapshot: &CFType) -> Vec<Table> {
    // SAFETY: the snapshot is one of power sources.
    let Some(list) = (unsafe { IOPSCopyPowerSourcesList(Some(snapshot)) }) else { return Vec::new() };
    // SAFETY: the list holds objects of Core Foundation, of types that are not looked at.
    let list = unsafe { list.cast_unchecked::<CFType>() };
    let describe = |source: CFRetained<CFType>| {
        // SAFETY: the source is one of the snapshot's.
        let description = unsafe { IOPSGetPowerSourceDescription(Some(snapshot), Some(&source)) }?;
        Some(plain_table(&description, 1))
    };
    list.iter().take(ENTRY_LIMIT).filter_map(describe).collect()
}

/// A value as plain data; `None` for a type that no reader asks for.
fn plain(value: &CFType, depth: u32) -> Option<Value> {
    if let Some(number) = value.downcast_ref::<CFNumber>() {
        return number.as_i64().map(Value::Number);
    }
    if let Some(flag) = value.downcast_ref::<CFBoolean>() {
        return Some(Value::Flag(flag.as_bool()));
    }
    if let Some(text) = value.downcast_ref::<CFString>() {
        return Some(Value::Text(text.to_string().chars().take(TEXT_LIMIT).collect()));
    }
    let table = value.downcast_ref::<CFDictionary>().filter(|_| depth < DEEPEST)?;
    Some(Value::Table(plain_table(table, depth + 1)))
}

fn plain_table(table: &CFDictionary, depth: u32) -> Table {
    // SAFETY: tables of the registry and of power sources hold objects of Core Foundation alone, whose types are looked
    // at before use.
    let (keys, values) = unsafe { table.cast_unchecked::<CFType, CFType>() }.to_vecs();
    let pairs = keys.iter().zip(&values).take(KEY_LIMIT);
    let named = pairs
        .filter_map(|(key, value)| Some((key.downcast_ref::<CFString>()?.to_string(), plain(value, depth)?)));
    Table(named.collect())
}
