//! Arguments that are not understood: what is said of them, to people and to programs.

use std::process::ExitCode;

use clap::error::{ContextValue, ErrorKind as Misuse};
use siliconroute::ErrorKind;

use crate::output::{Output, visible, visible_lines};

/// Prints what clap says, which may be the help that was asked for; gives the exit code.
pub(crate) fn refuse(mut error: clap::Error) -> ExitCode {
    if !error.use_stderr() {
        return print(&error, ExitCode::SUCCESS);
    }
    make_visible(&mut error);
    let kind = ErrorKind::Usage;
    let text = error.render().to_string();
    let (message, hint) = match error.kind() {
        Misuse::DisplayHelpOnMissingArgumentOrSubcommand => ("a command is missing", text.trim()),
        _ => text.trim().split_once("\n\n").unwrap_or((text.trim(), "")),
    };
    let message = message.trim_start_matches("error: ");
    let hint = Some(hint.trim()).filter(|hint| !hint.is_empty());
    Output::new(asks_for_document(), false).failure_document(kind, message, hint);
    let code = ExitCode::from(kind.exit_code());
    let shown = visible_lines(&text);
    if shown == text {
        // Clap's own way of printing has colours.
        return print(&error, code);
    }
    Output::new(false, false).lines(&text);
    code
}

/// What clap repeats of the arguments may hold what a terminal obeys.
fn make_visible(error: &mut clap::Error) {
    let repeated: Vec<_> = error
        .context()
        .filter_map(|(kind, value)| match value {
            ContextValue::String(text) => Some((kind, visible(text).into_owned())),
            _ => None,
        })
        .collect();
    for (kind, text) in repeated {
        error.insert(kind, ContextValue::String(text));
    }
}

fn print(error: &clap::Error, code: ExitCode) -> ExitCode {
    match error.print() {
        Err(lost) if lost.kind() != std::io::ErrorKind::BrokenPipe => {
            Output::new(false, false).message(format!("error: cannot write to standard output: {lost}"));
            ExitCode::FAILURE
        }
        _ => code,
    }
}

/// Whether `--json` is among arguments that could not be read as a whole.
fn asks_for_document() -> bool {
    std::env::args_os().skip(1).take_while(|argument| argument != "--").any(|argument| argument == "--json")
}
