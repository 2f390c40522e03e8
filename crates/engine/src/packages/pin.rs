//! Pins: which wheel and which bytes of it are meant, whoever delivers them.
//!
//! Invariant: a pin's paths are relative, have no `..` and no Windows drive, so joining one to a folder
//! stays inside that folder.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The Python version that pip is asked for where a wheel fits any; the oldest that all wheels in use accept.
const ANY_PYTHON: &str = "3.12";

/// No wheel and no member may be larger, in bytes.
pub(super) const MAX_FILE_BYTES: u64 = 4 << 30;

/// A SHA-256, shown as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Sha256Digest(pub [u8; 32]);

impl Sha256Digest {
    /// Computes the digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

impl fmt::Display for Sha256Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sha256Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sha256Digest({self})")
    }
}

impl From<Sha256Digest> for String {
    fn from(digest: Sha256Digest) -> Self {
        digest.to_string()
    }
}

impl TryFrom<String> for Sha256Digest {
    type Error = InvalidPin;
    fn try_from(text: String) -> Result<Self, InvalidPin> {
        text.parse()
    }
}

impl FromStr for Sha256Digest {
    type Err = InvalidPin;
    fn from_str(text: &str) -> Result<Self, InvalidPin> {
        let invalid = || InvalidPin::Digest(text.to_owned());
        let nibble = |byte: u8| match byte {
            b'0'..=b'9' => Ok(byte - b'0'),
            b'a'..=b'f' => Ok(byte - b'a' + 10),
            _ => Err(invalid()),
        };
        if text.len() != 64 {
            return Err(invalid());
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
        }
        Ok(Self(bytes))
    }
}

/// What is wrong with a pin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPin {
    /// Not 64 lower-case hexadecimal digits.
    #[error("`{0}` is not a sha256 in hexadecimal")]
    Digest(String),
    /// Not the name of a wheel of this distribution and version.
    #[error("`{file}` is not a wheel of {distribution} {version}")]
    FileName {
        /// The file name as given.
        file: String,
        /// The distribution it should belong to.
        distribution: String,
        /// The version it should have.
        version: String,
    },
    /// A path that could lead out of the folder it is unpacked into.
    #[error("`{0}` is not a plain relative path")]
    Path(String),
    /// Empty or absurdly large.
    #[error("`{path}` has the impossible size {size_bytes}")]
    Size {
        /// The file meant.
        path: String,
        /// The size as given.
        size_bytes: u64,
    },
}

/// One wheel of one distribution, by hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WheelPin {
    distribution: String,
    version: String,
    file: String,
    sha256: Sha256Digest,
    size_bytes: u64,
    tags: WheelTags,
}

impl WheelPin {
    /// Joins the parts of a pin.
    ///
    /// # Errors
    /// [`InvalidPin`] where the file name is no wheel name of that distribution and version, or the size is
    /// zero or over 4 GiB.
    pub fn new(
        distribution: &str,
        version: &str,
        file: &str,
        sha256: Sha256Digest,
        size_bytes: u64,
    ) -> Result<Self, InvalidPin> {
        let wrong_name = || InvalidPin::FileName {
            file: file.to_owned(),
            distribution: distribution.to_owned(),
            version: version.to_owned(),
        };
        check_size(file, size_bytes)?;
        check_path(file)?;
        let normal = distribution.to_ascii_lowercase().replace(['-', '.'], "_");
        let plain = |text: &str| {
            !text.is_empty()
                && !text.starts_with('-')
                && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.+!".contains(&b))
        };
        if !plain(distribution) || !plain(version) || !file.starts_with(&format!("{normal}-{version}-")) {
            return Err(wrong_name());
        }
        let tags = WheelTags::parse(file).ok_or_else(wrong_name)?;
        Ok(Self {
            distribution: distribution.to_owned(),
            version: version.to_owned(),
            file: file.to_owned(),
            sha256,
            size_bytes,
            tags,
        })
    }

    /// The distribution's name in the package index.
    pub fn distribution(&self) -> &str {
        &self.distribution
    }

    /// Its version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The wheel's file name.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The hash of the wheel file.
    pub fn sha256(&self) -> Sha256Digest {
        self.sha256
    }

    /// The size of the wheel file in bytes, never zero.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The tags of the file name.
    pub fn tags(&self) -> &WheelTags {
        &self.tags
    }
}

/// The compatibility tags at the end of a wheel's file name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WheelTags {
    python: Vec<String>,
    abi: Vec<String>,
    platform: Vec<String>,
}

impl WheelTags {
    /// Reads the tags of `name-version[-build]-python-abi-platform.whl`; `None` for other names.
    pub fn parse(file: &str) -> Option<Self> {
        let mut parts = file.strip_suffix(".whl")?.rsplitn(4, '-');
        let (platform, abi, python) = (parts.next()?, parts.next()?, parts.next()?);
        let (_, version) = parts.next()?.split_once('-')?;
        let split = |tag: &str| -> Option<Vec<String>> {
            let tags: Vec<String> = tag.split('.').map(str::to_owned).collect();
            let plain =
                |t: &String| !t.is_empty() && t.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            tags.iter().all(plain).then_some(tags)
        };
        (!version.is_empty()).then_some(Self {
            python: split(python)?,
            abi: split(abi)?,
            platform: split(platform)?,
        })
    }

    /// The options that make pip choose exactly this wheel, on whatever machine pip runs.
    pub fn pip_options(&self) -> Vec<String> {
        let python = self.python.iter().find_map(|tag| python_version(tag, "cp"));
        let (implementation, version) = match &python {
            Some(version) => ("cp", version.as_str()),
            None => ("py", ANY_PYTHON),
        };
        let mut options = vec!["--implementation".to_owned(), implementation.to_owned()];
        options.extend(["--python-version".to_owned(), version.to_owned()]);
        options.extend(self.abi.iter().flat_map(|tag| ["--abi".to_owned(), tag.clone()]));
        options.extend(self.platform.iter().flat_map(|tag| ["--platform".to_owned(), tag.clone()]));
        options
    }

    /// The oldest GNU C library that the wheel's `manylinux` tag promises to run with.
    pub fn min_glibc(&self) -> Option<(u32, u32)> {
        let version = |tag: &String| {
            let rest = tag.strip_prefix("manylinux")?;
            match rest.split_once('_')?.0 {
                "1" => Some((2, 5)),
                "2010" => Some((2, 12)),
                "2014" => Some((2, 17)),
                _ => leading_version(rest.strip_prefix('_')?),
            }
        };
        self.platform.iter().filter_map(version).min()
    }

    /// The oldest macOS that the wheel's tag promises to run on.
    pub fn min_macos(&self) -> Option<(u32, u32)> {
        self.platform.iter().filter_map(|tag| leading_version(tag.strip_prefix("macosx_")?)).min()
    }
}

/// `cp312` with the prefix `cp` is `3.12`.
fn python_version(tag: &str, prefix: &str) -> Option<String> {
    let (major, minor) = tag.strip_prefix(prefix)?.split_at_checked(1)?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    (digits(major) && digits(minor)).then(|| format!("{major}.{minor}"))
}

/// `2_28_x86_64` is (2, 28).
fn leading_version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split('_');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// One file inside a wheel, by hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemberPin {
    /// The path inside the wheel, and below the folder it is unpacked into.
    pub path: String,
    /// Its unpacked size in bytes.
    pub size_bytes: u64,
    /// The hash of its unpacked bytes.
    pub sha256: Sha256Digest,
    /// Further paths that the same bytes are reached by: wheels cannot hold the symbolic links that some
    /// libraries look each other up by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
}

impl MemberPin {
    /// Every path that the member appears under.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.path.as_str()).chain(self.also.iter().map(String::as_str))
    }

    /// Checks that the paths are plain and the size is possible.
    ///
    /// # Errors
    /// [`InvalidPin`] for the first thing that is wrong.
    pub fn check(&self) -> Result<(), InvalidPin> {
        self.paths().try_for_each(check_path)?;
        // An empty member is possible, unlike an empty wheel.
        check_size(&self.path, self.size_bytes.max(1))
    }
}

fn check_size(path: &str, size_bytes: u64) -> Result<(), InvalidPin> {
    if (1..=MAX_FILE_BYTES).contains(&size_bytes) {
        Ok(())
    } else {
        Err(InvalidPin::Size { path: path.to_owned(), size_bytes })
    }
}

/// Accepts `a/b.c`; refuses absolute paths, `.`, `..`, backslashes, drives, and names that Windows alters.
fn check_path(path: &str) -> Result<(), InvalidPin> {
    let plain_part = |part: &str| {
        !part.is_empty()
            && part != "."
            && part != ".."
            && !part.ends_with(['.', ' '])
            && !part.starts_with(' ')
    };
    let plain = path.len() <= 512
        && !path.bytes().any(|b| b.is_ascii_control() || b"\\:*?\"<>|".contains(&b))
        && path.split('/').all(plain_part);
    if plain { Ok(()) } else { Err(InvalidPin::Path(path.to_owned())) }
}

#[cfg(test)]
mod tests;
