//! The sampler's thread and ring, on made-up machines and clocks.

use std::sync::atomic::{AtomicU64, Ordering};

use siliconroute_core::Reading;
use siliconroute_hardware::Glance;

use super::*;

/// A minute, within which a machine under load does everything that is waited for here.
pub(crate) const LONG: Duration = Duration::from_mins(1);
pub(crate) const SHORT: Duration = Duration::from_millis(5);

/// A clock that jumps from look to look.
struct Jumping {
    now_ms: Arc<AtomicU64>,
    looks: std::cell::Cell<usize>,
}

impl Clock for Jumping {
    fn now(&self) -> Duration {
        Duration::from_millis(self.now_ms.load(Ordering::Relaxed))
    }

    fn wait_until(&self, due: Duration, _shared: &Shared) -> bool {
        self.looks.set(self.looks.get() - 1);
        self.now_ms.fetch_max(u64::try_from(due.as_millis()).unwrap(), Ordering::Relaxed);
        self.looks.get() > 0
    }
}

/// A machine that tells nothing.
pub(crate) fn blank() -> Sighting {
    Sighting {
        glance: Glance::unavailable("no such sensor"),
        details: Reading::unavailable("not asked"),
        chips: Reading::unavailable("there is no chip beside the CPU"),
        meters: Reading::unavailable("not asked"),
    }
}

/// The looks at `sightings`, one in each period.
pub(crate) fn look_at(sightings: Vec<Sighting>) -> Shared {
    let looks = std::cell::Cell::new(sightings.len());
    let mut sightings = sightings.into_iter();
    let mut eyes: Eyes = Box::new(move |_now| sightings.next().unwrap());
    let shared = Shared::default();
    keep_looking(&shared, &mut eyes, &Jumping { now_ms: Arc::default(), looks }, PERIOD);
    shared
}

#[test]
fn looks_keep_their_pace_and_are_not_made_up_for() {
    let now_ms = Arc::new(AtomicU64::new(0));
    let (own, mut number) = (Arc::clone(&now_ms), 0);
    let mut eyes: Eyes = Box::new(move |_now| {
        // The second look takes two and a half periods, all others a tenth.
        number += 1;
        own.fetch_add(if number == 2 { 2_500 } else { 100 }, Ordering::Relaxed);
        blank()
    });
    let shared = Shared::default();
    keep_looking(&shared, &mut eyes, &Jumping { now_ms, looks: 4.into() }, PERIOD);
    let at: Vec<u128> = shared.lock().looks.iter().map(|look| look.at.as_millis()).collect();
    assert_eq!(at, [0, 1_000, 4_000, 5_000]);
    let took: Vec<u128> = shared.lock().looks.iter().map(|look| look.took.as_millis()).collect();
    assert_eq!(took, [100, 2_500, 100, 100]);
}

#[test]
fn the_thread_ends_with_the_sampler() {
    let token = Arc::new(());
    let held = Arc::clone(&token);
    let eyes: Eyes = Box::new(move |_now| {
        std::hint::black_box(&held);
        blank()
    });
    let sampler = Sampler::start_with(eyes, LONG, LONG);
    assert!(sampler.shared.lock().looked, "the first look is waited for");
    assert_eq!(Arc::strong_count(&token), 2);
    drop(sampler);
    assert_eq!(Arc::strong_count(&token), 1);
}

#[test]
fn a_reader_goes_on_where_it_was_and_sees_what_it_missed() {
    let eyes: Eyes = Box::new(|_now| blank());
    let sampler = Sampler::start_with(eyes, SHORT, LONG);
    assert!(sampler.wait_for(9, LONG));
    let first = sampler.looks_from(0, 4);
    assert_eq!(first.iter().map(|look| look.number).collect::<Vec<_>>(), [0, 1, 2, 3]);
    let next = sampler.looks_from(4, 2);
    assert_eq!(next.iter().map(|look| look.number).collect::<Vec<_>>(), [4, 5]);
    assert!(sampler.looks_taken() >= 10);
    assert_eq!((sampler.blind(), sampler.has_ended()), (None, false));
    // A full ring has let the oldest go.
    let mut ring = Ring::default();
    for number in 0..MOST_LOOKS + 2 {
        ring.write(PERIOD * u32::try_from(number).unwrap(), Duration::ZERO, blank());
    }
    assert_eq!((ring.looks.len(), ring.looks[0].number), (MOST_LOOKS, 2));
}
