//! `--extent`: a graph in all sizes of a range.

use std::ops::RangeInclusive;
use std::str::FromStr;

use fusewright::error::Error;
use fusewright::graph::{FinalizedGraph, TensorId};
use fusewright::reference::with_extent;

/// Axes of tensors, `A.1` or `Q.2+V.2`, and the extents that they have together, `1..8192`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ExtentRange {
    axes: Vec<(String, usize)>,
    extents: RangeInclusive<i64>,
}

/// Most sizes of a range: each is lowered and spelled, in about a millisecond.
const MOST: i64 = 1 << 20;

impl FromStr for ExtentRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORM: &str = "a range of extents is TENSOR.AXIS=FIRST..LAST, such as A.1=1..8192; axes that have the extent together are joined by +";
        let form = || FORM.to_owned();
        let (axes, range) = text.rsplit_once('=').ok_or_else(form)?;
        let (first, last) = range.split_once("..").unwrap_or((range, range));
        let (first, last): (i64, i64) = (first.parse().map_err(|_| form())?, last.parse().map_err(|_| form())?);
        let axis = |text: &str| {
            let (tensor, axis) = text.rsplit_once('.')?;
            Some((tensor.to_owned(), axis.parse().ok()?)).filter(|_| !tensor.is_empty())
        };
        let axes: Option<Vec<(String, usize)>> = axes.split('+').map(axis).collect();
        match (1..=MOST).contains(&first) && first <= last && last - first < MOST {
            true => Ok(Self { axes: axes.ok_or_else(form)?, extents: first..=last }),
            false => Err(format!("extents {range}: required 1 to {MOST}, in ascending order")),
        }
    }
}

impl ExtentRange {
    /// The extents.
    pub(super) fn extents(&self) -> RangeInclusive<i64> {
        self.extents.clone()
    }

    /// How messages name a size.
    pub(super) fn name(&self, extent: i64) -> String {
        let axes: Vec<String> = self.axes.iter().map(|(tensor, axis)| format!("{tensor}.{axis}")).collect();
        format!("{}={extent}", axes.join("+"))
    }

    /// The graph in a size.
    ///
    /// # Errors
    /// As [`with_extent`], and [`Error::Input`] where there is no tensor of that name.
    pub(super) fn resized(&self, graph: &FinalizedGraph, extent: i64) -> Result<FinalizedGraph, Error> {
        let mut resized: Option<FinalizedGraph> = None;
        for (name, axis) in &self.axes {
            let graph = resized.as_ref().unwrap_or(graph);
            let place = (tensor(graph, name)?, *axis);
            // an axis may have followed another one already
            if graph.tensor(place.0).dim.get(*axis) != Some(&extent) {
                resized = Some(with_extent(graph, place, extent)?);
            }
        }
        Ok(resized.unwrap_or_else(|| graph.clone()))
    }
}

fn tensor(graph: &FinalizedGraph, name: &str) -> Result<TensorId, Error> {
    let found = graph.tensor_ids().find(|&id| graph.tensor(id).name == name);
    found.ok_or_else(|| Error::input(format!("tensor '{}'", name.escape_debug()), "the graph has none of that name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read() {
        let range: ExtentRange = "Q.2+blocks.0::V.2=1..8192".parse().unwrap();
        assert_eq!(range.axes, [("Q".to_owned(), 2), ("blocks.0::V".to_owned(), 2)]);
        assert_eq!((range.extents(), range.name(7)), (1..=8192, "Q.2+blocks.0::V.2=7".to_owned()));
        assert_eq!("A.1=64".parse::<ExtentRange>().unwrap().extents(), 64..=64);
    }

    #[test]
    fn what_is_no_range_is_told() {
        for text in ["A.1", "A=1..2", ".1=1..2", "A.x=1..2", "A.1=1..", "A.1=one..2"] {
            assert!(text.parse::<ExtentRange>().unwrap_err().contains("TENSOR.AXIS=FIRST..LAST"), "{text}");
        }
        for text in ["A.1=0..2", "A.1=3..2", "A.1=1..9999999", "A.1=-3..2"] {
            assert!(text.parse::<ExtentRange>().unwrap_err().contains("required 1 to 1048576"), "{text}");
        }
    }
}
