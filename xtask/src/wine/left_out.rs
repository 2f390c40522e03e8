//! Tests that exist on Windows and cannot run under Wine: the one list of them, with the reason for each.
//!
//! Invariant: a row that names no test fails the run, so the list cannot outlive what it is about.

/// A test, and why it is not run.
#[derive(Debug, Clone, Copy)]
pub(super) struct LeftOut {
    /// The file of tests, as [`super::build::TestBinary::name`] has it.
    pub(super) binary: &'static str,
    /// The test's whole name.
    pub(super) test: &'static str,
    pub(super) reason: &'static str,
}

pub(super) const LEFT_OUT: &[LeftOut] = &[LeftOut {
    binary: "cli it",
    test: "side_by_side::a_killed_program_leaves_a_usable_home",
    reason: "a program that is killed while it starts another one leaves a half-made process in Wine 8, which never ends and \
             keeps the pipes open that the test waits for",
}];
