//! `evaluate` away from this machine: corpora of boards, published cases, and machines that are simulated.

use std::fmt::Write;

use crate::program::Sandbox;

/// The published cases and the facts of public networks.
const DATA: [(&str, &str); 3] = [
    ("board_models.csv", include_str!("../../../../data/board_models.csv")),
    ("v1_workloads.csv", include_str!("../../../../data/v1_workloads.csv")),
    ("v1_decisions.csv", include_str!("../../../../data/v1_decisions.csv")),
];

/// A sandbox with the data in it.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    for (name, content) in DATA {
        sandbox.write(name, content);
    }
    sandbox
}

/// Eight networks on one board, the CPU faster on the small ones.
fn boards() -> String {
    let networks = [
        ("blazeface", 0.03),
        ("squeezenet", 0.35),
        ("mobilenet_v2", 0.3),
        ("googlenet", 1.6),
        ("resnet18", 1.8),
        ("resnet50", 3.9),
        ("yolov4-tiny", 3.5),
        ("vgg16", 15.5),
    ];
    networks.iter().fold(
        "board,candidate,model,min_ms,mean_ms,max_ms\n".to_owned(),
        |mut text, (name, work)| {
            let (cpu, gpu) = (20.0 * work, 5.0 + 2.0 * work);
            writeln!(text, "\"a board, small\",cpu/t4/p0,{name},{cpu},{cpu},{cpu}").unwrap();
            writeln!(text, "\"a board, small\",gpu/t1/p0/g0,{name},{gpu},{gpu},{gpu}").unwrap();
            text
        },
    )
}

#[test]
fn a_corpus_is_evaluated_in_every_task() {
    let sandbox = sandbox();
    sandbox.write("boards.csv", boards());
    for task in ["zero-shot", "one-shot", "fleet"] {
        let arguments =
            ["evaluate", "--corpus", "boards.csv", "--models", "board_models.csv", "--task", task];
        let document = sandbox.document("siliconroute.evaluation/1", &arguments);
        assert_eq!(document["decisions"].as_array().unwrap().len(), 8, "{task}");
        assert_eq!(document["decisions"][0]["id"], "a board, small: blazeface");
        assert_eq!(document["strategies"]["always-cpu"]["wins"], 1);
        assert!(document["prediction"]["interval_coverage_pct"].is_number(), "{task}");
        assert!(document["reachable"]["unavailable"].is_string(), "{document}");
        let text = sandbox.succeed(&arguments).out;
        assert!(text.contains("best-fixed") && text.contains("median error"), "{text}");
        assert!(text.contains("true times would reach is not available: 0 times stand"), "{text}");
    }
}

#[test]
fn a_bare_table_of_public_networks_is_as_good_as_a_whole_one() {
    let sandbox = sandbox();
    sandbox.write("boards.csv", boards());
    let basic = |line: &str| line.split(',').take(3).collect::<Vec<_>>().join(",") + "\n";
    sandbox.write("bare.csv", DATA[0].1.lines().map(basic).collect::<String>());
    // Another network of that name: it has ten times the parameters.
    let foreign = |line: &str| match line.strip_prefix("vgg16,") {
        Some(_) => "vgg16,15.5,1380\n".to_owned(),
        None => basic(line),
    };
    sandbox.write("foreign.csv", DATA[0].1.lines().map(foreign).collect::<String>());
    let evaluate = |models| {
        let arguments = ["evaluate", "--corpus", "boards.csv", "--models", models, "--task", "zero-shot"];
        let ran = sandbox.run(&[&arguments[..], &["--json"]].concat());
        (ran.json()["decisions"].clone(), ran.err)
    };
    let [whole, bare, foreign] = ["board_models.csv", "bare.csv", "foreign.csv"].map(evaluate);
    assert_eq!(whole.0, bare.0);
    assert!(!whole.1.contains("recognised"), "{}", whole.1);
    assert!(bare.1.contains("27 public networks recognised"), "{}", bare.1);
    assert!(foreign.1.contains("26 public networks recognised"), "{}", foreign.1);
    assert_ne!(whole.0, foreign.0);
}

#[test]
fn published_cases_are_decided_as_published() {
    let sandbox = sandbox();
    let arguments = ["evaluate", "--replay", ".", "--preset", "published"];
    let document = sandbox.document("siliconroute.evaluation/1", &arguments);
    assert_eq!(document["strategies"]["router"]["wins"], 20);
    let text = sandbox.succeed(&arguments).out;
    assert!(text.contains("24 of 24 choices are the published ones"), "{text}");
    let default = sandbox.document("siliconroute.evaluation/1", &["evaluate", "--replay", "."]);
    assert!(default["strategies"]["router"]["wins"].as_u64() >= Some(21), "{default}");
}

#[test]
fn a_wrong_table_is_wrong_usage_and_says_where() {
    let sandbox = sandbox();
    sandbox.write("boards.csv", boards().replace(",vgg16,310,310,", ",vgg16,310,soon,"));
    let corpus = |boards, models| ["evaluate", "--corpus", boards, "--models", models, "--task", "fleet"];
    let line = ["line 16", "`mean_ms`", "`soon` is no number"];
    sandbox.refuse(2, &line, &corpus("boards.csv", "board_models.csv"));
    sandbox.refuse(2, &["cannot read `nowhere.csv`"], &corpus("boards.csv", "nowhere.csv"));
    sandbox.refuse(
        2,
        &["`board_models.csv` lacks the column `board`"],
        &corpus("board_models.csv", "board_models.csv"),
    );
    sandbox.refuse(2, &["cannot read", "v1_workloads.csv"], &["evaluate", "--replay", "nowhere"]);
    sandbox.refuse(2, &["--models"], &["evaluate", "--corpus", "boards.csv", "--task", "fleet"]);
    sandbox.refuse(2, &["--replay"], &["evaluate", "--preset", "published"]);
}

#[test]
fn simulated_machines_are_evaluated_from_a_seed_and_named_as_such() {
    let sandbox = Sandbox::new();
    let arguments = ["evaluate", "--simulate", "--scenario", "slow-down", "--seed", "3"];
    let document = sandbox.document("siliconroute.simulation/1", &arguments);
    assert_eq!((&document["simulated"], &document["seed"]), (&true.into(), &3.into()));
    assert_eq!(document["scenarios"][0]["scenario"], "slow-down");
    assert!(document["scenarios"][0]["reaction"]["most_runs"].is_number(), "{document}");
    let text = sandbox.succeed(&arguments).out;
    assert!(text.contains("simulated machines, seed 3"), "{text}");
    sandbox.refuse(2, &["no scenario `none`", "steady"], &["evaluate", "--simulate", "--scenario", "none"]);
    sandbox.refuse(2, &["--simulate"], &["evaluate", "--scenario", "steady"]);
}
