//! Where boxes and lines of a drawing go: layers from top to bottom, by Sugiyama's method.
//!
//! The library finds the order within layers. Places along them are as near as the order allows to what a box comes from, so that
//! a chain is a straight line whatever else its members read.

use std::collections::BTreeMap;

use rust_sugiyama::configure::{Config, CrossingMinimization, RankingType};
use rust_sugiyama::from_vertices_and_edges;

/// Between neighbours of a layer, and between layers.
const GAP_X: f64 = 28.0;
const GAP_Y: f64 = 44.0;

/// Width kept free for a line that passes a layer.
const LANE: f64 = 12.0;

/// Parts of a graph that are not connected stand beside each other up to this width.
const ROW: f64 = 1400.0;

/// A box to be placed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Size {
    pub(super) width: f64,
    pub(super) height: f64,
    /// Layer from the top.
    pub(super) layer: usize,
    /// Whether it belongs below what it comes from; others stand beside, above what reads them.
    pub(super) is_spine: bool,
}

/// The middle of a box's width, and its top.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
}

/// A laid-out graph.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Layout {
    /// Of each box.
    pub(super) boxes: Vec<Point>,
    /// Of each line the points that it passes between its ends, from the top: where it leaves the layer that it begins in, and where it
    /// enters and leaves others.
    pub(super) lines: Vec<Vec<Point>>,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// Places boxes, and lines from a box to one of a later layer.
pub(super) fn layout(boxes: &[Size], lines: &[(usize, usize)]) -> Layout {
    let mut sizes = boxes.to_vec();
    let mut edges: Vec<(u32, u32)> = Vec::new();
    // lanes of a line, as boxes behind the others
    let lanes: Vec<std::ops::Range<usize>> = lines
        .iter()
        .map(|&(from, to)| {
            let first = sizes.len();
            let passed = boxes[from].layer + 1..boxes[to].layer;
            sizes.extend(passed.map(|layer| Size { width: LANE, height: 0.0, layer, is_spine: true }));
            let path: Vec<usize> = [from].into_iter().chain(first..sizes.len()).chain([to]).collect();
            edges.extend(path.windows(2).map(|pair| (pair[0] as u32, pair[1] as u32)));
            first..sizes.len()
        })
        .collect();
    let places = placed(&sizes, &edges);
    let heights = layer_heights(&sizes, &places);
    let bottom = |at: usize| {
        let Place { at: Point { x, .. }, part, top } = places[at];
        Point { x, y: top + heights[&(part, sizes[at].layer)] }
    };
    let through = |(lane, &(from, _)): (std::ops::Range<usize>, &(usize, usize))| {
        let passed = lane.flat_map(|at| [places[at].at, bottom(at)]);
        [bottom(from)].into_iter().chain(passed).collect()
    };
    let edge = |at: usize| (places[at].at.x + sizes[at].width / 2.0, places[at].at.y + sizes[at].height);
    Layout {
        boxes: places[..boxes.len()].iter().map(|place| place.at).collect(),
        lines: lanes.into_iter().zip(lines).map(through).collect(),
        width: (0..sizes.len()).map(|at| edge(at).0).fold(0.0, f64::max),
        height: (0..sizes.len()).map(|at| edge(at).1).fold(0.0, f64::max),
    }
}

/// A place, the connected part of the graph that the box belongs to, and the top of its layer.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    at: Point,
    part: usize,
    top: f64,
}

/// Heights of the layers of each part.
fn layer_heights(sizes: &[Size], places: &[Place]) -> BTreeMap<(usize, usize), f64> {
    let mut heights = BTreeMap::new();
    for (size, place) in sizes.iter().zip(places) {
        let height: &mut f64 = heights.entry((place.part, size.layer)).or_default();
        *height = height.max(size.height);
    }
    heights
}

/// Every box in its layer. The order within layers and the places along them are the library's, but no box overlaps another, which
/// it does not promise.
fn placed(sizes: &[Size], edges: &[(u32, u32)]) -> Vec<Place> {
    let vertices: Vec<(u32, (f64, f64))> =
        sizes.iter().enumerate().map(|(at, size)| (at as u32, (size.width, size.height.max(1.0)))).collect();
    let config = Config {
        vertex_spacing: GAP_X,
        dummy_vertices: false,
        ranking_type: RankingType::MinimizeEdgeLength,
        c_minimization: CrossingMinimization::Barycenter,
        transpose: sizes.len() < 200,
        ..Config::default()
    };
    let mut places = vec![Place::default(); sizes.len()];
    let (mut left, mut top, mut row_height) = (0.0, 0.0, 0.0_f64);
    for (part, (vertices, ..)) in from_vertices_and_edges(&vertices, edges, &config).into_iter().enumerate() {
        let mut layers: BTreeMap<usize, Vec<(f64, usize)>> = BTreeMap::new();
        for (at, (x, _)) in vertices {
            layers.entry(sizes[at].layer).or_default().push((x, at));
        }
        straighten(sizes, edges, &mut layers);
        let (width, height) = place_part(sizes, layers, part, &mut places);
        if left > 0.0 && left + width > ROW {
            (left, top, row_height) = (0.0, top + row_height + GAP_Y, 0.0);
        }
        places.iter_mut().filter(|place| place.part == part).for_each(|place| {
            place.at.x += left;
            place.at.y += top;
            place.top += top;
        });
        (left, row_height) = (left + width + GAP_X, row_height.max(height));
    }
    places
}

/// Sweeps over the layers, downwards, after which places have settled.
const SWEEPS: usize = 4;

/// How much more it costs to move a box of the spine than another.
const SPINE: f64 = 1e4;

/// Moves the boxes of a part as near as their order allows to where they belong: boxes of the spine below those of the layer above
/// that they come from (or lanes, where there are none), all others above what reads them.
fn straighten(sizes: &[Size], edges: &[(u32, u32)], layers: &mut BTreeMap<usize, Vec<(f64, usize)>>) {
    let (mut above, mut below) = (vec![Vec::new(); sizes.len()], vec![Vec::new(); sizes.len()]);
    for &(from, to) in edges {
        let (from, to) = (from as usize, to as usize);
        below[from].push(to);
        if sizes[from].is_spine {
            above[to].push(from);
        }
    }
    for boxes in &mut above {
        let is_box = |at: &usize| sizes[*at].height > 0.0;
        if boxes.iter().any(is_box) {
            boxes.retain(is_box);
        }
    }
    let mut x = vec![0.0; sizes.len()];
    for layer in layers.values_mut() {
        layer.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        layer.iter().for_each(|&(place, at)| x[at] = place);
    }
    for _ in 0..SWEEPS {
        for layer in layers.values_mut() {
            let wanted: Vec<(f64, f64)> = layer
                .iter()
                .map(|&(_, at)| {
                    let guides = if above[at].is_empty() { &below[at] } else { &above[at] };
                    let mean = guides.iter().map(|&guide| x[guide]).sum::<f64>() / guides.len().max(1) as f64;
                    let place = if guides.is_empty() { x[at] } else { mean };
                    (place, if sizes[at].is_spine { SPINE } else { 1.0 })
                })
                .collect();
            let widths: Vec<f64> = layer.iter().map(|&(_, at)| sizes[at].width).collect();
            for ((place, at), found) in layer.iter_mut().zip(nearest(&wanted, &widths)) {
                (*place, x[*at]) = (found, found);
            }
        }
    }
}

/// The places in this order, a gap apart, whose weighted squared distances from those wanted are least: neighbours that would overlap
/// form blocks, which stand at the mean of what their members want (the pool of adjacent violators).
fn nearest(wanted: &[(f64, f64)], widths: &[f64]) -> Vec<f64> {
    let mut offset = 0.0;
    let offsets: Vec<f64> = (0..widths.len())
        .map(|at| {
            offset += if at > 0 { (widths[at - 1] + widths[at]) / 2.0 + GAP_X } else { 0.0 };
            offset
        })
        .collect();
    // mean, weight, members
    let mut blocks: Vec<(f64, f64, usize)> = Vec::new();
    for (&(place, weight), offset) in wanted.iter().zip(&offsets) {
        let mut block = (place - offset, weight, 1);
        while let Some(last) = blocks.pop_if(|last| last.0 > block.0) {
            let weight = last.1 + block.1;
            block = ((last.0 * last.1 + block.0 * block.1) / weight, weight, last.2 + block.2);
        }
        blocks.push(block);
    }
    let means = blocks.into_iter().flat_map(|(mean, _, members)| std::iter::repeat_n(mean, members));
    means.zip(offsets).map(|(mean, offset)| mean + offset).collect()
}

/// Places a connected part with its top left corner at the origin; gives its width and height. What is not of the spine stands at the
/// bottom of its layer, next to what reads it.
fn place_part(
    sizes: &[Size],
    layers: BTreeMap<usize, Vec<(f64, usize)>>,
    part: usize,
    places: &mut [Place],
) -> (f64, f64) {
    let (mut y, mut left, mut right) = (0.0, f64::MAX, f64::MIN);
    let mut members = Vec::new();
    for (_, layer) in layers {
        let height = layer.iter().map(|(_, at)| sizes[*at].height).fold(0.0, f64::max);
        for &(x, at) in &layer {
            let half = sizes[at].width / 2.0;
            (left, right) = (left.min(x - half), right.max(x + half));
            let below = if sizes[at].is_spine { 0.0 } else { height - sizes[at].height };
            places[at] = Place { at: Point { x, y: y + below }, part, top: y };
            members.push(at);
        }
        y += height + GAP_Y;
    }
    members.into_iter().for_each(|at| places[at].at.x -= left);
    (right - left, y - GAP_Y)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(layers: &[usize]) -> Vec<Size> {
        let size = |(at, &layer): (usize, &usize)| Size {
            width: 60.0 + 40.0 * (at % 4) as f64,
            height: 40.0,
            layer,
            is_spine: true,
        };
        layers.iter().enumerate().map(size).collect()
    }

    fn overlap(sizes: &[Size], layout: &Layout) -> Vec<(usize, usize)> {
        let pairs = (0..sizes.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
        let is_near = |&(a, b): &(usize, usize)| {
            let (p, q) = (layout.boxes[a], layout.boxes[b]);
            (p.x - q.x).abs() < (sizes[a].width + sizes[b].width) / 2.0 && (p.y - q.y).abs() < 40.0
        };
        pairs.filter(is_near).collect()
    }

    #[test]
    fn boxes_do_not_overlap_and_lie_inside() {
        let layers = [0, 0, 0, 1, 1, 2, 3, 3, 4, 0, 1];
        let lines = [(0, 3), (1, 3), (2, 4), (3, 5), (4, 5), (5, 6), (1, 6), (2, 7), (5, 7), (6, 8), (7, 8), (9, 10)];
        let sizes = sizes(&layers);
        let layout = layout(&sizes, &lines);
        assert_eq!(overlap(&sizes, &layout), []);
        for (size, point) in sizes.iter().zip(&layout.boxes) {
            let half = size.width / 2.0;
            assert!(point.x >= half - 1e-9 && point.x + half <= layout.width + 1e-9, "{point:?}");
            assert!(point.y >= 0.0 && point.y + size.height <= layout.height + 1e-9, "{point:?}");
        }
        // what passes two layers has a lane in each
        assert_eq!(layout.lines.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 1, 1, 1, 1, 5, 5, 1, 1, 1, 1]);
    }

    #[test]
    fn lanes_pass_beside_boxes() {
        let sizes = sizes(&[0, 1, 2, 3]);
        let layout = layout(&sizes, &[(0, 1), (1, 2), (2, 3), (0, 3)]);
        for point in &layout.lines[3][1..] {
            let inside = |at: usize| (layout.boxes[at].x - point.x).abs() < sizes[at].width / 2.0;
            let layer = (1..3).find(|&at| (point.y - layout.boxes[at].y).abs() <= 40.0);
            assert!(layer.is_some_and(|at| !inside(at)), "{point:?} {:?}", layout.boxes);
        }
    }

    #[test]
    fn a_chain_is_straight_whatever_its_members_read() {
        let layers: Vec<usize> = (1..40).chain(0..39).collect();
        let mut sizes = sizes(&layers);
        sizes[39..].iter_mut().for_each(|size| size.is_spine = false);
        let chain = (1..39).map(|at| (at - 1, at));
        let lines: Vec<(usize, usize)> = chain.chain((39..78).map(|at| (at, at - 39))).collect();
        let layout = layout(&sizes, &lines);
        let spread = layout.boxes[1..39].iter().map(|point| (point.x - layout.boxes[0].x).abs()).fold(0.0, f64::max);
        assert!(spread < 60.0 && layout.width < 600.0, "{spread} {}", layout.width);
        assert_eq!(overlap(&sizes, &layout), []);
    }

    #[test]
    fn what_would_overlap_stands_around_the_mean() {
        assert_eq!(nearest(&[(0.0, 1.0), (0.0, 1.0)], &[20.0, 20.0]), [-24.0, 24.0]);
        assert_eq!(nearest(&[(0.0, 1.0), (200.0, 1.0)], &[20.0, 20.0]), [0.0, 200.0]);
    }

    #[test]
    fn one_box_and_none() {
        assert_eq!(layout(&[], &[]), Layout::default());
        let one = layout(&sizes(&[0]), &[]);
        assert_eq!((one.boxes[0], one.width, one.height), (Point { x: 30.0, y: 0.0 }, 60.0, 40.0));
    }
}
