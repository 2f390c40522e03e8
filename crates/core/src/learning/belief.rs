//! What is believed of the time of one case on one target in one workload, run by run.
//!
//! Invariant: one wild run moves the belief by a bounded step; runs that stay away move it within a few of them.

use crate::statistics::{Interval, median};

/// How much the true log time may wander in a day: its standard deviation.
const WANDER_PER_DAY: f64 = 0.05;

/// Nanoseconds of a day.
const DAY_NS: f64 = 86_400e9;

/// The level from before a change may come back: within this time half of the way to it is taken up into the doubt.
///
/// Heat and other programs slow a chip down for minutes; without this, a target would be left for good.
const RETURN_NS: f64 = 300e9;

/// Standard deviation of the log time of what rests on something that was changed: a factor of two either way is likely.
const DOUBT: f64 = std::f64::consts::LN_2;

/// Sessions of one configuration differ by more than the interval of one session's samples tells.
const LEAST_DOUBT: f64 = 0.05;

/// A run counts as no further away than so many standard deviations.
const CLIP: f64 = 2.5;

/// The scatter of runs is never believed to be less than this share of their time.
const LEAST_SCATTER: f64 = 0.01;

/// The share of runs that are wild: they take up to [`WILDEST`] times as long as usual, any factor in log time as likely as any other.
const WILD_SHARE: f64 = 0.02;
const WILDEST: f64 = 20.0;

/// The least weight of one run in the believed scatter, and how many runs the scatter before any run counts as.
const SCATTER_GAIN: f64 = 0.05;
const RUNS_BEFORE: f64 = 4.0;

/// Deviation that the detector lets pass in each run, and the sum from which it speaks, in standard deviations.
///
/// Against a shift of twice the allowance the sums of Page ("Continuous Inspection Schemes", Biometrika 41, 1954) speak
/// soonest. For normal scatter these two let a false alarm pass about once in ten thousand runs.
const ALLOWANCE: f64 = 0.75;
const ALARM: f64 = 5.0;

/// A single run counts in the sums as no further away than this, so that neither one nor two speak alone.
const MOST_IN_SUM: f64 = 3.0;

/// Standard deviation of the log time about a single run of which nothing was known before.
const FIRST_RUN: f64 = 0.3;

/// Runs that are kept to start anew from after a change. All of them must lie beyond the allowance: where a run in twenty is
/// wild, four of five do so by chance often enough to make a good target look bad.
const KEPT: usize = 5;

/// The time of one case on one target in one workload, as runs have told it.
///
/// A local level model in log time: the level wanders slowly, runs scatter about it. The level is followed by a Kalman
/// filter whose steps are clipped (Masreliez and Martin, "Robust Bayesian Estimation for the Linear Model and Robustifying
/// the Kalman Filter", IEEE Transactions on Automatic Control 22, 1977).
#[derive(Debug, Clone, PartialEq)]
pub struct Belief {
    /// The level: the logarithm of the time in nanoseconds.
    level: f64,
    /// Variance of what was believed of the level before the runs that `weight` counts.
    prior: f64,
    /// Runs that tell the level. Their number is kept rather than their variance, since the scatter is found out only
    /// with them.
    weight: f64,
    /// Variance of runs about the level.
    scatter: f64,
    /// When the level was looked at last, in nanoseconds of any clock that does not go back.
    seen_ns: u64,
    /// Page's sums, upwards and downwards.
    sums: [f64; 2],
    /// The level when neither of them stood above 0 last: a change draws the level along before it is noticed.
    calm: f64,
    /// The level that was believed before the first runs, and how many of those there were, up to [`KEPT`].
    anchor: f64,
    fresh: usize,
    /// Log times of the latest runs, newest last.
    recent: [f64; KEPT],
    /// Runs observed.
    runs: u64,
    /// How far the level lay elsewhere before it changed, in log time; 0 where it has not.
    shift: f64,
    /// When it changed.
    changed_ns: u64,
    /// Runs observed since.
    runs_since: u64,
    /// Where all times of the target had wandered to when the level was looked at last, in log time.
    wandered: f64,
    /// Until when what they wander is in the level, and the variance of what they may have wandered beyond it.
    followed_ns: u64,
    wandering: f64,
    /// The level that knowledge said, and its variance; absent where it said nothing.
    known: Option<(f64, f64)>,
    /// By how much changes of the target or the whole machine have moved the level.
    moved_by: f64,
}

/// The level has changed: a driver, a power plan, throttling.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// The new time over the old one.
    pub ratio: f64,
}

impl Belief {
    /// What a prediction makes believe before any run: its time and the relative width of its interval.
    ///
    /// `None` where `time_ns` is no positive number. An interval without width counts as one of the least scatter.
    pub fn from_prediction(time_ns: f64, interval: Interval, now_ns: u64) -> Option<Self> {
        let level = time_ns.ln();
        if !level.is_finite() {
            return None;
        }
        let deviation = log_deviation(interval);
        Some(Self {
            level,
            prior: deviation * deviation,
            weight: 0.0,
            // Until runs tell it: about what sessions of one configuration differ by.
            scatter: 0.1 * 0.1,
            seen_ns: now_ns,
            sums: [0.0; 2],
            calm: level,
            anchor: level,
            fresh: 0,
            recent: [level; KEPT],
            runs: 0,
            shift: 0.0,
            changed_ns: 0,
            runs_since: 0,
            wandered: 0.0,
            followed_ns: now_ns,
            wandering: 0.0,
            known: None,
            moved_by: 0.0,
        })
    }

    /// What one run makes believe where nothing was predicted; `None` where `time_ns` is no positive number.
    pub fn from_run(time_ns: f64, now_ns: u64) -> Option<Self> {
        let half = (1.96 * FIRST_RUN).exp();
        let interval = Interval { low: time_ns / half, high: time_ns * half };
        Self::from_prediction(time_ns, interval, now_ns)
    }

    /// Takes over a run of `time_ns` at `now_ns`, and says whether the level has changed.
    ///
    /// A time that is no positive number is passed over.
    pub fn observe(&mut self, time_ns: f64, now_ns: u64) -> Option<Change> {
        let seen = time_ns.ln();
        if !seen.is_finite() {
            return None;
        }
        let variance = self.variance_at(now_ns) + std::mem::take(&mut self.wandering);
        self.set_variance(variance);
        self.seen_ns = self.seen_ns.max(now_ns);
        self.runs += 1;
        self.runs_since += 1;
        self.recent.rotate_left(1);
        self.recent[KEPT - 1] = seen;
        let spread = (variance + self.scatter).sqrt();
        let innovation = seen - self.level;
        let standard = (innovation / spread).clamp(-MOST_IN_SUM, MOST_IN_SUM);
        self.sums =
            [(self.sums[0] + standard - ALLOWANCE).max(0.0), (self.sums[1] - standard - ALLOWANCE).max(0.0)];
        let beyond = |sign: f64| {
            let over = |&run: &f64| sign * (run - self.level) > ALLOWANCE * spread;
            self.recent.iter().all(over)
        };
        if (self.sums[0] > ALARM && beyond(1.0)) || (self.sums[1] > ALARM && beyond(-1.0)) {
            return Some(self.start_anew(now_ns));
        }
        let step = innovation.clamp(-CLIP * spread, CLIP * spread);
        // How much the run counts for.
        let mut sure = 1.0;
        if self.fresh < KEPT {
            self.fresh += 1;
            if self.fresh == 1 {
                // There is no other run yet to tell that it is wild.
                sure = chance_of_a_usual_run(innovation, spread);
            }
            self.level += sure * (self.first_level(spread) - self.level);
        } else {
            self.level += variance / (variance + self.scatter) * step;
        }
        self.weight += sure;
        if self.sums.iter().all(|&sum| sum <= 0.0) {
            self.calm = self.level;
        }
        // The innovation holds the doubt about the level, too; only what is left of it is scatter.
        let scatter = (step * step - self.variance()).max(LEAST_SCATTER * LEAST_SCATTER);
        let weight = sure * SCATTER_GAIN.max(1.0 / (self.runs as f64 + RUNS_BEFORE));
        self.scatter += weight * (scatter - self.scatter);
        None
    }

    /// The level after the first runs: what was believed before, and their median.
    ///
    /// A gain is great at first, so that a single wild run among them would be believed for long; wild runs are slow ones, so
    /// of two in the middle the faster counts.
    fn first_level(&self, spread: f64) -> f64 {
        let mut first = self.recent;
        let first = &mut first[KEPT - self.fresh..];
        first.sort_by(f64::total_cmp);
        let off_by = (first[(self.fresh - 1) / 2] - self.anchor).clamp(-CLIP * spread, CLIP * spread);
        let weight = self.fresh as f64 / self.scatter;
        self.anchor + off_by * weight / (1.0 / self.prior + weight)
    }

    /// Takes those of the latest runs that lie on the side of the change for the new level.
    fn start_anew(&mut self, now_ns: u64) -> Change {
        let upwards = self.sums[0] > self.sums[1];
        let beyond = |seen: &f64| if upwards { *seen > self.level } else { *seen < self.level };
        let latest: Vec<f64> = self.recent.iter().copied().filter(beyond).collect();
        let kept = latest.len().max(1);
        let level = median(&latest).unwrap_or(self.level);
        self.shift = level - self.calm;
        (self.changed_ns, self.runs_since) = (now_ns, 0);
        (self.level, self.calm, self.fresh) = (level, level, KEPT);
        (self.prior, self.weight) = (2.0 * self.scatter / kept as f64, 0.0);
        self.sums = [0.0; 2];
        Change { ratio: self.shift.exp() }
    }

    /// Widens what is believed by a factor of two either way, since something that the time rests on was changed: a driver,
    /// a provider.
    pub fn doubt(&mut self) {
        self.moved(0.0, DOUBT);
    }

    /// Moves what is believed by `shift` in log time, and lets it be off by `deviation` beyond what it was before.
    pub(super) fn moved(&mut self, shift: f64, deviation: f64) {
        self.level += shift;
        self.moved_by += shift;
        self.set_variance(self.variance() + deviation * deviation);
        self.sums = [0.0; 2];
        (self.anchor, self.fresh, self.calm) = (self.level, 0, self.level);
    }

    /// Moves what is believed along with all times of the target, which have wandered to `level` in log time and may lie elsewhere
    /// by so much variance.
    pub(super) fn wandered(&mut self, level: f64, variance: f64) {
        let shift = level - self.wandered;
        (self.wandered, self.wandering) = (level, variance);
        self.level += shift;
        self.calm += shift;
        self.anchor += shift;
        self.recent.iter_mut().for_each(|run| *run += shift);
    }

    /// Says that the level holds where the target's times have wandered to.
    pub(super) fn follows(&mut self, level: f64) {
        self.wandered = level;
    }

    /// Begins to take what the target's times wander into the level; or goes on, so that nothing of it is left to take.
    pub(super) fn follow_from(&mut self, now_ns: Option<u64>) {
        match now_ns {
            Some(now_ns) => self.followed_ns = now_ns,
            None => self.wandering = 0.0,
        }
    }

    /// Says that knowledge put the time at `time_ns`, with such an interval.
    pub(super) fn known_as(&mut self, time_ns: f64, interval: Interval) {
        self.known = Some((time_ns.ln(), log_deviation(interval).powi(2)));
    }

    /// What knowledge was off by beside all that has happened since, and the inverse of its variance; `None` where it said nothing,
    /// no run has told, or the time has changed by itself.
    pub(super) fn off_by(&self) -> Option<(f64, f64)> {
        let (level, variance) = self.known.filter(|_| self.runs > 0 && self.shift == 0.0)?;
        let most = 3.0 * variance.sqrt();
        let off_by = (self.level - self.wandered - self.moved_by - level).clamp(-most, most);
        Some((off_by, 1.0 / (variance + self.scatter / self.runs as f64)))
    }

    /// Until when what the target's times wander is in the level.
    pub(super) fn followed_ns(&self) -> u64 {
        self.followed_ns
    }

    /// Where the target's times had wandered to when the level was looked at last.
    pub(super) fn wandered_to(&self) -> f64 {
        self.wandered
    }

    /// The level, the variance of what is believed of it at `now_ns`, what wandering adds to that, and the variance of runs.
    pub(super) fn parts(&self, now_ns: u64) -> (f64, f64, f64, f64) {
        (self.level, self.variance_at(now_ns), self.wandering, self.scatter)
    }

    /// The level's variance by itself at `now_ns`, which grows while nothing is seen, and sooner where the level has just changed.
    fn variance_at(&self, now_ns: u64) -> f64 {
        let unseen_ns = now_ns.saturating_sub(self.seen_ns) as f64;
        let wandered = WANDER_PER_DAY * WANDER_PER_DAY * unseen_ns / DAY_NS;
        // Half of the way back to the level before lies within one standard deviation, so that level within two.
        let returned = 0.5 * self.shift * (unseen_ns / RETURN_NS).min(1.0);
        self.variance() + (wandered + returned * returned).min(DOUBT * DOUBT)
    }

    /// Variance of what is believed of the level, as of the last run.
    fn variance(&self) -> f64 {
        1.0 / (1.0 / self.prior + self.weight / self.scatter)
    }

    fn set_variance(&mut self, variance: f64) {
        if variance < self.prior {
            self.weight = self.scatter * (1.0 / variance - 1.0 / self.prior);
        } else {
            (self.prior, self.weight) = (variance, 0.0);
        }
    }

    /// The time that is believed, in nanoseconds.
    pub fn time_ns(&self) -> f64 {
        self.level.exp()
    }

    /// A run of `time_ns`, at most as long as runs take that are not wild.
    pub(super) fn usual_at_most(&self, time_ns: f64) -> f64 {
        time_ns.min((self.level + CLIP * (self.variance() + self.scatter).sqrt()).exp())
    }

    /// Standard deviation of the believed log time at `now_ns`.
    pub fn deviation(&self, now_ns: u64) -> f64 {
        (self.variance_at(now_ns) + self.wandering).sqrt()
    }

    /// Where the time lies with 95 % confidence at `now_ns`.
    pub fn interval(&self, now_ns: u64) -> Interval {
        let half = 1.96 * self.deviation(now_ns);
        Interval { low: (self.level - half).exp(), high: (self.level + half).exp() }
    }

    /// When a run was observed last, or the belief begun.
    pub fn seen_ns(&self) -> u64 {
        self.seen_ns
    }

    /// Runs observed.
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// When the time changed last and how many runs were observed since; `None` where it has not.
    pub fn changed(&self) -> Option<(u64, u64)> {
        (self.shift != 0.0).then_some((self.changed_ns, self.runs_since))
    }
}

/// How likely a run that is off by `innovation` in log time is none of the wild ones, where usual runs are off by `spread`.
///
/// Wild runs are slow ones.
fn chance_of_a_usual_run(innovation: f64, spread: f64) -> f64 {
    if innovation <= 0.0 {
        return 1.0;
    }
    let standard = innovation / spread;
    let density = (-0.5 * standard * standard).exp() / (spread * std::f64::consts::TAU.sqrt());
    let usual = (1.0 - WILD_SHARE) * density;
    usual / (usual + WILD_SHARE / WILDEST.ln())
}

/// Standard deviation of the log time that a 95 % interval speaks of, at least what sessions differ by.
pub(super) fn log_deviation(interval: Interval) -> f64 {
    // Half of the log width is 1.96 standard deviations.
    let width = (interval.high / interval.low).ln() / (2.0 * 1.96);
    if width.is_finite() { width.max(LEAST_DOUBT) } else { DOUBT }
}

#[cfg(test)]
mod tests;
