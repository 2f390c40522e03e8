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
