//! Which workload a run is taken to be in.

use super::*;

#[test]
fn a_workload_follows_from_the_session_and_its_rest() {
    let ms = |ms| Some(Duration::from_millis(ms));
    for (session_alive, rested, expected) in [
        (true, ms(0), Workload::Sustained),
        (true, ms(499), Workload::Sustained),
        (true, ms(500), Workload::IdleLoaded),
        (true, ms(86_400_000), Workload::IdleLoaded),
        (true, None, Workload::ColdStart),
        (false, ms(0), Workload::ColdStart),
        (false, None, Workload::ColdStart),
    ] {
        assert_eq!(Workload::inferred(session_alive, rested), expected, "{session_alive} {rested:?}");
    }
}
