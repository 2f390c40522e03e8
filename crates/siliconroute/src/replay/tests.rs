//! The published cases, and what is refused of such files.

use super::*;

fn published(preset: Preset) -> Replay {
    let workloads = include_str!("../../../../data/v1_workloads.csv");
    let decisions = include_str!("../../../../data/v1_decisions.csv");
    replay_tables(&table(workloads), &table(decisions), preset).unwrap()
}

#[track_caller]
fn mean_regret(replay: &Replay) -> f64 {
    replay.evaluation.strategies[crate::evaluation::ROUTER].mean_regret_pct.unwrap()
}

#[test]
fn the_published_rules_choose_what_was_published() {
    let replay = published(Preset::Published);
    let score = &replay.evaluation.strategies[crate::evaluation::ROUTER];
    assert_eq!((replay.as_published, score.wins, score.total), (24, 20, 24));
    assert!((mean_regret(&replay) - 2.75).abs() < 0.005, "{}", mean_regret(&replay));
    assert_eq!(replay.without_times, 8, "sustained decisions hold no alternatives");
    let cpu = &replay.evaluation.strategies["always-cpu"];
    assert_eq!(cpu.wins, 17);
    assert!((cpu.mean_regret_pct.unwrap() - 48.9).abs() < 0.05, "{cpu:?}");
}

#[test]
fn the_default_rules_win_at_least_21_of_the_published_cases() {
    let replay = published(Preset::Default);
    let score = &replay.evaluation.strategies[crate::evaluation::ROUTER];
    assert!(score.wins >= 21 && mean_regret(&replay) <= 2.0, "{score:?}");
}

fn table(text: &str) -> Table {
    Table::parse(Path::new("table.csv"), text.as_bytes(), &[]).unwrap()
}

const DECISION: &str = "id,model,batch,workload,chosen\n1,m,1,cold_start,cpu\n";
const TIMES: &str = "decision_id,device,model,batch,workload,latency_ms\n";

#[test]
fn a_decision_knows_only_what_was_measured_before_it() {
    let times = format!("{TIMES}1,cpu,m,1,cold_start,5\n1,gpu,m,1,cold_start,4\n");
    let replay = replay_tables(&table(&times), &table(DECISION), Preset::Default).unwrap();
    assert_eq!(replay.evaluation.decisions[0].chosen, None);
    assert_eq!(replay.evaluation.decisions[0].reason, "nothing was measured before");
}

#[test]
fn says_where_a_file_is_wrong() {
    let cases = [
        ("1,cpu,m,1,warm,5\n", "line 2, column `workload`: `warm` is not sustained"),
        ("1,cpu,m,1,cold_start,fast\n", "line 2, column `latency_ms`: `fast` is no number"),
        ("1,cpu,m,-1,cold_start,5\n", "column `batch`: `-1` is no whole number"),
        (",cpu,m,1,cold_start,5\nx,cpu,m,1,cold_start,5\n", "line 3, column `decision_id`"),
        (",cpu,m,1,cold_start,5\n", "names no decision whose times"),
    ];
    for (rows, expected) in cases {
        let text = format!("{TIMES}{rows}");
        let error = replay_tables(&table(&text), &table(DECISION), Preset::Default).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    let error = replay(Path::new("/nowhere"), Preset::Default).unwrap_err();
    assert!(matches!(error, TableError::Read { .. }), "{error}");
}
