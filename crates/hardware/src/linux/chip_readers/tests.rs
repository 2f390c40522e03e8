//! Reasons of the readers of chips.

use super::*;

#[test]
fn energy_that_only_administrators_may_read_says_so() {
    let told = energy_reason("/sys/x/energy_uj cannot be read: permission denied".to_owned());
    assert!(told.contains("administrators only"), "{told}");
    assert_eq!(
        energy_reason("/sys/x/energy_uj does not exist".to_owned()),
        "/sys/x/energy_uj does not exist"
    );
}
