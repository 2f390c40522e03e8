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

#[test]
fn the_bounds_of_a_setting_are_those_that_its_refusal_names() {
    for Definition { key, kind, .. } in DEFINITIONS {
        let (low, high, off, step) = match *kind {
            Kind::Whole { low, high, off } => (low as f64, high as f64, off, 1.0),
            Kind::Number { low, high, off } => (low, high, off, 0.000_1),
            _ => {
                assert_eq!(bounds(key), None);
                continue;
            }
        };
        assert_eq!(bounds(key), Some((low, high)));
        let variable = format!("SILICONROUTE_{}", key.to_ascii_uppercase());
        let check = |value: String, is_taken: bool| {
            // What limits another setting may be too low for it, which is another refusal.
            let refused = |error: &SettingsError| error.to_string().contains(&kind.to_string());
            for set in [
                resolve(&format!("{key} = \"{value}\""), &[], &[]),
                resolve("", &[(&variable, &value)], &[]),
                resolve("", &[], &[(*key, &value)]),
            ] {
                assert_eq!(!set.as_ref().is_err_and(refused), is_taken, "{key} {value}: {set:?}");
            }
        };
        check(low.to_string(), true);
        check(high.to_string(), true);
        check((low - step).to_string(), false);
        check((high + step).to_string(), false);
        check("off".to_owned(), off);
        check("nan".to_owned(), false);
    }
    assert_eq!(bounds("nonsense"), None);
}

#[test]
fn a_limit_below_what_it_limits_is_refused() {
    #[track_caller]
    fn check(file: &str, environment: &[(&str, &str)], refusal: Option<&str>) {
        let said = resolve(file, environment, &[]).err().map(|error| error.to_string());
        assert_eq!(said.is_some(), refusal.is_some(), "{said:?}");
        assert!(said.is_none_or(|said| refusal.is_some_and(|part| said.contains(part))));
    }
    check("quarantine_minutes = 1440", &[], None);
    check("quarantine_minutes = 1441", &[], Some("`quarantine_limit_minutes` (default) cannot be `1440`"));
    check("quarantine_limit_minutes = 9", &[], Some("at least `quarantine_minutes`, which is 10 (default)"));
    // The two may come from different places.
    check("quarantine_minutes = 2000", &[("SILICONROUTE_QUARANTINE_LIMIT_MINUTES", "2000")], None);
    check("hot_chip_celsius = 88", &[], Some("at least `hot_chip_celsius`, which is 88"));
    check("hot_chip_celsius = \"off\"\nhot_chip_limit_celsius = 20", &[], None);
}
