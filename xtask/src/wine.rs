//! `cargo xtask wine`: the workspace's tests and the program itself, built for Windows and run under Wine.
//!
//! Reading order: `build` (what is compiled), `session` (how a Windows program is started), `smoke` (the program as a
//! user meets it), `suite` (the tests), `left_out` (those that cannot run under Wine, with the reason).
//! Invariant: nothing is skipped in silence, and what stands in for parts that Wine lacks lies in Wine's own folder
//! alone, so it cannot be shipped.

mod build;
mod left_out;
mod session;
mod smoke;
mod suite;

use anyhow::{Result, anyhow};

use crate::foreign::Foreign;
use crate::step::step;
use crate::workspace::Workspace;
pub(crate) use session::{Session, Tools};
pub(crate) use smoke::read_document;
pub(crate) use suite::windows_path;

/// Builds for Windows, runs the program and then every test.
pub(crate) fn run() -> Result<()> {
    // What is missing should show before anything is compiled.
    let tools = Tools::find()?;
    let foreign = Foreign::open(Workspace::load()?.root())?;
    let (built, opened) = std::thread::scope(|scope| {
        // A start of Wine waits more than it computes, so both take place beside the compiler.
        let opening = scope.spawn(|| open_sessions(&tools, &foreign));
        (build_both(&foreign), opening.join())
    });
    let ((windows, host), sessions) =
        (built?, opened.map_err(|_panic| anyhow!("the thread that starts Wine has panicked"))??);
    step("program and tests under Wine", || {
        let program = |session: &Session| {
            step("program under Wine", || smoke::run(&windows.program, &host.program, session, &foreign))
        };
        suite::run(&windows.tests, &host.tests, &sessions, &foreign, &program)
    })
}

/// Builds for Windows and for the host.
fn build_both(foreign: &Foreign) -> Result<(build::Built, build::Built)> {
    Ok((
        step("build for Windows", || build::build(foreign))?,
        step("build for the host", || build::build_for_host(foreign))?,
    ))
}

/// Tests wait for processes to start more than they compute, so two files at a time fill two cores.
fn open_sessions(tools: &Tools, foreign: &Foreign) -> Result<[Session; 2]> {
    let open = |name| Session::open(tools.clone(), foreign, name);
    Ok([open("wine")?, open("wine-beside")?])
}
