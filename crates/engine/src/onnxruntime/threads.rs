//! How a session is told about its threads: by the library for its own CPU provider, by the provider for OpenVINO.
//!
//! Invariant: what a provider has no way to take is refused, since ONNX Runtime accepts an unknown key in silence.
//! Keys: `onnxruntime_session_options_config_keys.h`.

use std::collections::BTreeMap;

use siliconroute_core::{ChipKind, Target};

use super::inline_config;
use crate::session::{SessionError, ThreadOptions};

/// `1` lets threads that wait for work spin, `0` lets them sleep at once.
const ALLOW_SPINNING: &str = "session.intra_op.allow_spinning";
/// The number of blocks for each thread, from which on an operator's work is cut into ever smaller ones.
const BLOCK_BASE: &str = "session.dynamic_block_base";
/// The processors of each thread but the calling one, counted from 1; threads are separated by semicolons.
const AFFINITIES: &str = "session.intra_op_thread_affinities";

/// What a session is set up with for its threads.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ThreadSetup {
    /// The threads of the library's own pool.
    pub(super) pool: Option<u32>,
    /// Entries of the session's configuration.
    pub(super) entries: Vec<(&'static str, String)>,
    /// Options of the provider, in place of those that it has already.
    pub(super) options: BTreeMap<String, String>,
}

/// Turns `threads` into what a session on `target` takes, whose provider has these `options` already.
///
/// # Errors
/// When the provider does not take one of them.
pub(super) fn set_up(
    target: &Target,
    options: &BTreeMap<String, String>,
    threads: &ThreadOptions,
) -> Result<ThreadSetup, SessionError> {
    let mut setup = ThreadSetup { pool: threads.count, ..ThreadSetup::default() };
    let provider = target.provider.as_str();
    if provider != "ort" {
        if let Some(option) = threads.beyond_count() {
            return Err(SessionError::Refused(format!("the provider {provider} takes no `{option}`")));
        }
        if let ("openvino", ChipKind::Cpu, Some(count)) = (provider, target.chip_kind, threads.count) {
            let config = inline_config::with_property(
                options,
                target.chip_kind,
                "INFERENCE_NUM_THREADS",
                &count.to_string(),
            )?;
            setup.options.insert(inline_config::OPTION.to_owned(), config);
        }
        return Ok(setup);
    }
    if let Some(spin) = threads.spin {
        setup.entries.push((ALLOW_SPINNING, u8::from(spin).to_string()));
    }
    if let Some(base) = threads.block_base {
        setup.entries.push((BLOCK_BASE, base.to_string()));
    }
    if !threads.cores.is_empty() {
        let count = threads.count.unwrap_or_else(|| u32::try_from(threads.cores.len()).unwrap_or(u32::MAX));
        let beside = count.saturating_sub(1) as usize;
        if beside == 0 {
            let text = "`cores` is about the threads beside the calling one, and there is none";
            return Err(SessionError::Refused(text.to_owned()));
        }
        // Any of them for each thread, so that a CPU that is busy otherwise holds none of them up.
        let from_one: Vec<String> =
            threads.cores.iter().map(|cpu| cpu.saturating_add(1).to_string()).collect();
        setup.pool = Some(count);
        setup.entries.push((AFFINITIES, vec![from_one.join(","); beside].join(";")));
    }
    Ok(setup)
}

#[cfg(test)]
mod tests {
    use siliconroute_core::{ChipKey, ProviderName, TargetKey};

    use super::*;

    fn target(provider: &str) -> Target {
        Target {
            key: TargetKey(format!("cpu/{provider}")),
            provider: ProviderName::parse(provider),
            provider_version: "1".to_owned(),
            chip: ChipKey::cpu(),
            chip_kind: ChipKind::Cpu,
            options: BTreeMap::new(),
        }
    }

    #[test]
    fn every_thread_but_the_calling_one_has_its_processors_counted_from_one() {
        let threads = ThreadOptions { cores: vec![0, 2], ..ThreadOptions::of_count(3) };
        let setup = set_up(&target("ort"), &BTreeMap::new(), &threads).unwrap();
        assert_eq!((setup.pool, setup.entries), (Some(3), vec![(AFFINITIES, "1,3;1,3".to_owned())]));
        let without_count = ThreadOptions { cores: vec![4, 5], ..ThreadOptions::default() };
        let setup = set_up(&target("ort"), &BTreeMap::new(), &without_count).unwrap();
        assert_eq!((setup.pool, setup.entries), (Some(2), vec![(AFFINITIES, "5,6".to_owned())]));
        let alone = ThreadOptions { cores: vec![4, 5], ..ThreadOptions::of_count(1) };
        assert!(set_up(&target("ort"), &BTreeMap::new(), &alone).is_err());
    }

    #[test]
    fn the_library_s_own_provider_takes_everything() {
        let threads = ThreadOptions { spin: Some(false), block_base: Some(4), ..ThreadOptions::of_count(2) };
        let setup = set_up(&target("ort"), &BTreeMap::new(), &threads).unwrap();
        assert_eq!(setup.entries, [(ALLOW_SPINNING, "0".to_owned()), (BLOCK_BASE, "4".to_owned())]);
        let nothing = set_up(&target("ort"), &BTreeMap::new(), &ThreadOptions::default()).unwrap();
        assert_eq!(nothing, ThreadSetup::default());
    }

    #[test]
    fn openvino_is_told_its_threads_beside_what_its_target_asks_for() {
        let own = r#"{"CPU":{"INFERENCE_PRECISION_HINT":"f32"}}"#.to_owned();
        let options = BTreeMap::from([("load_config".to_owned(), own)]);
        let setup = set_up(&target("openvino"), &options, &ThreadOptions::of_count(1)).unwrap();
        let config: serde_json::Value = serde_json::from_str(&setup.options["load_config"]).unwrap();
        assert_eq!(config["CPU"]["INFERENCE_PRECISION_HINT"], "f32");
        assert_eq!(config["CPU"]["INFERENCE_NUM_THREADS"], "1");
    }

    #[test]
    fn what_another_provider_would_pass_over_is_refused() {
        let spin = ThreadOptions { spin: Some(false), ..ThreadOptions::default() };
        let refused = set_up(&target("openvino"), &BTreeMap::new(), &spin).unwrap_err();
        assert!(refused.to_string().contains("openvino takes no `spin`"), "{refused}");
    }
}
