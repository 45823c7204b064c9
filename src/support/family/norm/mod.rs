//! Norms: the engines of single operations, and the patterns around batch norm. What a graph is that they are about is told by its norm
//! operations, so none of them is asked about a graph without one.
//!
//! The surfaces are those of the guide's later revision where it allows more (`docs/spec/norms.md` 3): norms of ranks 2 and 3, chains of
//! pointwise operations around norms of rows, INSTANCE norms before ADD and ReLU. What is said of tensors is a table here ([`NormSurface`]) that
//! `tensors` reads; which operations a graph may hold is a function of `form` for each surface.

mod form;
mod parts;
pub(crate) mod records;
mod tensors;

use super::{Family, Limits, Subject};
use crate::device::ComputeCapability;
use crate::graph::{DataType, FinalizedGraph, NormMode, Port};
use crate::support::findings::Findings;
use crate::support::layout::Layout;
use crate::support::rule::{Rule, SurfaceId};
use crate::support::surface::Listed;
use parts::{Kind, Norm, Parts, norms};
use records::*;

pub(in crate::support) const FORWARD: SurfaceId = SurfaceId::Named("NormForward");
pub(in crate::support) const BACKWARD: SurfaceId = SurfaceId::Named("NormBackward");
pub(in crate::support) const ADD_RELU: SurfaceId = SurfaceId::Named("NormAddRelu");
pub(in crate::support) const DRELU: SurfaceId = SurfaceId::Named("DReluForkDNorm");
pub(in crate::support) const FINALIZE: SurfaceId = SurfaceId::Named("BnFinalize");
pub(in crate::support) const WEIGHTS: SurfaceId = SurfaceId::Named("DgradDreluBNBwdWeight");

pub(super) static FAMILY: Family = Family {
    surfaces: &[
        (FORWARD, &NORM_FORWARD),
        (BACKWARD, &NORM_BACKWARD),
        (ADD_RELU, &NORM_ADD_RELU),
        (DRELU, &DRELU_FORK_DNORM),
        (FINALIZE, &BN_FINALIZE),
        (WEIGHTS, &DGRAD_DRELU_BN_BWD_WEIGHT),
    ],
    rules: &[RULES],
    is_by_name: false,
};

/// What one surface allows. Fields that are `None` or empty limit nothing.
struct NormSurface {
    /// The norm that the surface is about; `None` where it is not about the graph.
    norm: for<'a> fn(&'a FinalizedGraph) -> Option<Norm<'a>>,
    chips: Listed<ComputeCapability>,
    /// Which operations there are, and how they hang together.
    form: fn(&Parts, &mut Findings),
    /// FLOAT alone.
    compute: &'static Rule,
    types: &'static [TypeLimit],
    ranks: Option<RankLimit>,
    layout: Option<LayoutLimit>,
    /// Channels in vectors of 16 bytes.
    channels: Option<&'static Rule>,
    alignment: Option<AlignmentLimit>,
    by_value: Option<&'static Rule>,
}

/// Types of some tensors.
struct TypeLimit {
    of: Tensors,
    /// Of these modes; of every mode where there are none.
    modes: &'static [NormMode],
    types: Listed<DataType>,
}

impl TypeLimit {
    const fn new(rule: &'static Rule, of: Tensors, allowed: &'static [DataType]) -> Self {
        Self { of, modes: &[], types: Listed { rule, allowed } }
    }
}

/// Which tensors a limit is about.
#[derive(Clone, Copy)]
enum Tensors {
    /// The norm's, at these ports.
    At(&'static [Port]),
    /// Numbers with X's dims.
    Full,
    /// All in device memory.
    Stored,
    /// What a convolution reads.
    Operands,
}

/// How many axes X has.
struct RankLimit {
    rule: &'static Rule,
    ranks: fn(NormMode) -> &'static [usize],
}

/// How tensors lie.
struct LayoutLimit {
    rule: &'static Rule,
    layouts: fn(usize) -> &'static [Layout],
    is_packed: bool,
    /// In the layout of X, all of them.
    same: Option<&'static Rule>,
}

/// What pointers are multiples of.
struct AlignmentLimit {
    rule: &'static Rule,
    of: Tensors,
    bytes: fn(NormMode) -> i64,
}

impl Limits for NormSurface {
    fn concerns(&self, subject: &Subject) -> bool {
        (self.norm)(subject.graph).is_some()
    }

    fn check(&self, &Subject { graph, capability, .. }: &Subject, found: &mut Findings) {
        let Some(norm) = (self.norm)(graph) else { return };
        let parts = Parts { graph, capability, norm };
        (self.form)(&parts, found);
        tensors::check(self, &parts, found);
    }
}

const V70: ComputeCapability = ComputeCapability::new(7, 0);
const V72: ComputeCapability = ComputeCapability::new(7, 2);
const T75: ComputeCapability = ComputeCapability::SM_75;
const A80: ComputeCapability = ComputeCapability::new(8, 0);
const A86: ComputeCapability = ComputeCapability::new(8, 6);
const A87: ComputeCapability = ComputeCapability::new(8, 7);
const L89: ComputeCapability = ComputeCapability::new(8, 9);
const H90: ComputeCapability = ComputeCapability::SM_90;

/// "8.0 or later" is what some surface of the runtime fusion engine lists.
const SINCE_70: &[ComputeCapability] = &[V70, V72, T75, A80, A86, A87, L89, H90];
const SINCE_80: &[ComputeCapability] = &[A80, A86, A87, L89, H90];
const SINCE_80_BUT_89: &[ComputeCapability] = &[A80, A86, A87, H90];

const HALF: &[DataType] = &[DataType::Half];
const FLOAT: &[DataType] = &[DataType::Float];
const FLOATING: &[DataType] = &[DataType::Half, DataType::BFloat16, DataType::Float];

const PARAMETERS: &[Port] = &[Port::SCALE, Port::BIAS];
const GRADIENTS: &[Port] = &[Port::SCALE, Port::DSCALE, Port::DBIAS];
const STATISTICS: &[Port] = &[Port::SCALE, Port::MEAN, Port::INV_VARIANCE];

/// Norms for rows, and of instances alone.
static NORM_FORWARD: NormSurface = NormSurface {
    norm: |graph| norms(graph).find(|norm| matches!(norm.kind, Kind::Forward(..)) && is_single(norm, graph)),
    chips: Listed { rule: &N_165, allowed: SINCE_70 },
    form: form::single,
    compute: &NF_COMP,
    types: &[
        TypeLimit::new(&NF_IO, Tensors::At(&[Port::X, Port::Y]), FLOATING),
        TypeLimit::new(&NF_MEAN, Tensors::At(&[Port::MEAN]), FLOAT),
        TypeLimit::new(&NF_INV, Tensors::At(&[Port::INV_VARIANCE]), FLOAT),
        TypeLimit::new(&NF_W, Tensors::At(PARAMETERS), FLOATING),
        TypeLimit { modes: &[NormMode::Instance], ..TypeLimit::new(&NF_W, Tensors::At(PARAMETERS), FLOAT) },
    ],
    ranks: Some(RankLimit { rule: &NF_X, ranks }),
    layout: Some(LayoutLimit { rule: &NF_LAYOUT, layouts: any_layout, is_packed: false, same: Some(&NF_SAME_LAYOUT) }),
    channels: None,
    alignment: Some(AlignmentLimit { rule: &NF_ALIGN, of: Tensors::Full, bytes: alignment }),
    by_value: Some(&NF_EPS),
};

static NORM_BACKWARD: NormSurface = NormSurface {
    norm: |graph| norms(graph).find(|norm| matches!(norm.kind, Kind::Backward(_)) && is_single(norm, graph)),
    chips: Listed { rule: &N_165, allowed: SINCE_70 },
    form: form::single,
    compute: &NB_COMP,
    types: &[
        TypeLimit::new(&NB_IO, Tensors::At(&[Port::X, Port::DY, Port::DX]), FLOATING),
        TypeLimit::new(&NB_MEAN, Tensors::At(&[Port::MEAN]), FLOAT),
        TypeLimit::new(&NB_INV, Tensors::At(&[Port::INV_VARIANCE]), FLOAT),
        TypeLimit::new(&NB_W, Tensors::At(GRADIENTS), FLOATING),
        TypeLimit { modes: &[NormMode::Instance], ..TypeLimit::new(&NB_W, Tensors::At(GRADIENTS), FLOAT) },
    ],
    ranks: Some(RankLimit { rule: &NB_X, ranks }),
    layout: Some(LayoutLimit { rule: &NB_LAYOUT, layouts: any_layout, is_packed: false, same: Some(&NB_SAME_LAYOUT) }),
    channels: None,
    alignment: Some(AlignmentLimit { rule: &NB_ALIGN, of: Tensors::Full, bytes: alignment }),
    by_value: None,
};

/// BnAddRelu.
static NORM_ADD_RELU: NormSurface = NormSurface {
    norm: |graph| {
        let is_backward = |norm: &Norm| matches!(norm.kind, Kind::Backward(_));
        let is_own = |norm: &Norm| matches!(norm.kind, Kind::Forward(..)) && form::is_add_relu(norm, graph);
        norms(graph).find(is_own).filter(|_| !norms(graph).any(|norm| is_backward(&norm)))
    },
    chips: Listed { rule: &BAR_CC, allowed: SINCE_80 },
    form: form::add_relu,
    compute: &N_159,
    types: &[
        TypeLimit::new(&BAR_XTYPE, Tensors::Full, FLOATING),
        TypeLimit::new(
            &BAR_INTYPE,
            Tensors::At(&[Port::SCALE, Port::BIAS, Port::PREV_RUNNING_MEAN, Port::PREV_RUNNING_VAR]),
            FLOAT,
        ),
        TypeLimit::new(
            &BAR_OUTTYPE,
            Tensors::At(&[Port::MEAN, Port::INV_VARIANCE, Port::NEXT_RUNNING_MEAN, Port::NEXT_RUNNING_VAR]),
            FLOAT,
        ),
    ],
    ranks: Some(RankLimit { rule: &BAR_RANK, ranks: |_| &[4, 5] }),
    layout: Some(LayoutLimit { rule: &BAR_LAYOUT, layouts: |_| &[Layout::Nhwc], is_packed: true, same: None }),
    channels: Some(&BAR_C),
    alignment: None,
    by_value: Some(&N_17),
};

/// DReluForkDBn.
static DRELU_FORK_DNORM: NormSurface = NormSurface {
    norm: |graph| norms(graph).find(|norm| matches!(norm.kind, Kind::Backward(_)) && form::is_drelu(norm, graph)),
    chips: Listed { rule: &DRF_CC, allowed: SINCE_80 },
    form: form::drelu,
    compute: &N_159,
    types: &[
        TypeLimit::new(&DRF_XTYPE, Tensors::Full, FLOATING),
        TypeLimit::new(&DRF_FLOAT, Tensors::At(STATISTICS), FLOAT),
        TypeLimit::new(&DRF_FLOAT, Tensors::At(&[Port::DSCALE, Port::DBIAS]), FLOAT),
    ],
    ranks: Some(RankLimit { rule: &DRF_RANK, ranks: |_| &[4, 5] }),
    layout: Some(LayoutLimit { rule: &DRF_LAYOUT, layouts: |_| &[Layout::Nhwc], is_packed: true, same: None }),
    channels: Some(&DRF_C),
    alignment: None,
    by_value: None,
};

static BN_FINALIZE: NormSurface = NormSurface {
    norm: |graph| norms(graph).find(|norm| norm.kind == Kind::Finalize),
    chips: Listed { rule: &N_165, allowed: SINCE_70 },
    form: form::finalize,
    compute: &N_159,
    types: &[
        TypeLimit::new(&N_63, Tensors::At(form::VECTORS), FLOAT),
        TypeLimit::new(&LF_COUNT, Tensors::At(&[Port::ACCUM_COUNT]), &[DataType::Int64]),
        TypeLimit::new(&LF_FACTOR, Tensors::At(&[Port::EPSILON, Port::MOMENTUM]), &[DataType::Float, DataType::Double]),
    ],
    ranks: None,
    layout: None,
    channels: None,
    alignment: None,
    by_value: Some(&N_17),
};

static DGRAD_DRELU_BN_BWD_WEIGHT: NormSurface = NormSurface {
    norm: |graph| norms(graph).find(|norm| norm.kind == Kind::Weights),
    chips: Listed { rule: &DDB_CC, allowed: SINCE_80_BUT_89 },
    form: form::weights,
    compute: &N_159,
    types: &[
        TypeLimit::new(&DDB_CONVTYPE, Tensors::Operands, HALF),
        TypeLimit::new(&DDB_BNTYPE, Tensors::At(&[Port::X]), HALF),
        TypeLimit::new(&DDB_BNTYPE, Tensors::At(STATISTICS), FLOAT),
        TypeLimit::new(
            &DDB_OUTTYPE,
            Tensors::At(&[Port::DSCALE, Port::DBIAS, Port::EQ_BIAS, Port::EQ_SCALE_DY, Port::EQ_SCALE_X]),
            FLOAT,
        ),
    ],
    ranks: None,
    layout: None,
    channels: None,
    alignment: Some(AlignmentLimit { rule: &DDB_ALIGN, of: Tensors::Stored, bytes: |_| 16 }),
    by_value: None,
};

/// Norms of rows, whatever is beside them, and of instances where nothing is.
fn is_single(norm: &Norm, graph: &FinalizedGraph) -> bool {
    norm.is_of_rows() || (norm.mode() == NormMode::Instance && graph.operations().len() == 1)
}

fn ranks(mode: NormMode) -> &'static [usize] {
    match mode {
        NormMode::Layer | NormMode::Rms => &[2, 3, 4, 5],
        NormMode::AdaLayer => &[3],
        NormMode::Instance | NormMode::Batch | NormMode::Group { .. } => &[4, 5],
    }
}

fn any_layout(rank: usize) -> &'static [Layout] {
    if rank > 3 { &[Layout::Nhwc, Layout::Nchw] } else { &[Layout::RowMajor, Layout::ColumnMajor] }
}

fn alignment(mode: NormMode) -> i64 {
    if mode == NormMode::Instance { 8 } else { 16 }
}
