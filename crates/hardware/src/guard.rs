//! A time limit for calls into drivers, which may hang for as long as the machine runs.
//!
//! Invariant: whoever asks waits no longer than the limit, and a driver that hangs costs one thread, however often and by
//! whomever it is asked: until the call returns, every further question is answered with the reason at once.

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use siliconroute_core::Reading;

type Question<S> = Box<dyn FnOnce(&mut S) + Send>;

/// A driver behind a thread of its own, which keeps `S`, such as an open handle, from question to question.
///
/// `S` is made, used and dropped in that thread, which starts with the first question.
pub(crate) struct Watched<S> {
    /// What the reasons call it.
    name: Cow<'static, str>,
    limit: Duration,
    make: fn() -> S,
    thread: Option<Thread<S>>,
}

struct Thread<S> {
    questions: mpsc::Sender<Question<S>>,
    asked: u64,
    answered: Arc<AtomicU64>,
}

/// Counts a question that is over, be it by an answer or by a panic.
struct Over(Arc<AtomicU64>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

/// A call that has not returned.
struct Hanging {
    name: Cow<'static, str>,
    since: Instant,
    asked: u64,
    answered: Arc<AtomicU64>,
}

/// All calls of this process that have run into their limit and may not have returned yet.
static HANGING: Mutex<Vec<Hanging>> = Mutex::new(Vec::new());

/// For how long the driver called `name` has not returned from a call, where that is so.
fn hangs_for(name: &str) -> Option<Duration> {
    let mut hanging = HANGING.lock().unwrap_or_else(PoisonError::into_inner);
    hanging.retain(|call| call.answered.load(Ordering::Acquire) < call.asked);
    hanging.iter().find(|call| call.name == name).map(|call| call.since.elapsed())
}

impl<S> fmt::Debug for Watched<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<S: 'static> Watched<S> {
    /// Prepares to ask what `name` stands for, each time for at most `limit`.
    pub(crate) const fn new(name: &'static str, limit: Duration, make: fn() -> S) -> Self {
        Self { name: Cow::Borrowed(name), limit, make, thread: None }
    }

    /// The same for one of several of a kind, whose name has to tell them apart.
    pub(crate) const fn named(name: String, limit: Duration, make: fn() -> S) -> Self {
        Self { name: Cow::Owned(name), limit, make, thread: None }
    }

    /// The answer to `question`, or why there is none.
    pub(crate) fn ask<T: Send + 'static>(
        &mut self,
        question: impl FnOnce(&mut S) -> T + Send + 'static,
    ) -> Reading<T> {
        let (name, limit) = (self.name.clone(), self.limit);
        if let Some(time) = hangs_for(&name) {
            return Reading::unavailable(format!("{name} has not answered for {} seconds", time.as_secs()));
        }
        let thread = match self.thread() {
            Ok(thread) => thread,
            Err(error) => {
                return Reading::unavailable(format!("{name} was not asked, for want of a thread: {error}"));
            }
        };
        let (sender, receiver) = mpsc::sync_channel(1);
        let over = Over(Arc::clone(&thread.answered));
        let question = move |state: &mut S| {
            let answer = question(state);
            drop(over);
            // The receiver may have given up; the answer is then of no use to anyone.
            drop(sender.send(answer));
        };
        thread.asked += 1;
        let (asked, count, since) = (thread.asked, Arc::clone(&thread.answered), Instant::now());
        let sent = thread.questions.send(Box::new(question));
        let answer = sent.map_or(Err(RecvTimeoutError::Disconnected), |()| receiver.recv_timeout(limit));
        match answer {
            Ok(answer) => Reading::Available(answer),
            Err(RecvTimeoutError::Timeout) => {
                let reason = format!("{name} did not answer within {} seconds", limit.as_secs_f64());
                let call = Hanging { name, since, asked, answered: count };
                HANGING.lock().unwrap_or_else(PoisonError::into_inner).push(call);
                Reading::Unavailable(reason)
            }
            Err(RecvTimeoutError::Disconnected) => {
                // The next question starts another one.
                self.thread = None;
                Reading::unavailable(format!("the thread that asks {name} has ended"))
            }
        }
    }

    fn thread(&mut self) -> std::io::Result<&mut Thread<S>> {
        let thread = match self.thread.take() {
            Some(thread) => thread,
            None => {
                let (questions, asked) = mpsc::channel::<Question<S>>();
                let make = self.make;
                // A path in the name may hold what the name of a thread may not.
                let name = self.name.replace('\0', " ");
                std::thread::Builder::new().name(name).spawn(move || {
                    let mut state = make();
                    for question in asked {
                        question(&mut state);
                    }
                })?;
                Thread { questions, asked: 0, answered: Arc::default() }
            }
        };
        Ok(self.thread.insert(thread))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    const PATIENT: Duration = Duration::from_mins(1);

    #[track_caller]
    fn reason<T: fmt::Debug>(reading: Reading<T>) -> String {
        match reading {
            Reading::Unavailable(reason) => reason,
            Reading::Available(value) => panic!("answered {value:?}"),
        }
    }

    #[test]
    fn the_state_lasts_from_question_to_question() {
        let mut driver = Watched::new("a driver", PATIENT, || 40);
        for expected in [41, 42] {
            let answer = driver.ask(|count| {
                *count += 1;
                *count
            });
            assert_eq!(answer, Reading::Available(expected));
        }
    }

    #[test]
    fn a_driver_that_hangs_is_left_alone_until_it_returns() {
        let mut driver = Watched::new("a slow driver", Duration::from_millis(20), || 0);
        let (let_go, hang) = channel::<()>();
        let (returned, wait) = channel::<()>();
        let hanging = driver.ask(move |_| {
            assert!(hang.recv().is_err());
            drop(returned);
        });
        assert_eq!(reason(hanging), "a slow driver did not answer within 0.02 seconds");
        // Nobody asks a driver that hangs, or each sample would leave a thread behind.
        assert!(reason(driver.ask(|_| panic!("asked"))).contains("a slow driver has not answered for"));
        // Nor does another one who opens it.
        let mut other = Watched::new("a slow driver", PATIENT, || 1);
        assert!(reason(other.ask(|_| panic!("asked"))).contains("a slow driver has not answered for"));
        assert!(other.thread.is_none());
        drop(let_go);
        assert!(wait.recv().is_err());
        driver.limit = PATIENT;
        let answer =
            std::iter::repeat_with(|| driver.ask(|state| *state)).find(|answer| answer.available().is_some());
        assert_eq!(answer, Some(Reading::Available(0)));
    }

    #[test]
    fn a_driver_that_hangs_and_then_fails_is_asked_again() {
        let mut driver = Watched::new("a failing driver", Duration::from_millis(1), || 0);
        let (let_go, hang) = channel::<()>();
        let hanging =
            driver.ask(move |_| assert!(hang.recv().is_ok(), "a fault in the driver, made by a test"));
        assert!(hanging.available().is_none());
        drop(let_go);
        driver.limit = PATIENT;
        let answer =
            std::iter::repeat_with(|| driver.ask(|state| *state)).find(|answer| answer.available().is_some());
        assert_eq!(answer, Some(Reading::Available(0)));
    }

    #[test]
    fn a_question_that_panics_ends_no_one_else() {
        let mut driver = Watched::new("the driver", PATIENT, || ());
        let reason_of_panic =
            reason(driver.ask(|()| -> u8 { panic!("a fault in the reader, made by a test") }));
        assert_eq!(reason_of_panic, "the thread that asks the driver has ended");
        assert_eq!(driver.ask(|()| 1), Reading::Available(1));
    }

    #[test]
    fn each_driver_hangs_for_itself() {
        let mut one = Watched::new("a dead driver", Duration::from_millis(1), || ());
        let mut two = Watched::new("a living driver", PATIENT, || ());
        let (_held, hang) = channel::<()>();
        assert!(one.ask(move |()| hang.recv().is_ok()).available().is_none());
        assert_eq!(two.ask(|()| 2), Reading::Available(2));
    }

    #[test]
    fn the_state_is_dropped_with_its_owner() {
        static DROPPED: AtomicU64 = AtomicU64::new(0);
        struct Handle;
        impl Drop for Handle {
            fn drop(&mut self) {
                DROPPED.store(1, Ordering::Release);
            }
        }
        let mut driver = Watched::new("a driver", PATIENT, || Handle);
        assert!(driver.ask(|_| ()).available().is_some());
        drop(driver);
        while DROPPED.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
    }
}
