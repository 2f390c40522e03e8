//! Runs the files of tests, two at a time, and adds their results up.
//!
//! Invariant: a file that crashes, hangs or ends without a result has failed, and the others are run all the same.
//! Result lines begin with [`MARK`], so that nobody takes them for those of the host's tests.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

use super::build::TestBinary;
use super::left_out::{LEFT_OUT, LeftOut};
use super::session::Session;
use crate::foreign::Foreign;
use crate::step::output;

/// What every line that tells a result begins with.
const MARK: &str = "windows (wine):";

/// No file of tests takes longer, however slow the machine.
const LIMIT: Duration = Duration::from_mins(15);

/// Failed tests of a file that are run again alone; more of them are no accident.
const MOST_AGAIN: usize = 3;

/// Lines of a failed file that are shown where it tells no failures itself.
const LAST_LINES: usize = 60;

/// Numbers of tests.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Count {
    passed: usize,
    failed: usize,
    ignored: usize,
    left_out: usize,
}

impl Count {
    /// Reads a line `test result: …`.
    fn parse(line: &str) -> Option<Self> {
        let number = |what: &str| {
            let part = line.split(';').find_map(|part| part.trim_end().strip_suffix(what))?;
            part.split_whitespace().next_back()?.parse().ok()
        };
        Some(Self {
            passed: number(" passed")?,
            failed: number(" failed")?,
            ignored: number(" ignored")?,
            left_out: number(" filtered out")?,
        })
    }

    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
        self.left_out += other.left_out;
    }
}

impl fmt::Display for Count {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { passed, failed, ignored, left_out } = self;
        write!(formatter, "{passed} passed, {failed} failed, {ignored} ignored, {left_out} left out")
    }
}

/// What a file of tests did.
#[derive(Debug, Default)]
struct Ran {
    count: Count,
    /// The line with its result.
    result: String,
    /// The tests that were run.
    names: Vec<String>,
    /// What is wrong with the file as a whole.
    problem: Option<String>,
}

/// Runs all `tests` and fails when one of them does; tells which of the tests `on_host` are not among them.
///
/// Each of the `sessions` runs a file at a time; the first one runs `program` before, which waits more than it computes.
/// What failed is run again alone when all files are done, so that nothing is beside it.
pub(super) fn run(
    tests: &[TestBinary],
    on_host: &[TestBinary],
    sessions: &[Session],
    foreign: &Foreign,
    program: &(dyn Fn(&Session) -> Result<()> + Sync),
) -> Result<()> {
    let (mut sum, mut names, mut problems) = (Count::default(), Vec::new(), Vec::new());
    let first = sessions.first().context("there is no Wine to run tests under")?;
    for (test, ended) in run_side_by_side(tests, sessions, foreign, program)? {
        let ran = judge(test, ended, first, foreign)?;
        println!("{MARK} {}: {}", test.name, ran.result);
        sum.add(ran.count);
        names.extend(ran.names);
        problems.extend(ran.problem);
    }
    for LeftOut { binary, test, reason } in LEFT_OUT {
        println!("{MARK} left out: {binary}: {test}: {reason}");
        if tests.iter().all(|test| test.name != *binary) {
            problems.push(format!("left_out.rs names the tests `{binary}`, which do not exist"));
        }
        names.push((*test).to_owned());
    }
    if problems.is_empty() {
        let only_here = difference(&list_tests(on_host)?, &names);
        println!("{MARK} {} tests of the host are not built for Windows:", only_here.len());
        for name in only_here {
            println!("    {name}");
        }
    }
    println!("{MARK} {sum}");
    if sum.passed == 0 {
        problems.push("no test passed".to_owned());
    }
    if !problems.is_empty() {
        bail!("{}", problems.join("; "));
    }
    Ok(())
}

/// A file of tests that has been run: how it ended and what it told.
type Ended = (ExitStatus, String);

/// Runs `program` in the first session and every file of `tests` once, the largest first, as many at a time as there are
/// sessions; gives the files in the order of `tests`.
fn run_side_by_side<'t>(
    tests: &'t [TestBinary],
    sessions: &[Session],
    foreign: &Foreign,
    program: &(dyn Fn(&Session) -> Result<()> + Sync),
) -> Result<Vec<(&'t TestBinary, Ended)>> {
    let mut waiting: Vec<usize> = (0..tests.len()).collect();
    // The files with the most in them take the longest, and one that begins last would be waited for.
    let size = |index: &usize| fs::metadata(&tests[*index].file).map_or(0, |metadata| metadata.len());
    waiting.sort_by_cached_key(size);
    let waiting = Mutex::new(waiting);
    let next = || waiting.lock().ok()?.pop();
    let run_all = &|number: usize, session: &Session| -> Result<Vec<(usize, Ended)>> {
        if number == 0 {
            program(session)?;
        }
        let mut ended = Vec::new();
        while let Some(index) = next() {
            let (test, begin) = (&tests[index], Instant::now());
            let skipped: Vec<&str> = left_out_of(test).flat_map(|row| ["--skip", row.test]).collect();
            ended.push((index, run_tests(test, &skipped, session, foreign)?));
            println!("  {} took {:.1} s with Wine", test.name, begin.elapsed().as_secs_f64());
        }
        Ok(ended)
    };
    let mut all = std::thread::scope(|scope| -> Result<Vec<(usize, Ended)>> {
        let running: Vec<_> = sessions
            .iter()
            .enumerate()
            .map(|(number, session)| scope.spawn(move || run_all(number, session)))
            .collect();
        let mut all = Vec::new();
        for thread in running {
            all.extend(thread.join().map_err(|_panic| anyhow!("a thread that runs tests has panicked"))??);
        }
        Ok(all)
    })?;
    all.sort_by_key(|(index, _)| *index);
    Ok(all.into_iter().map(|(index, ended)| (&tests[index], ended)).collect())
}

/// The tests of a file that cannot run under Wine.
fn left_out_of(test: &TestBinary) -> impl Iterator<Item = &'static LeftOut> {
    LEFT_OUT.iter().filter(|row| row.binary == test.name)
}

/// Says what a file has done, after running again alone what failed.
fn judge(test: &TestBinary, (status, output): Ended, session: &Session, foreign: &Foreign) -> Result<Ran> {
    let name = &test.name;
    let mut ran = Ran { names: test_names(&output), ..Ran::default() };
    let result = output.lines().rev().find(|line| line.starts_with("test result: ")).unwrap_or_default();
    let Some(count) = Count::parse(result) else {
        show(name, &output);
        let late = matches!(status.code(), Some(124 | 137));
        let reason = if late { "ran past its time" } else { "ended without a result" };
        ran.count.failed = 1;
        ran.result = format!("test result: FAILED. It {reason}");
        ran.problem = Some(format!("`{name}` {reason} ({status})"));
        return Ok(ran);
    };
    (ran.count, ran.result) = (count, result.to_owned());
    let failed = failed_tests(&output);
    let passing_alone = count.failed > 0
        && failed.len() == count.failed
        && count.failed <= MOST_AGAIN
        && passes_alone(test, &failed, session, foreign)?;
    if passing_alone {
        show(name, &output);
        let Count { passed, ignored, left_out, .. } = count;
        let (passed, again) = (passed + failed.len(), failed.len());
        ran.count = Count { passed, failed: 0, ignored, left_out };
        ran.result = format!(
            "test result: ok. {passed} passed; 0 failed; {ignored} ignored; 0 measured; {left_out} filtered out; \
             {again} only when run again alone: {}",
            failed.join(", ")
        );
    } else if !status.success() || count.failed > 0 {
        show(name, &output);
        ran.count.failed = count.failed.max(1);
        ran.problem = Some(format!("`{name}`: {} failed ({status})", ran.count.failed));
    } else if count.left_out != left_out_of(test).count() {
        let (rows, found) = (left_out_of(test).count(), count.left_out);
        ran.problem = Some(format!("left_out.rs has {rows} rows for `{name}`, which has {found} such tests"));
    }
    Ok(ran)
}

/// Runs the tests of a file that `arguments` choose; gives how it ended and what it told.
fn run_tests(test: &TestBinary, arguments: &[&str], session: &Session, foreign: &Foreign) -> Result<Ended> {
    let log = session.drive().join("tests.log");
    // A file, since a process that lives on would hold a pipe open.
    let out = File::create(&log).with_context(|| format!("cannot create {}", log.display()))?;
    let mut command = session.command(&test.file, LIMIT);
    command.arg("--exact").args(arguments);
    command.current_dir(&test.folder).stderr(out.try_clone()?).stdout(Stdio::from(out));
    // Snapshots: there is no cargo to ask for the workspace, and none is to be changed.
    command.env("INSTA_WORKSPACE_ROOT", windows_path(foreign.copy())).env("INSTA_UPDATE", "no");
    let status = command.status().context("cannot start `timeout`")?;
    // What a test has left running must not disturb the next one.
    session.end_programs()?;
    Ok((status, String::from_utf8_lossy(&fs::read(&log)?).into_owned()))
}

/// Whether each of `names` passes when it is run again by itself.
///
/// Wine now and then fails to start a process, to remove a folder or to lock a file where programs do that side by side.
/// A fault of ours fails again; what passed only alone is named in the result.
fn passes_alone(test: &TestBinary, names: &[String], session: &Session, foreign: &Foreign) -> Result<bool> {
    for name in names {
        let (status, output) = run_tests(test, &[name], session, foreign)?;
        let one = output.lines().rev().find_map(Count::parse).is_some_and(|count| count.passed == 1);
        if !status.success() || !one {
            show(&test.name, &output);
            return Ok(false);
        }
    }
    Ok(true)
}

/// The tests that a file of tests tells to have failed.
fn failed_tests(output: &str) -> Vec<String> {
    let told = output.lines().filter_map(|line| line.strip_prefix("test ")?.split_once(" ... "));
    told.filter(|(_, result)| *result == "FAILED").map(|(name, _)| name.to_owned()).collect()
}

/// The tests that a file of tests tells the result of.
fn test_names(output: &str) -> Vec<String> {
    let told = output.lines().filter_map(|line| line.strip_prefix("test ")?.split_once(" ... "));
    told.map(|(name, _)| name.trim_end_matches(" - should panic").to_owned()).collect()
}

/// The tests that these files hold.
fn list_tests(files: &[TestBinary]) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for file in files {
        let listed = output(Command::new(&file.file).current_dir(&file.folder).arg("--list"))?;
        names.extend(listed.lines().filter_map(|line| Some(line.strip_suffix(": test")?.to_owned())));
    }
    Ok(names)
}

/// What is in `all` and not in `some`, each as often as it is there more often.
fn difference(all: &[String], some: &[String]) -> Vec<String> {
    let mut left: BTreeMap<&str, usize> = BTreeMap::new();
    for name in some {
        *left.entry(name).or_default() += 1;
    }
    let mut is_missing = |name: &&String| match left.get_mut(name.as_str()) {
        Some(count @ 1..) => {
            *count -= 1;
            false
        }
        _ => true,
    };
    all.iter().filter(|name| is_missing(name)).cloned().collect()
}

/// Shows what a failed file told.
fn show(name: &str, output: &str) {
    let lines: Vec<&str> = output.lines().collect();
    let from = lines.iter().position(|line| *line == "failures:");
    let from = from.unwrap_or(lines.len().saturating_sub(LAST_LINES));
    for line in &lines[from..] {
        // Not at the line's start, where the host's results are looked for.
        println!("  {name} | {line}");
    }
}

/// A path of the host as Windows programs see it under Wine.
pub(crate) fn windows_path(path: &Path) -> String {
    format!("Z:{}", path.display()).replace('/', "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_result_line() {
        let line = "test result: FAILED. 107 passed; 5 failed; 1 ignored; 0 measured; 2 filtered out; finished in 2.00s";
        let count = Count { passed: 107, failed: 5, ignored: 1, left_out: 2 };
        assert_eq!(Count::parse(line), Some(count));
        assert_eq!(count.to_string(), "107 passed, 5 failed, 1 ignored, 2 left out");
        assert_eq!(Count::parse(""), None);
    }

    #[test]
    fn tells_which_tests_were_run() {
        let output =
            "running 2 tests\ntest a::b ... ok\ntest c - should panic ... FAILED\ntest result: ok.\n";
        assert_eq!(test_names(output), ["a::b", "c"]);
        assert_eq!(failed_tests("test a::b ... ok\ntest d ... FAILED\n"), ["d"]);
    }

    #[test]
    fn a_name_that_two_files_have_is_counted_twice() {
        let names = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(difference(&names("a b b c"), &names("b c d")), ["a", "b"]);
        assert_eq!(difference(&names("a"), &names("a")), [""; 0]);
    }

    #[test]
    fn paths_lie_on_the_drive_of_the_host() {
        assert_eq!(windows_path(Path::new("/a/b c")), "Z:\\a\\b c");
    }
}
