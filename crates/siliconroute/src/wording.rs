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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_many() {
        let counts: Vec<String> = [0, 1, 2].map(|count| counted(count, "case")).to_vec();
        assert_eq!(counts, ["0 cases", "1 case", "2 cases"]);
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
