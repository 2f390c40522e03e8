//! The hand-over of jobs under all orders of its steps up to a few preemptions, by the model checker loom.
//!
//! Invariant: the source under test is the crate's own, compiled against loom's primitives. loom explores every
//! interleaving up to a bound of preemptions and every value that a load may see; it reports a data race on the job,
//! a worker that enters it too late, and a lost wake-up as a deadlock.
//!
//! Method: B. Norris and B. Demsky, `CDSChecker`: checking concurrent data structures written with C/C++ atomics,
//! OOPSLA 2013.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use handover::{Handover, Inside, Invited, Patience, Turn};

#[path = "../../src/pool/handover.rs"]
#[expect(dead_code, reason = "the pool uses the rest")]
mod handover;

/// The same names as the crate's own `sync`.
mod sync {
    pub(super) use loom::cell::UnsafeCell;
    pub(super) use loom::hint::spin_loop;
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
    pub(super) use loom::thread::{Thread, current, park};
}

/// Looks a fixed number of times.
#[derive(Debug, Clone, Copy)]
struct Looks(u32);

impl Patience for Looks {
    fn looks(&mut self) -> u32 {
        self.0
    }

    fn looking_paid(&mut self) {}

    fn sleep(&mut self, _: bool, sleep: impl FnOnce()) {
        sleep();
    }
}

/// Stands for the pool: workers that note which jobs they were in, and how to wake them.
struct Crew {
    handover: Arc<Handover<usize, Looks>>,
    /// For each job the number of workers that worked on it, and its chunks that were done.
    done: Arc<[[AtomicUsize; 2]; 3]>,
    workers: Vec<thread::JoinHandle<()>>,
}

impl Crew {
    fn start(workers: usize, looks: u32) -> Self {
        let handover = Arc::new(Handover::new(usize::MAX, Looks(looks)));
        let done = Arc::new(std::array::from_fn(|_| [AtomicUsize::new(0), AtomicUsize::new(0)]));
        let workers = (1..=workers)
            .map(|index| {
                let (handover, done) = (Arc::clone(&handover), Arc::clone(&done));
                thread::spawn(move || {
                    let (mut seen, mut patience) = (0, Looks(looks));
                    while let Some(inside) = handover.next_job(index, &mut seen, &mut patience) {
                        work(&inside, &done);
                    }
                })
            })
            .collect();
        Self { handover, done, workers }
    }

    fn turn(&self) -> Turn<'_, usize, Looks> {
        self.handover.take_turn().expect("one caller only")
    }

    /// Hands over `job` and returns how many chunks were done when the call has ended.
    fn hand_over(&self, job: usize, invited: Invited, chunks: usize) -> usize {
        let mut turn = self.turn();
        let wake = |index: usize| self.workers[index - 1].thread().unpark();
        let published = turn.publish(job, invited, 1, wake);
        self.done[job][1].fetch_add(1, Ordering::Relaxed);
        if matches!(invited, Invited::Anyone(_)) {
            while published.claim() < chunks {
                self.done[job][1].fetch_add(1, Ordering::Relaxed);
            }
        }
        published.wait();
        self.done[job][1].load(Ordering::Relaxed)
    }

    fn end(self) {
        let workers = self.workers;
        let turn = self.handover.take_turn().expect("one caller only");
        turn.stop(workers.len(), |index| workers[index - 1].thread().unpark());
        for worker in workers {
            worker.join().expect("workers do not panic");
        }
    }
}

/// Jobs 0 and 2 are split beforehand, job 1 has two chunks to be claimed.
fn work(inside: &Inside<'_, usize, Looks>, done: &[[AtomicUsize; 2]; 3]) {
    done[inside.job][0].fetch_add(1, Ordering::Relaxed);
    if inside.job == 1 {
        while inside.claim() < 2 {
            done[1][1].fetch_add(1, Ordering::Relaxed);
        }
    } else {
        done[inside.job][1].fetch_add(1, Ordering::Relaxed);
    }
}

fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

#[test]
fn an_invited_worker_always_comes_and_is_waited_for() {
    for looks in [0, 1] {
        explore(4, move || {
            let crew = Crew::start(1, looks);
            assert_eq!(crew.hand_over(0, Invited::First(1), 2), 2);
            assert_eq!(crew.hand_over(2, Invited::First(1), 2), 2);
            crew.end();
        });
    }
}

#[test]
fn a_worker_that_comes_late_to_claimed_work_is_not_let_in() {
    explore(4, || {
        let crew = Crew::start(1, 0);
        assert_eq!(crew.hand_over(1, Invited::Anyone(1), 2), 2);
        // Whoever still believes in the job before would now work on this one twice.
        assert_eq!(crew.hand_over(0, Invited::First(1), 2), 2);
        assert_eq!(crew.done[0][0].load(Ordering::Relaxed), 1);
        crew.end();
    });
}

#[test]
fn a_worker_that_was_not_invited_hears_of_later_jobs() {
    explore(1, || {
        let crew = Crew::start(2, 0);
        assert_eq!(crew.hand_over(0, Invited::First(1), 2), 2);
        assert_eq!(crew.hand_over(2, Invited::First(2), 3), 3);
        crew.end();
    });
}

#[test]
fn two_workers_and_the_caller_share_claimed_work() {
    explore(2, || {
        let crew = Crew::start(2, 0);
        assert_eq!(crew.hand_over(1, Invited::Anyone(2), 2), 2);
        crew.end();
    });
}

#[test]
fn of_two_callers_one_has_the_turn() {
    explore(3, || {
        let handover = Arc::new(Handover::new(0_usize, Looks(0)));
        let other = Arc::clone(&handover);
        let caller = thread::spawn(move || {
            if let Some(mut turn) = other.take_turn() {
                turn.publish(1, Invited::First(0), 1, |_| ()).wait();
            }
        });
        if let Some(mut turn) = handover.take_turn() {
            turn.publish(2, Invited::First(0), 1, |_| ()).wait();
        }
        caller.join().expect("the caller does not panic");
    });
}
