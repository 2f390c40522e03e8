//! Which arguments go together.

use super::*;

/// Whether a line is taken, and what is said of one that is not.
fn refusal(line: &str) -> Option<String> {
    let words = std::iter::once("siliconroute").chain(line.split_whitespace());
    match command().try_get_matches_from(words).and_then(|matches| Arguments::of(&matches)) {
        Ok(arguments) => {
            let said = arguments.contradiction()?;
            let told = arguments.misuse(clap::error::ErrorKind::ArgumentConflict, &said).to_string();
            let named: Vec<&str> =
                line.split_whitespace().take_while(|word| !word.starts_with('-')).collect();
            assert!(told.contains(&format!("Usage: siliconroute {}", named[0])), "{told}");
            Some(said)
        }
        Err(error) => Some(error.to_string()),
    }
}

#[test]
fn what_would_be_ignored_beside_another_argument_is_refused() {
    #[track_caller]
    fn check(form: &str, beside: &[&str]) {
        assert_eq!(refusal(form), None, "{form}");
        for flags in beside {
            let line = format!("{form} {flags}");
            let flag = flags.split_whitespace().next().unwrap();
            let said = refusal(&line).unwrap_or_else(|| panic!("`{line}` is taken"));
            assert!(said.contains(flag), "{line}: {said}");
            let conflicts = said.contains("cannot be used with") || said.contains("would be ignored");
            assert!(conflicts, "{line}: {said}");
        }
    }
    let of_a_new_decision = [
        "--model x",
        "--batch 2",
        "--shape x:1",
        "--workload sustained",
        "--goal battery",
        "--deadline 9",
        "--throughput 9",
        "--power-budget 9",
        "--ram-budget 9",
        "--accuracy exact",
        "--explain",
        "--inferences 3",
        "--rest 1",
        "--verify",
    ];
    check("route --list", &[&of_a_new_decision[..], &["--replay 1"]].concat());
    check("route --replay 1", &of_a_new_decision);
    check("route -m x --workload sustained", &["--inferences 2"]);
    let of_a_measurement = ["--decisions 3", "--budget 9"];
    let other_sources = ["--leave-out", "--simulate", "--corpus b --models m --task fleet", "--replay d"];
    check("evaluate --stored", &[&of_a_measurement[..], &other_sources].concat());
    let of_models = ["--model x", "--workload sustained", "--stored", "--leave-out", "--recalibrate"];
    check("evaluate --simulate", &[&of_a_measurement[..], &of_models, &["--replay d"]].concat());
    check("evaluate --replay d", &[&of_a_measurement[..], &of_models].concat());
    check("evaluate --corpus b --models m --task fleet", &[&of_a_measurement[..], &of_models].concat());
    check("evaluate --leave-out", &of_a_measurement);
    check(
        "run -m x -d cpu/rten",
        &["--goal cool", "--deadline 9", "--throughput 9", "--power-budget 9", "--ram-budget 9"],
    );
    check("run -m x -d gpu --goal cool", &[]);
    check("bench -m x --plan", &["--resume"]);
    check("top --once", &["--seconds 3"]);
    check("tune", &["--no-autotune --recalibrate"]);
    check("tune -m x --forget", &["--batch 2", "--goal battery", "--all-policies"]);
    check("completions bash", &["--json", "--recalibrate"]);
    check("doctor", &["--recalibrate"]);
    check("config show", &["--recalibrate"]);
}

#[test]
fn the_help_of_rests_names_the_bound_and_what_teaches() {
    let mut root = command();
    root.build();
    let bench = root.find_subcommand("bench").unwrap();
    let rests = bench.get_arguments().find(|argument| argument.get_id() == "rests").unwrap();
    let help = rests.get_help().unwrap().to_string();
    assert!(help.contains(&format!("up to {LONGEST_REST_S},")), "{help}");
    let usual_s = siliconroute::campaign::Sampling::default().rests[0].as_secs();
    assert!(help.contains(&format!("learn from the usual {usual_s} alone")), "{help}");
}
