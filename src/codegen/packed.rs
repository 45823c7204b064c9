//! Record of the skeleton of packed booleans whose bytes hold points of several lines.

use serde::Serialize;

use super::index::{as_index, index_type};
use super::names;
use super::sections::Used;
use super::sweep::SweepSpeller;
use crate::error::Error;
use crate::graph::FinalizedGraph;
use crate::kernel::{PackedKernel, Sweep};

/// What `sweep/packed.cu` reads beside the function's name and parameters.
#[derive(Serialize)]
pub(super) struct PackedText {
    threads: u32,
    index: &'static str,
    /// The block's number.
    block: String,
    bytes: i64,
    /// Coordinates of the point at bit `at`, outermost first.
    coordinates: Vec<String>,
    /// Condition under which there is a point.
    inside: String,
    stores: Vec<StoreText>,
    evaluate: String,
}

/// One tensor.
#[derive(Serialize)]
struct StoreText {
    /// Variable that collects a byte.
    byte: String,
    pointer: String,
}

pub(super) fn packed(graph: &FinalizedGraph, used: &mut Used, kernel: &PackedKernel) -> Result<PackedText, Error> {
    let sweep = &kernel.sweep;
    let speller = SweepSpeller::new(graph, used, sweep, &[]);
    let store =
        |&id| StoreText { byte: format!("w_{}", speller.speller.result(id)), pointer: names::pointer(graph, id) };
    let stores = sweep.stores.iter().map(store).collect();
    let axes = axes(sweep);
    let last_bit: i64 = axes.iter().map(|(extent, stride)| (extent - 1) * stride).sum();
    Ok(PackedText {
        threads: kernel.threads,
        index: index_type(sweep.wide_index),
        block: as_index(sweep.wide_index, "blockIdx.x"),
        bytes: last_bit / 8 + 1,
        coordinates: coordinates(index_type(sweep.wide_index), &axes),
        inside: inside(&axes, last_bit),
        stores,
        evaluate: speller.text(&[], "").evaluate()?,
    })
}

/// Extent and stride in bits of every axis; all stores have the same.
fn axes(sweep: &Sweep) -> Vec<(i64, i64)> {
    let strides = |axis: &crate::kernel::Axis| axis.strides[&sweep.stores[0]];
    sweep.space.axes.iter().map(|axis| (axis.extent.value(), strides(axis).value())).collect()
}

/// Each axis steps over all that those after it span, so its coordinate is a quotient; what is left belongs to those.
fn coordinates(index: &str, axes: &[(i64, i64)]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = "at".to_owned();
    for (axis, &(_, stride)) in axes.iter().enumerate() {
        match stride {
            1 => lines.push(format!("const {index} i{axis} = {rest};")),
            _ => lines.push(format!("const {index} i{axis} = {rest} / {stride}, r{axis} = {rest} % {stride};")),
        }
        rest = format!("r{axis}");
    }
    lines
}

/// Bits beyond the last point, and those in gaps, are no points.
fn inside(axes: &[(i64, i64)], last_bit: i64) -> String {
    let mut conditions = Vec::new();
    let mut bits = (last_bit / 8 + 1) * 8;
    for (axis, &(extent, stride)) in axes.iter().enumerate() {
        if bits > extent * stride {
            conditions.push(format!("i{axis} < {extent}"));
        }
        bits = stride;
    }
    if bits > 1 {
        conditions.push(format!("r{} == 0", axes.len() - 1));
    }
    if conditions.is_empty() { "true".to_owned() } else { conditions.join(" && ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_without_gaps_need_no_check_but_the_end() {
        let axes = [(3, 21), (21, 1)];
        assert_eq!(
            coordinates("unsigned", &axes),
            ["const unsigned i0 = at / 21, r0 = at % 21;", "const unsigned i1 = r0;"]
        );
        assert_eq!(inside(&axes, 62), "i0 < 3");
        assert_eq!(inside(&[(8, 3), (3, 1)], 23), "true");
    }

    #[test]
    fn bits_in_gaps_are_no_points() {
        let axes = [(3, 11), (5, 2)];
        assert_eq!(inside(&axes, 30), "i1 < 5 && r1 == 0");
        assert_eq!(inside(&[(2, 40), (5, 7), (6, 1)], 73), "i1 < 5 && i2 < 6");
    }
}
