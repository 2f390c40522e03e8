//! Reading through the public interface: hostile bytes, and published models behind a feature.

mod hostile;
#[cfg(feature = "wheel-models")]
mod wheel_models;
