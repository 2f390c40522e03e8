//! The files of a Linux machine that firmware answers for, read with a time limit: supplies, temperatures, profile.
//!
//! Invariant: a group of files that hangs is left alone until it returns, and costs no other group its readings.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use siliconroute_core::Reading;

use super::sensors::{self, Power};
use super::temperatures;
use crate::conditions::PowerSource;
use crate::guard::Watched;
use crate::roots::Roots;

/// A board's controller takes some tenths of a second on some laptops.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(3);

/// Reads each group of files in a thread of its own.
#[derive(Debug)]
pub(crate) struct DriverFiles {
    roots: Roots,
    supplies: Mutex<Watched<()>>,
    heat: Mutex<Watched<()>>,
    profile: Mutex<Watched<()>>,
}

impl DriverFiles {
    /// Prepares to read below `roots`, each group for at most `limit` a time.
    pub(crate) fn new(roots: Roots, limit: Duration) -> Self {
        let group = |what: &str| {
            Mutex::new(Watched::named(format!("{what} below {}", roots.sys.display()), limit, || ()))
        };
        let (supplies, heat) = (group("the power supplies"), group("the temperature sensors"));
        let profile = group("the firmware's power profile");
        Self { roots, supplies, heat, profile }
    }

    /// The directories that it reads.
    pub(crate) fn roots(&self) -> &Roots {
        &self.roots
    }

    fn ask<T: Send + 'static>(&self, group: &Mutex<Watched<()>>, read: fn(&Roots) -> T) -> Reading<T> {
        let roots = self.roots.clone();
        group.lock().unwrap_or_else(PoisonError::into_inner).ask(move |()| read(&roots))
    }

    pub(crate) fn power(&self) -> Power {
        match self.ask(&self.supplies, sensors::read_power) {
            Reading::Available(power) => power,
            Reading::Unavailable(reason) => Power::unavailable(&reason),
        }
    }

    pub(crate) fn power_source(&self) -> Reading<PowerSource> {
        self.ask(&self.supplies, sensors::read_power_source).and_then(|source| source)
    }

    pub(crate) fn power_profile(&self) -> Reading<String> {
        self.ask(&self.profile, sensors::power_profile).and_then(|profile| profile)
    }

    pub(crate) fn cpu_temperature_celsius(&self) -> Reading<f64> {
        self.ask(&self.heat, temperatures::cpu_temperature_celsius).and_then(|celsius| celsius)
    }

    pub(crate) fn temperatures_celsius(&self) -> Reading<BTreeMap<String, f64>> {
        self.ask(&self.heat, temperatures::all).and_then(|temperatures| temperatures)
    }
}
