//! Engine packages: shared libraries taken out of Python wheels, pinned by hash.
//!
//! Invariant: nothing is unpacked whose bytes differ from the pins of the package table, and a package's
//! folder appears whole or not at all.
//!
//! Reading order: `pin`, `table`, `fit`, `progress`, `fetch`, `unpack`, `lock`, `record`, `install`, `seal`,
//! `verify`.

mod fetch;
mod fit;
mod install;
mod lock;
mod pin;
mod progress;
mod record;
mod seal;
mod table;
mod unpack;
mod verify;

#[cfg(all(test, feature = "network-tests"))]
mod network_tests;
#[cfg(test)]
mod wheel_fixture;

pub use fetch::{CheckError, FetchError, Fetcher, PipFetcher, check_wheel, fetch_wheel, hash_file};
pub use fit::{MachineFacts, Platform, Unfit, fits};
pub use install::{InstallError, RemoveError, Source, install, remove};
pub use lock::{FolderLock, LockError, TEMPORARY, remove_leftovers};
pub use pin::{InvalidPin, MemberPin, Sha256Digest, WheelPin, WheelTags};
pub use progress::{Progress, Silent, Step};
pub use record::{Installed, InstalledFrom, RecordError, list_installed};
pub use table::{
    Coverage, LibraryVersion, Needs, Package, PackageKind, Provider, RuntimeVersions, Table, TableError,
    Wheel,
};
pub use unpack::{UnpackError, unpack_members};
pub use verify::{MemberState, Verification, VerifyError, VerifyReport, verify, verify_changes};
