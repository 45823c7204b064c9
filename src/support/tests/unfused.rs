//! Pure pointwise graphs.

use super::graphs::*;
use super::*;
use crate::graph::{PointwiseMode, ReductionMode};

pub(super) static SUITES: &[Suite] = &[
    Suite { name: "image", base: image, legal: &[A70, V70], pairs: IMAGE_PAIRS, rows: IMAGE_ROWS },
    Suite { name: "matrix", base: matrix, legal: &[A70, V70], pairs: MATRIX_PAIRS, rows: MATRIX_ROWS },
    Suite { name: "image, reduction", base: image_reduction, legal: &[A70, V70], pairs: &[], rows: REDUCTION_ROWS },
    Suite { name: "boolean output", base: logic, legal: &[A70], pairs: LOGIC_PAIRS, rows: LOGIC_ROWS },
];

const IMAGE_PAIRS: &[Pair] = &[
    pair("S70-PW-RANK", &[A70], |g| of_dims(g, [16, 8], [1, 8]), |g| of_dims(g, [1, 16, 8], [1, 1, 8])),
    pair(
        "S70-PW-45D-DIMS",
        &[A70],
        |g| g.reshape("bias", nhwc([1, 1, 8, 8])),
        |g| g.reshape("bias", nhwc([2, 1, 8, 8])),
    ),
    pair("S70-PW-45D-LAYOUT", &[A70], |g| g.reshape("Y", rows(IMAGE)), AS_IS),
];

const IMAGE_ROWS: &[Row] = &[
    row(&[A70], |g| g.reshape("bias", nhwc([2, 1, 1, 1])), &[]),
    row(&[A70], |g| g.reshape("bias", nhwc([1, 16, 8, 8])), &[]),
    row(&[A70], |g| g.reshape("bias", nhwc([2, 16, 1, 1])), &["S70-PW-45D-DIMS"]),
    row(&[A70], |g| g.swap("add"), &["S70-G2-BCAST-FIRST"]),
    row(
        &[A70],
        |g| {
            g.reshape("bias", nhwc(IMAGE));
            g.swap("add");
        },
        &[],
    ),
    row(&[A70], mutual_broadcast, &["S70-G2-BCAST-FIRST"]),
    row(&[A70], |g| g.reshape("Y", strided(IMAGE, [2048, 1, 256, 24])), &["S70-PW-45D-LAYOUT"]),
    row(&[A70], |g| g.t("X").alignment = 2, &["S70-G2-ALIGN-32"]),
    row(&[A70], |g| g.t("Y").alignment = 2, &[]),
    row(&[A70], other_rank, &["S70-PW-RANK"]),
    row(&[A70], carried, &["S70-G2-OPS"]),
    row(&[A70], |g| softmaxed(g, "Y"), &["OP-COMPOSITE"]),
    row(&[H90, A80], |g| softmaxed(g, "Y"), &["S*-LIM-NO-PW", "OP-COMPOSITE"]),
    row(&[H90, A80], carried, &["S*-LIM-NO-PW"]),
];

const MATRIX_PAIRS: &[Pair] = &[
    pair("S70-PW-3D-DIMS", &[A70], |g| g.reshape("bias", rows([1, 1, 64])), |g| g.reshape("bias", rows([2, 1, 64]))),
    pair(
        "S70-PW-3D-LAYOUT",
        &[A70],
        |g| g.reshape("X", columns([2, 32, 64])),
        |g| ["X", "Y"].iter().for_each(|name| g.reshape(name, columns([2, 32, 64]))),
    ),
    pair("S70-PW-3D-NO-RED", &[A70], matrix_reduction, |g| *g = image_reduction()),
];

const MATRIX_ROWS: &[Row] = &[row(&[A70], |g| g.reshape("bias", rows([2, 32, 1])), &[])];

const REDUCTION_ROWS: &[Row] = &[
    row(&[A70], |g| g.reshape("R", nhwc([2, 1, 8, 8])), &[]),
    row(&[A70], |g| g.reshape("R", nhwc([1, 16, 8, 8])), &[]),
    row(&[A70], |g| g.reshape("R", nhwc([2, 1, 1, 1])), &[]),
    row(&[A70], |g| g.reshape("R", nhwc([2, 16, 1, 1])), &["S70-PW-45D-DIMS"]),
    row(&[A70], |g| g.reshape("X", rows(IMAGE)), &["S70-PW-45D-LAYOUT", "OP-RED-LAYOUT"]),
    row(&[H90, A80], |g| g.reshape("X", rows(IMAGE)), &["S*-LIM-NO-PW", "OP-RED-LAYOUT"]),
];

/// Packed booleans: a line starts on a byte.
const LOGIC_PAIRS: &[Pair] = &[pair("S70-G2-ALIGN-PWOUT-8", &[A70], |g| channels(g, 12), |g| channels(g, 8))];

const LOGIC_ROWS: &[Row] = &[row(
    &[A70],
    |g| {
        channels(g, 12);
        g.types(&["Y"], DataType::Int8);
    },
    &[],
)];

fn channels(g: &mut Graph, channels: i64) {
    ["X", "Z", "Y"].iter().for_each(|name| g.reshape(name, nhwc([2, channels, 8, 8])));
}

/// `[2,1,8,8]` and `[1,16,1,1]` broadcast each other.
fn mutual_broadcast(g: &mut Graph) {
    g.reshape("X", nhwc([2, 1, 8, 8]));
}

fn of_dims<const RANK: usize>(g: &mut Graph, dim: [i64; RANK], bias: [i64; RANK]) {
    for (name, dim) in [("X", dim), ("bias", bias), ("Y", dim)] {
        g.reshape(name, rows(dim));
    }
}

/// An unconnected operation on matrices.
fn other_rank(g: &mut Graph) {
    let z = g.tensor(Tensor::new("Z").row_major([2, 32, 64]));
    let absolute = g.pointwise("abs", PointwiseMode::Abs, &[z]);
    *g.tensor_mut(absolute) = Tensor { name: "V".to_owned(), ..rows([2, 32, 64]) };
}

fn matrix_reduction(g: &mut Graph) {
    let y = g.id("Y");
    let sum = g.reduction("sum", ReductionMode::Add, y, [1, 32, 1]);
    *g.tensor_mut(sum) = Tensor { name: "R".to_owned(), ..rows([1, 32, 1]).data_type(DataType::Float) };
}

/// A softmax of a value, stored.
pub(super) fn softmaxed(g: &mut Graph, x: &str) {
    let x = g.id(x);
    let y = g.softmax("softmax", x);
    g.set_output(y);
}

/// An operation that is read and kept, but that no surface names.
pub(super) fn carried(g: &mut Graph) {
    use crate::graph::{Other, Port};
    let y = g.id("Y");
    let dim = g.tensors[y.index()].dim.clone();
    let z = g.tensor(Tensor::new("Z").row_major(dim));
    g.operation(Operation {
        name: "view".to_owned(),
        attributes: Attributes::Other(Other { tag: "RESHAPE", attributes: Default::default() }),
        compute_data_type: None,
        inputs: vec![(Port::X, y)],
        outputs: vec![(Port::Y, z)],
    });
}
