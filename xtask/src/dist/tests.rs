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

#[cfg(unix)]
mod start_script {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    const AWKWARD: &str = "Prüf Ordner (für Ελένη) 日本 & 100% !x! ^ 'a' [b] ;, =";

    /// Prints what it was started with, as the program and as a terminal do.
    const PROGRAM: &str = "#!/bin/sh\nprintf '%s|' \"$0\" \"$PWD\" \"$@\"\nexport -p | grep -c 'SILICONROUTE_\\|START_IN'\nexit 3\n";
    const TERMINAL: &str = "#!/bin/sh\n[ \"$1\" = -e ] || exit 9\nshift\necho terminal\nexec \"$@\"\n";

    fn add(folder: &Path, name: &str, text: &[u8]) -> PathBuf {
        let place = folder.join(name);
        fs::write(&place, text).unwrap();
        fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).unwrap();
        place
    }

    /// An unpacked archive in a folder called `name`.
    fn unpack(outside: &Path, name: &str) -> PathBuf {
        let inside = outside.join(name);
        fs::create_dir(&inside).unwrap();
        add(&inside, "siliconroute", PROGRAM.as_bytes());
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        add(&inside, "start.sh", &fs::read(root.join("dist/start.sh")).unwrap())
    }

    fn run(script: &Path, current: &Path, variables: &[(&str, &Path)]) -> (String, Option<i32>) {
        let mut command = Command::new("sh");
        command.arg(script).args(["--model", "a b"]).current_dir(current);
        command.env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY").stdin(std::process::Stdio::null());
        let done = command.envs(variables.iter().copied()).output().unwrap();
        (String::from_utf8(done.stdout).unwrap(), done.status.code())
    }

    #[test]
    fn it_starts_from_a_folder_of_any_name_and_stays_in_the_current_one() {
        for name in [
            "plain",
            "a b",
            "(a)",
            "ü 日本",
            "a&b",
            "!a!",
            "100%",
            "a^b",
            "it's",
            "\"a\"",
            "$HOME",
            "`a`",
            "-a",
            "a\\b",
            "end\n",
            "*",
            AWKWARD,
        ] {
            let outside = tempfile::tempdir().unwrap();
            let outside = outside.path().canonicalize().unwrap();
            let script = unpack(&outside, name);
            let program = script.with_file_name("siliconroute");
            let expected = format!("{}|{}|up|--once|--model|a b|0\n", program.display(), outside.display());
            assert_eq!(run(&script, &outside, &[]), (expected.clone(), Some(3)), "{name:?}");
            let relative = Path::new(name).join("start.sh");
            let relative = if name.starts_with('-') { Path::new(".").join(relative) } else { relative };
            let (told, code) = run(&relative, &outside, &[]);
            assert_eq!((told.replace("/./", "/"), code), (expected.clone(), Some(3)), "{name:?}");
            let link = outside.join("link on the desktop");
            symlink(&script, &link).unwrap();
            assert_eq!(run(&link, &outside, &[]), (expected, Some(3)), "{name:?}");
        }
    }

    #[test]
    fn it_looks_for_a_terminal_once_and_hides_that_from_the_program() {
        let outside = tempfile::tempdir().unwrap();
        let script = unpack(outside.path(), AWKWARD);
        let bin = outside.path().join("bin");
        fs::create_dir(&bin).unwrap();
        add(&bin, "xterm", TERMINAL.as_bytes());
        for name in ["sh", "grep", "readlink"] {
            let found = ["/bin", "/usr/bin"].map(|folder| Path::new(folder).join(name));
            symlink(found.iter().find(|place| place.exists()).unwrap(), bin.join(name)).unwrap();
        }
        let (told, code) = run(&script, outside.path(), &[("DISPLAY", Path::new(":0")), ("PATH", &bin)]);
        assert!(told.starts_with("terminal\n") && told.ends_with("|up|--once|--model|a b|0\n"), "{told}");
        assert_eq!(code, Some(3));
    }
}
