//! What an interrupt of each command left behind, and how to go on.
//!
//! Invariant: nothing is said to be kept that the command does not keep; the kind, and so the exit code, stays.

use siliconroute::{Error, ErrorKind};

use crate::arguments::Command;

/// Says of an interrupt what it means for `command`; any other error stays.
pub(super) fn told(command: &Command, error: Error) -> Error {
    if !matches!(error, Error::Interrupted) {
        return error;
    }
    match command {
        Command::Up(_) | Command::Bench(_) => error,
        Command::Evaluate(it) if it.simulate || it.corpus.is_some() => {
            interrupted("what was finished until then is all there is", None)
        }
        Command::Evaluate(_) => interrupted("what was measured is kept", None),
        Command::Route(route) if route.verify => interrupted("the decision was not checked", None),
        Command::Tune(tune) if tune.model.is_some() => interrupted(
            "no settings were kept for the model",
            Some("`siliconroute tune --model` begins anew"),
        ),
        Command::Tune(_) => interrupted("no tuning was kept", Some("`siliconroute tune` begins anew")),
        Command::Top(top) if top.record => interrupted("what was seen until then is in the store", None),
        Command::Top(_) => interrupted("the looks until then are all there are", None),
        _ => finding("interrupted".to_owned(), None),
    }
}

fn interrupted(left: &str, advice: Option<&str>) -> Error {
    finding(format!("interrupted; {left}"), advice)
}

fn finding(message: String, advice: Option<&str>) -> Error {
    Error::Finding { kind: ErrorKind::Interrupted, message, advice: advice.map(str::to_owned) }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::arguments::Arguments;

    #[track_caller]
    fn check(arguments: &[&str], message: &str, hint: Option<&str>) {
        let line = std::iter::once("siliconroute").chain(arguments.iter().copied());
        let command = Arguments::try_parse_from(line).unwrap().command.unwrap();
        let error = told(&command, Error::Interrupted);
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Interrupted, message));
        assert_eq!(error.hint().as_deref(), hint);
    }

    #[test]
    fn each_command_says_what_it_left_behind() {
        let goes_on = "`siliconroute up` goes on from there, and so does `bench` with --resume";
        check(&["up"], "interrupted; what was measured is kept", Some(goes_on));
        check(&["bench", "-m", "x"], "interrupted; what was measured is kept", Some(goes_on));
        check(&["evaluate"], "interrupted; what was measured is kept", None);
        check(&["route", "-m", "x"], "interrupted", None);
        check(&["route", "-m", "x", "--verify"], "interrupted; the decision was not checked", None);
        let all = "interrupted; what was finished until then is all there is";
        check(&["evaluate", "--simulate"], all, None);
        check(&["evaluate", "--corpus", "b", "--models", "m", "--task", "fleet"], all, None);
        let anew = Some("`siliconroute tune --model` begins anew");
        check(&["tune", "-m", "x"], "interrupted; no settings were kept for the model", anew);
        check(&["tune"], "interrupted; no tuning was kept", Some("`siliconroute tune` begins anew"));
        check(&["top"], "interrupted; the looks until then are all there are", None);
        check(&["top", "--record"], "interrupted; what was seen until then is in the store", None);
        check(&["run", "-m", "x"], "interrupted", None);
        let other = told(&Command::Fit, Error::Usage("no".to_owned()));
        assert!(matches!(other, Error::Usage(_)), "{other}");
    }
}
