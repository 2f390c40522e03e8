//! Tables on a real terminal of some width.
#![cfg(unix)]

use std::process::Command;

use crate::program::{MODEL, Ran, Sandbox, not_tested};

/// Runs a command whose standard output is a terminal of so many columns, and copies what it shows.
const TERMINAL: &str = "
import fcntl, os, pty, struct, subprocess, sys, termios
outer, inner = pty.openpty()
fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack('HHHH', 24, int(sys.argv[1]), 0, 0))
program = subprocess.Popen(sys.argv[2:], stdout=inner)
os.close(inner)
while True:
    try:
        shown = os.read(outer, 65536)
    except OSError:
        break
    if not shown:
        break
    sys.stdout.buffer.write(shown)
sys.exit(program.wait())
";

fn on_terminal(sandbox: &Sandbox, width: usize, arguments: &[&str]) -> std::io::Result<Ran> {
    let mut command = Command::new("python3");
    sandbox.prepare(&mut command);
    command.args(["-c", TERMINAL, &width.to_string(), env!("CARGO_BIN_EXE_siliconroute")]);
    command.args(["--home", "home", "--offline"]).args(arguments);
    Ok(Ran::of(command.output()?))
}

#[test]
fn every_table_fits_its_terminal() {
    let sandbox = Sandbox::new();
    sandbox.measure();
    for width in [40, 80, 132] {
        for arguments in [
            &["bench", "-m", MODEL, "--iterations", "3"][..],
            &["packages", "list"],
            &["models", "list"],
            &["devices"],
            &["config", "show"],
            &["route", "-m", MODEL],
        ] {
            let Ok(ran) = on_terminal(&sandbox, width, arguments) else {
                not_tested("there is no Python to make a terminal");
                return;
            };
            assert_eq!(ran.code(), Some(0), "{arguments:?}: {}", ran.err);
            // A sentence is the terminal's to wrap.
            let is_of_table = |line: &&str| line.starts_with(['│', '┌', '├', '╞', '└']);
            let tables: Vec<&str> = ran.out.lines().filter(is_of_table).collect();
            assert!(tables.iter().all(|line| line.chars().count() <= width), "{}", ran.out);
            assert!(width < 132 || !tables.is_empty(), "{arguments:?}: {}", ran.out);
        }
    }
    let narrow = on_terminal(&sandbox, 40, &["bench", "-m", MODEL, "--iterations", "3"]).unwrap();
    assert!(narrow.out.lines().any(|line| line.trim().starts_with("model")), "{}", narrow.out);
    assert!(!narrow.out.contains('│'), "{}", narrow.out);
}

#[test]
fn a_live_view_stays_within_its_terminal() {
    let sandbox = Sandbox::new();
    for width in [40, 100] {
        let arguments = ["top", "--seconds", "0.4", "--interval", "0.1"];
        let Ok(ran) = on_terminal(&sandbox, width, &arguments) else {
            not_tested("there is no Python to make a terminal");
            return;
        };
        assert_eq!(ran.code(), Some(0), "{}", ran.err);
        // Drawn in place: the screen is cleared once, and no colour is set.
        assert_eq!(ran.out.matches("\u{1b}[2J").count(), 1, "{:?}", ran.out);
        assert!(!ran.out.contains("\u{1b}[3") && !ran.out.contains("\u{1b}[1m"), "{:?}", ran.out);
        let lines = ran.out.lines().map(|line| line.rsplit('\u{1b}').next().unwrap_or(line));
        let text = |line: &str| line.split_once('K').map_or(line, |(_, text)| text).trim_end().to_owned();
        assert!(lines.clone().all(|line| text(line).chars().count() <= width), "{:?}", ran.out);
        // 24 lines of which the last stays free.
        let first = ran.out.split("\u{1b}[0J").next().unwrap_or_default();
        assert!(first.lines().count() <= 24, "{first:?}");
        assert!(first.contains("memory free") && first.contains("not available: "), "{first:?}");
    }
}
