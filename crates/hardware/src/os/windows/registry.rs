//! Values of the local machine's registry.
//!
//! Invariant: a value of another type than asked for is absent.

use windows::Win32::Foundation::ERROR_SUCCESS;
use windows::Win32::System::Registry::{
    HKEY_LOCAL_MACHINE, REG_ROUTINE_FLAGS, RRF_RT_REG_DWORD, RRF_RT_REG_MULTI_SZ, RRF_RT_REG_SZ, RegGetValueW,
};
use windows::core::HSTRING;

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
