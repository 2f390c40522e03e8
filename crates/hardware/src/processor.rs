//! What the processor says about itself, without asking the operating system where it can.
//!
//! Invariant: only extensions that the operating system has enabled for programs are listed.
#![cfg_attr(
    any(target_arch = "x86_64", target_arch = "x86"),
    expect(unsafe_code, reason = "XGETBV has no safe form in the standard library")
)]

use siliconroute_core::Reading;

/// The processor that runs this program, as far as its own instructions tell.
#[derive(Debug, Clone, PartialEq)]
pub struct Processor {
    /// The brand string; ARM processors have none.
    pub name: Reading<String>,
    /// The maker, such as `Intel`.
    pub vendor: Reading<String>,
    /// `x86_64`, `arm64`, or the name that Rust gives to another architecture.
    pub architecture: String,
    /// Vector and matrix extensions, in a fixed order.
    pub vector_extensions: Vec<String>,
    /// The hypervisor below this machine, `None` on bare metal.
    pub hypervisor: Reading<Option<String>>,
}

impl Processor {
    /// Asks the running processor.
    pub fn detect() -> Self {
        let no_instruction = "this processor has no instruction that names it";
        let mut processor = Self {
            name: Reading::unavailable(no_instruction),
            vendor: Reading::unavailable(no_instruction),
            architecture: architecture_name(std::env::consts::ARCH),
            vector_extensions: Vec::new(),
            hypervisor: Reading::unavailable("this processor has no instruction that names a hypervisor"),
        };
        processor.ask();
        processor
    }

    #[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
    fn ask(&mut self) {
        let cpuid = raw_cpuid::CpuId::new();
        if let Some(brand) = cpuid.get_processor_brand_string() {
            self.name =
                Reading::from_option(clean_spaces(brand.as_str()), "the processor's brand string is empty");
        }
        if let Some(vendor) = cpuid.get_vendor_info() {
            self.vendor = Reading::Available(vendor_name(vendor.as_str()));
        }
        self.hypervisor = Reading::Available(x86_hypervisor(&cpuid));
        self.vector_extensions = x86_extensions();
    }

    #[cfg(target_arch = "aarch64")]
    fn ask(&mut self) {
        self.vector_extensions = arm_extensions();
    }

    #[cfg(not(any(target_arch = "x86_64", target_arch = "x86", target_arch = "aarch64")))]
    fn ask(&mut self) {}
}

/// The project's word for an architecture: ARM's 64-bit form is `arm64` on every system.
fn architecture_name(rust_name: &str) -> String {
    if rust_name == "aarch64" { "arm64" } else { rust_name }.to_owned()
}

/// Joins the words of `text` by single spaces; `None` where there are none.
pub(crate) fn clean_spaces(text: &str) -> Option<String> {
    let words: Vec<&str> =
        text.split(|c: char| c.is_whitespace() || c == '\0').filter(|word| !word.is_empty()).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// The maker behind a CPUID vendor string.
pub(crate) fn vendor_name(id: &str) -> String {
    match id.trim() {
        "GenuineIntel" => "Intel",
        "AuthenticAMD" => "AMD",
        "HygonGenuine" => "Hygon",
        "CentaurHauls" | "  Shanghai  " | "Shanghai" => "Zhaoxin",
        other => other,
    }
    .to_owned()
}

#[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
fn x86_hypervisor(cpuid: &raw_cpuid::CpuId<raw_cpuid::CpuIdReaderNative>) -> Option<String> {
    if !cpuid.get_feature_info().is_some_and(|features| features.has_hypervisor()) {
        return None;
    }
    let leaf = raw_cpuid::cpuid!(0x4000_0000_u32);
    let mut signature = Vec::with_capacity(12);
    for register in [leaf.ebx, leaf.ecx, leaf.edx] {
        signature.extend_from_slice(&register.to_le_bytes());
    }
    // Windows with Hyper-V or its security features on runs as the root partition of its own
    // hypervisor: that machine is bare metal to its user. CreatePartitions marks the root.
    let creates_partitions = signature == *b"Microsoft Hv" && raw_cpuid::cpuid!(0x4000_0003_u32).ebx & 1 == 1;
    (!creates_partitions).then(|| hypervisor_name(&signature))
}

/// The name behind the signature of CPUID leaf `0x4000_0000`.
#[cfg(any(target_arch = "x86_64", target_arch = "x86", test))]
fn hypervisor_name(signature: &[u8]) -> String {
    let text = String::from_utf8_lossy(signature);
    match text.trim_matches(|c: char| c == '\0' || c == ' ') {
        "KVMKVMKVM" => "kvm".to_owned(),
        "Microsoft Hv" => "hyper-v".to_owned(),
        "VMwareVMware" => "vmware".to_owned(),
        "VBoxVBoxVBox" => "virtualbox".to_owned(),
        "XenVMMXenVMM" => "xen".to_owned(),
        "TCGTCGTCGTCG" => "qemu".to_owned(),
        "bhyve bhyve" => "bhyve".to_owned(),
        "lrpepyh  vr" | "prl hyperv" => "parallels".to_owned(),
        "ACRNACRNACRN" => "acrn".to_owned(),
        "VirtualApple" => "rosetta".to_owned(),
        "" => "unnamed".to_owned(),
        other => {
            other.chars().map(|c| if c.is_ascii_graphic() { c.to_ascii_lowercase() } else { '?' }).collect()
        }
    }
}

/// The hypervisor that a machine's board names itself after, from the text of its firmware.
pub(crate) fn hypervisor_of_board(text: &str) -> Option<String> {
    const SIGNS: [(&str, &str); 11] = [
        ("kvm", "kvm"),
        ("qemu", "qemu"),
        ("vmware", "vmware"),
        ("virtualbox", "virtualbox"),
        ("innotek", "virtualbox"),
        ("xen", "xen"),
        ("parallels", "parallels"),
        ("apple virtualization", "apple"),
        ("virtual machine", "hyper-v"),
        ("amazon ec2", "kvm"),
        ("google compute engine", "kvm"),
    ];
    let text = text.to_lowercase();
    // Bare-metal instances of clouds name the cloud as well.
    let bare = text.contains("metal");
    SIGNS.iter().find(|(sign, _)| !bare && text.contains(sign)).map(|(_, name)| (*name).to_owned())
}

#[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
fn x86_extensions() -> Vec<String> {
    macro_rules! detected {
        ($($feature:tt => $name:literal),+ $(,)?) => {
            [$((std::is_x86_feature_detected!($feature), $name)),+]
        };
    }
    let amx = amx_extensions();
    detected! {
        "sse4.2" => "sse4.2",
        "avx" => "avx",
        "f16c" => "f16c",
        "fma" => "fma",
        "avx2" => "avx2",
        "avxvnni" => "avx_vnni",
        "avxvnniint8" => "avx_vnni_int8",
        "avx512f" => "avx512f",
        "avx512bw" => "avx512bw",
        "avx512vl" => "avx512vl",
        "avx512vnni" => "avx512vnni",
        "avx512bf16" => "avx512bf16",
        "avx512fp16" => "avx512fp16",
    }
    .into_iter()
    .filter(|(present, _)| *present)
    .map(|(_, name)| name)
    .chain(amx)
    .map(str::to_owned)
    .collect()
}

/// AMX, which the stable `is_x86_feature_detected` does not know.
///
/// Linux still asks each process for permission (`arch_prctl`) before the first tile instruction.
#[cfg(target_arch = "x86_64")]
fn amx_extensions() -> Vec<&'static str> {
    const XSAVE_ENABLED: u32 = 1 << 27;
    const TILE_STATES: u64 = 0b11 << 17;
    #[target_feature(enable = "xsave")]
    fn enabled_states() -> u64 {
        // SAFETY: the caller has seen OSXSAVE, so XGETBV of register 0 is allowed.
        unsafe { std::arch::x86_64::_xgetbv(0) }
    }
    if raw_cpuid::cpuid!(0_u32).eax < 7 || raw_cpuid::cpuid!(1_u32).ecx & XSAVE_ENABLED == 0 {
        return Vec::new();
    }
    // SAFETY: OSXSAVE implies that the processor has XSAVE and the system has enabled it.
    let states = unsafe { enabled_states() };
    if states & TILE_STATES != TILE_STATES {
        return Vec::new();
    }
    let edx = raw_cpuid::cpuid!(7_u32).edx;
    [(24, "amx_tile"), (25, "amx_int8"), (22, "amx_bf16")]
        .into_iter()
        .filter(|(bit, _)| edx >> bit & 1 == 1)
        .map(|(_, name)| name)
        .collect()
}

#[cfg(target_arch = "x86")]
fn amx_extensions() -> Vec<&'static str> {
    Vec::new()
}

#[cfg(target_arch = "aarch64")]
fn arm_extensions() -> Vec<String> {
    macro_rules! detected {
        ($($feature:tt),+ $(,)?) => {
            [$((std::arch::is_aarch64_feature_detected!($feature), $feature)),+]
        };
    }
    detected!["neon", "fp16", "dotprod", "fhm", "bf16", "i8mm", "sve", "sve2"]
        .into_iter()
        .filter(|(present, _)| *present)
        .map(|(_, name)| name.to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_running_processor_names_itself() {
        let processor = Processor::detect();
        assert!(!processor.architecture.is_empty());
        if cfg!(target_arch = "x86_64") {
            assert!(processor.name.available().is_some_and(|name| !name.is_empty()));
            assert!(processor.hypervisor.available().is_some());
        }
    }

    #[test]
    fn hypervisor_signatures_have_names() {
        #[track_caller]
        fn check(signature: &[u8], expected: &str) {
            assert_eq!(hypervisor_name(signature), expected);
        }
        check(b"KVMKVMKVM\0\0\0", "kvm");
        check(b"Microsoft Hv", "hyper-v");
        check(b"VMwareVMware", "vmware");
        check(b" lrpepyh  vr", "parallels");
        check(b"\0\0\0\0\0\0\0\0\0\0\0\0", "unnamed");
        check(b"New\xff\x01Kind", "new??kind");
    }

    #[test]
    fn arm_is_called_arm64_everywhere() {
        assert_eq!(architecture_name("aarch64"), "arm64");
        assert_eq!(architecture_name("x86_64"), "x86_64");
    }
}
