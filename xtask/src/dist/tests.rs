//! What goes into an archive, without building anything.

use super::*;

#[test]
fn targets_are_chosen_by_name() {
    assert_eq!(choose(&[]).unwrap().0.len(), TARGETS.len());
    assert_eq!(choose(&["--smoke"]).unwrap().0.len(), TARGETS.len());
    let (targets, smoke) = choose(&["windows-arm64", "--smoke", "linux-x64"]).unwrap();
    assert_eq!(targets[0].triple, "aarch64-pc-windows-gnullvm");
    assert_eq!((targets.len(), smoke), (2, true));
    assert!(choose(&["windows"]).unwrap_err().to_string().contains("linux-x64, windows-x64"));
    assert!(choose(&["--fast"]).is_err());
}

#[test]
fn paths_of_the_build_are_replaced() {
    let flags = remap_flags(&[(PathBuf::from("/a b"), "/x"), (PathBuf::from("/c"), "/y")]);
    assert_eq!(flags, "--remap-path-prefix=/a b=/x\u{1f}--remap-path-prefix=/c=/y");
}

#[test]
fn scripts_for_windows_get_its_line_ends_once() {
    assert_eq!(with_windows_line_ends(b"a\nb\r\nc"), b"a\r\nb\r\nc");
}

#[test]
fn sums_are_lines_of_digest_and_name() {
    let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  abc.zip\n";
    assert_eq!(sum_line("abc.zip", b"abc").unwrap(), expected);
    assert!(sum_line("a\nb", b"").is_err());
}

#[test]
fn the_sums_of_a_folder_of_archives_are_written() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["siliconroute-1-b.zip", "siliconroute-1-a.tar.gz", "something else"] {
        fs::write(folder.path().join(name), name).unwrap();
    }
    write_sums(folder.path()).unwrap();
    let sums = fs::read_to_string(folder.path().join("SHA256SUMS")).unwrap();
    let names: Vec<&str> = sums.lines().filter_map(|line| line.split_once("  ")).map(|pair| pair.1).collect();
    assert_eq!(names, ["siliconroute-1-a.tar.gz", "siliconroute-1-b.zip"]);
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
            let expected =
                format!("{}|{}|up|--once|--open|--model|a b|0\n", program.display(), outside.display());
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
        assert!(
            told.starts_with("terminal\n") && told.ends_with("|up|--once|--open|--model|a b|0\n"),
            "{told}"
        );
        assert_eq!(code, Some(3));
    }
}
