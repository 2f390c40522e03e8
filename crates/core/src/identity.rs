//! Content-derived identities of models and cases.
//!
//! Invariant: the same bytes and bindings give the same identity on every machine.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// An identity text that is not 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a sha256 in hexadecimal")]
pub struct InvalidDigest(pub String);

macro_rules! digest_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(pub [u8; 32]);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.to_string()
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidDigest;
            fn try_from(text: String) -> Result<Self, InvalidDigest> {
                text.parse()
            }
        }

        impl FromStr for $name {
            type Err = InvalidDigest;
            fn from_str(text: &str) -> Result<Self, InvalidDigest> {
                parse_digest(text).map(Self).ok_or_else(|| InvalidDigest(text.to_owned()))
            }
        }
    };
}

digest_id! {
    /// SHA-256 of a model's bytes, external data included.
    ModelId
}

digest_id! {
    /// SHA-256 of a model's identity and the canonical text of its bound free dimensions.
    CaseId
}

impl CaseId {
    /// Derives the identity of `model` with `bindings` in their canonical text form.
    pub fn derive(model: ModelId, bindings: &str) -> Self {
        let mut hash = Sha256::new();
        hash.update(model.0);
        hash.update(bindings.as_bytes());
        Self(hash.finalize().into())
    }
}

fn parse_digest(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) {
        return None;
    }
    let mut digest = [0; 32];
    for (byte, pair) in digest.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_text_round_trips() {
        let id = CaseId::derive(ModelId([7; 32]), "batch=1");
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_ne!(id, CaseId::derive(ModelId([7; 32]), "batch=2"));
    }

    #[test]
    fn refuses_text_that_is_no_digest() {
        for text in ["", "00", &"g".repeat(64), &"A".repeat(64), &"é".repeat(32)] {
            assert!(text.parse::<ModelId>().is_err(), "{text}");
        }
    }
}
