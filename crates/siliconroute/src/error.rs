//! One table from what can go wrong to exit code and hint.
//!
//! Invariant: every operation's error maps to exactly one [`ErrorKind`], in [`Error::kind`] and nowhere else.

use std::path::PathBuf;

use siliconroute_core::trial::Failure;
use siliconroute_engine::packages;
use siliconroute_engine::session::InputError;

use crate::array_file::ArrayFileError;
use crate::corpus::CorpusError;
use crate::home::HomeError;
use crate::inputs::InputsError;
use crate::knowledge_file::KnowledgeFileError;
use crate::machine::brief;
use crate::models::ModelError;
use crate::settings::SettingsError;
use crate::space::{lacks_room, room_hint};
use crate::table_file::TableError;
use crate::tuning::TuneError;

/// What to do about a package that is not there.
const INSTALLED_HINT: &str = "`siliconroute packages list` shows which packages are installed";

/// What kind of failure an error is; exit codes and protocol statuses follow from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The work failed.
    WorkFailed,
    /// The request was wrong.
    Usage,
    /// No target, package or model suits.
    NothingSuitable,
    /// The home cannot be used: its store, or there is no room for what must be kept there.
    Store,
    /// The user stopped it.
    Interrupted,
}

impl ErrorKind {
    /// The exit code of the command line: documented and stable.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::WorkFailed => 1,
            Self::Usage => 2,
            Self::NothingSuitable => 3,
            Self::Store => 4,
            Self::Interrupted => 130,
        }
    }

    /// The stable name, as documents have it.
    pub fn code(self) -> &'static str {
        match self {
            Self::WorkFailed => "work_failed",
            Self::Usage => "usage",
            Self::NothingSuitable => "nothing_suitable",
            Self::Store => "store",
            Self::Interrupted => "interrupted",
        }
    }
}

/// Anything that an operation of this library can fail with.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The home folder.
    #[error(transparent)]
    Home(Box<HomeError>),
    /// The settings.
    #[error(transparent)]
    Settings(Box<SettingsError>),
    /// Opening the store.
    #[error(transparent)]
    OpenStore(Box<siliconroute_store::OpenError>),
    /// Using the store.
    #[error(transparent)]
    Store(Box<siliconroute_store::StoreError>),
    /// A model.
    #[error(transparent)]
    Model(Box<ModelError>),
    /// Tuning this machine.
    #[error(transparent)]
    Tune(Box<TuneError>),
    /// Making inputs.
    #[error(transparent)]
    Inputs(Box<InputsError>),
    /// Inputs that do not fit the model.
    #[error(transparent)]
    Input(Box<InputError>),
    /// Reading inputs or writing outputs.
    #[error(transparent)]
    ArrayFile(Box<ArrayFileError>),
    /// Evaluating a corpus.
    #[error(transparent)]
    Corpus(Box<CorpusError>),
    /// Reading or writing a knowledge file.
    #[error(transparent)]
    KnowledgeFile(Box<KnowledgeFileError>),
    /// Reading a table.
    #[error(transparent)]
    Table(Box<TableError>),
    /// Installing a package.
    #[error(transparent)]
    Install(Box<packages::InstallError>),
    /// Removing a package.
    #[error(transparent)]
    Remove(Box<packages::RemoveError>),
    /// Checking a package.
    #[error(transparent)]
    Verify(Box<packages::VerifyError>),
    /// A package of the table that this machine cannot use.
    #[error(transparent)]
    Unfit(Box<packages::Unfit>),
    /// No package of that name.
    #[error("unknown package `{name}`; the packages are: {known}")]
    UnknownPackage {
        /// The name asked for.
        name: String,
        /// All names.
        known: String,
    },
    /// No target of that name.
    #[error("unknown target `{name}`; the targets of this machine are: {known}")]
    UnknownTarget {
        /// The name asked for.
        name: String,
        /// All available targets.
        known: String,
    },
    /// A target that exists but cannot be used.
    #[error("the target `{name}` cannot be used here: {reason}")]
    UnavailableTarget {
        /// The target.
        name: String,
        /// Why.
        reason: String,
    },
    /// No target is left for a case.
    #[error("no target is suitable for {case}: {reasons}")]
    NoTarget {
        /// The case.
        case: String,
        /// What speaks against each target.
        reasons: String,
        /// What the user can do about it.
        advice: String,
    },
    /// Every engine that was asked refuses the model, a trusted one among them.
    #[error("no engine takes {case}: {refusals}")]
    ModelRefused {
        /// The case.
        case: String,
        /// Target and refusal, joined.
        refusals: String,
    },
    /// Every suitable target failed on an inference.
    #[error("{case} failed on every suitable target: {failures}")]
    AllFailed {
        /// The case.
        case: String,
        /// Target and failure, joined.
        failures: String,
    },
    /// The only target that was to be asked failed.
    #[error("{case} failed on {target}: {failure}")]
    TargetFailed {
        /// The case.
        case: String,
        /// The target.
        target: String,
        /// What happened, in brief.
        failure: String,
    },
    /// The target named would leave the model to another one.
    #[error("{target} cannot run {case}: {finding}")]
    RunsElsewhere {
        /// The case.
        case: String,
        /// The target.
        target: String,
        /// Where its nodes would run.
        finding: String,
    },
    /// The reference refuses to compute an inference, and others would make up an answer.
    #[error("{target} refuses to compute {case}, so no other target is asked: {failures}")]
    InferenceRefused {
        /// The case.
        case: String,
        /// The reference.
        target: String,
        /// Its refusal, after the failures before it.
        failures: String,
    },
    /// A worker failed where there is no other to turn to.
    #[error("{target}: {}", brief(&failure.to_string()))]
    Worker {
        /// The target.
        target: String,
        /// What happened.
        failure: Failure,
    },
    /// A file that cannot be written.
    #[error("cannot write `{path}`")]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// Fetching is switched off.
    #[error("{0} is not installed, and fetching is switched off")]
    Offline(String),
    /// A request that makes no sense.
    #[error("{0}")]
    Usage(String),
    /// Something is to be kept, and the home can only be read.
    #[error("cannot {operation}, since nothing can be kept in the home `{path}`: {reason}")]
    ReadOnlyHome {
        /// What was asked for.
        operation: &'static str,
        /// The home.
        path: PathBuf,
        /// What stands against writing there.
        reason: String,
        /// What the user can do about it.
        advice: String,
    },
    /// The result is whole, and what it says is a failure: a check found damage, a case was not measured.
    #[error("{message}")]
    Finding {
        /// The kind of failure.
        kind: ErrorKind,
        /// What was found.
        message: String,
        /// What the user can do about it, where something helps.
        advice: Option<String>,
    },
    /// The user stopped it.
    #[error("interrupted; what was measured is kept")]
    Interrupted,
}

/// Boxes an operation's error, so that results stay small.
macro_rules! boxed {
    ($($variant:ident($error:ty)),+ $(,)?) => {
        $(impl From<$error> for Error {
            fn from(error: $error) -> Self {
                Self::$variant(Box::new(error))
            }
        })+
    };
}

boxed! {
    Home(HomeError),
    Settings(SettingsError),
    OpenStore(siliconroute_store::OpenError),
    Store(siliconroute_store::StoreError),
    Model(ModelError),
    Tune(TuneError),
    Inputs(InputsError),
    Input(InputError),
    ArrayFile(ArrayFileError),
    Corpus(CorpusError),
    KnowledgeFile(KnowledgeFileError),
    Table(TableError),
    Install(packages::InstallError),
    Remove(packages::RemoveError),
    Verify(packages::VerifyError),
    Unfit(packages::Unfit),
}

impl Error {
    /// Whether there is no room for a file of the program's own beside the store, such as a model or a package. A file that
    /// the user has named is none of them.
    pub fn lacks_room_in_home(&self) -> bool {
        match self {
            Self::Model(error) => error.lacks_room_in_home(),
            Self::Install(error) => error.lacks_room(),
            Self::Write { source, .. } => lacks_room(source),
            _ => false,
        }
    }

    /// The kind of failure. Whichever of its files finds no room first, a home without room is one kind.
    pub fn kind(&self) -> ErrorKind {
        match self {
            _ if self.lacks_room_in_home() => ErrorKind::Store,
            Self::Settings(_)
            | Self::Input(_)
            | Self::Usage(_)
            | Self::ModelRefused { .. }
            | Self::InferenceRefused { .. }
            | Self::UnknownPackage { .. }
            | Self::UnknownTarget { .. } => ErrorKind::Usage,
            Self::Finding { kind, .. } => *kind,
            Self::Model(error) => error.kind(),
            Self::ArrayFile(error) if matches!(**error, ArrayFileError::Write { .. }) => {
                ErrorKind::WorkFailed
            }
            Self::KnowledgeFile(error) => match **error {
                KnowledgeFileError::Read { .. } | KnowledgeFileError::Fault { .. } => ErrorKind::Usage,
                KnowledgeFileError::Write { .. } => ErrorKind::WorkFailed,
                KnowledgeFileError::Nothing { .. } => ErrorKind::NothingSuitable,
            },
            Self::Inputs(_) | Self::ArrayFile(_) | Self::Corpus(_) | Self::Table(_) => ErrorKind::Usage,
            Self::Home(error) => error.kind(),
            Self::OpenStore(_) | Self::Store(_) | Self::ReadOnlyHome { .. } => ErrorKind::Store,
            Self::Unfit(_)
            | Self::UnavailableTarget { .. }
            | Self::NoTarget { .. }
            | Self::RunsElsewhere { .. }
            | Self::Offline(_) => ErrorKind::NothingSuitable,
            Self::Install(error) if error.is_cancelled() => ErrorKind::Interrupted,
            Self::Install(error) if error.is_wrong_file() => ErrorKind::Usage,
            Self::Remove(error) if error.is_cancelled() => ErrorKind::Interrupted,
            Self::Verify(error) if matches!(**error, packages::VerifyError::Cancelled) => {
                ErrorKind::Interrupted
            }
            Self::Interrupted => ErrorKind::Interrupted,
            // What is not there can be neither removed nor verified, and what nothing here can fetch is as far
            // away as when fetching is switched off.
            Self::Install(error) if lacks_fetcher(error) => ErrorKind::NothingSuitable,
            Self::Remove(error) if matches!(**error, packages::RemoveError::NotInstalled { .. }) => {
                ErrorKind::NothingSuitable
            }
            Self::Verify(error) if matches!(**error, packages::VerifyError::NotInstalled { .. }) => {
                ErrorKind::NothingSuitable
            }
            Self::Install(_)
            | Self::Remove(_)
            | Self::Verify(_)
            | Self::AllFailed { .. }
            | Self::TargetFailed { .. }
            | Self::Tune(_)
            | Self::Worker { .. }
            | Self::Write { .. } => ErrorKind::WorkFailed,
        }
    }

    /// Whether fetching failed for want of pip or of a network, so that every other fetch would too.
    pub fn is_unreachable(&self) -> bool {
        use packages::{FetchError, InstallError};
        let Self::Install(error) = self else { return false };
        let InstallError::Fetch { source, .. } = &**error else { return false };
        matches!(**source, FetchError::Unreachable { .. } | FetchError::NoFetcher { .. })
    }

    /// What the user can do about it, where there is something to say beyond the message.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Interrupted => {
                Some("`siliconroute up` goes on from there, and so does `bench` with --resume".to_owned())
            }
            Self::OpenStore(error) => Some(error.hint().to_owned()),
            Self::Store(error) => Some(error.hint().to_owned()),
            Self::Model(error) => error.hint(),
            Self::Install(error) => error.hint(),
            Self::Home(error) => Some(error.hint().to_owned()),
            Self::UnknownTarget { .. } | Self::UnavailableTarget { .. } => {
                Some("`siliconroute devices` lists every target with its reason".to_owned())
            }
            Self::ReadOnlyHome { advice, .. } => Some(advice.clone()),
            Self::Finding { advice, .. } => advice.clone(),
            Self::Remove(error) if matches!(**error, packages::RemoveError::NotInstalled { .. }) => {
                Some(INSTALLED_HINT.to_owned())
            }
            Self::Verify(error) if matches!(**error, packages::VerifyError::NotInstalled { .. }) => {
                Some(INSTALLED_HINT.to_owned())
            }
            Self::Write { source, .. } => room_hint(source).map(str::to_owned),
            Self::ArrayFile(error) => error.hint().map(str::to_owned),
            Self::KnowledgeFile(error) => error.hint().map(str::to_owned),
            Self::Offline(_) => {
                Some("run without --offline, or hand over its wheel with --wheel FILE".to_owned())
            }
            Self::NoTarget { advice, .. } => Some(advice.clone()),
            _ => None,
        }
    }
}

/// Whether there is no program to fetch a package with.
fn lacks_fetcher(error: &packages::InstallError) -> bool {
    use packages::{FetchError, InstallError};
    matches!(error, InstallError::Fetch { source, .. } if matches!(**source, FetchError::NoFetcher { .. }))
}
