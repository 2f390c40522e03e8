//! What goes into an archive, without building anything.

use super::*;

#[test]
fn targets_are_chosen_by_name() {
    assert_eq!(choose(&[]).unwrap().len(), TARGETS.len());
    assert_eq!(choose(&["windows-arm64"]).unwrap()[0].triple, "aarch64-pc-windows-gnullvm");
    assert!(choose(&["windows"]).unwrap_err().to_string().contains("linux-x64, windows-x64"));
}

#[test]
fn the_newest_glibc_of_a_program_is_found() {
    assert_eq!(newest_glibc(b"x\0GLIBC_2.17\0GLIBC_2.2.5\0GLIBC_2.28\0y"), Some((2, 28)));
    assert_eq!(newest_glibc(b"\0GLIBC_PRIVATE\0GLIBC_2"), None);
    assert!(check_glibc(b"\0GLIBC_2.34\0").is_err());
    assert!(check_glibc(b"\0GLIBC_2.28\0").is_ok());
    assert!(check_glibc(b"").is_err());
}

#[test]
fn paths_of_the_build_are_replaced_and_looked_for() {
    let flags = remap_flags(&[(PathBuf::from("/a b"), "/x"), (PathBuf::from("/c"), "/y")]);
    assert_eq!(flags, "--remap-path-prefix=/a b=/x\u{1f}--remap-path-prefix=/c=/y");
    let root = Path::new("/checkout/of/mine");
    assert!(refuse_private_paths(b"at /siliconroute/crates/x.rs", root).is_ok());
    assert!(refuse_private_paths(b"at /checkout/of/mine/crates/x.rs", root).is_err());
}

#[test]
fn scripts_for_windows_get_its_line_ends_once() {
    assert_eq!(with_windows_line_ends(b"a\nb\r\nc"), b"a\r\nb\r\nc");
}
