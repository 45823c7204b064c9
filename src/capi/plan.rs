//! Execution plans, variant packs, executions.

use std::collections::BTreeMap;
use std::ffi::c_void;

use cudarc::cudnn::sys::cudnnBackendAttributeName_t as Name;
use cudarc::cudnn::sys::cudnnStatus_t as Status;
use half::{bf16, f16};

use super::descriptor::{self, Given};
use super::failure::{Failure, Result};
use super::handle;
use super::values::Values;
use crate::compile::Request;
use crate::graph::{DataType, Scalar};
use crate::plan::{DevicePointer, ExecutionPlan, VariantPack, WORKSPACE_ALIGNMENT, Workspace};

/// A graph compiled for a device.
pub(super) struct Plan {
    plan: ExecutionPlan,
    /// Host scalars whose values come with the variant pack, by pointers to host memory; with their types.
    scalars: BTreeMap<i64, DataType>,
}

/// Pointers by uids, and a workspace, as they were given.
pub(super) struct Pack {
    pointers: Vec<(i64, usize)>,
    workspace: usize,
}

/// Compiles the kernel of a config, or takes it from the cache, and loads it ([002 9.2.5], X-04).
pub(super) fn plan(given: &Given<'_>) -> Result<Plan> {
    let config = given.required(Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)?.config()?;
    // the frontend leaves the plan's own handle out: that of the graph counts then
    let handle = match given.of(Name::CUDNN_ATTR_EXECUTION_PLAN_HANDLE) {
        Some(Values::Handle(handle)) => Some(handle),
        _ => config.engine.graph.handle.as_ref(),
    };
    let handle = handle.ok_or_else(|| Failure::bad("neither the plan nor its graph has a handle"))?;
    let graph = &config.engine.graph.graph;
    let source = config.engine.source(&config.config)?;
    let capability = handle.context.device().capability;
    let name = config.config.to_string();
    let compiled = handle.compiler.compile(&Request {
        graph: graph.key(),
        engine: config.config.engine,
        config: &name,
        source: &source.text,
        capability,
    });
    let compiled = compiled.map_err(|error| Failure::of_build(&error))?;
    let plan = ExecutionPlan::build(&handle.context, graph, &source, &compiled.cubin);
    let plan = plan.map_err(|error| Failure::of_build(&error))?;
    let tensors = graph.tensors().filter(|tensor| tensor.is_pass_by_value && tensor.value.is_none());
    Ok(Plan { plan, scalars: tensors.map(|tensor| (tensor.uid, tensor.data_type)).collect() })
}

impl Plan {
    pub(super) fn attribute(&self, name: Name) -> Option<Values> {
        let is_size = name == Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE;
        is_size.then(|| Values::Int64(vec![self.reserved() as i64]))
    }

    /// Bytes that callers give: room to align the workspace, since they may not know how.
    fn reserved(&self) -> u64 {
        match self.plan.workspace_bytes() {
            0 => 0,
            bytes => bytes + WORKSPACE_ALIGNMENT,
        }
    }

    /// What the plan takes, of a pack.
    ///
    /// # Safety
    /// Pointers of host scalars point to values of their types.
    unsafe fn arguments(&self, pack: &Pack) -> Result<(VariantPack, Workspace)> {
        let mut arguments = VariantPack::new();
        for &(uid, address) in &pack.pointers {
            match self.scalars.get(&uid) {
                Some(_) if address == 0 => {
                    return Err(Failure::null(&format!("the pointer of the scalar of uid {uid}")));
                }
                // SAFETY: as promised by the caller.
                Some(&data_type) => arguments.set_scalar(uid, unsafe { scalar(data_type, address) }?),
                // SAFETY: device memory is the caller's concern, as the ABI says.
                None => arguments.set_pointer(uid, unsafe { DevicePointer::from_raw(address as u64) }),
            };
        }
        let bytes = self.plan.workspace_bytes();
        if bytes == 0 {
            return Ok((arguments, Workspace::NONE));
        }
        if pack.workspace == 0 {
            return Err(Failure::null("CUDNN_ATTR_VARIANT_PACK_WORKSPACE"));
        }
        let address = (pack.workspace as u64).next_multiple_of(WORKSPACE_ALIGNMENT);
        // SAFETY: the caller gives as many bytes as `reserved` asks for, which leaves room for this.
        Ok((arguments, Workspace { pointer: unsafe { DevicePointer::from_raw(address) }, bytes }))
    }
}

/// A host scalar.
///
/// # Safety
/// The address is that of a value of the type.
unsafe fn scalar(data_type: DataType, address: usize) -> Result<Scalar> {
    let pointer: *const c_void = std::ptr::with_exposed_provenance(address);
    // SAFETY: as promised by the caller; it need not be aligned.
    unsafe {
        Ok(match data_type {
            DataType::Float => Scalar::Float(pointer.cast::<f32>().read_unaligned().into()),
            DataType::Double => Scalar::Float(pointer.cast::<f64>().read_unaligned()),
            DataType::Half => Scalar::Float(f16::from_bits(pointer.cast::<u16>().read_unaligned()).into()),
            DataType::BFloat16 => Scalar::Float(bf16::from_bits(pointer.cast::<u16>().read_unaligned()).into()),
            DataType::Int32 => Scalar::Integer(pointer.cast::<i32>().read_unaligned().into()),
            DataType::Int64 => Scalar::Integer(pointer.cast::<i64>().read_unaligned()),
            DataType::Int8 => Scalar::Integer(pointer.cast::<i8>().read_unaligned().into()),
            DataType::UInt8 => Scalar::Integer(pointer.cast::<u8>().read_unaligned().into()),
            _ => return Err(Failure::unsupported(format!("host scalars of type {data_type}"))),
        })
    }
}

/// The pointers of a pack ([002 9.2.17]).
pub(super) fn pack(given: &Given<'_>) -> Result<Pack> {
    let uids = given.int64s(Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    let addresses = |name: Name| match given.of(name) {
        Some(Values::Pointer(values)) => values.clone(),
        _ => Vec::new(),
    };
    let pointers = addresses(Name::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    if uids.len() != pointers.len() {
        return Err(Failure::bad(format!("{} uids and {} pointers", uids.len(), pointers.len())));
    }
    let mut sorted = uids.clone();
    sorted.sort_unstable();
    if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        let message = format!("the uid {} has two pointers", pair[0]);
        return Err(Failure::new(Status::CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES, message));
    }
    let workspace = addresses(Name::CUDNN_ATTR_VARIANT_PACK_WORKSPACE).first().copied().unwrap_or(0);
    Ok(Pack { pointers: uids.into_iter().zip(pointers).collect(), workspace })
}

/// Puts one execution of a plan on the stream of a handle.
///
/// # Safety
/// The pointers of the pack are what its uids ask for.
pub(super) unsafe fn execute(handle: *mut c_void, plan: *mut c_void, pack: *mut c_void) -> Result<()> {
    let handle = handle::find(handle)?;
    let plan = descriptor::find(plan)?.plan()?;
    let pack = descriptor::find(pack)?.pack()?;
    // SAFETY: as promised by the caller.
    let (arguments, workspace) = unsafe { plan.arguments(&pack) }?;
    plan.plan.execute(&arguments, workspace, &handle.stream()).map_err(|error| Failure::of_execution(&error))
}
