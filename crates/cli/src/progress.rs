//! Progress on standard error: bars on a terminal, plain lines elsewhere, nothing but notices when quiet.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use siliconroute::event::{Event, Listener, Stage};

use crate::output::{Output, visible};

/// Shows events as they come.
pub(crate) struct Progress<'o> {
    output: &'o Output,
    terminal: bool,
    stage: Option<Stage>,
    bar: Option<ProgressBar>,
    step: String,
    done: u64,
    steps: Option<u64>,
    remaining: Option<Duration>,
}

impl<'o> Progress<'o> {
    pub(crate) fn new(output: &'o Output) -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self {
            output,
            terminal,
            stage: None,
            bar: None,
            step: String::new(),
            done: 0,
            steps: None,
            remaining: None,
        }
    }

    fn title(&self) -> &'static str {
        self.stage.map_or("", Stage::title)
    }

    fn begin(&mut self, stage: Stage, steps: Option<u64>) {
        self.stage = Some(stage);
        self.steps = steps;
        self.done = 0;
        self.remaining = None;
        if !self.terminal {
            return;
        }
        let bar = steps.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
        let template = match steps {
            Some(_) => "{prefix:>12} [{bar:30}] {pos}/{len} {wide_msg} {elapsed}",
            None => "{prefix:>12} {spinner} {wide_msg}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(stage.title());
        bar.enable_steady_tick(Duration::from_millis(200));
        self.bar = Some(bar);
    }

    fn end(&mut self, result: &str) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        if !result.is_empty() {
            self.say(&format!("{:>12}  {result}", self.title()));
        }
    }

    fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| self.output.message(text)),
            None => self.output.message(text),
        }
    }

    fn step(&mut self, mut text: String) {
        if let Some(remaining) = self.remaining {
            text = format!("{text} (about {} left)", coarse(remaining));
        }
        match (&self.bar, self.steps) {
            (Some(bar), _) => bar.set_message(visible(&text).into_owned()),
            (None, Some(steps)) => {
                self.output.message(format!("{:>12}  {}/{steps} {text}", self.title(), self.done + 1));
            }
            (None, None) => self.output.message(format!("{:>12}  {text}", self.title())),
        }
        self.step = text;
    }
}

/// A time to the second, or to ten seconds above a minute.
fn coarse(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("{} s", seconds.max(1)),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60 / 10 * 10),
    }
}

impl Listener for Progress<'_> {
    fn event(&mut self, event: Event) {
        if self.output.quiet {
            // Only progress is kept quiet: a notice says what the result has become.
            if let Event::Notice(text) = event {
                self.output.note(text);
            }
            return;
        }
        match event {
            Event::Begin { stage, steps } => self.begin(stage, steps),
            Event::Step(text) => self.step(text),
            Event::StepDone => {
                self.done += 1;
                if let Some(bar) = &self.bar {
                    bar.inc(1);
                }
            }
            Event::Remaining(time) => self.remaining = Some(time),
            Event::Bytes { done, total } => {
                if let Some(bar) = &self.bar {
                    let (done, total) = (crate::output::bytes(done), crate::output::bytes(total));
                    bar.set_message(format!("{} ({done} of {total})", visible(&self.step)));
                }
            }
            Event::End(result) => self.end(&result),
            Event::Notice(text) => self.say(&format!("{:>12}  {text}", "note")),
        }
    }
}
