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

use anyhow::Result;

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
    let (mut windows, mut host) = (None, None);
    step("build for Windows", || {
        windows = Some(build::build(&foreign)?);
        Ok(())
    })?;
    step("build for the host", || {
        host = Some(build::build_for_host(&foreign)?);
        Ok(())
    })?;
    let (Some(windows), Some(host)) = (windows, host) else { return Ok(()) };
    let session = Session::open(tools.clone(), &foreign, "wine")?;
    step("program under Wine", || smoke::run(&windows.program, &host.program, &session, &foreign))?;
    // Tests wait for processes to start more than they compute, so two files at a time fill two cores.
    let sessions = [session, Session::open(tools, &foreign, "wine-beside")?];
    step("tests under Wine", || suite::run(&windows.tests, &host.tests, &sessions, &foreign))
}
