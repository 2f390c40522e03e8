//! Wheel names, tags and paths, by table.

use super::*;

const DIGEST: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

#[track_caller]
fn check_tags(file: &str, options: &str, glibc: Option<(u32, u32)>, macos: Option<(u32, u32)>) {
    let tags = WheelTags::parse(file).unwrap();
    assert_eq!(tags.pip_options().join(" "), options);
    assert_eq!(tags.min_glibc(), glibc);
    assert_eq!(tags.min_macos(), macos);
}

#[test]
fn tags_become_pip_options_and_minimum_systems() {
    check_tags(
        "onnxruntime-1.31.1-cp312-cp312-manylinux_2_28_x86_64.whl",
        "--implementation cp --python-version 3.12 --abi cp312 --platform manylinux_2_28_x86_64",
        Some((2, 28)),
        None,
    );
    check_tags(
        "onnxruntime_ggml-0.2.0-py3-none-manylinux_2_38_aarch64.manylinux_2_39_aarch64.whl",
        "--implementation py --python-version 3.12 --abi none --platform manylinux_2_38_aarch64 \
         --platform manylinux_2_39_aarch64",
        Some((2, 38)),
        None,
    );
    check_tags(
        "a-1-py2.py3-none-any.whl",
        "--implementation py --python-version 3.12 --abi none --platform any",
        None,
        None,
    );
    check_tags(
        "a-1-cp39-abi3-macosx_14_0_universal2.whl",
        "--implementation cp --python-version 3.9 --abi abi3 --platform macosx_14_0_universal2",
        None,
        Some((14, 0)),
    );
    check_tags(
        "a-1-2build-cp310-cp310-manylinux2014_x86_64.whl",
        "--implementation cp --python-version 3.10 --abi cp310 --platform manylinux2014_x86_64",
        Some((2, 17)),
        None,
    );
}

#[test]
fn names_that_are_no_wheels_have_no_tags() {
    for file in [
        "",
        ".whl",
        "a.whl",
        "a-1-py3-none.whl",
        "a-1-py3-none-any.zip",
        "a-1-py3--any.whl",
        "a-1-p y-none-any.whl",
    ] {
        assert_eq!(WheelTags::parse(file), None, "{file}");
    }
}

#[test]
fn refuses_a_wheel_of_another_distribution_or_version() {
    let digest: Sha256Digest = DIGEST.parse().unwrap();
    let pin = |d, v, f| WheelPin::new(d, v, f, digest, 5);
    assert!(pin("silero-vad", "6.2.3", "silero_vad-6.2.3-py3-none-any.whl").is_ok());
    assert!(pin("silero-vad", "6.2", "silero_vad-6.2.3-py3-none-any.whl").is_err());
    assert!(pin("silero", "6.2.3", "silero_vad-6.2.3-py3-none-any.whl").is_err());
    assert!(pin("--index", "6.2.3", "__index-6.2.3-py3-none-any.whl").is_err());
    assert!(pin("a", "1", "../a-1-py3-none-any.whl").is_err());
    assert!(WheelPin::new("a", "1", "a-1-py3-none-any.whl", digest, 0).is_err());
    assert!(WheelPin::new("a", "1", "a-1-py3-none-any.whl", digest, u64::MAX).is_err());
}

#[test]
fn refuses_paths_that_lead_elsewhere() {
    for path in [
        "", "/a", "a//b", "../a", "a/..", "a/./b", "a\\b", "C:a", "a/", "nul\0", "a. /b", "a/b.", " a", "a*b",
    ] {
        assert_eq!(check_path(path), Err(InvalidPin::Path(path.to_owned())));
    }
    for path in ["a", "a/b.so.1.2", "onnxruntime_ggml.libs/libc++-71bc274c.so.1.0", "a b/c"] {
        assert_eq!(check_path(path), Ok(()));
    }
}

#[test]
fn a_digest_survives_its_text_form() {
    assert_eq!(Sha256Digest::of(b"").to_string(), DIGEST);
    assert_eq!(DIGEST.parse::<Sha256Digest>(), Ok(Sha256Digest::of(b"")));
    for text in ["", "E3B0", &DIGEST.to_uppercase(), &DIGEST[..63], &"é".repeat(32)] {
        assert!(text.parse::<Sha256Digest>().is_err(), "{text}");
    }
}
