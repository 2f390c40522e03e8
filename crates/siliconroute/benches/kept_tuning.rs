//! What a start costs that reads the machine's tuning from its file, beside one that has tuning switched off.
//!
//! Run with `cargo bench -p siliconroute --bench kept_tuning`, in a home of its own.
//! Invariant: both starts take turns in one run; every start with the file is checked to have read it.

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::time::Instant;

use siliconroute::event::Silent;
use siliconroute::settings::Settings;
use siliconroute::tuning::{Anew, Source};
use siliconroute::{Options, Router};
use siliconroute_core::statistics::quantile;

const TURNS: usize = 200;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let measured = start(folder.path(), true)?;
    println!("without a file the machine is tuned: {:.1} ms", measured.tune_ms);
    let bytes = std::fs::metadata(&measured.file)?.len();
    let (mut kept, mut off) = (Vec::new(), Vec::new());
    for turn in 0..TURNS {
        // The order alternates, so that drift hits both alike.
        for autotune in [turn % 2 == 0, turn % 2 != 0] {
            let started = start(folder.path(), autotune)?;
            let expected = if autotune { Source::Kept } else { Source::SwitchedOff };
            if started.source != expected {
                return Err(format!("the choice is {:?}, not {expected:?}", started.source).into());
            }
            if autotune { kept.push(started) } else { off.push(started) }
        }
    }
    println!("{TURNS} starts each, milliseconds: median (p05–p95); the file has {bytes} bytes");
    print("opened, and the tuning read from its file", kept.iter().map(Started::whole_ms));
    print("opened, tuning switched off", off.iter().map(Started::whole_ms));
    print(
        "the difference within a turn",
        kept.iter().zip(&off).map(|(kept, off)| kept.whole_ms() - off.whole_ms()),
    );
    print("reading the tuning alone", kept.iter().map(|kept| kept.tune_ms));
    Ok(())
}

struct Started {
    open_ms: f64,
    tune_ms: f64,
    source: Source,
    file: std::path::PathBuf,
}

impl Started {
    fn whole_ms(&self) -> f64 {
        self.open_ms + self.tune_ms
    }
}

fn start(home: &Path, autotune: bool) -> Result<Started, Box<dyn Error>> {
    let flags = [("offline", "true".to_owned()), ("autotune", autotune.to_string())];
    let settings = Settings::resolve(home, Vec::new(), &BTreeMap::from(flags))?;
    let begin = Instant::now();
    let router = Router::open(Options::new(home.to_owned(), settings))?;
    let opened = Instant::now();
    let tuned = router.tune(Anew::IfNeeded, &mut Silent)?;
    let ms = |from: Instant, to: Instant| (to - from).as_secs_f64() * 1e3;
    Ok(Started {
        open_ms: ms(begin, opened),
        tune_ms: ms(opened, Instant::now()),
        source: tuned.source,
        file: router.tuning_file(),
    })
}

fn print(what: &str, values: impl Iterator<Item = f64>) {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let at = |p| quantile(&sorted, p).unwrap_or(f64::NAN);
    println!("  {what:<42} {:7.3} ({:.3}–{:.3})", at(0.5), at(0.05), at(0.95));
}
