//! The sentence that a user reads at the end.
//!
//! Invariant: every kind of agreement has a sentence of its own, with the reason in it.

use super::*;

fn found(agrees: Agreement, chip: &str, unseen: &[&str]) -> Identification {
    let key = |text: &str| ChipKey(text.to_owned());
    Identification {
        target: siliconroute_core::TargetKey("gpu:a/webgpu".to_owned()),
        expected: key("gpu:a"),
        agrees,
        verdict: Verdict::Answered {
            chip: key(chip),
            evidence: Evidence::Load,
            unseen: unseen.iter().map(|text| key(text)).collect(),
        },
        load: "conv".to_owned(),
        worked_s: 1.0,
        chips: Vec::new(),
    }
}

#[test]
fn the_sentence_says_which_chip_answers_and_how_that_is_known() {
    #[track_caller]
    fn check(found: &Identification, expected: &str) {
        assert_eq!(sentence(found), expected);
    }
    check(
        &found(Agreement::Agrees, "gpu:a", &["npu:b"]),
        "gpu:a answers to gpu:a/webgpu, as its name says: its load rose with the work (no sensor tells whether npu:b \
         worked too)",
    );
    check(
        &found(Agreement::Contradicts, "gpu:b", &[]),
        "gpu:b answers to gpu:a/webgpu, not gpu:a: its load rose with the work; its trials would be another chip's",
    );
    check(
        &found(Agreement::CannotTell("none has a sensor".to_owned()), "gpu:b", &[]),
        "sensors cannot tell which chip answers to gpu:a/webgpu: none has a sensor",
    );
}
