//! `config`: the settings.

use std::process::ExitCode;

use serde_json::json;
use siliconroute::settings::Settings;

use crate::arguments::Config;
use crate::output::{Output, table};

pub(super) fn run(command: &Config, settings: &Settings, output: &Output) -> ExitCode {
    let Config::Show = command;
    if output.json {
        output.document(&json!({"schema": "siliconroute.config/1", "file": settings.file(), "settings": settings.shown()}));
    } else {
        let mut listed = table(&["setting", "value", "from", "variable", "meaning"]);
        for shown in settings.shown() {
            let origin = shown.origin.to_string();
            listed.add_row([shown.key, &shown.value, &origin, &shown.variable, shown.meaning]);
        }
        output.table(&listed);
        if let Some(file) = settings.file().filter(|_| !output.quiet) {
            output.message(format!("the settings file is {}", file.display()));
        }
    }
    ExitCode::SUCCESS
}
