//! What engines relax, and that every relaxed rule is broken by a graph that is run.

use std::collections::BTreeSet;
use std::sync::Arc;

use fusewright::device::ComputeCapability;
use fusewright::engine::{self, ENGINES};
use fusewright::frontend::read_graph;
use fusewright::graph::DataType::{self, BFloat16, Boolean, Float, Half, Int8, Int32};
use fusewright::graph::{Graph, Pointwise, PointwiseMode, ReductionMode, Tensor, TensorHandle};
use fusewright::support::{Kind, SurfaceId, catalogue};
use libtest_mimic::Failed;

use crate::cases::{self, Case};
use crate::movement_cases::convolution;
use crate::{attention_backward_cases, attention_cases, device, resample_cases};

const VOLTA: ComputeCapability = ComputeCapability::new(7, 0);
const TURING: ComputeCapability = ComputeCapability::new(7, 5);
const HOPPER: ComputeCapability = ComputeCapability::SM_90;
const BLACKWELL: ComputeCapability = ComputeCapability::new(10, 0);

/// Relaxed rules, the chip on which a graph breaks them, and the graph.
type Relaxed = (&'static str, ComputeCapability, fn() -> Graph);

/// Rules that no other case breaks. Matmul rows of surface 70 need a chip before sm_80: on later ones surface 80 or 90
/// takes such graphs as documented.
const CASES: &[Relaxed] = &[
    ("S70-CC", BLACKWELL, || matmul(Half, |_, a| a)),
    ("S70-COMB-BF16", VOLTA, || matmul(BFloat16, |_, a| a)),
    ("S70-G1-CC", TURING, || matmul(Half, |g, a| scaled(g, a, row_scale))),
    ("S70-G1-BCAST-FIRST, S70-MM-G1-A", TURING, scale_before_operand),
    ("S70-MM-G1-A-HALF", TURING, || matmul(BFloat16, |g, a| scaled(g, a, row_scale))),
    ("S70-MM-G1A-FULL-HALF", TURING, || matmul(Half, |g, a| scaled(g, a, || scale().data_type(Float)))),
    ("S70-MM-G1A-SAME", TURING, || matmul(Half, |g, a| scaled(g, a, || scale().stride([640, 1, 20])))),
    ("S70-MM-G1-LAYOUT", TURING, padded_operand),
    ("S70-MM-INT8-LAYOUT", TURING, || matmul(Int8, |_, a| a)),
    ("S70-MM-G2-C", HOPPER, result_second),
    ("S70-DTYPE-BOOL-NOT-INPUT", HOPPER, packed_mask),
    ("S70-PW-3D-NO-RED", HOPPER, matrix_sum),
    ("OP-PW7-PREC-LOGIC", HOPPER, logic_in_float),
    ("OP-PW98-ALPHA1, OP-PW98-ALPHA2", HOPPER, || convolution_bias_act(0.5, -1.75)),
    ("OP-PW98-ALPHA2", HOPPER, || convolution_bias_act(1.0, 0.0)),
    ("OP-PW7-ALPHA1, OP-PW7-ALPHA2", TURING, || convolution_bias_act(2.0, 0.0)),
    ("OP-GS-XTYPE-PRE", TURING, || statistics(Tensor::new("x").channels_last(IMAGE).data_type(Float))),
    ("OP-GS-XTYPE", HOPPER, || statistics(Tensor::new("x").channels_last(IMAGE).data_type(BFloat16))),
    ("S70-G2-RES-CC", VOLTA, resample_cases::pooled),
    ("FAF-CC", BLACKWELL, attention_cases::plain),
    ("FAB-CC", BLACKWELL, attention_backward_cases::plain),
    ("OP-GS-LAYOUT", HOPPER, || statistics(Tensor::new("x").row_major(IMAGE))),
];

const IMAGE: [i64; 4] = [2, 24, 5, 7];

/// Graphs that break the rules of norms' surfaces, as `support::tests::norms` records them.
const NORMS: &str = include_str!("../data/relaxed_norms.jsonl");

#[derive(serde::Deserialize)]
struct RelaxedNorm {
    rules: Vec<String>,
    chip: (u32, u32),
    graph: serde_json::Value,
}

fn relaxed_norms() -> impl Iterator<Item = RelaxedNorm> {
    NORMS.lines().map(|line| serde_json::from_str(line).expect("a recorded graph"))
}

/// Adds the cases of this file.
pub(crate) fn cases(cases: &mut Vec<Case>) {
    for (number, RelaxedNorm { rules, chip, graph }) in relaxed_norms().enumerate() {
        let last = rules.last().map_or("none", String::as_str).to_ascii_lowercase().replace('-', "_");
        let name = format!("relaxed_norm_{number:02}_{last}");
        let graph =
            read_graph("relaxed_norms", graph.to_string().as_bytes()).expect("a recorded graph").name(name.clone());
        cases.push(Case { graph, name, capability: ComputeCapability::new(chip.0, chip.1) });
    }
    for &(rules, capability, graph) in CASES {
        let name = format!("relaxed_{}", rules.to_ascii_lowercase().replace(", ", "_").replace('-', "_"));
        cases.push(Case { graph: graph().name(name.clone()), name, capability });
    }
}

/// `C = f(A)·B` with A `[2,20,32]` and B `[2,32,24]`; INT8 operands compute in INT32.
fn matmul(operands: DataType, fuse: fn(&mut Graph, TensorHandle) -> TensorHandle) -> Graph {
    let mut g = cases::graph(operands).intermediate_data_type(operands);
    let a = g.tensor(Tensor::new("A").row_major([2, 20, 32]));
    let b = g.tensor(Tensor::new("B").row_major([2, 32, 24]));
    let a = fuse(&mut g, a);
    let c = g.matmul("mm", a, b);
    g.last_operation().compute_data_type = Some(if operands == Int8 { Int32 } else { Float });
    cases::output(&mut g, c, Float);
    g
}

/// A multiplied by a side input before the matmul.
fn scaled(g: &mut Graph, a: TensorHandle, scale: fn() -> Tensor) -> TensorHandle {
    let scale = g.tensor(scale());
    product(g, [a, scale])
}

fn product(g: &mut Graph, factors: [TensorHandle; 2]) -> TensorHandle {
    g.pointwise("scaled", PointwiseMode::Mul, &factors)
}

/// One factor an element.
fn scale() -> Tensor {
    Tensor::new("scale").row_major([2, 20, 32])
}

/// One factor a row.
fn row_scale() -> Tensor {
    Tensor::new("scale").row_major([2, 20, 1])
}

fn scale_before_operand() -> Graph {
    matmul(Half, |g, a| {
        let scale = g.tensor(row_scale());
        product(g, [scale, a])
    })
}

fn padded_operand() -> Graph {
    matmul(Half, |g, a| {
        g.tensor_mut(a).stride = vec![1000, 40, 1];
        a
    })
}

fn result_second() -> Graph {
    let mut g = matmul(Half, |_, a| a);
    let c = g.last_operation().result().expect("a matmul has a result");
    *g.tensor_mut(c) = Tensor { is_virtual: true, data_type: Some(Float), ..Tensor::new("mm::C") };
    let addend = g.tensor(Tensor::new("addend").row_major([2, 20, 24]));
    let y = g.pointwise("sum", PointwiseMode::Sub, &[addend, c]);
    cases::output(&mut g, y, Half);
    g
}

fn packed_mask() -> Graph {
    let mut g = cases::graph(Half);
    let [x, b] = ["x", "b"].map(|name| g.tensor(Tensor::new(name).channels_last(IMAGE)));
    let mask = g.tensor(Tensor::new("mask").channels_last(IMAGE).data_type(Boolean));
    let y = g.pointwise("chosen", PointwiseMode::BinarySelect, &[x, b, mask]);
    cases::output(&mut g, y, Half);
    g
}

fn matrix_sum() -> Graph {
    let mut g = cases::graph(Half);
    let x = g.tensor(Tensor::new("x").row_major([3, 20, 24]));
    let y = g.reduction("sum", ReductionMode::Add, x, [3, 1, 24]);
    cases::output(&mut g, y, Float);
    g
}

fn logic_in_float() -> Graph {
    let mut g = cases::graph(Int8);
    let [x, z] = ["x", "z"].map(|name| g.tensor(Tensor::new(name).channels_last(IMAGE)));
    let y = g.pointwise("and", PointwiseMode::LogicalAnd, &[x, z]);
    cases::output(&mut g, y, Int8);
    g
}

fn statistics(x: Tensor) -> Graph {
    let mut g = cases::graph(Half);
    let x = g.tensor(x);
    let (sum, squares) = g.genstats("stats", x);
    cases::output(&mut g, sum, Float);
    cases::output(&mut g, squares, Float);
    g
}

/// `relu(α₁·conv(x, w) + α₂·z + b)`, as programs write ConvBiasAct; without Z, α₂ is 0 and Z anything.
fn convolution_bias_act(alpha1: f32, alpha2: f32) -> Graph {
    let mut g = cases::graph(Half);
    let z = g.tensor(Tensor::new("z").channels_last([2, 24, 7, 6]));
    let bias = g.tensor(Tensor::new("b").channels_last([1, 24, 1, 1]).data_type(Float));
    let c = convolution(&mut g, [16, 24], 1);
    let sum = g.pointwise_with("sum", Pointwise { alpha1, alpha2, ..Pointwise::new(PointwiseMode::Add) }, &[c, z]);
    let biased = g.pointwise("biased", PointwiseMode::Add, &[sum, bias]);
    let y = g.pointwise("act", PointwiseMode::ReluFwd, &[biased]);
    cases::output(&mut g, y, Half);
    g
}

/// An engine's name and the id of a rule that it does without.
type Relaxation = (&'static str, &'static str);

/// Every relaxation lets through a graph that the emulator or a GPU runs: a case, on its chip, or a verdict graph of
/// the device tier, on sm_90.
pub(crate) fn every_relaxation_is_exercised() -> Result<(), Failed> {
    let cases = cases::all().into_iter().map(|case| (case.graph, case.capability));
    let verdicts =
        device::verdicts(device::VERDICT_GRAPHS).into_iter().map(|(_, graph)| (graph, ComputeCapability::SM_90));
    let mut exercised = BTreeSet::new();
    for (graph, capability) in cases.chain(verdicts) {
        exercised.extend(relaxations(&graph, capability)?);
    }
    for (_, graph) in crate::emulator::on_volta() {
        exercised.extend(relaxations(&graph, VOLTA)?);
    }
    let run: BTreeSet<&str> = exercised.into_iter().map(|relaxation: Relaxation| relaxation.1).collect();
    let listed: BTreeSet<&str> = ENGINES.iter().flat_map(|engine| engine.relaxes()).map(|rule| rule.id).collect();
    let missing: Vec<&str> = listed.into_iter().filter(|rule| !run.contains(reported(rule))).collect();
    if !missing.is_empty() {
        return Err(format!("relaxed, but broken by no graph that is run: {missing:?}").into());
    }
    Ok(())
}

/// The cases of this file break what they are named for.
pub(crate) fn cases_break_their_rules() -> Result<(), Failed> {
    for &(rules, capability, graph) in CASES {
        let found = relaxations(&graph(), capability)?;
        if let Some(rule) = rules.split(", ").find(|rule| found.iter().all(|found| found.1 != *rule)) {
            return Err(format!("{rule} is not broken, but {found:?}").into());
        }
    }
    Ok(())
}

/// What a graph breaks on a chip that the engine which takes it relaxes.
fn relaxations(graph: &Graph, capability: ComputeCapability) -> Result<Vec<Relaxation>, Failed> {
    let decision = engine::decide(&Arc::new(graph.finalize()?), capability, &SurfaceId::ALL);
    let Some(engine) = decision.engine() else { return Err(decision.report.to_string().into()) };
    Ok(decision.report.relaxed().iter().map(|rule| (engine.name(), rule.id)).collect())
}

/// The id that reports use where rows restate a rule.
fn reported(id: &str) -> &str {
    let rule = catalogue().find(|rule| rule.id == id);
    match rule.map(|rule| rule.kind) {
        Some(Kind::Restated(by)) => by,
        _ => id,
    }
}
