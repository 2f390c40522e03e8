//! Proof of placement: which provider took which nodes, as the session itself reports.

#![expect(unsafe_code, reason = "the safe wrapper does not cover this part of ONNX Runtime's interface")]

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::ptr;

use ort::AsPointer;
use ort::session::Session;
use siliconroute_core::trial::Placement;
use siliconroute_core::{ProviderName, Reading};

use crate::session::one_line;

/// Session configuration that makes a session record its placement.
pub(super) const RECORD_KEY: &str = "session.record_ep_graph_assignment_info";

/// Reads which nodes run on the provider registered as `registered_name` and which elsewhere.
pub(super) fn read(session: &Session, registered_name: &str) -> Reading<Placement> {
    match nodes_by_provider(session) {
        Ok(nodes) if nodes.is_empty() => {
            Reading::unavailable("the session reports no nodes: the graph was folded to constants")
        }
        Ok(mut nodes) => {
            let on_target = nodes.remove(registered_name).unwrap_or(0);
            let fallback = nodes
                .into_iter()
                .map(|(name, count)| (ProviderName::parse(&name).to_string(), count))
                .collect();
            Reading::Available(Placement { on_target, fallback })
        }
        Err(error) => Reading::unavailable(one_line(&error)),
    }
}

fn nodes_by_provider(session: &Session) -> ort::Result<BTreeMap<String, u64>> {
    let api = ort::api();
    let (mut subgraphs, mut count) = (ptr::null(), 0_usize);
    // SAFETY: the session is alive; the other arguments are places to write to.
    let status =
        unsafe { (api.Session_GetEpGraphAssignmentInfo)(session.ptr(), &raw mut subgraphs, &raw mut count) };
    // SAFETY: the status was just returned by the call above.
    unsafe { ort::Error::result_from_status(status) }?;
    let mut nodes = BTreeMap::new();
    for index in 0..count {
        // SAFETY: the session filled the array with `count` entries, which it owns.
        let subgraph = unsafe { *subgraphs.add(index) };
        let mut name = ptr::null();
        // SAFETY: the subgraph belongs to the session; `name` is a place to write to.
        let status = unsafe { (api.EpAssignedSubgraph_GetEpName)(subgraph, &raw mut name) };
        // SAFETY: the status was just returned by the call above.
        unsafe { ort::Error::result_from_status(status) }?;
        let (mut assigned, mut assigned_count) = (ptr::null(), 0_usize);
        // SAFETY: as for the name.
        let status = unsafe {
            (api.EpAssignedSubgraph_GetNodes)(subgraph, &raw mut assigned, &raw mut assigned_count)
        };
        // SAFETY: the status was just returned by the call above.
        unsafe { ort::Error::result_from_status(status) }?;
        // SAFETY: a successful call left a string that ends in a zero byte and belongs to the session.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
        *nodes.entry(name).or_default() += assigned_count as u64;
    }
    Ok(nodes)
}
