//! Clients of devices as the drivers of several makers write them.

use super::*;
use crate::fixture::Tree;

fn client(text: &str) -> Client {
    parse(text).unwrap().1
}

#[test]
fn drivers_are_read_in_their_own_words() {
    let amd = client(
        "pos:\t0\nflags:\t02100002\ndrm-driver:\tamdgpu\ndrm-client-id:\t42\ndrm-pdev:\t0000:03:00.0\n\
         drm-memory-vram:\t1048576 KiB\ndrm-memory-gtt: \t2048 KiB\ndrm-memory-cpu: \t0 KiB\n\
         drm-engine-gfx:\t2000000 ns\ndrm-engine-compute:\t500000 ns\n",
    );
    assert_eq!((amd.driver.as_str(), amd.place.as_deref()), ("amdgpu", Some("0000:03:00.0")));
    assert_eq!(amd.work, Some(EngineWork::Time { ns: 2_500_000 }));
    assert_eq!((amd.device_bytes, amd.shared_bytes), (Some(1 << 30), Some(2 << 20)));

    let xe = client(
        "drm-driver:\txe\ndrm-client-id:\t7\ndrm-pdev:\t0000:00:02.0\ndrm-total-system:\t900 KiB\n\
         drm-resident-system:\t800 KiB\ndrm-resident-vram0:\t0\ndrm-cycles-rcs:\t100\ndrm-total-cycles-rcs:\t5000\n\
         drm-cycles-ccs:\t300\ndrm-total-cycles-ccs:\t5001\ndrm-engine-capacity-vcs:\t2\n",
    );
    assert_eq!(xe.work, Some(EngineWork::Cycles { busy: 400, total: 5001 }));
    assert_eq!((xe.device_bytes, xe.shared_bytes), (Some(0), Some(800 << 10)));

    let npu = client("drm-driver:\tintel_vpu\ndrm-client-id:\t3\ndrm-resident-memory:\t64 MiB\n");
    assert_eq!((npu.place, npu.work, npu.device_bytes, npu.shared_bytes), (None, None, None, Some(64 << 20)));
}

#[test]
fn what_is_no_device_or_no_number_is_left_out() {
    assert_eq!(parse("pos:\t0\nflags:\t02\n"), None);
    assert_eq!(parse("drm-driver:\tamdgpu\n"), None);
    assert_eq!(parse(""), None);
    let odd = client(
        "drm-driver:\tx\ndrm-client-id:\t1\ndrm-engine-gfx:\t-4 ns\ndrm-memory-vram:\t9 parsecs\n\
         drm-memory-gtt:\t99999999999999999 GiB\ndrm-resident-system:\t\n",
    );
    assert_eq!((odd.work, odd.device_bytes, odd.shared_bytes), (None, None, None));
    let large = format!(
        "drm-driver:\tx\ndrm-client-id:\t1\ndrm-engine-a:\t{0} ns\ndrm-engine-b:\t{0} ns\n",
        u64::MAX
    );
    assert_eq!(client(&large).work, Some(EngineWork::Time { ns: u64::MAX }));
}

#[test]
fn the_word_resident_counts_before_the_word_memory() {
    let text =
        |first: &str, second: &str| format!("drm-driver:\tamdgpu\ndrm-client-id:\t1\n{first}\n{second}\n");
    let (old, new) = ("drm-memory-vram:\t10 KiB", "drm-resident-vram:\t8 KiB");
    assert_eq!(client(&text(old, new)).device_bytes, Some(8 << 10));
    assert_eq!(client(&text(new, old)).device_bytes, Some(8 << 10));
}

#[test]
fn a_client_open_twice_counts_once() {
    let one = "drm-driver:\tamdgpu\ndrm-client-id:\t42\ndrm-pdev:\t0000:03:00.0\n";
    let other = "drm-driver:\tamdgpu\ndrm-client-id:\t43\ndrm-pdev:\t0000:03:00.0\n";
    let tree = Tree::new()
        .file("proc/9/fdinfo/0", "pos:\t0\n")
        .file("proc/9/fdinfo/5", one)
        .file("proc/9/fdinfo/6", one)
        .file("proc/9/fdinfo/7", other)
        .directory("proc/9/fdinfo/8");
    assert_eq!(clients(&tree.roots(), 9).available().unwrap().len(), 2);
    assert!(clients(&tree.roots(), 10).available().is_none());
}
