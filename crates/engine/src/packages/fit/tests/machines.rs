//! The whole table, seen from machines that people have.
//!
//! Invariant: each package of the table stands in exactly one of a machine's three lists, so that a new package or
//! wheel cannot go by unseen.

use super::*;

/// What a machine gets.
struct Expected<'a> {
    /// Installed by the first start.
    unasked: &'a [&'a str],
    /// Installed when it is asked for by name.
    by_name: &'a [&'a str],
    /// Of no use, with the reason that the user is given.
    unfit: &'a [(&'a str, &'a str)],
}

const NO_INTEL: &str = "needs an Intel CPU, GPU or NPU, and none was found";
const NO_OTHER_CPU: &str = "needs an x86-64 CPU of another maker than Intel, and none was found";
const NO_NVIDIA: &str = "needs an NVIDIA GPU with its driver, and none was found";
const NO_AMD: &str = "needs an AMD GPU with its driver, and none was found";
const NO_QUALCOMM: &str = "needs a Qualcomm NPU, and none was found";
const NO_GPU: &str = "needs a GPU with a Vulkan, Direct3D 12 or Metal driver, and none was found";
const NO_BUILD: &str = "there is no build of";

#[track_caller]
fn check(facts: MachineFacts, expected: &Expected<'_>) {
    let table = Table::embedded();
    let chosen: Vec<&str> =
        table.recommended(&facts).iter().map(|(package, _)| package.name.as_str()).collect();
    assert_eq!(chosen, expected.unasked);
    for package in table.packages().iter().filter(|package| !chosen.contains(&package.name.as_str())) {
        let reason = expected.unfit.iter().find(|(name, _)| *name == package.name);
        match (fits(package, &facts), reason) {
            (Ok(_), None) => {
                assert!(expected.by_name.contains(&package.name.as_str()), "{} fits, too", package.name);
                assert!(!package.recommended && package.why.starts_with("not installed unasked: "));
            }
            (Err(unfit), Some((_, reason))) => {
                let text = unfit.to_string();
                assert!(text.contains(reason) && text.contains(&package.name), "{text}");
            }
            (found, reason) => panic!("{}: {found:?}, expected {reason:?}", package.name),
        }
    }
    let listed = expected.unasked.len() + expected.by_name.len() + expected.unfit.len();
    assert_eq!(listed, table.packages().len(), "a package is listed twice");
}

const WITH_GPU: MachineFacts = MachineFacts { has_any_gpu_with_driver: true, ..WINDOWS };

#[test]
fn windows_with_intel_and_nvidia() {
    check(
        MachineFacts { has_nvidia_gpu: true, ..WITH_GPU },
        &Expected {
            unasked: &["onnxruntime", "openvino", "webgpu", "ggml", "directml", "nv_tensorrt_rtx"],
            by_name: &["windowsml", "cuda", "nv_tensorrt_rtx_cu12"],
            unfit: &[
                ("openvino_runtime", NO_BUILD),
                ("qnn", NO_QUALCOMM),
                ("migraphx", NO_BUILD),
                ("mlx", NO_BUILD),
            ],
        },
    );
}

#[test]
fn windows_with_intel_alone() {
    check(
        WITH_GPU,
        &Expected {
            unasked: &["onnxruntime", "openvino", "webgpu", "ggml", "directml"],
            by_name: &["windowsml"],
            unfit: &[
                ("openvino_runtime", NO_BUILD),
                ("qnn", NO_QUALCOMM),
                ("cuda", NO_NVIDIA),
                ("nv_tensorrt_rtx", NO_NVIDIA),
                ("nv_tensorrt_rtx_cu12", NO_NVIDIA),
                ("migraphx", NO_BUILD),
                ("mlx", NO_BUILD),
            ],
        },
    );
}

#[test]
fn windows_with_amd_alone() {
    check(
        MachineFacts { has_intel_chip: false, has_amd_gpu: true, ..WITH_GPU },
        &Expected {
            unasked: &["onnxruntime", "webgpu", "ggml", "directml"],
            by_name: &["windowsml"],
            unfit: &[
                ("openvino", NO_INTEL),
                ("openvino_runtime", NO_BUILD),
                ("qnn", NO_QUALCOMM),
                ("cuda", NO_NVIDIA),
                ("nv_tensorrt_rtx", NO_NVIDIA),
                ("nv_tensorrt_rtx_cu12", NO_NVIDIA),
                ("migraphx", NO_BUILD),
                ("mlx", NO_BUILD),
            ],
        },
    );
}

#[test]
fn windows_on_a_snapdragon() {
    check(
        MachineFacts {
            platform: Some(Platform::WindowsArm64),
            has_intel_chip: false,
            has_qualcomm_npu: true,
            ..WITH_GPU
        },
        &Expected {
            unasked: &["onnxruntime", "webgpu", "qnn"],
            by_name: &["windowsml"],
            unfit: &[
                ("openvino", NO_BUILD),
                ("openvino_runtime", NO_BUILD),
                ("ggml", NO_BUILD),
                ("directml", NO_BUILD),
                ("cuda", NO_BUILD),
                ("nv_tensorrt_rtx", NO_NVIDIA),
                ("nv_tensorrt_rtx_cu12", NO_BUILD),
                ("migraphx", NO_BUILD),
                ("mlx", NO_BUILD),
            ],
        },
    );
}

#[test]
fn a_mac_of_apple_silicon() {
    check(
        MachineFacts { has_intel_chip: false, ..MAC },
        &Expected {
            unasked: &["onnxruntime", "webgpu", "ggml"],
            by_name: &["mlx"],
            unfit: &[
                ("openvino", NO_BUILD),
                ("openvino_runtime", NO_BUILD),
                ("qnn", NO_BUILD),
                ("directml", NO_BUILD),
                ("windowsml", NO_BUILD),
                ("cuda", NO_BUILD),
                ("nv_tensorrt_rtx", NO_BUILD),
                ("nv_tensorrt_rtx_cu12", NO_BUILD),
                ("migraphx", NO_BUILD),
            ],
        },
    );
}

/// ONNX Runtime's last build for them, 1.23.2, is older than this program can use.
#[test]
fn a_mac_with_an_intel_processor_has_the_embedded_engine_alone() {
    let facts = MachineFacts { platform: Platform::of("macos", "x86_64"), ..MAC };
    assert!(Table::embedded().recommended(&facts).is_empty());
    for package in Table::embedded().packages() {
        assert!(fits(package, &facts).unwrap_err().to_string().ends_with("for this platform"));
    }
}

#[test]
fn linux_on_arm_without_and_with_a_gpu() {
    let board = MachineFacts {
        platform: Some(Platform::LinuxArm64),
        glibc: Some((2, 39)),
        has_intel_chip: false,
        ..BARE
    };
    let absent = [
        ("openvino", NO_BUILD),
        ("openvino_runtime", NO_BUILD),
        ("directml", NO_BUILD),
        ("windowsml", NO_BUILD),
        ("nv_tensorrt_rtx_cu12", NO_BUILD),
        ("migraphx", NO_BUILD),
        ("mlx", NO_BUILD),
        ("qnn", NO_QUALCOMM),
    ];
    let without = [("webgpu", NO_GPU), ("cuda", NO_NVIDIA), ("nv_tensorrt_rtx", NO_NVIDIA)];
    check(
        board,
        &Expected {
            unasked: &["onnxruntime", "ggml"],
            by_name: &[],
            unfit: &[absent.as_slice(), &without].concat(),
        },
    );
    let nvidia = MachineFacts { has_nvidia_gpu: true, has_any_gpu_with_driver: true, ..board };
    let unasked = &["onnxruntime", "webgpu", "ggml", "nv_tensorrt_rtx"];
    check(nvidia, &Expected { unasked, by_name: &["cuda"], unfit: &absent });
    // The system of a Raspberry Pi of 2023: what needs a newer C library says so, and the rest is there.
    let old = MachineFacts { glibc: Some((2, 36)), ..board };
    let old_system = [("ggml", "needs glibc 2.38 or newer, this machine has 2.36")];
    check(
        old,
        &Expected {
            unasked: &["onnxruntime"],
            by_name: &[],
            unfit: &[absent.as_slice(), &without, &old_system].concat(),
        },
    );
}

#[test]
fn linux_with_amd_processor_and_gpu() {
    check(
        MachineFacts { has_intel_chip: false, has_amd_gpu: true, has_any_gpu_with_driver: true, ..BARE },
        &Expected {
            unasked: &["onnxruntime", "openvino_runtime", "webgpu", "ggml"],
            by_name: &["migraphx"],
            unfit: &[
                ("openvino", NO_INTEL),
                ("qnn", NO_QUALCOMM),
                ("directml", NO_BUILD),
                ("windowsml", NO_BUILD),
                ("cuda", NO_NVIDIA),
                ("nv_tensorrt_rtx", NO_NVIDIA),
                ("nv_tensorrt_rtx_cu12", NO_NVIDIA),
                ("mlx", NO_BUILD),
            ],
        },
    );
}

#[test]
fn linux_with_intel_alone() {
    check(
        MachineFacts { has_any_gpu_with_driver: true, ..BARE },
        &Expected {
            unasked: &["onnxruntime", "openvino", "webgpu", "ggml"],
            by_name: &[],
            unfit: &[
                ("openvino_runtime", NO_OTHER_CPU),
                ("qnn", NO_QUALCOMM),
                ("directml", NO_BUILD),
                ("windowsml", NO_BUILD),
                ("cuda", NO_NVIDIA),
                ("nv_tensorrt_rtx", NO_NVIDIA),
                ("nv_tensorrt_rtx_cu12", NO_NVIDIA),
                ("migraphx", NO_AMD),
                ("mlx", NO_BUILD),
            ],
        },
    );
}
