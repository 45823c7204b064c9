//! Lowers a graph for a chip that need not be here, and prints the CUDA source, ready for NVRTC.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;

use fusewright::build::Build;
use fusewright::device::{ComputeCapability, Device};
use fusewright::engine::select;
use fusewright::error::Error;
use fusewright::graph::{DataType, Graph, PointwiseMode, Tensor};

fn main() -> Result<(), Error> {
    // y = gelu(x · scale), one scale a channel, channels last.
    let mut graph = Graph::new()
        .io_data_type(DataType::BFloat16)
        .intermediate_data_type(DataType::Float)
        .compute_data_type(DataType::Float);
    let x = graph.tensor(Tensor::new("x").channels_last([8, 64, 28, 28]));
    let scale = graph.tensor(Tensor::new("scale").channels_last([1, 64, 1, 1]));
    let scaled = graph.pointwise("mul", PointwiseMode::Mul, &[x, scale]);
    let y = graph.pointwise("gelu", PointwiseMode::GeluFwd, &[scaled]);
    graph.set_output(y);
    let graph = Arc::new(graph.finalize()?);

    // Engines rank their configs, the best first; each lowers to a kernel description, and that renders to one file.
    let device = Device::typical(ComputeCapability::SM_80);
    let selection = select(&graph, device.capability)?;
    let Build { source, config, .. } = Build::first(&selection, &device)?;
    print!("{}", source.text);
    for launch in &source.launches {
        println!("// {}: grid {:?}, block {:?}", launch.function, launch.grid, launch.block);
    }

    // Rendering is deterministic to the byte, and the file is complete: it includes nothing.
    let again = Build::new(&selection, config, &device)?;
    assert_eq!(source, again.source);
    assert!(source.text.contains(&source.launches[0].function) && !source.text.contains("#include"));
    Ok(())
}
