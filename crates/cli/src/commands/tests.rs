//! What commands make of a machine on which nothing can be used.

use clap::Parser as _;
use siliconroute::ErrorKind;
use siliconroute_testkit::{FakeEngine, FakeLauncher, FakeTarget, TestHome, TimeLaw};

use super::*;

#[test]
fn a_machine_without_a_usable_target_is_nothing_suitable_to_every_command_that_needs_one() {
    let broken = FakeTarget::new("cpu/rten", TimeLaw::new(1e6, 0.0));
    let broken = FakeTarget { unavailable: Some("its library is gone".to_owned()), ..broken };
    let models = tempfile::tempdir().unwrap();
    let home = TestHome::new(models.path());
    let launcher = FakeLauncher::new(vec![FakeEngine::new("rten", vec![broken])]);
    let output = Output::new(true, true);
    for line in [
        "fit",
        "bench -m mlp-64w-2l",
        "evaluate",
        "evaluate --stored",
        "evaluate --leave-out",
        "route -m mlp-64w-2l",
        "run -m mlp-64w-2l",
        "up --once",
    ] {
        let words = std::iter::once("siliconroute").chain(line.split(' '));
        let command = Arguments::try_parse_from(words).unwrap().command.unwrap();
        let session = Session { router: home.router(&launcher), output: &output };
        let ran = match &command {
            Command::Fit => fit::run(&session),
            Command::Bench(command) => bench::run(&session, command),
            Command::Evaluate(command) => evaluate::run(&session, command, &|error| error),
            Command::Route(command) => route::run(&session, command, &|error| error),
            Command::Run(command) => run::run(&session, command),
            Command::Up(command) => up::run(&session, command, Anew::IfNeeded),
            other => panic!("{other:?}"),
        };
        let error = ran.expect_err(line);
        assert_eq!(error.kind(), ErrorKind::NothingSuitable, "{line}: {error}");
        assert!(error.to_string().contains("its library is gone"), "{line}: {error}");
    }
}
