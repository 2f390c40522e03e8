//! What Windows' answers mean: power status, names of power schemes and of versions.
//!
//! Invariant: pure; the answers come from `os::windows` or from a test.

use siliconroute_core::Reading;

use crate::conditions::PowerSource;

/// The first build that is called Windows 11; the registry's product name still says 10.
const WINDOWS_11_BUILD: u32 = 22_000;

/// Interprets a `SYSTEM_POWER_STATUS`.
pub(crate) fn power_status(line: u8, flag: u8, percent: u8) -> (Reading<PowerSource>, Reading<f64>) {
    let source = match line {
        0 => Reading::Available(PowerSource::Battery),
        1 => Reading::Available(PowerSource::Ac),
        _ => Reading::unavailable("Windows does not know the power source"),
    };
    let charge = match (flag, percent) {
        (255, _) => Reading::unavailable("Windows does not know the battery"),
        (flag, _) if flag & 128 != 0 => Reading::unavailable("no battery, says Windows"),
        (_, 0..=100) => Reading::Available(f64::from(percent)),
        _ => Reading::unavailable("Windows does not know the battery's charge"),
    };
    (source, charge)
}

/// The name that a user would give the system, such as `Windows 11 Pro 24H2 (build 26100)`.
pub(crate) fn system_name(product: &str, release: Option<&str>, build: Option<&str>) -> String {
    let eleven =
        build.and_then(|build| build.parse::<u32>().ok()).is_some_and(|build| build >= WINDOWS_11_BUILD);
    let client = product.starts_with("Windows 10");
    let mut name = if eleven && client { product.replacen("10", "11", 1) } else { product.to_owned() };
    if let Some(release) = release {
        name = format!("{name} {release}");
    }
    match build {
        Some(build) => format!("{name} (build {build})"),
        None => name,
    }
}

/// The schemes that every Windows has, by the first part of their id; others go by their own name.
pub(crate) fn scheme_name(first_part: u32, own_name: Option<String>) -> String {
    match (first_part, own_name) {
        (0x381b_4222, _) => "balanced".to_owned(),
        (0x8c5e_7fda, _) => "high performance".to_owned(),
        (0xa184_1308, _) => "power saver".to_owned(),
        (0xe9a4_2b02, _) => "ultimate performance".to_owned(),
        (_, Some(name)) => name,
        (id, None) => format!("scheme {id:08x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_statuses_are_told_apart() {
        #[track_caller]
        fn check(status: (u8, u8, u8), source: Option<PowerSource>, percent: Option<f64>) {
            let (found, charge) = power_status(status.0, status.1, status.2);
            assert_eq!((found.available().copied(), charge.available().copied()), (source, percent));
        }
        check((1, 9, 93), Some(PowerSource::Ac), Some(93.0));
        check((0, 1, 12), Some(PowerSource::Battery), Some(12.0));
        check((1, 128, 255), Some(PowerSource::Ac), None);
        check((255, 255, 255), None, None);
        check((0, 0, 255), Some(PowerSource::Battery), None);
    }

    #[test]
    fn windows_11_is_told_by_its_build() {
        #[track_caller]
        fn check(product: &str, release: Option<&str>, build: Option<&str>, expected: &str) {
            assert_eq!(system_name(product, release, build), expected);
        }
        check("Windows 10 Pro", Some("24H2"), Some("26100"), "Windows 11 Pro 24H2 (build 26100)");
        check("Windows 10 Home", Some("22H2"), Some("19045"), "Windows 10 Home 22H2 (build 19045)");
        check(
            "Windows Server 2025 Standard",
            None,
            Some("26100"),
            "Windows Server 2025 Standard (build 26100)",
        );
        check("Windows 10", None, None, "Windows 10");
    }

    #[test]
    fn schemes_have_names() {
        assert_eq!(scheme_name(0x381b_4222, Some("Ausbalanciert".to_owned())), "balanced");
        assert_eq!(scheme_name(7, Some("Mine".to_owned())), "Mine");
        assert_eq!(scheme_name(7, None), "scheme 00000007");
    }
}
