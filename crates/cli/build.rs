//! Gives the Windows program its manifest: long paths, UTF-8 as code page, no administrator rights.
//!
//! Invariant: nothing else is built here, and nothing at all for other systems.

use std::env;
use std::error::Error;

use embed_manifest::manifest::{ActiveCodePage, ExecutionLevel, Setting, SupportedOS};
use embed_manifest::{embed_manifest, empty_manifest};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    if env::var_os("CARGO_CFG_WINDOWS").is_none() {
        return Ok(());
    }
    let manifest = empty_manifest()
        .name("SiliconRoute")
        .version(
            env!("CARGO_PKG_VERSION_MAJOR").parse()?,
            env!("CARGO_PKG_VERSION_MINOR").parse()?,
            env!("CARGO_PKG_VERSION_PATCH").parse()?,
            0,
        )
        .supported_os(SupportedOS::Windows10..=SupportedOS::Windows10)
        // Engines take the paths of models and caches as plain text, which would lose letters of a user's name.
        .active_code_page(ActiveCodePage::Utf8)
        .long_path_aware(Setting::Enabled)
        .requested_execution_level(ExecutionLevel::AsInvoker);
    embed_manifest(manifest)?;
    Ok(())
}
