//! GPUs from DXGI and the display kernel, devices from the Plug and Play manager.
//!
//! Invariant: neither needs COM to be set up in the calling thread, and one that hangs costs three seconds, once.

use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use siliconroute_core::Reading;
use siliconroute_core::chip::ListedAdapter;
use windows::Wdk::Graphics::Direct3D::{
    D3DKMT_ADAPTERADDRESS, D3DKMT_CLOSEADAPTER, D3DKMT_OPENADAPTERFROMLUID, D3DKMT_PNP_KEY_HARDWARE,
    D3DKMT_QUERY_PHYSICAL_ADAPTER_PNP_KEY, D3DKMT_QUERYADAPTERINFO, D3DKMTCloseAdapter,
    D3DKMTOpenAdapterFromLuid, D3DKMTQueryAdapterInfo, KMTQAITYPE_ADAPTERADDRESS,
    KMTQAITYPE_PHYSICALADAPTERPNPKEY, KMTQUERYADAPTERINFOTYPE,
};
use windows::Win32::Devices::DeviceAndDriverInstallation::{
    CM_DEVNODE_STATUS_FLAGS, CM_DRP_ADDRESS, CM_DRP_BUSNUMBER, CM_DRP_DEVICEDESC, CM_DRP_DRIVER,
    CM_DRP_FRIENDLYNAME, CM_DRP_MFG, CM_GETIDLIST_FILTER_CLASS, CM_GETIDLIST_FILTER_PRESENT,
    CM_Get_DevNode_Registry_PropertyW, CM_Get_DevNode_Status, CM_Get_Device_ID_List_SizeW,
    CM_Get_Device_ID_ListW, CM_LOCATE_DEVNODE_NORMAL, CM_Locate_DevNodeW, CM_PROB, CR_SUCCESS,
    DN_HAS_PROBLEM,
};
use windows::Win32::Foundation::{E_POINTER, LUID, STATUS_SUCCESS};
use windows::Win32::Graphics::Dxgi::{IDXGIAdapter1, IDXGIDevice, IDXGIFactory1};
use windows::Win32::System::LibraryLoader::{GetProcAddress, LOAD_LIBRARY_SEARCH_SYSTEM32, LoadLibraryExW};
use windows::core::{Error, GUID, HRESULT, HSTRING, Interface, PWSTR, s, w};

use super::registry;
use crate::chips::{Adapter, Gap};
use crate::guard::Watched;
use crate::windows_adapters::{AdapterAnswers, DxgiAdapter, PnpDevice};

const TIME_LIMIT: Duration = Duration::from_secs(3);
static DXGI: Mutex<Watched<()>> = Mutex::new(Watched::new("DXGI", TIME_LIMIT, || ()));
static PLUG_AND_PLAY: Mutex<Watched<()>> =
    Mutex::new(Watched::new("the Plug and Play manager", TIME_LIMIT, || ()));
/// DXGI ends its list with an error; this ends it when a driver does not.
const ADAPTER_LIMIT: u32 = 64;
/// How often the list is read again because an adapter came or went meanwhile.
const ATTEMPTS: u32 = 3;
/// The device class `ComputeAccelerator`, which NPUs register in.
pub(super) const ACCELERATOR_CLASS: &str = "{f01a9d53-3ff6-48d2-9f97-c8a7004be10c}";
/// More text than the ids of all devices of one class have.
const ID_LIST_UNITS: u32 = 1 << 20;
const PROPERTY_UNITS: usize = 512;
/// Longer than the registry key of a device may be.
const KEY_UNITS: usize = 1024;

pub(crate) fn find_adapters(_cpu_name: Option<&str>) -> (Vec<Adapter>, Vec<Gap>) {
    ask().adapters()
}

pub(crate) fn listed_adapters() -> Reading<Vec<ListedAdapter>> {
    ask().listed()
}

fn ask() -> AdapterAnswers {
    let dxgi = DXGI.lock().unwrap_or_else(PoisonError::into_inner).ask(|()| ask_dxgi());
    let dxgi = dxgi.and_then(|answer| match answer {
        Ok(adapters) => Reading::Available(adapters),
        Err(error) => Reading::unavailable(format!("DXGI failed: {error}")),
    });
    let [displays, accelerators] = [super::DRIVER_CLASSES[0], ACCELERATOR_CLASS].map(|class| {
        let mut manager = PLUG_AND_PLAY.lock().unwrap_or_else(PoisonError::into_inner);
        manager.ask(move |()| devices(class)).and_then(|devices| devices)
    });
    AdapterAnswers { dxgi, displays, accelerators }
}

fn ask_dxgi() -> windows::core::Result<Vec<DxgiAdapter>> {
    let mut found = Vec::new();
    for _ in 0..ATTEMPTS {
        found.clear();
        let factory = make_factory()?;
        for position in 0..ADAPTER_LIMIT {
            // SAFETY: the factory is alive; a position past the end is an error, not a fault.
            let Ok(adapter) = (unsafe { factory.EnumAdapters1(position) }) else { break };
            found.extend(describe(&adapter, position));
        }
        // SAFETY: the factory is alive.
        if unsafe { factory.IsCurrent() }.as_bool() {
            break;
        }
    }
    Ok(found)
}

/// Makes the object that lists adapters.
///
/// DXGI is loaded here and not with the program: it brings the system's drawing code with it, which a worker, or a
/// command that asks for no adapter, would load for nothing, and a Windows without it could not start the program.
fn make_factory() -> windows::core::Result<IDXGIFactory1> {
    type Create = unsafe extern "system" fn(*const GUID, *mut *mut c_void) -> HRESULT;
    // SAFETY: the name ends with a zero, and the system's own folder is the only one that is searched.
    let library = unsafe { LoadLibraryExW(w!("dxgi.dll"), None, LOAD_LIBRARY_SEARCH_SYSTEM32) }?;
    // SAFETY: the library is loaded and is never unloaded; the name ends with a zero.
    let function = unsafe { GetProcAddress(library, s!("CreateDXGIFactory1")) };
    let function = function.ok_or_else(Error::from_thread)?;
    // SAFETY: this is the signature that Windows' headers give the function.
    let create: Create = unsafe { std::mem::transmute(function) };
    let mut factory = std::ptr::null_mut();
    // SAFETY: both pointers are valid for the call.
    unsafe { create(&IDXGIFactory1::IID, &raw mut factory) }.ok()?;
    if factory.is_null() {
        return Err(E_POINTER.into());
    }
    // SAFETY: a call that succeeds hands over one reference to an object of the type asked for.
    Ok(unsafe { IDXGIFactory1::from_raw(factory) })
}

fn describe(adapter: &IDXGIAdapter1, position: u32) -> Option<DxgiAdapter> {
    // SAFETY: the adapter is alive.
    let description = unsafe { adapter.GetDesc1() }.ok()?;
    let device = IDXGIDevice::IID;
    // SAFETY: the adapter is alive, and the id outlives the call.
    let driver = unsafe { adapter.CheckInterfaceSupport(&raw const device) }.ok();
    let LUID { LowPart: low, HighPart: high } = description.AdapterLuid;
    let (place, registry_key) = place(description.AdapterLuid);
    Some(DxgiAdapter {
        position,
        description: description.Description.to_vec(),
        vendor: description.VendorId,
        device: description.DeviceId,
        subsystem: description.SubSysId,
        dedicated_bytes: description.DedicatedVideoMemory as u64,
        luid: u64::from(high.cast_unsigned()) << 32 | u64::from(low),
        flags: description.Flags,
        driver,
        place,
        registry_key,
    })
}

/// Bus, device and function of an adapter and the registry key of its device, from the kernel's side of the display
/// driver.
pub(super) fn place(luid: LUID) -> (Option<(u32, u32, u32)>, Option<String>) {
    let mut open = D3DKMT_OPENADAPTERFROMLUID { AdapterLuid: luid, hAdapter: 0 };
    // SAFETY: the structure is read and written once.
    if unsafe { D3DKMTOpenAdapterFromLuid(&raw mut open) } != STATUS_SUCCESS {
        return (None, None);
    }
    let mut address = D3DKMT_ADAPTERADDRESS::default();
    // SAFETY: the question wants a structure of this type.
    let told = unsafe { query(open.hAdapter, KMTQAITYPE_ADAPTERADDRESS, &mut address) };
    // Adapters that are not on a bus answer with all ones.
    let place = (told && address.BusNumber != u32::MAX).then_some((
        address.BusNumber,
        address.DeviceNumber,
        address.FunctionNumber,
    ));
    let registry_key = registry_key(open.hAdapter);
    let close = D3DKMT_CLOSEADAPTER { hAdapter: open.hAdapter };
    // SAFETY: the handle was opened above and is not used again. A failure leaves nothing to do.
    let _closed = unsafe { D3DKMTCloseAdapter(&raw const close) };
    (place, registry_key)
}

fn registry_key(adapter: u32) -> Option<String> {
    let mut units = vec![0_u16; KEY_UNITS];
    let mut length = KEY_UNITS as u32;
    let mut question = D3DKMT_QUERY_PHYSICAL_ADAPTER_PNP_KEY {
        PhysicalAdapterIndex: 0,
        PnPKeyType: D3DKMT_PNP_KEY_HARDWARE,
        pDest: PWSTR(units.as_mut_ptr()),
        pCchDest: &raw mut length,
    };
    // SAFETY: the question wants a structure of this type, whose text has room for the length that it states.
    let told = unsafe { query(adapter, KMTQAITYPE_PHYSICALADAPTERPNPKEY, &mut question) };
    let text = units.split(|unit| *unit == 0).next().map(String::from_utf16_lossy)?;
    (told && !text.is_empty()).then_some(text)
}

/// Asks the kernel one question about an open adapter.
///
/// # Safety
/// `answer` must be of the type that the question wants.
unsafe fn query<T>(adapter: u32, question: KMTQUERYADAPTERINFOTYPE, answer: &mut T) -> bool {
    let mut query = D3DKMT_QUERYADAPTERINFO {
        hAdapter: adapter,
        Type: question,
        pPrivateDriverData: std::ptr::from_mut(answer).cast(),
        PrivateDriverDataSize: size_of::<T>() as u32,
    };
    // SAFETY: the query names an open adapter and memory of the size stated, whose type the caller vouches for.
    unsafe { D3DKMTQueryAdapterInfo(&raw mut query) == STATUS_SUCCESS }
}

/// The devices of a class that are there.
fn devices(class: &str) -> Reading<Vec<PnpDevice>> {
    let class = HSTRING::from(class);
    let present = CM_GETIDLIST_FILTER_CLASS | CM_GETIDLIST_FILTER_PRESENT;
    let mut units = 0;
    // SAFETY: the call writes one number.
    let mut status = unsafe { CM_Get_Device_ID_List_SizeW(&raw mut units, &class, present) };
    let mut list = vec![0_u16; units.clamp(1, ID_LIST_UNITS) as usize];
    if status == CR_SUCCESS {
        // SAFETY: the buffer's length travels with it.
        status = unsafe { CM_Get_Device_ID_ListW(&class, &mut list, present) };
    }
    if status != CR_SUCCESS {
        return Reading::unavailable(format!("the Plug and Play manager failed with error {:#x}", status.0));
    }
    Reading::Available(
        list.split(|unit| *unit == 0)
            .filter(|id| !id.is_empty())
            .filter_map(|id| describe_device(&String::from_utf16_lossy(id)))
            .collect(),
    )
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
        problem: problem(node),
    })
}

fn problem(node: u32) -> Option<u32> {
    let (mut status, mut problem) = (CM_DEVNODE_STATUS_FLAGS::default(), CM_PROB::default());
    // SAFETY: the call writes two numbers.
    let asked = unsafe { CM_Get_DevNode_Status(&raw mut status, &raw mut problem, node, 0) };
    (asked == CR_SUCCESS && status.0 & DN_HAS_PROBLEM.0 != 0).then_some(problem.0)
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
