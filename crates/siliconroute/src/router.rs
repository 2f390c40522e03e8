//! The router that people embed: one home, one machine, one store.
//!
//! Invariant: this crate alone writes the store, and everything that depends on the outside world
//! (clock, workers, fetching) comes in through [`Options`].

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use siliconroute_core::decide::Context;
use siliconroute_core::target::{Cores, RefusedSetting, SessionSettings};
use siliconroute_core::{CaseId, Chip, ChipKind, Reading, TargetKey};
use siliconroute_engine::packages::{Fetcher, Installed, PipFetcher};
use siliconroute_engine::regular_file::read_regular;
use siliconroute_engine::worker::process::{Launcher, ProcessLauncher};
use siliconroute_store::{HostId, Store, TargetId};

use crate::campaign::Sampling;
use crate::context::{Observed, detect_context};
use crate::discovery::{Discovery, Found, Probes, discover_targets};
use crate::engine_packages::reinstall;
use crate::error::Error;
use crate::event::{Event, Listener, Stage};
use crate::home::{Home, MeasuringLock};
use crate::identify::{Checked, OpenSensors, machine_sensors};
use crate::lost_packages::LostPackage;
use crate::machine::{Machine, describe_error, installed_packages};
use crate::models::Models;
use crate::named_cores::NamedCores;
use crate::opening::{Opened, ReadOnly};
use crate::sampler::{OpenMeters, machine_meters};
use crate::settings::Settings;
use crate::tuning::Tuned;
use crate::tuning::workbench::{ThisMachine, Workbench};
use crate::verified::VerifiedLauncher;

/// The argument by which this program is told to be a worker.
pub const WORKER_ARGUMENT: &str = "worker";

/// Keeps ONNX Runtime from queueing and sending telemetry of its own; it must be set before the library loads.
pub(crate) const NO_TELEMETRY: &str = "ORT_DISABLE_TELEMETRY";

/// How a router is opened.
#[derive(Clone)]
pub struct Options {
    /// The home folder.
    pub home: PathBuf,
    /// Resolved settings.
    pub settings: Settings,
    /// Set from outside when the user wants to stop.
    pub cancelled: Arc<AtomicBool>,
    /// Milliseconds since 1970 UTC.
    pub clock: fn() -> i64,
    /// Lets time pass between measurements; simulated machines need none.
    pub sleep: fn(Duration),
    /// Starts workers; this program itself when absent.
    pub launcher: Option<Arc<dyn Launcher>>,
    /// Fetches wheels; pip when absent.
    pub fetcher: Option<Arc<dyn Fetcher>>,
    /// Opens the sensors of the machine's chips.
    pub sensors: OpenSensors,
    /// Looks at the state of the machine that decisions take into account.
    pub context: fn() -> Context,
    /// What the machine is tuned with.
    pub workbench: Arc<dyn Workbench>,
    /// Opens the machine's meters of energy.
    pub meters: OpenMeters,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("home", &self.home).finish_non_exhaustive()
    }
}

impl Options {
    /// The usual options for `home`.
    pub fn new(home: PathBuf, settings: Settings) -> Self {
        Self {
            home,
            settings,
            cancelled: Arc::default(),
            clock: unix_ms,
            sleep: std::thread::sleep,
            launcher: None,
            fetcher: None,
            sensors: machine_sensors(),
            context: detect_context,
            workbench: Arc::new(ThisMachine),
            meters: machine_meters(),
        }
    }
}

/// Milliseconds since 1970 UTC by the system's clock; 0 for a clock before that.
pub fn unix_ms() -> i64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX)
}

/// Measures, learns, decides, runs and checks itself.
pub struct Router {
    pub(crate) home: Home,
    pub(crate) settings: Settings,
    pub(crate) store: Store,
    pub(crate) read_only: Option<ReadOnly>,
    pub(crate) machine: Machine,
    pub(crate) launcher: Arc<dyn Launcher>,
    pub(crate) fetcher: Arc<dyn Fetcher>,
    pub(crate) cancelled: Arc<AtomicBool>,
    pub(crate) clock: fn() -> i64,
    pub(crate) sleep: fn(Duration),
    pub(crate) sensors: OpenSensors,
    context: fn() -> Context,
    pub(crate) workbench: Arc<dyn Workbench>,
    /// What the tuning gave last.
    pub(crate) tuned: Mutex<Option<Tuned>>,
    pub(crate) meters: OpenMeters,
    /// What the campaigns of this process found out about their targets' chips.
    pub(crate) identified: Mutex<BTreeMap<TargetKey, Checked>>,
    /// What serving has shown of the machine.
    pub(crate) observed: Observed,
}

impl std::fmt::Debug for Router {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Router").field("home", &self.home).finish_non_exhaustive()
    }
}

/// The targets of this machine with their rows in the store.
#[derive(Debug, Clone)]
pub struct Targets {
    /// What was found.
    pub discovery: Discovery,
    /// Rows of the available targets.
    pub(crate) rows: HashMap<TargetKey, TargetId>,
    /// What the set of targets depends on.
    pub fingerprint: String,
    /// Packages that were changed, so that their targets are missing.
    pub(crate) lost: Vec<LostPackage>,
    /// Targets that may run on another chip than they say, with what speaks for that.
    pub suspects: BTreeMap<TargetKey, String>,
    /// The cores of this machine that can be named.
    pub(crate) cores: NamedCores,
    /// The case that tuned targets stand in for; `None` where there are none.
    pub(crate) tuned_for: Option<CaseId>,
    /// The targets that tuned ones stand in for.
    pub(crate) replaced: Vec<Replaced>,
    /// What stands for choices of others that are measured as baselines; no decision knows of them.
    pub(crate) automatic: Vec<Found>,
}

/// A target without settings, and the tuned one that stands in its place.
#[derive(Debug, Clone)]
pub(crate) struct Replaced {
    /// The target without settings.
    pub(crate) plain: Found,
    /// What stands in its place.
    pub(crate) by: TargetKey,
}

impl Targets {
    /// The available target called `name`.
    ///
    /// # Errors
    /// When there is no such target, or it cannot be used.
    pub fn get(&self, name: &str) -> Result<&Found, Error> {
        let key = TargetKey(name.to_owned());
        match self.discovery.find(&key) {
            Some(Found { unavailable: Some(reason), .. }) => {
                Err(Error::UnavailableTarget { name: name.to_owned(), reason: reason.clone() })
            }
            Some(found) => Ok(found),
            None => {
                if let Some(replaced) = self.replaced.iter().find(|it| it.plain.target.key == key) {
                    return Ok(&replaced.plain);
                }
                if let Some(lost) = self.lost.iter().find(|lost| lost.brings(name)) {
                    let package = &lost.name;
                    let reason = format!("its package {package} was changed; {}", reinstall(package));
                    return Err(Error::UnavailableTarget { name: name.to_owned(), reason });
                }
                let known: Vec<&str> =
                    self.discovery.available().map(|found| found.target.key.as_str()).collect();
                Err(Error::UnknownTarget { name: name.to_owned(), known: known.join(", ") })
            }
        }
    }
}

impl Targets {
    /// The target called `name`, which may end in session settings, such as `cpu/ort+threads=1`.
    ///
    /// # Errors
    /// When there is no such target or setting, or it cannot be used.
    pub fn resolve(&self, name: &str) -> Result<Found, Error> {
        if let Some(tuned) = self.replaced.iter().find(|it| it.by.as_str() == name) {
            return Ok(self.get(tuned.by.as_str())?.clone());
        }
        if let Some(found) = self.automatic.iter().find(|it| it.target.key.as_str() == name) {
            return Ok(found.clone());
        }
        let (base, settings) =
            SessionSettings::split(name).map_err(|error| Error::Usage(error.to_string()))?;
        let refuse = |refused: RefusedSetting| Error::Usage(refused.to_string());
        let mut found = self.get(base.as_str())?.clone();
        settings.check(&found.target.provider, &base).map_err(refuse)?;
        let cores = settings.cpu.cores.as_ref().map(|cores| self.cores.number(cores, &base));
        let cores = cores.transpose().map_err(refuse)?;
        let threads = settings.cpu.threads;
        if let Some(Cores::Listed(cpus)) = &cores
            && threads.is_none()
            && cpus.len() == 1
        {
            return Err(refuse(RefusedSetting::NothingToPin(base)));
        }
        found.target = settings.apply(found.target);
        if let Some(cores) = cores {
            // The key keeps the name; what the session is told are the numbers that it stands for here.
            found.target.options.insert("cores".to_owned(), cores.to_string());
        }
        Ok(found)
    }

    /// The tuned target in the place of the one called `key`; that one itself where it was not tuned.
    pub fn in_place_of<'k>(&'k self, key: &'k TargetKey) -> &'k TargetKey {
        self.replaced.iter().find(|it| it.plain.target.key == *key).map_or(key, |it| &it.by)
    }

    /// The available targets on chips of one kind, at least one.
    ///
    /// # Errors
    /// When there is none.
    pub fn of_kind(&self, kind: ChipKind) -> Result<Vec<&Found>, Error> {
        let found: Vec<_> =
            self.discovery.available().filter(|found| found.target.chip_kind == kind).collect();
        if found.is_empty() {
            let reason = "this machine has no available target on such a chip".to_owned();
            return Err(Error::UnavailableTarget { name: kind.to_string(), reason });
        }
        Ok(found)
    }
}

impl Router {
    /// Opens the home and the store and looks at the machine.
    ///
    /// # Errors
    /// When the home or the store cannot even be read.
    pub fn open(options: Options) -> Result<Self, Error> {
        let opened = Opened::open(options.home.clone(), &options.settings)?;
        Self::assemble(options, opened)
    }

    pub(crate) fn assemble(options: Options, opened: Opened) -> Result<Self, Error> {
        let Opened { home, store, read_only } = opened;
        let machine = Machine::detect(options.settings.software_adapters);
        let launcher = match options.launcher {
            Some(launcher) => launcher,
            None => Arc::new(process_launcher(&options.settings, &machine, &options.cancelled)?),
        };
        let launcher = Arc::new(VerifiedLauncher {
            launcher,
            root: home.packages(),
            cancelled: Arc::clone(&options.cancelled),
        });
        let search_path = std::env::var_os("PATH").unwrap_or_default();
        let fetcher = options.fetcher.unwrap_or_else(|| Arc::new(PipFetcher::new(&search_path)));
        Ok(Self {
            home,
            settings: options.settings,
            store,
            read_only,
            machine,
            launcher,
            fetcher,
            cancelled: options.cancelled,
            clock: options.clock,
            sleep: options.sleep,
            sensors: options.sensors,
            context: options.context,
            workbench: options.workbench,
            tuned: Mutex::default(),
            meters: options.meters,
            identified: Mutex::default(),
            observed: Observed::default(),
        })
    }

    /// The state of the machine as a whole.
    pub(crate) fn state(&self) -> Context {
        (self.context)()
    }

    /// The machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The home folder.
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// Keeps a file called `name` in the home, replacing an older one in one step, and gives its place.
    ///
    /// # Errors
    /// When the home is only read, or the file cannot be written.
    pub fn keep_in_home(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, Error> {
        self.require_writable("keep a file")?;
        let path = self.home.root().join(name);
        write_if_changed(&path, bytes)?;
        Ok(path)
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The store, for reading.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Why the home is only read, where it is: then this router works on a copy of the store, and what it
    /// learns is lost with it.
    pub fn read_only(&self) -> Option<&str> {
        self.read_only.as_ref().map(ReadOnly::reason)
    }

    /// Refuses `operation`, which keeps something, where the home is only read.
    ///
    /// # Errors
    /// [`Error::ReadOnlyHome`].
    pub fn require_writable(&self, operation: &'static str) -> Result<(), Error> {
        let refusal = |read_only: &ReadOnly| Error::ReadOnlyHome {
            operation,
            path: self.home.root().to_owned(),
            reason: read_only.reason().to_owned(),
            advice: read_only.advice().to_owned(),
        };
        self.read_only.as_ref().map_or(Ok(()), |read_only| Err(refusal(read_only)))
    }

    /// Whether the user wants to stop.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Ends an operation that the user wants to stop.
    ///
    /// # Errors
    /// [`Error::Interrupted`] when that is so.
    pub(crate) fn stop_if_cancelled(&self) -> Result<(), Error> {
        if self.is_cancelled() { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// The models that can be named.
    pub fn models(&self) -> Models<'_> {
        Models {
            folder: self.home.models(),
            scratch: self.read_only.as_ref().map(|read_only| read_only.scratch().to_owned()),
            store: &self.store,
            now_unix_ms: (self.clock)(),
            offline: self.settings.offline,
        }
    }

    /// How trials are sampled under the settings.
    pub fn sampling(&self) -> Sampling {
        let usual = Sampling::default();
        let budget = Duration::from_millis(self.settings.trial_budget_ms);
        Sampling {
            budget,
            // Whoever wants trials shorter than usual does not want to wait for most of each before it begins.
            warmup_time: usual.warmup_time.min(budget * 3 / 2),
            // Half of the usual: a first start measures hundreds of trials, and turns cost more than samples.
            rounds: usual.rounds / 2,
            deadline: self.worker_deadline(),
            ..usual
        }
    }

    pub(crate) fn worker_deadline(&self) -> Duration {
        Duration::from_secs(self.settings.worker_deadline_s)
    }

    /// Waits for its turn to measure, so that two programs do not disturb each other.
    ///
    /// # Errors
    /// When the home is only read, the lock cannot be used or the user stops.
    pub(crate) fn lock_measuring(&self, listener: &mut dyn Listener) -> Result<MeasuringLock, Error> {
        self.require_writable("record measurements")?;
        let mut told = false;
        let lock = self.home.lock_measuring(|| {
            if !told {
                told = true;
                listener.event(Event::Notice(
                    "another program is measuring in this home; waiting until it is done".to_owned(),
                ));
            }
            !self.is_cancelled()
        })?;
        lock.ok_or(Error::Interrupted)
    }

    /// Finds the targets of this machine, from the store if nothing has changed since they were proven.
    ///
    /// Otherwise they are proven now, which waits while another program measures in this home.
    ///
    /// # Errors
    /// When the store fails, the probe cannot be written, or the user stops.
    pub fn targets(&self, listener: &mut dyn Listener) -> Result<Targets, Error> {
        let (packages, faults) = installed_packages(&self.home.packages());
        for fault in &faults {
            listener.event(Event::Notice(format!("a package is left out: {fault}")));
        }
        let all = packages;
        let packages = self.intact_packages(all.clone(), listener)?;
        let lost = self.lost_packages(&all, &packages, &faults)?;
        let fingerprint = self.machine.fingerprint(&packages, self.settings.software_adapters);
        let key = Machine::discovery_key(&fingerprint, &packages);
        let discovery = match self.known_discovery(&key)? {
            Some(discovery) => discovery,
            None => self.discover(&packages, &key, listener)?,
        };
        let mut rows = HashMap::new();
        let recorded = self.store.targets()?;
        for found in discovery.available() {
            let row = match recorded.iter().find(|stored| stored.target == found.target) {
                Some(stored) => stored.id,
                None => self.record_target(found)?,
            };
            rows.insert(found.target.key.clone(), row);
        }
        let cores = NamedCores::of(&self.machine.host);
        Ok(Targets {
            discovery,
            rows,
            fingerprint,
            lost,
            suspects: BTreeMap::new(),
            cores,
            tuned_for: None,
            replaced: Vec::new(),
            automatic: Vec::new(),
        })
    }

    pub(crate) fn known_discovery(&self, key: &str) -> Result<Option<Discovery>, Error> {
        let stored = self.store.load_discovery(key)?;
        Ok(stored.and_then(|stored| serde_json::from_str(&stored.document).ok()))
    }

    fn discover(
        &self,
        packages: &[Installed],
        key: &str,
        listener: &mut dyn Listener,
    ) -> Result<Discovery, Error> {
        // The probes of one program would disturb another's measurement; where nothing can be written, nobody
        // measures.
        let _turn = match self.read_only {
            None => Some(self.lock_measuring(listener)?),
            Some(_) => None,
        };
        // Another program may have found the targets while this one waited.
        if let Some(discovery) = self.known_discovery(key)? {
            return Ok(discovery);
        }
        let cache = self.read_only.as_ref().map_or_else(|| self.home.cache(), |it| it.scratch().to_owned());
        let probe = cache.join("precision-probe.onnx");
        write_if_changed(&probe, &siliconroute_onnx::precision_probe_model())?;
        let index_probe = cache.join("index-probe.onnx");
        write_if_changed(&index_probe, &siliconroute_onnx::index_probe_model())?;
        let engines = self.machine.engines(packages);
        listener.event(Event::Begin { stage: Stage::Targets, steps: Some(engines.len() as u64) });
        let mut first = true;
        let deadline = self.worker_deadline();
        let mut discovery = discover_targets(
            self.launcher.as_ref(),
            &engines,
            Probes { precision: &probe, index: &index_probe },
            deadline,
            |engine| {
                if !std::mem::take(&mut first) {
                    listener.event(Event::StepDone);
                }
                listener.event(Event::Step(engine.label.clone()));
            },
        );
        if self.is_cancelled() {
            return Err(Error::Interrupted);
        }
        for found in &mut discovery.found {
            self.name_driver(found);
        }
        listener.event(Event::StepDone);
        let names: Vec<&str> = discovery.available().map(|found| found.target.key.as_str()).collect();
        listener.event(Event::End(names.join(", ")));
        // A worker may die of a busy machine or a driver being updated, so such a failure is not remembered.
        if discovery.found.iter().all(|found| !found.may_pass) {
            let document = serde_json::to_string(&discovery).expect("a discovery has only text keys");
            self.store.save_discovery(key, &document, (self.clock)())?;
        }
        Ok(discovery)
    }

    /// Adds the driver of the target's chip to its version: another driver is another target's history.
    fn name_driver(&self, found: &mut Found) {
        let chips = self.machine.chips.iter().filter_map(|finding| finding.chip.available());
        let chip = chips.filter(|chip| chip.kind != ChipKind::Cpu).find(|chip| chip.key == found.target.chip);
        if let Some(driver) = chip.and_then(|chip| chip.driver.as_ref()) {
            found.target.provider_version = format!("{}, driver {driver}", found.target.provider_version);
        }
    }

    /// Records a target with its chip, which may be one that only the engine knows of.
    pub(crate) fn record_target(&self, found: &Found) -> Result<TargetId, Error> {
        let now = (self.clock)();
        self.store.record_chips(&[self.chip_of(found)], now)?;
        Ok(self.store.record_target(&found.target, now)?)
    }

    /// The chip of a target, which may be one that only the engine knows of.
    pub(crate) fn chip_of(&self, found: &Found) -> Chip {
        let chips = self.machine.chips.iter().filter_map(|finding| finding.chip.available());
        let known = chips.into_iter().find(|chip| chip.key == found.target.chip).cloned();
        known.unwrap_or_else(|| found.chip_as_reported())
    }

    /// Records host and chips, and gives the host's row.
    pub(crate) fn record_machine(&self) -> Result<HostId, Error> {
        let facts = serde_json::to_string(&self.machine.host).expect("host facts have only text keys");
        let now = (self.clock)();
        let chips: Vec<_> =
            self.machine.chips.iter().filter_map(|finding| finding.chip.available().cloned()).collect();
        self.store.record_chips(&chips, now)?;
        Ok(self.store.record_host(&self.machine.hardware_id, &facts, now)?)
    }
}

fn process_launcher(
    settings: &Settings,
    machine: &Machine,
    cancelled: &Arc<AtomicBool>,
) -> Result<ProcessLauncher, Error> {
    let program = std::env::current_exe().map_err(|error| {
        Error::Usage(format!("cannot find this program's own file: {}", describe_error(&error)))
    })?;
    let ram = match machine.host.ram_bytes {
        Reading::Available(bytes) => bytes,
        Reading::Unavailable(_) => u64::MAX,
    };
    let mut environment = vec![(NO_TELEMETRY.into(), "1".into())];
    if settings.software_adapters {
        environment.push(("ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER".into(), "1".into()));
    }
    Ok(ProcessLauncher {
        program,
        arguments: vec![WORKER_ARGUMENT.into()],
        environment,
        memory: siliconroute_hardware::process_resident_bytes,
        memory_limit_bytes: ram / 100 * settings.worker_memory_percent,
        cancelled: Arc::clone(cancelled),
    })
}

/// Writes `bytes` to `path` through a temporary file, unless they are there already.
pub(crate) fn write_if_changed(path: &std::path::Path, bytes: &[u8]) -> Result<(), Error> {
    if read_regular(path, bytes.len() as u64).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    let fail = |source| Error::Write { path: path.to_owned(), source };
    let folder = path.parent().unwrap_or_else(|| std::path::Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(fail)?;
    std::io::Write::write_all(&mut file, bytes).map_err(fail)?;
    file.persist(path).map_err(|error| fail(error.error))?;
    Ok(())
}
