//! The slug that results of a machine are cached under, such as `arm64_apple_m3_8c_16gh`.
//!
//! Invariant: equal facts give equal ids, of `[a-z0-9_]` only, so an id is also a safe file name.

use siliconroute_core::Reading;

use crate::host::HostFacts;

const GIB: u64 = 1 << 30;

/// The id of a machine: architecture, cleaned CPU name, logical cores and RAM in GiB.
///
/// RAM is rounded up to a size that a user would name, since firmware and graphics keep a part:
/// to a multiple of 1 GiB up to 8, of 2 up to 32, of 4 up to 64, of 8 up to 128, of 16 above.
/// A name or size that the machine does not tell is `unknown`.
pub fn hardware_id(facts: &HostFacts) -> String {
    let name = facts.cpu_name.available().map(|name| clean_cpu_name(name)).filter(|name| !name.is_empty());
    let ram = match facts.ram_bytes {
        Reading::Available(bytes) => named_gib(bytes).to_string(),
        Reading::Unavailable(_) => "unknown".to_owned(),
    };
    format!(
        "{}_{}_{}c_{ram}gh",
        slug(&facts.architecture.to_lowercase()),
        name.as_deref().unwrap_or("unknown"),
        facts.logical_cores
    )
}

/// Cleans a CPU name for the id.
///
/// In lower case, without: marks in parentheses such as `(R)` and `(TM)`; everything from an `@` (a
/// clock) and from `with` or `w/` (integrated graphics); the words `cpu`, `processor` and core counts
/// such as `8-Core` or `Six-Core`. What is left that is not a letter or digit becomes one `_`.
pub fn clean_cpu_name(name: &str) -> String {
    let lower = name.to_lowercase();
    let mut text = String::with_capacity(lower.len());
    let mut depth = 0_u32;
    for c in lower.chars() {
        match c {
            '(' => {
                depth += 1;
                text.push(' ');
            }
            ')' if depth > 0 => depth -= 1,
            '®' | '™' => text.push(' '),
            '@' if depth == 0 => break,
            _ if depth == 0 => text.push(c),
            _ => {}
        }
    }
    let kept: Vec<&str> = text
        .split_whitespace()
        .take_while(|word| !matches!(*word, "with" | "w/"))
        .filter(|word| !matches!(*word, "cpu" | "processor") && !is_core_count(word))
        .collect();
    slug(&kept.join(" "))
}

fn is_core_count(word: &str) -> bool {
    const NUMBERS: [&str; 8] = ["single", "dual", "triple", "quad", "six", "eight", "twelve", "sixteen"];
    word.strip_suffix("-core")
        .or_else(|| word.strip_suffix("-cores"))
        .is_some_and(|count| NUMBERS.contains(&count) || count.parse::<u32>().is_ok())
}

/// Replaces each run of other characters by one `_`; none at the ends.
fn slug(text: &str) -> String {
    text.split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("_")
}

/// The RAM size that a user would name, in GiB.
fn named_gib(bytes: u64) -> u64 {
    let gib = bytes.div_ceil(GIB).max(1);
    let step = match gib {
        0..=8 => 1,
        9..=32 => 2,
        33..=64 => 4,
        65..=128 => 8,
        _ => 16,
    };
    gib.next_multiple_of(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_real_processors_are_cleaned() {
        #[track_caller]
        fn check(name: &str, expected: &str) {
            assert_eq!(clean_cpu_name(name), expected);
        }
        check("Intel(R) Core(TM) Ultra 7 155H", "intel_core_ultra_7_155h");
        check("11th Gen Intel(R) Core(TM) i7-1185G7 @ 3.00GHz", "11th_gen_intel_core_i7_1185g7");
        check("Intel(R) Core(TM) i5-8250U CPU @ 1.60GHz", "intel_core_i5_8250u");
        check("Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz", "intel_xeon_platinum_8375c");
        check("Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz", "intel_xeon_e5_2680_v4");
        check("Intel(R) N100", "intel_n100");
        check("AMD Ryzen 9 8940HX with Radeon Graphics", "amd_ryzen_9_8940hx");
        check("AMD Ryzen 7 5800X 8-Core Processor", "amd_ryzen_7_5800x");
        check("AMD Ryzen AI 9 HX 370 w/ Radeon 890M", "amd_ryzen_ai_9_hx_370");
        check("AMD Ryzen Threadripper PRO 5995WX 64-Cores", "amd_ryzen_threadripper_pro_5995wx");
        check("AMD Phenom(tm) II X6 1090T Six-Core Processor", "amd_phenom_ii_x6_1090t");
        check("AMD EPYC 7763 64-Core Processor", "amd_epyc_7763");
        check("AMD EPYC", "amd_epyc");
        check(
            "Snapdragon(R) X Elite - X1E78100 - Qualcomm(R) Oryon(TM) CPU",
            "snapdragon_x_elite_x1e78100_qualcomm_oryon",
        );
        check("Apple M3", "apple_m3");
        check("Apple M2 Max", "apple_m2_max");
        check("Raspberry Pi 5 Model B Rev 1.0", "raspberry_pi_5_model_b_rev_1_0");
        check("Cortex-A76 + Cortex-A55", "cortex_a76_cortex_a55");
    }

    #[test]
    fn odd_names_stay_safe() {
        #[track_caller]
        fn check(name: &str, expected: &str) {
            assert_eq!(clean_cpu_name(name), expected);
        }
        check("", "");
        check("((((", "");
        check(")(", "");
        check("../../etc", "etc");
        check("Процессор", "");
        check("@ 3 GHz", "");
    }

    #[test]
    fn memory_is_the_size_that_a_user_would_name() {
        #[track_caller]
        fn check(kibibytes: u64, expected: u64) {
            assert_eq!(named_gib(kibibytes * 1024), expected);
        }
        check(24_684_092, 24);
        check(7_892_344, 8);
        check(3_884_136, 4);
        check(16_216_380, 16);
        check(14_540_284, 14);
        check(31_774_000, 32);
        check(48_000_000, 48);
        check(65_600_000, 64);
        check(98_500_000, 96);
        check(131_700_000, 128);
        check(263_700_000, 256);
        check(0, 1);
        check(16 * 1024 * 1024, 16);
    }
}
