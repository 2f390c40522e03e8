//! Numbers in sentences: counts with their nouns, sizes with their units.
//!
//! Invariant: a text says what a person would say of that number: `1 case`, `2 cases`, `1.5 GiB`.

/// A count with its noun, which takes an `s` unless there is exactly one.
pub fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", plural(count))
}

/// The ending of a noun of which there are so many.
pub fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// Bytes with the largest binary unit of which there is at least one.
pub fn binary_size(bytes: u64) -> String {
    let value = bytes as f64;
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.1} KiB", value / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", value / 1_048_576.0),
        _ => format!("{:.1} GiB", value / 1_073_741_824.0),
    }
}

/// The day of a moment in milliseconds since 1970, in UTC, such as `2026-11-30`.
///
/// By the method of Howard Hinnant, <https://howardhinnant.github.io/date_algorithms.html#civil_from_days>.
pub fn utc_date(unix_ms: i64) -> String {
    const DAYS_PER_ERA: i64 = 146_097;
    // Days since 1 March of the year 0, so that a leap day ends its year.
    let days = unix_ms.div_euclid(86_400_000) + 719_468;
    let (era, day_of_era) = (days.div_euclid(DAYS_PER_ERA), days.rem_euclid(DAYS_PER_ERA));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / (DAYS_PER_ERA - 1)) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// The day and minute of a moment in milliseconds since 1970, in UTC, such as `2026-11-30 18:05`.
pub fn utc_minute(unix_ms: i64) -> String {
    let minutes = unix_ms.rem_euclid(86_400_000) / 60_000;
    format!("{} {:02}:{:02}", utc_date(unix_ms), minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_many() {
        let counts: Vec<String> = [0, 1, 2].map(|count| counted(count, "case")).to_vec();
        assert_eq!(counts, ["0 cases", "1 case", "2 cases"]);
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        #[track_caller]
        fn check(unix_ms: i64, expected: &str) {
            assert_eq!(utc_date(unix_ms), expected);
        }
        check(0, "1970-01-01");
        check(-1, "1969-12-31");
        check(951_782_400_000, "2000-02-29");
        check(951_868_800_000, "2000-03-01");
        check(1_700_000_000_000, "2023-11-14");
        check(4_107_542_399_999, "2100-02-28");
        check(4_107_542_400_000, "2100-03-01");
        assert_eq!(utc_minute(951_782_400_000 + 65 * 60_000 + 59_999), "2000-02-29 01:05");
        assert_eq!(utc_minute(-1), "1969-12-31 23:59");
        // Absurd moments are far away and no fault.
        utc_date(i64::MAX);
        utc_date(i64::MIN);
    }

    #[test]
    fn sizes_have_the_unit_that_people_compare_with() {
        #[track_caller]
        fn check(bytes: u64, expected: &str) {
            assert_eq!(binary_size(bytes), expected);
        }
        check(0, "0 B");
        check(1023, "1023 B");
        check(1024, "1.0 KiB");
        check((1 << 20) - 1, "1024.0 KiB");
        check(64 << 20, "64.0 MiB");
        check(1 << 30, "1.0 GiB");
        check(3 << 29, "1.5 GiB");
        check(u64::MAX, "17179869184.0 GiB");
    }
}
