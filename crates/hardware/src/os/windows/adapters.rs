//! GPUs from DXGI, NPUs from the Plug and Play manager.
//!
//! Invariant: a display driver that hangs costs three seconds, not the program.

use std::sync::mpsc;
use std::time::Duration;

use siliconroute_core::ChipKind;
use windows::Wdk::Graphics::Direct3D::{
    D3DKMT_ADAPTERADDRESS, D3DKMT_CLOSEADAPTER, D3DKMT_OPENADAPTERFROMLUID, D3DKMT_QUERYADAPTERINFO,
    D3DKMTCloseAdapter, D3DKMTOpenAdapterFromLuid, D3DKMTQueryAdapterInfo, KMTQAITYPE_ADAPTERADDRESS,
};
use windows::Win32::Devices::DeviceAndDriverInstallation::{
    CM_DRP_ADDRESS, CM_DRP_BUSNUMBER, CM_DRP_DEVICEDESC, CM_DRP_DRIVER, CM_DRP_FRIENDLYNAME, CM_DRP_MFG,
    CM_GETIDLIST_FILTER_CLASS, CM_GETIDLIST_FILTER_PRESENT, CM_Get_DevNode_Registry_PropertyW,
    CM_Get_Device_ID_List_SizeW, CM_Get_Device_ID_ListW, CM_LOCATE_DEVNODE_NORMAL, CM_Locate_DevNodeW,
    CR_SUCCESS,
};
use windows::Win32::Foundation::{LUID, STATUS_SUCCESS};
use windows::Win32::Graphics::Dxgi::{CreateDXGIFactory1, IDXGIAdapter1, IDXGIDevice, IDXGIFactory1};
use windows::core::{HSTRING, Interface};

use super::registry;
use crate::chips::{Adapter, Gap};
use crate::host::HostFacts;
use crate::windows_facts::{DxgiAdapter, PnpDevice, describe_adapter, describe_npu};

const DXGI_TIME_LIMIT: Duration = Duration::from_secs(3);
/// DXGI ends its list with an error; this ends it when a driver does not.
const ADAPTER_LIMIT: u32 = 64;
/// The device class `ComputeAccelerator`, which NPUs register in.
pub(super) const ACCELERATOR_CLASS: &str = "{f01a9d53-3ff6-48d2-9f97-c8a7004be10c}";
/// More text than the ids of all devices of one class have.
const ID_LIST_UNITS: u32 = 1 << 20;
const PROPERTY_UNITS: usize = 512;

pub(crate) fn find_adapters(_host: &HostFacts) -> (Vec<Adapter>, Vec<Gap>) {
    let (gpus, gpu_reason) = gpus();
    let npus: Vec<Adapter> = npus().iter().map(describe_npu).collect();
    let gaps = vec![
        Gap { kind: ChipKind::Gpu, reason: gpu_reason, source: "DXGI".to_owned() },
        Gap {
            kind: ChipKind::Npu,
            reason: "no NPU in Windows' device class ComputeAccelerator".to_owned(),
            source: "Plug and Play".to_owned(),
        },
    ];
    (gpus.into_iter().chain(npus).collect(), gaps)
}

fn gpus() -> (Vec<Adapter>, String) {
    let (sender, receiver) = mpsc::channel();
    let asker = std::thread::Builder::new().name("dxgi".to_owned()).spawn(move || {
        // The receiver may have given up; the answer is then of no use to anyone.
        drop(sender.send(ask_dxgi()));
    });
    if let Err(error) = asker {
        return (Vec::new(), format!("DXGI was not asked, for want of a thread: {error}"));
    }
    match receiver.recv_timeout(DXGI_TIME_LIMIT) {
        Ok(Ok(found)) => {
            let adapters = found
                .iter()
                .enumerate()
                .map(|(position, adapter)| describe_adapter(adapter, position))
                .collect();
            (adapters, "DXGI lists no adapter".to_owned())
        }
        Ok(Err(error)) => (Vec::new(), format!("DXGI failed: {error}")),
        Err(_) => (Vec::new(), format!("DXGI did not answer within {} seconds", DXGI_TIME_LIMIT.as_secs())),
    }
}

fn ask_dxgi() -> windows::core::Result<Vec<DxgiAdapter>> {
    // SAFETY: the call has no preconditions; the object counts its own references.
    let factory: IDXGIFactory1 = unsafe { CreateDXGIFactory1() }?;
    let mut found = Vec::new();
    for position in 0..ADAPTER_LIMIT {
        // SAFETY: the factory is alive; a position past the end is an error, not a fault.
        let Ok(adapter) = (unsafe { factory.EnumAdapters1(position) }) else { break };
        found.extend(describe(&adapter));
    }
    Ok(found)
}

fn describe(adapter: &IDXGIAdapter1) -> Option<DxgiAdapter> {
    // SAFETY: the adapter is alive.
    let description = unsafe { adapter.GetDesc1() }.ok()?;
    let device = IDXGIDevice::IID;
    // SAFETY: the adapter is alive, and the id outlives the call.
    let driver = unsafe { adapter.CheckInterfaceSupport(&raw const device) }.ok();
    let LUID { LowPart: low, HighPart: high } = description.AdapterLuid;
    Some(DxgiAdapter {
        description: description.Description.to_vec(),
        vendor: description.VendorId,
        device: description.DeviceId,
        subsystem: description.SubSysId,
        dedicated_bytes: description.DedicatedVideoMemory as u64,
        luid: u64::from(high.cast_unsigned()) << 32 | u64::from(low),
        flags: description.Flags,
        driver,
        place: place(description.AdapterLuid),
    })
}

/// Bus, device and function of an adapter, from the kernel's side of the display driver.
pub(super) fn place(luid: LUID) -> Option<(u32, u32, u32)> {
    let mut open = D3DKMT_OPENADAPTERFROMLUID { AdapterLuid: luid, hAdapter: 0 };
    // SAFETY: the structure is read and written once.
    if unsafe { D3DKMTOpenAdapterFromLuid(&raw mut open) } != STATUS_SUCCESS {
        return None;
    }
    let mut address = D3DKMT_ADAPTERADDRESS::default();
    let mut query = D3DKMT_QUERYADAPTERINFO {
        hAdapter: open.hAdapter,
        Type: KMTQAITYPE_ADAPTERADDRESS,
        pPrivateDriverData: (&raw mut address).cast(),
        PrivateDriverDataSize: size_of::<D3DKMT_ADAPTERADDRESS>() as u32,
    };
    // SAFETY: the query names an open adapter and memory of the type and size that it asks for.
    let answered = unsafe { D3DKMTQueryAdapterInfo(&raw mut query) } == STATUS_SUCCESS;
    let close = D3DKMT_CLOSEADAPTER { hAdapter: open.hAdapter };
    // SAFETY: the handle was opened above and is not used again. A failure leaves nothing to do.
    let _closed = unsafe { D3DKMTCloseAdapter(&raw const close) };
    // Adapters that are not on a bus answer with all ones.
    (answered && address.BusNumber != u32::MAX).then_some((
        address.BusNumber,
        address.DeviceNumber,
        address.FunctionNumber,
    ))
}

fn npus() -> Vec<PnpDevice> {
    let class = HSTRING::from(ACCELERATOR_CLASS);
    let present = CM_GETIDLIST_FILTER_CLASS | CM_GETIDLIST_FILTER_PRESENT;
    let mut units = 0;
    // SAFETY: the call writes one number.
    if unsafe { CM_Get_Device_ID_List_SizeW(&raw mut units, &class, present) } != CR_SUCCESS {
        return Vec::new();
    }
    let mut list = vec![0_u16; units.clamp(1, ID_LIST_UNITS) as usize];
    // SAFETY: the buffer's length travels with it.
    if unsafe { CM_Get_Device_ID_ListW(&class, &mut list, present) } != CR_SUCCESS {
        return Vec::new();
    }
    list.split(|unit| *unit == 0)
        .filter(|id| !id.is_empty())
        .filter_map(|id| describe_device(&String::from_utf16_lossy(id)))
        .collect()
}

fn describe_device(instance: &str) -> Option<PnpDevice> {
    let mut node = 0;
    // SAFETY: the call writes one number.
    let located =
        unsafe { CM_Locate_DevNodeW(&raw mut node, &HSTRING::from(instance), CM_LOCATE_DEVNODE_NORMAL) };
    if located != CR_SUCCESS {
        return None;
    }
    let driver_key = text_property(node, CM_DRP_DRIVER);
    Some(PnpDevice {
        instance: instance.to_owned(),
        name: text_property(node, CM_DRP_FRIENDLYNAME).or_else(|| text_property(node, CM_DRP_DEVICEDESC)),
        maker: text_property(node, CM_DRP_MFG),
        driver_version: driver_key.and_then(|key| {
            registry::text(&format!(r"SYSTEM\CurrentControlSet\Control\Class\{key}"), "DriverVersion")
        }),
        bus: number_property(node, CM_DRP_BUSNUMBER),
        address: number_property(node, CM_DRP_ADDRESS),
    })
}

fn text_property(node: u32, property: u32) -> Option<String> {
    let mut units = [0_u16; PROPERTY_UNITS];
    let mut bytes = size_of_val(&units) as u32;
    // SAFETY: the buffer has the length stated, in bytes.
    let status = unsafe {
        CM_Get_DevNode_Registry_PropertyW(
            node,
            property,
            None,
            Some(units.as_mut_ptr().cast()),
            &raw mut bytes,
            0,
        )
    };
    let text = String::from_utf16_lossy(units.split(|unit| *unit == 0).next()?);
    (status == CR_SUCCESS && !text.is_empty()).then_some(text)
}

fn number_property(node: u32, property: u32) -> Option<u32> {
    let mut number = 0_u32;
    let mut bytes = size_of::<u32>() as u32;
    // SAFETY: the number has the length stated.
    let status = unsafe {
        CM_Get_DevNode_Registry_PropertyW(
            node,
            property,
            None,
            Some((&raw mut number).cast()),
            &raw mut bytes,
            0,
        )
    };
    (status == CR_SUCCESS).then_some(number)
}
