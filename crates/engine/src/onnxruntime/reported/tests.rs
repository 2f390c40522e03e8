//! Devices and lists of made-up machines: the tie holds in every order and after every restart.

use super::*;

const RADEON: &str = "gpu:1002:164e@0000:08:00.0";
const NVIDIA: &str = "gpu:10de:2d18@0000:01:00.0";

fn device(kind: ChipKind, (vendor_id, device_id): (u32, u32), told: &[(&str, &str)]) -> ReportedDevice {
    let hardware = told.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    ReportedDevice { kind, vendor_id, device_id, hardware }
}

fn gpu(ids: (u32, u32), told: &[(&str, &str)]) -> ReportedDevice {
    device(ChipKind::Gpu, ids, told)
}

fn adapter(chip: &str, ids: (u32, u32), luid: Option<u64>, position: Option<u32>) -> ListedAdapter {
    let (head, place) =
        chip.split_once('@').map_or((chip, None), |(head, place)| (head, Some(place.to_owned())));
    ListedAdapter {
        kind: if head.starts_with("npu") { ChipKind::Npu } else { ChipKind::Gpu },
        identity: ChipIdentity { bus_address: place, luid, ..ChipIdentity::of_ids(ids.0, ids.1) },
        chip: Reading::Available(ChipKey(chip.to_owned())),
        position,
    }
}

const RADEON_IDS: (u32, u32) = (0x1002, 0x164e);
const NVIDIA_IDS: (u32, u32) = (0x10de, 0x2d18);

/// A hybrid laptop; which GPU comes first changes with the power state, and the LUIDs with each start.
fn hybrid(nvidia_first: bool, luids: (u64, u64)) -> Reading<Vec<ListedAdapter>> {
    let (radeon_at, nvidia_at) = if nvidia_first { (1, 0) } else { (0, 1) };
    Reading::Available(vec![
        adapter(RADEON, RADEON_IDS, Some(luids.0), Some(radeon_at)),
        adapter(NVIDIA, NVIDIA_IDS, Some(luids.1), Some(nvidia_at)),
        adapter("gpu:1414:008c", (0x1414, 0x8c), Some(99), Some(2)),
    ])
}

#[track_caller]
fn tied(device: &ReportedDevice, listed: &Reading<Vec<ListedAdapter>>, expected: &str) {
    let tie = device.chip(listed);
    assert_eq!((tie.chip.as_str(), tie.unclear), (expected, None));
}

#[track_caller]
fn unclear(device: &ReportedDevice, listed: &Reading<Vec<ListedAdapter>>, reason: &str) {
    let told = device.chip(listed).unclear.expect("the tie is not clear");
    assert!(told.contains(reason), "{told}");
}

#[test]
fn both_gpus_of_a_laptop_are_tied_in_both_orders_and_after_a_restart() {
    for (nvidia_first, luids) in [(true, (7, 8)), (false, (7, 8)), (true, (8, 7)), (false, (56_564, 70_001))]
    {
        let listed = hybrid(nvidia_first, luids);
        let positions = if nvidia_first { ("1", "0") } else { ("0", "1") };
        let (radeon, nvidia) = (luids.0.to_string(), luids.1.to_string());
        tied(&gpu(RADEON_IDS, &[("LUID", &radeon), ("DxgiAdapterNumber", positions.0)]), &listed, RADEON);
        tied(&gpu(NVIDIA_IDS, &[("LUID", &nvidia), ("DxgiAdapterNumber", positions.1)]), &listed, NVIDIA);
        // An older library tells no LUID.
        tied(&gpu(NVIDIA_IDS, &[("DxgiAdapterNumber", positions.1)]), &listed, NVIDIA);
        // And one that listed its devices before the order changed tells the wrong position.
        tied(&gpu(NVIDIA_IDS, &[("DxgiAdapterNumber", positions.0)]), &listed, NVIDIA);
        tied(&gpu(NVIDIA_IDS, &[]), &listed, NVIDIA);
    }
}

#[test]
fn equal_gpus_are_tied_by_luid_or_position_and_never_guessed() {
    let (one, two) = ("gpu:10de:2684@0000:01:00.0", "gpu:10de:2684@0000:41:00.0");
    let ids = (0x10de, 0x2684);
    let listed =
        Reading::Available(vec![adapter(two, ids, Some(21), Some(0)), adapter(one, ids, Some(22), Some(1))]);
    tied(&gpu(ids, &[("LUID", "22"), ("DxgiAdapterNumber", "0")]), &listed, one);
    tied(&gpu(ids, &[("DxgiAdapterNumber", "0")]), &listed, two);
    tied(&gpu(ids, &[("pci_bus_id", "0000:41:00.0")]), &listed, two);
    unclear(&gpu(ids, &[]), &listed, "which of these chips");
    unclear(&gpu(ids, &[("LUID", "23"), ("DxgiAdapterNumber", "0")]), &listed, one);
    unclear(&gpu(ids, &[("LUID", "x"), ("DxgiAdapterNumber", "-1")]), &listed, two);
}

#[test]
fn a_number_that_another_chip_has_now_ties_nothing() {
    // The LUID of the GeForce is the Radeon's after a restart of the driver.
    tied(&gpu(NVIDIA_IDS, &[("LUID", "7")]), &hybrid(true, (7, 8)), NVIDIA);
}

#[test]
fn a_chip_that_is_listed_twice_is_one() {
    let twice = Reading::Available(vec![
        adapter(NVIDIA, NVIDIA_IDS, Some(3), Some(0)),
        adapter(NVIDIA, NVIDIA_IDS, Some(2), Some(1)),
    ]);
    for told in [&[("LUID", "3")][..], &[("LUID", "2")], &[("LUID", "9")], &[]] {
        tied(&gpu(NVIDIA_IDS, told), &twice, NVIDIA);
    }
    assert_eq!(dxgi_position(&ChipKey(NVIDIA.to_owned()), Some(2), &twice), Ok(1));
    assert_eq!(dxgi_position(&ChipKey(NVIDIA.to_owned()), None, &twice), Ok(0));
}

#[test]
fn npus_are_tied_by_their_ids() {
    let npu = |ids, told: &[(&str, &str)]| device(ChipKind::Npu, ids, told);
    let (intel, qualcomm, amd) = ((0x8086, 0x7d1d), (0x4d4f_4351, 0x4130_4430), (0x1022, 0x17f0));
    let listed = Reading::Available(vec![
        adapter("npu:8086:7d1d@0000:00:0b.0", intel, None, None),
        adapter("npu:qcom0d0a", qualcomm, None, None),
    ]);
    tied(&npu(intel, &[("LUID", "70001")]), &listed, "npu:8086:7d1d@0000:00:0b.0");
    tied(&npu(qualcomm, &[("LUID", "70002"), ("Discrete", "0")]), &listed, "npu:qcom0d0a");
    // One that only the library knows has a key of its own, and the same one after a restart.
    tied(&npu(amd, &[("LUID", "70003")]), &listed, "npu:1022:17f0");
    tied(&npu(amd, &[("LUID", "80003")]), &listed, "npu:1022:17f0");
    // A library may take a GPU without a display for an NPU.
    let compute =
        Reading::Available(vec![adapter("gpu:10de:2335@0000:17:00.0", (0x10de, 0x2335), None, None)]);
    assert_eq!(npu((0x10de, 0x2335), &[]).chip(&compute).kind, ChipKind::Gpu);
}

#[test]
fn without_an_answer_nothing_is_tied() {
    let silent = Reading::unavailable("DXGI did not answer within 3 seconds");
    unclear(&gpu(NVIDIA_IDS, &[("LUID", "8")]), &silent, "DXGI did not answer");
    assert!(dxgi_position(&ChipKey(NVIDIA.to_owned()), None, &silent).is_err());
    tied(&device(ChipKind::Cpu, (0x8086, 0), &[]), &silent, "cpu");
    tied(&gpu(NVIDIA_IDS, &[("LUID", "8")]), &Reading::Available(Vec::new()), "gpu:10de:2d18");
    let mut twins = adapter("gpu:10de:2d18", NVIDIA_IDS, Some(8), Some(0));
    twins.chip = Reading::unavailable("there are 2 adapters");
    unclear(&gpu(NVIDIA_IDS, &[("LUID", "8")]), &Reading::Available(vec![twins]), "2 adapters");
}

#[test]
fn directml_gets_the_position_of_the_moment() {
    let nvidia = ChipKey(NVIDIA.to_owned());
    assert_eq!(dxgi_position(&nvidia, Some(8), &hybrid(true, (7, 8))), Ok(0));
    assert_eq!(dxgi_position(&nvidia, Some(8), &hybrid(false, (7, 8))), Ok(1));
    // The driver has started again since the library listed its devices.
    assert_eq!(dxgi_position(&nvidia, Some(8), &hybrid(false, (7, 12))), Ok(1));
    let gone =
        hybrid(true, (7, 8)).map(|listed| listed.into_iter().filter(|it| it.position != Some(0)).collect());
    let reason = dxgi_position(&nvidia, Some(8), &gone).unwrap_err();
    assert!(reason.contains(NVIDIA) && reason.contains("no longer"), "{reason}");
}

#[test]
fn passing_numbers_are_known() {
    assert!(["LUID", "DxgiAdapterNumber", "DxgiHighPerformanceIndex"].iter().all(|name| is_passing(name)));
    assert!(["Description", "pci_bus_id", "Discrete"].iter().all(|name| !is_passing(name)));
}
