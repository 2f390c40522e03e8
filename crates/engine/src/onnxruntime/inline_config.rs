//! OpenVINO's inline configuration: properties of its devices, as one JSON text in a provider option.
//!
//! Invariant: a property joins those that the target asks for already; none of them is lost.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use siliconroute_core::ChipKind;

use crate::session::SessionError;

/// The provider option that holds the configuration.
pub(super) const OPTION: &str = "load_config";

/// The configuration in `options` with one more property for the device of that kind.
///
/// # Errors
/// When the configuration that there is cannot be read.
pub(super) fn with_property(
    options: &BTreeMap<String, String>,
    kind: ChipKind,
    property: &str,
    value: &str,
) -> Result<String, SessionError> {
    let unreadable =
        |reason: String| SessionError::Refused(format!("the target's `{OPTION}` is unreadable: {reason}"));
    let mut devices: Map<String, Value> = match options.get(OPTION) {
        Some(text) => serde_json::from_str(text).map_err(|error| unreadable(error.to_string()))?,
        None => Map::new(),
    };
    let device = match kind {
        ChipKind::Cpu => "CPU",
        ChipKind::Gpu => "GPU",
        ChipKind::Npu => "NPU",
    };
    let properties = devices.entry(device).or_insert_with(|| Value::Object(Map::new()));
    let properties =
        properties.as_object_mut().ok_or_else(|| unreadable(format!("{device} is no object")))?;
    properties.insert(property.to_owned(), Value::String(value.to_owned()));
    Ok(Value::Object(devices).to_string())
}
