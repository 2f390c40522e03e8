//! What is kept, and how a host becomes a room for the tuner.

use std::path::Path;

use siliconroute_core::Reading;
use siliconroute_hardware::{Allowance, AllowedCluster, AllowedCore, ClusterKind, detect_host};
use siliconroute_kernels::tuner::Core;

use super::record::{Obstacle, load, write};
use super::*;

fn limits() -> Limits {
    Limits { cpus: vec![0, 1], quota_cpus: None, most_threads: 16 }
}

fn tuning() -> Tuning {
    let choice = Choice {
        threads: NonZeroUsize::new(2).unwrap(),
        policy: Policy::Fixed8,
        place: "all".to_owned(),
        cpus: None,
    };
    Tuning {
        hardware_id: "x86_64_test_2c_8gh".to_owned(),
        program: Program { version: "0.1.0".to_owned(), commit: None },
        method: TUNING_METHOD,
        measured_unix_ms: 1_700_000_000_000,
        measured_on: "2023-11-14".to_owned(),
        elapsed_ms: 140.5,
        limits: limits(),
        work: WorkFacts { name: "simulated".to_owned(), bytes: 64 << 20, pages: "small".to_owned() },
        choice: choice.clone(),
        best: choice.clone(),
        tied: vec![choice],
        rounds: 2,
        settled: true,
        measurements: vec![Measurement {
            threads: NonZeroUsize::new(2).unwrap(),
            policy: Policy::Fixed8,
            place: "all".to_owned(),
            gb_per_s: Some(51.2),
            samples_ms: vec![1.3, 1.31],
            rounds: vec![0, 1],
            dropped_after: None,
            failure: None,
        }],
        load: Load::not_recorded(),
        figures_load: Load::not_recorded(),
    }
}

fn load_bytes(bytes: &[u8]) -> Result<Option<Tuning>, Obstacle> {
    load_bytes_in(tempfile::tempdir().unwrap().path(), bytes)
}

fn load_bytes_in(folder: &Path, bytes: &[u8]) -> Result<Option<Tuning>, Obstacle> {
    let path = folder.join("machine.json");
    std::fs::write(&path, bytes).unwrap();
    load(&path, "x86_64_test_2c_8gh", &limits())
}

#[test]
fn a_kept_tuning_is_read_back_as_it_was() {
    let busy = Load { other_busy_cores: Reading::Available(0.5), ..Load::unavailable("not told") };
    let disturbed = Tuning { load: busy, ..tuning() };
    assert_eq!(load_bytes(&write(&disturbed)), Ok(Some(disturbed)));
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(load(&folder.path().join("none/none.json"), "x", &limits()), Ok(None));
}

#[test]
fn a_file_of_the_first_version_still_reads() {
    let bytes = include_bytes!("../../tests/fixtures/tuning_record_1.json");
    assert_eq!(load_bytes(bytes), Ok(Some(tuning())));
}

#[test]
fn what_is_no_tuning_of_this_machine_is_told() {
    #[track_caller]
    fn check(change: impl FnOnce(&mut Tuning), expected: &str) {
        let mut changed = tuning();
        change(&mut changed);
        let obstacle = load_bytes(&write(&changed)).unwrap_err();
        assert!(obstacle.to_string().contains(expected), "{obstacle}");
    }
    check(|it| it.hardware_id = "elsewhere".to_owned(), "of another machine and put aside (`elsewhere`)");
    check(|it| it.method = 0, "measured by method 0");
    check(|it| it.limits.cpus = vec![0], "measured with 1 CPUs, and this process may use 2");
    check(|it| it.limits.cpus = vec![0, 3], "may use others of them: 2");
    check(|it| it.limits.quota_cpus = Some(1.5), "under a quota of 1.5 CPUs, and this process has no quota");
    check(|it| it.limits.most_threads = 8, "with up to 8 threads, and `tuning_threads` is 16");
    check(|it| it.choice.threads = NonZeroUsize::new(99).unwrap(), "it names 99 threads");
    check(|it| it.choice.policy = Policy::Static, "no measurement of what it chose");
    check(|it| it.tied[0].cpus = Some(vec![7]), "CPUs that the process could not use");
    check(|it| it.best.cpus = Some(Vec::new()), "CPUs that the process could not use");
    check(|it| it.measurements[0].rounds = vec![0], "more or fewer rounds than samples");
    check(|it| it.measurements[0].samples_ms = vec![1.0, -1.0], "no positive time");
}

#[test]
fn a_damaged_file_is_a_reason_and_no_panic() {
    let (whole, folder) = (write(&tuning()), tempfile::tempdir().unwrap());
    let load_bytes = |bytes: &[u8]| load_bytes_in(folder.path(), bytes);
    for length in 0..whole.len() - 1 {
        assert!(matches!(load_bytes(&whole[..length]), Err(Obstacle::Corrupt { .. })), "{length}");
    }
    for position in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[position] ^= 0x15;
        // Another digit in a sample is still a tuning; anything else has to be told.
        drop(load_bytes(&damaged));
    }
    for text in ["", "null", "[]", "{}", "{\"schema\":1}", "{\"schema\":\"other/1\"}"] {
        assert!(matches!(load_bytes(text.as_bytes()), Err(Obstacle::Corrupt { .. })), "{text}");
    }
    let deep = "[".repeat(100_000);
    assert!(matches!(load_bytes(deep.as_bytes()), Err(Obstacle::Corrupt { .. })));
    let newer = load_bytes(b"{\"schema\":\"siliconroute.tuning-record/2\",\"more\":1}").unwrap_err();
    assert!(matches!(newer, Obstacle::Newer { .. }) && !newer.is_kept_aside());
    let large = load_bytes(&vec![b' '; (8 << 20) + 1]).unwrap_err();
    assert!(matches!(large, Obstacle::Corrupt { .. }), "{large}");
    assert!(matches!(load(folder.path(), "x", &limits()), Err(Obstacle::Unreadable { .. })));
}

#[test]
fn a_room_is_the_allowance_in_other_words() {
    let host = detect_host();
    let core = |package, cpus: &[u32]| AllowedCore { package, cpus: cpus.to_vec() };
    let allowance = Allowance {
        clusters: vec![
            AllowedCluster { kind: ClusterKind::Performance, cores: vec![core(0, &[0, 1])] },
            AllowedCluster { kind: ClusterKind::LowPower, cores: vec![core(0, &[2]), core(0, &[3])] },
        ],
        quota_cpus: Reading::Available(Some(2.5)),
        cannot_hold: None,
    };
    let room = workbench::room_of(&host, &allowance);
    assert_eq!(room.clusters[0].cores, [Core { package: 0, cpus: vec![0, 1] }]);
    assert_eq!((room.quota_cpus, room.holds_threads), (Some(2.5), true));
    let unknown = Allowance { clusters: Vec::new(), ..allowance };
    let room = workbench::room_of(&host, &unknown);
    assert!(room.most_threads(16) >= 1 && !room.holds_threads);
}
