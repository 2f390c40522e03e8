//! `top`: what the machine's sensors tell now, as a live view, as lines or as a document.
//!
//! Invariant: what a sensor does not tell is shown with its reason, never as 0.

mod view;

use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;
use siliconroute::event::{Event, Listener};
use siliconroute::sampler::{Look, Sampler};
use siliconroute::settings::bounds;
use siliconroute::telemetry::{Recorder, SCHEMA, Telemetry};
use siliconroute::{Error, ErrorKind};

use super::Session;
use crate::arguments::Top;
use crate::output::Screen;

/// How often it is looked whether the user wants to stop.
const LOOK_FOR_WISHES: Duration = Duration::from_millis(100);

/// How long a sensor may take before a view that waits for it is given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// Time between two writes of what is recorded.
const RECORD_EVERY: Duration = Duration::from_secs(10);

/// How a view ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// It has shown what was asked for.
    Complete,
    /// The user ended it, or nobody reads it any more.
    Stopped,
}

/// What an interrupt of this command means, for its document.
type Told<'t> = &'t dyn Fn(Error) -> Error;

pub(super) fn run(session: &Session<'_>, arguments: &Top, told: Told<'_>) -> Result<ExitCode, Error> {
    let router = &session.router;
    if arguments.record {
        router.require_writable("record what the sensors tell")?;
    }
    let whole =
        arguments.seconds.map(|seconds| seconds_in(seconds, "--seconds", 0.1, 86_400.0)).transpose()?;
    let usual = Duration::from_millis(router.settings().telemetry_period_ms);
    let period = match arguments.interval {
        Some(seconds) => {
            // The flag takes what the setting takes, in its own unit.
            let (low_ms, high_ms) = bounds("telemetry_period_ms").expect("a period has bounds");
            seconds_in(seconds, "--interval", low_ms / 1e3, high_ms / 1e3)?
        }
        None => whole.map_or(usual, |whole| usual.min(whole)),
    };
    if let (Some(interval), Some(seconds)) = (arguments.interval, arguments.seconds)
        && interval > seconds
    {
        return Err(Error::Usage(format!(
            "--interval {interval} is longer than --seconds {seconds}, so nothing would be seen in that time"
        )));
    }
    let wanted = match whole {
        Some(whole) => Some(looks_in(whole, period)),
        None => (arguments.once || session.output.json).then_some(1),
    };
    for doubt in router.told_doubts()? {
        session.progress().event(Event::Notice(doubt));
    }
    let started_unix_ms = router.unix_ms();
    let mut sampler = router.watch_machine(period);
    tracing::info!("watching the machine, once in {} s", period.as_secs_f64());
    let mut watch = Watch {
        session,
        started_unix_ms,
        wanted,
        recorder: arguments.record.then(|| Recorder::new(started_unix_ms)),
        recorded: Duration::ZERO,
        told,
    };
    let ended = if session.output.json {
        document(&mut watch, &sampler)
    } else {
        match Screen::on_standard_output().filter(|_| !arguments.once) {
            Some(screen) => live(&mut watch, &sampler, screen),
            None if arguments.once => once(&mut watch, &sampler),
            None => lines(&mut watch, &sampler),
        }
    };
    let recorded = watch.record(&sampler);
    if let Err(reason) = sampler.stop() {
        session.output.note(reason);
    }
    recorded.and(ended)?;
    Ok(ExitCode::SUCCESS)
}

fn seconds_in(seconds: f64, flag: &str, least: f64, most: f64) -> Result<Duration, Error> {
    let unfit =
        || Error::Usage(format!("{flag} must be from {least} to {most} seconds, which {seconds} is not"));
    if !(least..=most).contains(&seconds) {
        return Err(unfit());
    }
    Duration::try_from_secs_f64(seconds).map_err(|_out_of_range| unfit())
}

/// Looks beyond the first one, which is what a share begins with.
fn looks_in(time: Duration, period: Duration) -> u64 {
    ((time.as_secs_f64() / period.as_secs_f64()).round() as u64).max(1)
}

/// A view under way.
struct Watch<'w, 'o> {
    session: &'w Session<'o>,
    started_unix_ms: i64,
    /// How many looks are to be shown; `None` for as many as the user wants.
    wanted: Option<u64>,
    recorder: Option<Recorder>,
    recorded: Duration,
    told: Told<'w>,
}

impl Watch<'_, '_> {
    /// Shows looks as they come, each with the one before it.
    fn each(
        &mut self,
        sampler: &Sampler,
        mut show: impl FnMut(&Telemetry, &Look) -> Result<(), Error>,
    ) -> Result<End, Error> {
        let mut before: Option<Look> = None;
        let mut shown = 0;
        loop {
            let next = before.as_ref().map_or(0, |look| look.number + 1);
            let mut waited = Duration::ZERO;
            while !sampler.wait_for(next, LOOK_FOR_WISHES) {
                if self.session.router.is_cancelled() || self.session.output.is_closed() {
                    return Ok(End::Stopped);
                }
                waited += LOOK_FOR_WISHES;
                if sampler.has_ended() || (self.wanted.is_some() && waited > PATIENCE + sampler.period()) {
                    return Err(no_answer(sampler));
                }
            }
            for look in sampler.looks_from(next, usize::MAX) {
                if before.is_some() {
                    show(&Telemetry::of(&look, before.as_ref(), self.started_unix_ms), &look)?;
                    shown += 1;
                }
                before = Some(look);
                if self.wanted.is_some_and(|wanted| shown >= wanted) {
                    return Ok(End::Complete);
                }
            }
            if self.session.router.is_cancelled() || self.session.output.is_closed() {
                return Ok(End::Stopped);
            }
            if sampler.now().saturating_sub(self.recorded) >= RECORD_EVERY {
                self.recorded = sampler.now();
                // A store that another program holds is tried again; the last write tells.
                if let Err(error) = self.record(sampler) {
                    tracing::info!("recording waits: {error}");
                }
            }
        }
    }

    fn record(&mut self, sampler: &Sampler) -> Result<(), Error> {
        let Some(recorder) = &mut self.recorder else { return Ok(()) };
        recorder.write(sampler, self.session.router.store(), None).map(|_| ())
    }

    /// A view of a set length that was stopped early is not what was asked for; one without end is done.
    fn judge(&self, end: End) -> Result<(), Error> {
        match end {
            End::Stopped if self.wanted.is_some() && self.session.router.is_cancelled() => {
                Err((self.told)(Error::Interrupted))
            }
            End::Complete | End::Stopped => Ok(()),
        }
    }
}

fn no_answer(sampler: &Sampler) -> Error {
    let message = match (sampler.blind(), sampler.unanswered()) {
        (Some(reason), _) => reason.to_owned(),
        (None, Some(time)) => format!("a sensor has not answered for {:.0} s", time.as_secs_f64()),
        (None, None) => "looking at the sensors ended by a fault of this program".to_owned(),
    };
    let advice = Some("`siliconroute doctor` shows what is wrong with this machine".to_owned());
    Error::Finding { kind: ErrorKind::WorkFailed, message, advice }
}

fn document(watch: &mut Watch<'_, '_>, sampler: &Sampler) -> Result<(), Error> {
    let mut looks = Vec::new();
    let end = watch.each(sampler, |told, _| {
        looks.push(told.clone());
        Ok(())
    })?;
    let judged = watch.judge(end);
    let document = json!({
        "schema": SCHEMA,
        "hardware_id": watch.session.router.machine().hardware_id,
        "period_s": sampler.period().as_secs_f64(),
        "interrupted": judged.is_err(),
        "looks": looks,
    });
    watch.session.output.document_with(document, judged.as_ref().err());
    judged
}

fn once(watch: &mut Watch<'_, '_>, sampler: &Sampler) -> Result<(), Error> {
    let output = watch.session.output;
    let end = watch.each(sampler, |told, _| {
        output.table(&view::listing(told));
        for absence in view::absences(told) {
            output.line(absence);
        }
        Ok(())
    })?;
    watch.judge(end)
}

fn lines(watch: &mut Watch<'_, '_>, sampler: &Sampler) -> Result<(), Error> {
    let output = watch.session.output;
    let mut told_absences = Vec::new();
    let end = watch.each(sampler, |told, look| {
        for absence in view::absences(told) {
            if !told_absences.contains(&absence) {
                output.note(&absence);
                told_absences.push(absence);
            }
        }
        output.line(view::line(told, look));
        Ok(())
    })?;
    watch.judge(end)
}

fn live(watch: &mut Watch<'_, '_>, sampler: &Sampler, mut screen: Screen) -> Result<(), Error> {
    let machine = watch.session.router.machine();
    let title = format!("{} ({})", machine.hardware_id, machine.host.cpu_name);
    let output = watch.session.output;
    let end = watch.each(sampler, |told, look| {
        let took_ms = look.took.as_secs_f64() * 1e3;
        let title = format!("{title}: a look took {took_ms:.1} ms; Ctrl-C ends this");
        if let Err(error) = screen.draw(&title, &view::listing(told), &view::absences(told)) {
            output.cannot_write(error);
        }
        Ok(())
    })?;
    watch.judge(end)
}
