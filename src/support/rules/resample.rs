//! Constraints of resampling (8.6, 8.7); surface 70 only.

use crate::graph::{
    Attributes, DataType, Fraction, Operation, OperationId, PaddingMode, Port, Resample, ResampleMode, TensorId,
};
use crate::support::context::Context;
use crate::support::findings::Findings;
use crate::support::layout::{self, Layout};
use crate::support::records::resample::*;
use crate::support::rule::Rule;
use crate::support::surface::OperationKind;

/// Every resampling of the graph, where the surface has any.
pub(super) fn check(cx: &Context, found: &mut Findings) {
    if !cx.surface.epilogue.operations.admits(&OperationKind::Resample) {
        return;
    }
    for (id, operation) in cx.operations() {
        match &operation.attributes {
            Attributes::ResampleForward(resample) => Case::new(cx, (id, operation), resample).forward(found),
            Attributes::ResampleBackward(resample) => Case::new(cx, (id, operation), resample).backward(found),
            _ => {}
        }
    }
}

/// Whether the graph is a single resample, whose layouts are its own affair.
pub(super) fn has_own_layout(cx: &Context) -> bool {
    cx.is_alone() && cx.operations().all(|slot| OperationKind::of(&slot.1.attributes) == Some(OperationKind::Resample))
}

/// One resampling.
struct Case<'a> {
    cx: &'a Context<'a>,
    id: OperationId,
    operation: &'a Operation,
    resample: &'a Resample,
    /// Channels are outside the spatial axes of the data that comes in.
    is_nchw: bool,
}

impl<'a> Case<'a> {
    fn new(cx: &'a Context<'a>, (id, operation): (OperationId, &'a Operation), resample: &'a Resample) -> Self {
        let data = operation.input_tensors().next().map(|id| cx.tensor(id));
        let data = data.filter(|data| matches!(data.dim.len(), 4 | 5));
        let is_nchw = data.is_some_and(|data| !Layout::Nhwc.holds(data) && Layout::Nchw.holds(data));
        Self { cx, id, operation, resample, is_nchw }
    }

    fn forward(&self, found: &mut Findings) {
        self.shape(found, [&OP_RF_SPATIAL, &OP_RF_RANK], &OP_RF_LAYOUT);
        self.no_boolean(found);
        self.index(found);
        if self.is_nchw {
            let [pre, post] = [&self.resample.pre_padding, &self.resample.post_padding];
            let is_symmetric = pre.iter().zip(post).all(|(&pre, &post)| is_equal(pre, post));
            self.require(found, &OP_RF_NCHW_NO_UP, !self.upsamples(), || "upsampling".to_owned());
            self.require(found, &OP_RF_NCHW_PAD, is_symmetric, || format!("{} and {}", list(pre), list(post)));
        }
        match self.resample.mode {
            ResampleMode::Nearest => self.require(found, &OP_RF_NO_NEAREST, false, || "NEAREST".to_owned()),
            ResampleMode::Bilinear => self.bilinear(found),
            _ => self.forward_pooling(found),
        }
    }

    fn forward_pooling(&self, found: &mut Findings) {
        let mode = self.resample.mode;
        self.require(found, &OP_RF_MODES_DOWN, !self.upsamples(), || format!("{} with a stride below 1", mode.name()));
        self.pooling(found, [&OP_RF_AVG_PAD, &OP_RF_MAX_PAD]);
        self.scales(found, [&OP_RF_DOWN_ALPHA, &OP_RF_DOWN_BETA, &OP_RF_DOWN_COMP]);
    }

    fn backward(&self, found: &mut Findings) {
        self.shape(found, [&OP_RB_SPATIAL, &OP_RB_RANK], &OP_RB_LAYOUT);
        self.index(found);
        self.backward_inputs(found);
        let mode = self.resample.mode;
        self.require(found, &OP_RB_MODES, is_pooling(mode), || mode.name().to_owned());
        self.require(found, &OP_RB_NO_UP, !self.upsamples(), || "a stride below 1".to_owned());
        if is_pooling(mode) {
            self.pooling(found, [&OP_RB_AVG_PAD, &OP_RB_MAX_PAD]);
        }
        self.scales(found, [&OP_RB_ALPHA, &OP_RB_BETA, &OP_RB_COMP]);
    }

    /// NHWC takes the positions from the index, NCHW from X and Y.
    fn backward_inputs(&self, found: &mut Findings) {
        let is_given = |port| self.operation.input(port).is_some();
        let is_max = self.resample.mode == ResampleMode::Maxpool;
        let given = || {
            let ports: Vec<&str> = self.operation.inputs.iter().map(|slot| slot.0.0).collect();
            format!("{} with inputs {}", self.resample.mode.name(), ports.join(", "))
        };
        if self.is_nchw {
            let is_complete = !is_max || (is_given(Port::X) && is_given(Port::Y));
            self.require(found, &OP_RB_NCHW_XY, is_complete, given);
        } else if is_pooling(self.resample.mode) {
            self.require(found, &OP_RB_NHWC_IDX, is_given(Port::INDEX) == is_max, given);
        }
    }

    /// Two or three spatial axes, and the layouts that a resample may have.
    fn shape(&self, found: &mut Findings, [spatial, rank]: [&'static Rule; 2], layout: &'static Rule) {
        let axes = self.resample.window.len();
        self.require(found, spatial, matches!(axes, 2 | 3), || format!("{axes}"));
        let Some(data) = self.operation.input_tensors().next() else { return };
        let dims = self.cx.tensor(data).dim.len();
        self.require(found, rank, matches!(dims, 4 | 5), || format!("rank {dims}"));
        if matches!(dims, 4 | 5) {
            self.layouts(found, layout);
        }
    }

    /// Alone, all tensors are fully packed in one of the two layouts; beside other operations the graph's own layout
    /// rule asks for NHWC, and this one only that no third layout appears.
    fn layouts(&self, found: &mut Findings, rule: &'static Rule) {
        let is_alone = self.cx.is_alone();
        let mut shared = vec![Layout::Nhwc, Layout::Nchw];
        for id in self.tensors().filter(|&id| !self.cx.tensor(id).is_virtual) {
            let tensor = self.cx.tensor(id);
            let holds = |layout: &Layout| if is_alone { layout.holds_packed(tensor) } else { layout.holds(tensor) };
            if !shared.iter().any(holds) {
                let packed = if is_alone { "fully packed NHWC or NCHW, the same for all" } else { "NHWC or NCHW" };
                found.slot(rule, (self.id, id), packed, layout::describe(tensor));
                found.set_unlaid(id);
            } else if is_alone {
                shared.retain(holds);
            }
        }
    }

    fn tensors(&self) -> impl Iterator<Item = TensorId> + 'a {
        self.operation.input_tensors().chain(self.operation.output_tensors())
    }

    fn no_boolean(&self, found: &mut Findings) {
        for id in self.tensors().filter(|&id| self.cx.tensor(id).data_type == DataType::Boolean) {
            found.slot(&OP_RF_NO_BOOL, (self.id, id), OP_RF_NO_BOOL.summary, "BOOLEAN");
        }
    }

    /// OP-IDX-*: for MAXPOOL, of a type that holds every window position.
    fn index(&self, found: &mut Findings) {
        let (read, written) = (self.operation.input(Port::INDEX), self.operation.output(Port::INDEX));
        let Some(index) = read.or(written) else { return };
        let mode = self.resample.mode;
        if read.is_none() || self.is_nchw {
            self.require(found, &OP_IDX_MODE, mode == ResampleMode::Maxpool, || mode.name().to_owned());
        }
        let data_type = self.cx.tensor(index).data_type;
        if self.is_nchw {
            let rule = if read.is_some() { &OP_RB_NCHW_NO_I64 } else { &OP_RF_NCHW_NO_I64 };
            self.require(found, rule, data_type != DataType::Int64, || "INT64".to_owned());
        }
        let last = self.window_volume().saturating_sub(1);
        if largest_integer(data_type) < last {
            found.slot(&OP_IDX_SIZE, (self.id, index), format!("a type that holds {last}"), data_type.name());
        }
    }

    fn window_volume(&self) -> i64 {
        let extents = self.resample.window.iter().map(|extent| extent.numerator / extent.denominator.max(1));
        extents.fold(1i64, i64::saturating_mul)
    }

    /// Padding modes, and whole numbers where no rule names the value.
    fn pooling(&self, found: &mut Findings, [average, max]: [&'static Rule; 2]) {
        let padding = self.resample.padding_mode;
        let (rule, required) = match self.resample.mode {
            ResampleMode::Maxpool => (max, PaddingMode::NegInfPad),
            _ => (average, PaddingMode::ZeroPad),
        };
        self.require(found, rule, padding == required, || padding.name().to_owned());
        let resample = self.resample;
        let pooled = [&resample.window, &resample.pre_padding, &resample.post_padding];
        let strides = resample.stride.iter().filter(|stride| !is_below_one(**stride));
        let broken = pooled.into_iter().flatten().chain(strides).find(|value| value.numerator % value.denominator != 0);
        self.require(found, &OP_RF_FREE, broken.is_none(), || broken.map_or(String::new(), |value| list(&[*value])));
    }

    fn scales(&self, found: &mut Findings, [alpha, beta, compute]: [&'static Rule; 3]) {
        self.require(found, alpha, self.resample.alpha == 1.0, || format!("alpha = {}", self.resample.alpha));
        self.require(found, beta, self.resample.beta == 0.0, || format!("beta = {}", self.resample.beta));
        let data_type = self.cx.graph.compute_type(self.id);
        self.require(found, compute, data_type == DataType::Float, || format!("compute type {data_type}"));
    }

    fn bilinear(&self, found: &mut Findings) {
        const HALF: Fraction = Fraction { numerator: 1, denominator: 2 };
        let resample = self.resample;
        let shrinks = resample.stride.iter().any(|stride| stride.numerator > stride.denominator);
        self.require(found, &OP_RF_MODES_DOWN, !shrinks, || "BILINEAR with a stride above 1".to_owned());
        self.bilinear_extents(found);
        let rows: [(_, &Vec<Fraction>, _); 4] = [
            (&OP_RF_BIL_PRE, &resample.pre_padding, HALF),
            (&OP_RF_BIL_POST, &resample.post_padding, Fraction::whole(1)),
            (&OP_RF_BIL_STRIDE, &resample.stride, HALF),
            (&OP_RF_BIL_WIN, &resample.window, Fraction::whole(2)),
        ];
        for (rule, values, required) in rows {
            self.require(found, rule, values.iter().all(|&value| is_equal(value, required)), || list(values));
        }
        for id in [self.operation.input(Port::X), self.operation.output(Port::Y)].into_iter().flatten() {
            let data_type = self.cx.tensor(id).data_type;
            if data_type != DataType::Float {
                found.slot(&OP_RF_BIL_DTYPE, (self.id, id), "FLOAT", data_type.name());
            }
        }
        let padding = resample.padding_mode;
        let is_edge = padding == PaddingMode::EdgeValPad;
        self.require(found, &OP_RF_BIL_PADMODE, is_edge, || padding.name().to_owned());
        self.scales(found, [&OP_RF_BIL_ALPHA, &OP_RF_BIL_BETA, &OP_RF_BIL_COMP]);
    }

    fn bilinear_extents(&self, found: &mut Findings) {
        let slots = (self.operation.input(Port::X), self.operation.output(Port::Y));
        let (Some(x), Some(y)) = slots else { return };
        let [x, y] = [x, y].map(|id| self.cx.tensor(id).dim.get(2..).unwrap_or_default());
        let doubles = x.iter().zip(y).all(|(&from, &to)| Some(to) == from.checked_mul(2));
        self.require(found, &OP_RF_BIL_DIMS, doubles, || format!("{x:?} to {y:?}"));
    }

    /// Whether the result has more samples than the input on some axis.
    fn upsamples(&self) -> bool {
        self.resample.stride.iter().any(|&stride| is_below_one(stride))
    }

    fn require(&self, found: &mut Findings, rule: &'static Rule, holds: bool, text: impl FnOnce() -> String) {
        if !holds {
            found.operation(rule, self.id, rule.summary, text());
        }
    }
}

fn is_pooling(mode: ResampleMode) -> bool {
    !matches!(mode, ResampleMode::Bilinear | ResampleMode::Nearest)
}

fn is_below_one(value: Fraction) -> bool {
    value.numerator < value.denominator
}

fn is_equal(a: Fraction, b: Fraction) -> bool {
    i128::from(a.numerator) * i128::from(b.denominator) == i128::from(b.numerator) * i128::from(a.denominator)
}

fn list(values: &[Fraction]) -> String {
    let text = |value: &Fraction| match value.denominator {
        1 => value.numerator.to_string(),
        denominator => format!("{}/{denominator}", value.numerator),
    };
    values.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// Up to which number a type holds every whole number from 0.
fn largest_integer(data_type: DataType) -> i64 {
    match data_type {
        DataType::Boolean | DataType::ByteBoolean => 1,
        DataType::Int8 => i8::MAX.into(),
        DataType::UInt8 => u8::MAX.into(),
        DataType::Int32 => i32::MAX.into(),
        DataType::Int64 => i64::MAX,
        DataType::Float => 1 << 24,
        DataType::Double => 1 << 53,
        DataType::Half => 1 << 11,
        DataType::BFloat16 => 1 << 8,
        DataType::Fp8E4M3 => 1 << 4,
        DataType::Fp8E5M2 => 1 << 3,
        _ => 0,
    }
}
