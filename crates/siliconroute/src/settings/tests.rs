//! Precedence and refusals of settings.

use super::*;

fn resolve(
    file: &str,
    environment: &[(&str, &str)],
    flags: &[(&'static str, &str)],
) -> Result<Settings, SettingsError> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("config.toml"), file).unwrap();
    let environment = environment.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
    let flags = flags.iter().map(|(k, v)| (*k, (*v).to_owned())).collect();
    Settings::resolve(folder.path(), environment, &flags)
}

#[test]
fn the_nearest_origin_wins() {
    #[track_caller]
    fn check(settings: &Settings, seed: u64, origin: &Origin) {
        assert_eq!(settings.seed, seed);
        assert_eq!(&settings.shown().iter().find(|shown| shown.key == "seed").unwrap().origin, origin);
    }
    let variable = [("SILICONROUTE_SEED", "3")];
    check(&resolve("", &[], &[]).unwrap(), 1, &Origin::Default);
    check(&Settings::defaults(), 1, &Origin::Default);
    check(&resolve("seed = 2", &[], &[]).unwrap(), 2, &Origin::File);
    check(&resolve("seed = 2", &variable, &[]).unwrap(), 3, &Origin::Environment);
    check(&resolve("seed = 2", &variable, &[("seed", "4")]).unwrap(), 4, &Origin::Flag);
}

#[test]
fn what_cannot_be_used_is_refused() {
    #[track_caller]
    fn check(result: Result<Settings, SettingsError>, part: &str) {
        let message = result.unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    }
    check(resolve("sed = 2", &[], &[]), "unknown setting `sed`");
    check(resolve("", &[("SILICONROUTE_SPEED", "2")], &[]), "unknown setting `speed`");
    check(resolve("seed = \"x\"", &[], &[]), "must be a whole number");
    check(resolve("worker_memory_percent = 101", &[], &[]), "from 1 to 100");
    check(resolve("accuracy = \"best\"", &[], &[]), "exact, standard or relaxed");
    check(resolve("seed = [", &[], &[]), "not valid TOML");
    check(
        resolve("seed = \"x\"", &[("SILICONROUTE_SEED", "3")], &[("seed", "4")]),
        "config.toml`) cannot be `x`",
    );
    check(
        resolve("", &[("SILICONROUTE_SEED", "x")], &[("seed", "4")]),
        "`seed` (variable SILICONROUTE_SEED)",
    );
}

#[test]
fn a_syntax_error_has_line_and_column_and_one_line() {
    #[track_caller]
    fn check(file: &str, part: &str) {
        let message = resolve(file, &[], &[]).unwrap_err().to_string();
        assert!(message.contains("config.toml` are not valid TOML") && message.contains(part), "{message}");
        assert!(!message.contains('\n'), "{message}");
    }
    check("seed = [", "line 1, column 9");
    check("seed = 1\n\nü = x\n", "line 3, column ");
    check("seed = 1\nseed = 2", "line 2, column 1: duplicate key");
    check("# é\n= 2", "line 2, column 1");
}

#[test]
fn the_home_variable_is_no_setting() {
    assert!(resolve("", &[("SILICONROUTE_HOME", "/somewhere"), ("PATH", "x")], &[]).is_ok());
}
