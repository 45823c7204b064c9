//! Every name that `libcudnn.so.9` exports, each a jump to where its slot says.
//!
//! The names are those of cuDNN 9.0 to 9.28. A slot holds a function of [`fusewright::capi`] where there is one, else one that
//! says "not supported"; `forward` fills them anew where a real library is there. A jump leaves registers and
//! stack as the caller made them, so that no signature is said here.

use std::arch::naked_asm;
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// `CUDNN_STATUS_NOT_SUPPORTED`.
pub(crate) const NOT_SUPPORTED: u32 = 3000;

/// What a name stands for that is no function of ours, without a real library that has it.
extern "C" fn unsupported() -> u32 {
    NOT_SUPPORTED
}

/// The same of a function that gives a size.
extern "C" fn nothing() -> usize {
    0
}

/// Where a jump goes.
pub(crate) struct Slot(AtomicPtr<c_void>);

impl Slot {
    const fn new(function: *const ()) -> Self {
        Self(AtomicPtr::new(function.cast::<c_void>().cast_mut()))
    }

    /// Has the name jump to a function of its signature from now on.
    pub(crate) fn fill(&self, function: *const c_void) {
        self.0.store(function.cast_mut(), Ordering::Release);
    }
}

/// The slot of a name.
pub(crate) fn slot(name: &CStr) -> Option<&'static Slot> {
    NAMES.iter().position(|known| *known == name).map(|place| &SLOTS[place])
}

/// Makes `NAMES`, `SLOTS` and the exported functions. `ours` are functions of [`fusewright::capi`]; `sizes` give a size, the
/// others a status.
macro_rules! exports {
    (ours { $($ours:ident)* } sizes { $($size:ident)* } others { $($other:ident)* }) => {
        /// The places of the names.
        #[expect(non_camel_case_types, reason = "names of the ABI")]
        enum Place {
            $($ours,)*
            $($size,)*
            $($other,)*
            End,
        }

        const COUNT: usize = Place::End as usize;

        /// The names, in the order of their slots.
        pub(crate) static NAMES: [&CStr; COUNT] = [
            $(name(concat!(stringify!($ours), "\0")),)*
            $(name(concat!(stringify!($size), "\0")),)*
            $(name(concat!(stringify!($other), "\0")),)*
        ];

        /// Where each name jumps to.
        static SLOTS: [Slot; COUNT] = [
            $(Slot::new(fusewright::capi::$ours as *const ()),)*
            $({ let _ = Place::$size; Slot::new(nothing as *const ()) },)*
            $({ let _ = Place::$other; Slot::new(unsupported as *const ()) },)*
        ];

        $(jump!($ours);)*
        $(jump!($size);)*
        $(jump!($other);)*
    };
}

/// A name with its zero byte.
const fn name(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("a name ends with its only zero byte"),
    }
}

/// An exported function that jumps to where its slot says.
macro_rules! jump {
    ($function:ident) => {
        #[doc = concat!("cuDNN's `", stringify!($function), "`.")]
        ///
        /// # Safety
        /// As cuDNN documents it; it is called with that function's signature.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $function() {
            #[cfg(target_arch = "x86_64")]
            naked_asm!(
                "jmp qword ptr [rip + {slots} + {offset}]",
                slots = sym SLOTS,
                offset = const Place::$function as usize * size_of::<Slot>(),
            );
            #[cfg(target_arch = "aarch64")]
            naked_asm!(
                "adrp x16, {slots} + {offset}",
                "ldr x16, [x16, :lo12:{slots} + {offset}]",
                "br x16",
                slots = sym SLOTS,
                offset = const Place::$function as usize * size_of::<Slot>(),
            );
        }
    };
}

exports! {
    ours {
        cudnnCreate
        cudnnDestroy
        cudnnSetStream
        cudnnGetStream
        cudnnBackendCreateDescriptor
        cudnnBackendDestroyDescriptor
        cudnnBackendInitialize
        cudnnBackendSetAttribute
        cudnnBackendGetAttribute
        cudnnBackendFinalize
        cudnnBackendExecute
        cudnnBackendPopulateCudaGraph
        cudnnBackendUpdateCudaGraph
        cudnnSetCallback
        cudnnGetCallback
        cudnnGetVersion
        cudnnGetCudartVersion
        cudnnGetProperty
        cudnnGraphVersionCheck
        cudnnGetErrorString
        cudnnGetLastErrorString
        cudnnCreateFilterDescriptor
        cudnnDestroyFilterDescriptor
        cudnnSetFilterNdDescriptor
        cudnnReorderFilterAndBias
    }
    sizes {
        cudnnGetMaxDeviceVersion
    }
    others {
        cudnnActivationBackward
        cudnnActivationForward
        cudnnAddTensor
        cudnnAdvVersionCheck
        cudnnB2BCausalConv1dBackward
        cudnnB2BCausalConv1dForward
        cudnnBatchNormalizationBackward
        cudnnBatchNormalizationBackwardEx
        cudnnBatchNormalizationForwardInference
        cudnnBatchNormalizationForwardTraining
        cudnnBatchNormalizationForwardTrainingEx
        cudnnBuildRNNDynamic
        cudnnCTCLoss
        cudnnCTCLoss_v8
        cudnnCausalConv1dBackward
        cudnnCausalConv1dForward
        cudnnCausalConv1dNwhBackward
        cudnnCausalConv1dNwhForward
        cudnnCnnVersionCheck
        cudnnConvolutionBackwardBias
        cudnnConvolutionBackwardData
        cudnnConvolutionBackwardFilter
        cudnnConvolutionBiasActivationForward
        cudnnConvolutionForward
        cudnnCreateActivationDescriptor
        cudnnCreateAttnDescriptor
        cudnnCreateCTCLossDescriptor
        cudnnCreateConvolutionDescriptor
        cudnnCreateDropoutDescriptor
        cudnnCreateFusedOpsConstParamPack
        cudnnCreateFusedOpsPlan
        cudnnCreateFusedOpsVariantParamPack
        cudnnCreateLRNDescriptor
        cudnnCreateOpTensorDescriptor
        cudnnCreatePoolingDescriptor
        cudnnCreateRNNDataDescriptor
        cudnnCreateRNNDescriptor
        cudnnCreateReduceTensorDescriptor
        cudnnCreateSeqDataDescriptor
        cudnnCreateSpatialTransformerDescriptor
        cudnnCreateTensorDescriptor
        cudnnCreateTensorTransformDescriptor
        cudnnDeriveBNTensorDescriptor
        cudnnDeriveNormTensorDescriptor
        cudnnDestroyActivationDescriptor
        cudnnDestroyAttnDescriptor
        cudnnDestroyCTCLossDescriptor
        cudnnDestroyConvolutionDescriptor
        cudnnDestroyDropoutDescriptor
        cudnnDestroyFusedOpsConstParamPack
        cudnnDestroyFusedOpsPlan
        cudnnDestroyFusedOpsVariantParamPack
        cudnnDestroyLRNDescriptor
        cudnnDestroyOpTensorDescriptor
        cudnnDestroyPoolingDescriptor
        cudnnDestroyRNNDataDescriptor
        cudnnDestroyRNNDescriptor
        cudnnDestroyReduceTensorDescriptor
        cudnnDestroySeqDataDescriptor
        cudnnDestroySpatialTransformerDescriptor
        cudnnDestroyTensorDescriptor
        cudnnDestroyTensorTransformDescriptor
        cudnnDivisiveNormalizationBackward
        cudnnDivisiveNormalizationForward
        cudnnDropoutBackward
        cudnnDropoutForward
        cudnnDropoutGetReserveSpaceSize
        cudnnDropoutGetStatesSize
        cudnnFFTCausalConv1dBackward
        cudnnFFTCausalConv1dForward
        cudnnFindConvolutionBackwardDataAlgorithm
        cudnnFindConvolutionBackwardDataAlgorithmEx
        cudnnFindConvolutionBackwardFilterAlgorithm
        cudnnFindConvolutionBackwardFilterAlgorithmEx
        cudnnFindConvolutionForwardAlgorithm
        cudnnFindConvolutionForwardAlgorithmEx
        cudnnFusedOpsExecute
        cudnnGetActivationDescriptor
        cudnnGetActivationDescriptorSwishBeta
        cudnnGetAttnDescriptor
        cudnnGetBackdoor
        cudnnGetBatchNormalizationBackwardExWorkspaceSize
        cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize
        cudnnGetBatchNormalizationTrainingExReserveSpaceSize
        cudnnGetCTCLossDescriptor
        cudnnGetCTCLossDescriptorEx
        cudnnGetCTCLossDescriptor_v8
        cudnnGetCTCLossDescriptor_v9
        cudnnGetCTCLossWorkspaceSize
        cudnnGetCTCLossWorkspaceSize_v8
        cudnnGetConvolution2dDescriptor
        cudnnGetConvolution2dForwardOutputDim
        cudnnGetConvolutionBackwardDataAlgorithmMaxCount
        cudnnGetConvolutionBackwardDataAlgorithm_v7
        cudnnGetConvolutionBackwardDataWorkspaceSize
        cudnnGetConvolutionBackwardFilterAlgorithmMaxCount
        cudnnGetConvolutionBackwardFilterAlgorithm_v7
        cudnnGetConvolutionBackwardFilterWorkspaceSize
        cudnnGetConvolutionForwardAlgorithmMaxCount
        cudnnGetConvolutionForwardAlgorithm_v7
        cudnnGetConvolutionForwardWorkspaceSize
        cudnnGetConvolutionGroupCount
        cudnnGetConvolutionMathType
        cudnnGetConvolutionNdDescriptor
        cudnnGetConvolutionNdForwardOutputDim
        cudnnGetConvolutionReorderType
        cudnnGetDropoutDescriptor
        cudnnGetExecutionPlanWorkspaceSize
        cudnnGetFilter4dDescriptor
        cudnnGetFilterNdDescriptor
        cudnnGetFilterSizeInBytes
        cudnnGetFoldedConvBackwardDataDescriptors
        cudnnGetFusedOpsConstParamPackAttribute
        cudnnGetFusedOpsVariantParamPackAttribute
        cudnnGetLRNDescriptor
        cudnnGetMultiHeadAttnBuffers
        cudnnGetMultiHeadAttnWeights
        cudnnGetNormalizationBackwardWorkspaceSize
        cudnnGetNormalizationForwardTrainingWorkspaceSize
        cudnnGetNormalizationTrainingReserveSpaceSize
        cudnnGetOpTensorDescriptor
        cudnnGetPooling2dDescriptor
        cudnnGetPooling2dForwardOutputDim
        cudnnGetPoolingNdDescriptor
        cudnnGetPoolingNdForwardOutputDim
        cudnnGetRNNDataDescriptor
        cudnnGetRNNDescriptor_v8
        cudnnGetRNNDropoutLocationsInternal
        cudnnGetRNNTempSpaceSizes
        cudnnGetRNNWeightParams
        cudnnGetRNNWeightSpaceSize
        cudnnGetReduceTensorDescriptor
        cudnnGetReductionIndicesSize
        cudnnGetReductionWorkspaceSize
        cudnnGetSeqDataDescriptor
        cudnnGetTensor4dDescriptor
        cudnnGetTensorNdDescriptor
        cudnnGetTensorSizeInBytes
        cudnnGetTensorTransformDescriptor
        cudnnGnnAggSimpleBackward
        cudnnGnnAggSimpleForward
        cudnnGnnMhaGatBackward
        cudnnGnnMhaGatForward
        cudnnGnnMhaGatV2Backward
        cudnnGnnMhaGatV2Forward
        cudnnIm2Col
        cudnnInitTransformDest
        cudnnLRNCrossChannelBackward
        cudnnLRNCrossChannelForward
        cudnnLongFFTCausalConv1dBackward
        cudnnLongFFTCausalConv1dForward
        cudnnLongFFTCausalConv1dGetBufferSizes
        cudnnMakeFusedOpsPlan
        cudnnMultiHeadAttnBackwardData
        cudnnMultiHeadAttnBackwardWeights
        cudnnMultiHeadAttnForward
        cudnnNormalizationBackward
        cudnnNormalizationForwardInference
        cudnnNormalizationForwardTraining
        cudnnOpTensor
        cudnnOpsVersionCheck
        cudnnPoolingBackward
        cudnnPoolingForward
        cudnnQueryRuntimeError
        cudnnRNNBackwardData_v8
        cudnnRNNBackwardWeights_v8
        cudnnRNNForward
        cudnnRNNGetClip_v8
        cudnnRNNGetClip_v9
        cudnnRNNSetClip_v8
        cudnnRNNSetClip_v9
        cudnnReduceTensor
        cudnnRestoreDropoutDescriptor
        cudnnScaleTensor
        cudnnSetActivationDescriptor
        cudnnSetActivationDescriptorSwishBeta
        cudnnSetAttnDescriptor
        cudnnSetBackdoor
        cudnnSetBackdoorEx
        cudnnSetCTCLossDescriptor
        cudnnSetCTCLossDescriptorEx
        cudnnSetCTCLossDescriptor_v8
        cudnnSetCTCLossDescriptor_v9
        cudnnSetConvolution2dDescriptor
        cudnnSetConvolutionGroupCount
        cudnnSetConvolutionMathType
        cudnnSetConvolutionNdDescriptor
        cudnnSetConvolutionReorderType
        cudnnSetDropoutDescriptor
        cudnnSetFilter4dDescriptor
        cudnnSetFusedOpsConstParamPackAttribute
        cudnnSetFusedOpsVariantParamPackAttribute
        cudnnSetLRNDescriptor
        cudnnSetOpTensorDescriptor
        cudnnSetPooling2dDescriptor
        cudnnSetPoolingNdDescriptor
        cudnnSetRNNDataDescriptor
        cudnnSetRNNDescriptor_v8
        cudnnSetReduceTensorDescriptor
        cudnnSetSeqDataDescriptor
        cudnnSetSpatialTransformerNdDescriptor
        cudnnSetTensor
        cudnnSetTensor4dDescriptor
        cudnnSetTensor4dDescriptorEx
        cudnnSetTensorNdDescriptor
        cudnnSetTensorNdDescriptorEx
        cudnnSetTensorTransformDescriptor
        cudnnSoftmaxBackward
        cudnnSoftmaxForward
        cudnnSpatialTfGridGeneratorBackward
        cudnnSpatialTfGridGeneratorForward
        cudnnSpatialTfSamplerBackward
        cudnnSpatialTfSamplerForward
        cudnnSubquadraticOpsVersionCheck
        cudnnTransformFilter
        cudnnTransformTensor
        cudnnTransformTensorEx
    }
}
