//! The graphs that every process builds, and how.

use std::sync::Arc;
use std::thread;

use fusewright::build::Build;
use fusewright::compile::{Compiled, Compiler, Origin, Request};
use fusewright::device::{ComputeCapability, Device};
use fusewright::engine;
use fusewright::graph::{DataType, FinalizedGraph, Graph, PointwiseMode, Tensor};
use serde::{Deserialize, Serialize};

use crate::chance::Chance;

pub(crate) const CAPABILITY: ComputeCapability = ComputeCapability::SM_90;

/// Graphs, and what each process builds them with.
pub(crate) const COUNT: usize = 50;
pub(crate) const THREADS: u64 = 4;

/// Operations that NVRTC compiles in a moment.
const MODES: [PointwiseMode; 10] = [
    PointwiseMode::ReluFwd,
    PointwiseMode::Neg,
    PointwiseMode::Abs,
    PointwiseMode::Ceil,
    PointwiseMode::Floor,
    PointwiseMode::Sqrt,
    PointwiseMode::Rsqrt,
    PointwiseMode::Reciprocal,
    PointwiseMode::EluFwd,
    PointwiseMode::Identity,
];

/// What a graph's binary is made of, and what it must be; written by the first process, so that the others spend their
/// time in the cache.
#[derive(Serialize, Deserialize)]
pub(crate) struct Prepared {
    engine: String,
    config: String,
    source: String,
    /// Hash of the right binary, as hexadecimal digits.
    pub(crate) hash: String,
}

/// The graph of a number below [`COUNT`]: one operation on `[1, 4 + number, 8]`.
fn graph(number: usize) -> FinalizedGraph {
    let mut graph = Graph::new().io_data_type(DataType::Float).compute_data_type(DataType::Float);
    let x = graph.tensor(Tensor::new("x").row_major([1, 4 + number as i64, 8]));
    let y = graph.pointwise("map", MODES[number % MODES.len()], &[x]);
    graph.set_output(y);
    graph.finalize().expect("a well-formed graph")
}

/// Renders and compiles a graph in peace.
pub(crate) fn prepare(compiler: &Compiler, number: usize) -> Prepared {
    let graph = Arc::new(graph(number));
    let device = Device::typical(CAPABILITY);
    let selection = engine::select(&graph, CAPABILITY).expect("a graph that an engine takes");
    let Build { config, source, .. } = Build::first(&selection, &device).expect("a kernel's text");
    let engine = config.engine.to_owned();
    let mut prepared = Prepared { engine, config: config.to_string(), source: source.text, hash: String::new() };
    prepared.hash = build(compiler, number, &prepared).0;
    prepared
}

/// Builds a graph: the hash of its binary, and where that came from.
fn build(compiler: &Compiler, number: usize, prepared: &Prepared) -> (String, Origin) {
    let Prepared { engine, config, source, .. } = prepared;
    let request = Request { graph: graph(number).key(), engine, config, source, capability: CAPABILITY };
    let Compiled { cubin, origin } =
        compiler.compile(&request).unwrap_or_else(|error| panic!("graph {number}: {error}"));
    (blake3::hash(&cubin.images.concat()).to_hex().to_string(), origin)
}

/// Builds every graph on every thread, each thread in an order of its own, and compares the binaries with what they must
/// be. Returns how many were not in memory, and of them those that were compiled.
pub(crate) fn build_all(compiler: &Compiler, prepared: &[Prepared], chance: &mut Chance) -> Tally {
    let orders = (0..THREADS).map(|_| {
        let mut order: Vec<usize> = (0..COUNT).collect();
        chance.shuffle(&mut order);
        order
    });
    let build_in = |order: Vec<usize>| {
        let built = order.into_iter().map(|number| {
            let (hash, origin) = build(compiler, number, &prepared[number]);
            assert_eq!(hash, prepared[number].hash, "the binary of graph {number}, {origin:?}");
            origin
        });
        built.collect::<Vec<Origin>>()
    };
    let origins: Vec<Origin> = thread::scope(|scope| {
        let threads: Vec<_> = orders.map(|order| scope.spawn(move || build_in(order))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("right binaries")).collect()
    });
    let count = |wanted| origins.iter().filter(|origin| **origin == wanted).count();
    Tally { from_disk: count(Origin::Disk), compiled: count(Origin::Compiled) }
}

/// Where the binaries of one process came from; the rest was in its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) from_disk: usize,
    pub(crate) compiled: usize,
}
