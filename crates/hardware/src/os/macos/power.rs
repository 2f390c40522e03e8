//! Power, Low Power Mode and thermal state.
//!
//! Invariant: the power manager and the battery's driver are asked with a time limit, and no program is started.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use objc2_foundation::NSProcessInfo;
use siliconroute_core::Reading;

use super::registry;
use crate::conditions::{PowerSource, ThermalState};
use crate::guard::Watched;
use crate::macos_power::{PowerAnswers, power_profile, thermal_state};

/// A battery answers through the board's controller.
const TIME_LIMIT: Duration = Duration::from_secs(3);
static POWER: Mutex<Watched<()>> = Mutex::new(Watched::new("macOS's power manager", TIME_LIMIT, || ()));
static STATE: Mutex<Watched<()>> = Mutex::new(Watched::new("macOS's thermal state", TIME_LIMIT, || ()));

pub(super) fn answers() -> Reading<PowerAnswers> {
    let mut power = POWER.lock().unwrap_or_else(PoisonError::into_inner);
    power.ask(|()| registry::power()).and_then(|answers| answers)
}

/// What feeds the machine, without a question to the battery.
pub(super) fn source() -> Reading<PowerSource> {
    let mut power = POWER.lock().unwrap_or_else(PoisonError::into_inner);
    let answers = power.ask(|()| registry::providing_source()).and_then(|answers| answers);
    answers.and_then(|answers| answers.power_source())
}

/// Whether Low Power Mode is on, in words.
pub(super) fn profile() -> Reading<String> {
    // An older system ends a program that asks for what it does not know.
    if !objc2::available!(macos = 12.0) {
        return Reading::unavailable("macOS has a Low Power Mode for programs to ask for from version 12 on");
    }
    let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    state.ask(|()| NSProcessInfo::processInfo().isLowPowerModeEnabled()).map(power_profile)
}

pub(super) fn heat() -> Reading<ThermalState> {
    let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    let told = state.ask(|()| NSProcessInfo::processInfo().thermalState().0);
    told.and_then(|state| thermal_state(i64::try_from(state).unwrap_or(i64::MAX)))
}
