//! Keys and values of the local machine's registry.
//!
//! Invariant: a value of another type than asked for is absent.

use windows::Win32::Foundation::ERROR_SUCCESS;
use windows::Win32::System::Registry::{
    HKEY, HKEY_LOCAL_MACHINE, KEY_ENUMERATE_SUB_KEYS, REG_ROUTINE_FLAGS, RRF_RT_REG_DWORD,
    RRF_RT_REG_MULTI_SZ, RRF_RT_REG_SZ, RegCloseKey, RegEnumKeyExW, RegGetValueW, RegOpenKeyExW,
};
use windows::core::{HSTRING, PWSTR};

use crate::windows_facts::Registry;

/// The registry of this machine.
pub(super) struct LocalMachine;

impl Registry for LocalMachine {
    fn text(&self, key: &str, value: &str) -> Option<String> {
        text(key, value)
    }

    fn number(&self, key: &str, value: &str) -> Option<u32> {
        number(key, value)
    }
}

/// Longer than any name or path that is read here.
const TEXT_UNITS: usize = 2048;

/// More keys than lie in any key that is listed here.
const KEY_LIMIT: u32 = 4096;
/// Longer than the name of a key can be.
const NAME_UNITS: usize = 256;

/// The names of the keys in a key, in the registry's order; none where there is no such key or it cannot be read.
pub(super) fn names(key: &str) -> Vec<String> {
    let mut opened = HKEY::default();
    // SAFETY: the text ends with a NUL and the call writes one handle.
    let status = unsafe {
        RegOpenKeyExW(HKEY_LOCAL_MACHINE, &HSTRING::from(key), None, KEY_ENUMERATE_SUB_KEYS, &raw mut opened)
    };
    if status != ERROR_SUCCESS {
        return Vec::new();
    }
    let mut names = Vec::new();
    for position in 0..KEY_LIMIT {
        let mut units = [0_u16; NAME_UNITS];
        let mut length = units.len() as u32;
        let name = PWSTR(units.as_mut_ptr());
        // SAFETY: the key is open and the name has room for the length that is stated.
        let status =
            unsafe { RegEnumKeyExW(opened, position, Some(name), &raw mut length, None, None, None, None) };
        if status != ERROR_SUCCESS {
            break;
        }
        names.extend(units.get(..length as usize).map(String::from_utf16_lossy));
    }
    // SAFETY: the key was opened above and is not used again. A failure leaves nothing to do.
    let _closed = unsafe { RegCloseKey(opened) };
    names
}

/// A text, or the first of a list of texts.
pub(super) fn text(key: &str, value: &str) -> Option<String> {
    let mut units = vec![0_u16; TEXT_UNITS];
    let mut bytes = (units.len() * 2) as u32;
    read(key, value, RRF_RT_REG_SZ | RRF_RT_REG_MULTI_SZ, units.as_mut_ptr().cast(), &mut bytes)?;
    let text = units.split(|unit| *unit == 0).next().map(String::from_utf16_lossy)?;
    (!text.trim().is_empty()).then(|| text.trim().to_owned())
}

/// A 32-bit number.
fn number(key: &str, value: &str) -> Option<u32> {
    let mut number = 0_u32;
    let mut bytes = size_of::<u32>() as u32;
    read(key, value, RRF_RT_REG_DWORD, (&raw mut number).cast(), &mut bytes)?;
    Some(number)
}

/// Reads into `buffer`, which has room for `bytes`.
fn read(
    key: &str,
    value: &str,
    kinds: REG_ROUTINE_FLAGS,
    buffer: *mut std::ffi::c_void,
    bytes: &mut u32,
) -> Option<()> {
    let (key, value) = (HSTRING::from(key), HSTRING::from(value));
    // SAFETY: both callers pass a buffer of the length that they state; Windows ends texts with a NUL
    // within that length or reports that there is no room.
    let status = unsafe {
        RegGetValueW(
            HKEY_LOCAL_MACHINE,
            &key,
            &value,
            kinds,
            None,
            Some(buffer),
            Some(std::ptr::from_mut(bytes)),
        )
    };
    (status == ERROR_SUCCESS).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_the_keys_of_a_key() {
        let systems = names(r"SOFTWARE\Microsoft");
        assert!(systems.iter().any(|name| name == "Windows"), "{systems:?}");
        assert_eq!(names(r"SOFTWARE\No such key"), [""; 0]);
    }
}
