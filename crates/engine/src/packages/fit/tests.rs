//! What is chosen on which machine.

mod machines;

use super::*;

const BARE: MachineFacts = MachineFacts {
    platform: Some(Platform::LinuxX86_64),
    glibc: Some((2, 36)),
    macos: None,
    has_intel_chip: true,
    has_nvidia_gpu: false,
    has_amd_gpu: false,
    has_any_gpu_with_driver: false,
    has_qualcomm_npu: false,
};
const WINDOWS: MachineFacts = MachineFacts { platform: Some(Platform::WindowsX86_64), glibc: None, ..BARE };
const MAC: MachineFacts = MachineFacts {
    platform: Some(Platform::MacosArm64),
    glibc: None,
    macos: Some((15, 1)),
    has_any_gpu_with_driver: true,
    ..BARE
};

#[track_caller]
fn check_recommended(facts: MachineFacts, expected: &[&str]) {
    let chosen = Table::embedded().recommended(&facts);
    assert_eq!(chosen.iter().map(|(package, _)| package.name.as_str()).collect::<Vec<_>>(), expected);
    assert!(chosen.iter().all(|(_, wheel)| Some(wheel.platform) == facts.platform));
}

#[test]
fn recommends_what_the_machine_can_use() {
    check_recommended(BARE, &["onnxruntime", "openvino", "ggml"]);
    let nvidia = MachineFacts { has_nvidia_gpu: true, has_any_gpu_with_driver: true, ..BARE };
    check_recommended(nvidia, &["onnxruntime", "openvino", "webgpu", "ggml", "nv_tensorrt_rtx"]);
    let amd = MachineFacts { has_intel_chip: false, ..BARE };
    check_recommended(amd, &["onnxruntime", "openvino_runtime", "ggml"]);
    check_recommended(WINDOWS, &["onnxruntime", "openvino", "ggml"]);
    let gpu = MachineFacts { has_any_gpu_with_driver: true, ..WINDOWS };
    check_recommended(gpu, &["onnxruntime", "openvino", "webgpu", "ggml", "directml"]);
    check_recommended(MAC, &["onnxruntime", "webgpu", "ggml"]);
    let snapdragon = MachineFacts {
        platform: Some(Platform::WindowsArm64),
        has_qualcomm_npu: true,
        has_any_gpu_with_driver: true,
        ..WINDOWS
    };
    check_recommended(snapdragon, &["onnxruntime", "webgpu", "qnn"]);
    check_recommended(MachineFacts { platform: None, ..BARE }, &[]);
}

#[track_caller]
fn check_unfit(name: &str, facts: MachineFacts, expected: &str) {
    let package = Table::embedded().get(name).unwrap();
    assert_eq!(fits(package, &facts).unwrap_err().to_string(), expected);
}

#[test]
fn says_why_a_package_does_not_fit() {
    check_unfit(
        "openvino",
        MachineFacts { has_intel_chip: false, ..BARE },
        "openvino needs an Intel CPU, GPU or NPU, and none was found",
    );
    check_unfit("cuda", BARE, "cuda needs an NVIDIA GPU with its driver, and none was found");
    check_unfit("openvino", MAC, "there is no build of openvino 1.8.1 for macos-arm64");
    check_unfit(
        "onnxruntime",
        MachineFacts { platform: None, ..BARE },
        "there is no build of onnxruntime 1.31.1 for this platform",
    );
    check_unfit(
        "onnxruntime",
        MachineFacts { glibc: Some((2, 17)), ..BARE },
        "onnxruntime needs glibc 2.28 or newer, this machine has 2.17",
    );
    check_unfit(
        "openvino",
        MachineFacts { glibc: None, ..BARE },
        "openvino needs glibc 2.28 or newer, which this machine does not show",
    );
    check_unfit(
        "onnxruntime",
        MachineFacts { macos: Some((13, 6)), ..MAC },
        "onnxruntime needs macOS 14.0 or newer, this machine has 13.6",
    );
}

#[test]
fn a_package_can_be_taken_by_name_without_its_hardware() {
    let package = Table::embedded().get("qnn").unwrap();
    assert!(fits(package, &BARE).is_err());
    assert_eq!(package.wheel_for(&BARE).map(|wheel| wheel.platform), Ok(Platform::LinuxX86_64));
}

#[test]
fn platform_names_match_their_serial_form() {
    for platform in [
        Platform::LinuxX86_64,
        Platform::LinuxArm64,
        Platform::WindowsX86_64,
        Platform::WindowsArm64,
        Platform::MacosArm64,
    ] {
        assert_eq!(serde_json::to_value(platform).unwrap(), platform.to_string());
    }
    assert_eq!(Platform::of("freebsd", "x86_64"), None);
}
