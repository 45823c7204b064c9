//! The record of the skeleton that gathers the values of several GPUs.

use serde::Serialize;

use super::index::{definition_lines, index_type};
use super::names;
use super::sections::Used;
use super::sweep::{SweepSpeller, accumulated_in_float, coordinates};
use crate::error::Error;
use crate::graph::{AllGather, FinalizedGraph};
use crate::kernel::{AllGatherKernel, Index, needed};

/// What `sweep/all_gather.cu` reads beside the function's name and parameters.
#[derive(Serialize)]
pub(super) struct AllGatherText {
    threads: u32,
    channels: i64,
    /// Coordinates of a channel, and how its values are evaluated.
    coordinates: Vec<String>,
    evaluate: String,
    count: usize,
    values: Vec<ValueText>,
    /// Pointers to what peers write to, of how many, and values of a message.
    peers: String,
    ranks: usize,
    message: i64,
}

/// A value that is gathered.
#[derive(Serialize)]
struct ValueText {
    number: usize,
    /// Values of a message before those of the first channel.
    place: i64,
    target: String,
}

pub(super) fn all_gather(
    graph: &FinalizedGraph,
    used: &mut Used,
    kernel: &AllGatherKernel,
) -> Result<AllGatherText, Error> {
    ["fw_send", "fw_receive"].into_iter().for_each(|section| used.add(section));
    let text = SweepSpeller::new(graph, used, &kernel.sweep, &[]).text_with(|speller| {
        let values = kernel.gathered.iter().map(|gathered| accumulated_in_float(speller, gathered.source));
        values.enumerate().map(|(number, value)| format!("own[{number}] = {value};")).collect()
    });
    let coordinates = coordinates(&kernel.sweep, &Index::local("channel"), |_| true);
    let value = |(number, gathered): (usize, &crate::kernel::Gathered)| ValueText {
        number,
        place: gathered.gather.place * kernel.channels,
        target: names::pointer(graph, gathered.target),
    };
    let peers: Vec<String> = kernel.peers.iter().map(|&id| names::pointer(graph, id)).collect();
    Ok(AllGatherText {
        threads: kernel.threads,
        channels: kernel.channels,
        coordinates: definition_lines(
            index_type(kernel.sweep.wide_index),
            &needed(coordinates, &mut text.uses.clone()),
        ),
        evaluate: text.evaluate()?,
        count: kernel.gathered.len(),
        values: kernel.gathered.iter().enumerate().map(value).collect(),
        peers: peers.join(", "),
        ranks: kernel.peers.len(),
        message: AllGather::PLACES * kernel.channels,
    })
}
