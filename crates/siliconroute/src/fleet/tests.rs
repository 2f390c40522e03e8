//! Which imported files are of one machine.

use super::*;

#[track_caller]
fn check(digests: &[(i64, u8)], own: &[u8], expected: &[(i64, u32)]) {
    let digests: Vec<_> = digests.iter().map(|(origin, digest)| (OriginId(*origin), [*digest; 32])).collect();
    let own = own.iter().map(|digest| [*digest; 32]).collect();
    let expected: BTreeMap<_, _> = expected.iter().map(|(origin, it)| (OriginId(*origin), *it)).collect();
    assert_eq!(tell_machines_apart(&digests, &own), expected);
}

#[test]
fn files_that_share_a_session_are_of_one_machine() {
    check(&[], &[], &[]);
    check(&[(4, 1), (9, 2)], &[], &[(4, 1), (9, 2)]);
    check(&[(1, 1), (2, 2), (3, 3), (3, 1)], &[], &[(1, 1), (2, 2), (3, 1)]);
    check(&[(1, 1), (2, 2), (2, 1), (3, 3), (3, 2)], &[], &[(1, 1), (2, 1), (3, 1)]);
}

#[test]
fn a_file_of_this_machine_tells_it_nothing() {
    check(&[(1, 1), (2, 2)], &[1], &[(2, 2)]);
    check(&[(1, 1), (2, 2), (2, 1), (3, 3)], &[2], &[(3, 3)]);
    check(&[(1, 1), (2, 2), (2, 1)], &[1], &[]);
}
