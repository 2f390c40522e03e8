//! How a provider is told to keep what it compiled for the next session.
//!
//! Invariant: a provider that has no way to do so is refused, never asked in vain, since most providers accept an
//! unknown option in silence.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use siliconroute_core::ChipKind;

use super::inline_config;
use crate::session::SessionError;

/// What a session with a compile cache is made from.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Cached {
    /// Provider options, in place of the target's own where the keys are the same.
    pub(super) options: BTreeMap<String, String>,
    /// Entries of the session's configuration.
    pub(super) entries: Vec<(&'static str, String)>,
    /// The compiled model, to be loaded in place of the model itself.
    pub(super) model: Option<PathBuf>,
}

/// The file into which ONNX Runtime writes a model whose nodes are compiled.
const COMPILED_MODEL: &str = "compiled.onnx";

/// Makes the folder and tells what a session of `provider` needs to use it.
///
/// OpenVINO takes a folder in its inline configuration. QNN, Vitis AI and TensorRT RTX write a compiled model the
/// first time ("EP context"), which later sessions load.
///
/// # Errors
/// When the provider keeps nothing, or the folder cannot be made.
pub(super) fn prepare(
    provider: &str,
    kind: ChipKind,
    options: &BTreeMap<String, String>,
    folder: &Path,
) -> Result<Cached, SessionError> {
    let cached = match provider {
        "openvino" => {
            let folder = folder.display().to_string();
            let config = inline_config::with_property(options, kind, "CACHE_DIR", &folder)?;
            Cached {
                options: BTreeMap::from([(inline_config::OPTION.to_owned(), config)]),
                ..Cached::default()
            }
        }
        "qnn" | "vitisai" | "nv_tensorrt_rtx" => {
            let compiled = folder.join(COMPILED_MODEL);
            if compiled.is_file() {
                Cached { model: Some(compiled), ..Cached::default() }
            } else {
                let entries = vec![
                    ("ep.context_enable", "1".to_owned()),
                    ("ep.context_embed_mode", "1".to_owned()),
                    ("ep.context_file_path", compiled.display().to_string()),
                ];
                Cached { entries, ..Cached::default() }
            }
        }
        "webgpu" => {
            return Err(SessionError::Refused(
                "the WebGPU provider keeps its shaders for the life of a process only".to_owned(),
            ));
        }
        other => {
            return Err(SessionError::Refused(format!("the provider {other} has no compile cache")));
        }
    };
    std::fs::create_dir_all(folder).map_err(|error| {
        SessionError::Refused(format!("the compile cache `{}` cannot be made: {error}", folder.display()))
    })?;
    Ok(cached)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn openvino_s_folder_joins_what_the_target_asks_for() {
        let folder = tempfile::tempdir().unwrap();
        let own = r#"{"CPU":{"INFERENCE_PRECISION_HINT":"f32"}}"#.to_owned();
        let options = BTreeMap::from([("load_config".to_owned(), own)]);
        let cached = prepare("openvino", ChipKind::Cpu, &options, &folder.path().join("a/b")).unwrap();
        let config: Value = serde_json::from_str(&cached.options["load_config"]).unwrap();
        assert_eq!(config["CPU"]["INFERENCE_PRECISION_HINT"], "f32");
        assert!(Path::new(config["CPU"]["CACHE_DIR"].as_str().unwrap()).is_dir());
    }

    #[test]
    fn a_compiled_model_is_written_once_and_then_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let first = prepare("qnn", ChipKind::Npu, &BTreeMap::new(), folder.path()).unwrap();
        assert!(first.model.is_none());
        assert_eq!(first.entries[0], ("ep.context_enable", "1".to_owned()));
        std::fs::write(folder.path().join(COMPILED_MODEL), b"compiled").unwrap();
        let second = prepare("qnn", ChipKind::Npu, &BTreeMap::new(), folder.path()).unwrap();
        assert!(second.entries.is_empty() && second.model.is_some());
    }

    #[test]
    fn a_provider_that_keeps_nothing_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for provider in ["webgpu", "ort", "dml"] {
            assert!(prepare(provider, ChipKind::Gpu, &BTreeMap::new(), folder.path()).is_err());
        }
    }
}
