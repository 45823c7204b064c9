//! Reads the log of an application that uses the cuDNN frontend, and says of every graph in it whether it can run.
//!
//! The log was written with `CUDNN_FRONTEND_LOG_INFO=1` and `CUDNN_FRONTEND_LOG_FILE=training.log`.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;

use fusewright::device::ComputeCapability;
use fusewright::engine::decide;
use fusewright::error::Error;
use fusewright::frontend::read_documents;
use fusewright::support::SurfaceId;

const LOG: &[u8] = include_bytes!("graphs/training.log");

fn main() -> Result<(), Error> {
    let log = read_documents("training.log", LOG);
    let mut verdicts = Vec::new();
    for document in log.documents {
        println!("graph {} '{}', line {}", document.number, document.name, document.first_line);
        if document.repeats > 0 {
            println!("  seen {} times", document.repeats + 1);
        }
        document.warnings.iter().for_each(|warning| println!("  {warning}"));

        // A graph that cannot be read or is not well formed is an error; one that cannot run is an answer.
        let graph = Arc::new(document.result?.finalize()?);
        let decision = decide(&graph, ComputeCapability::SM_90, &SurfaceId::ALL);
        decision.report.to_string().lines().for_each(|line| println!("  {line}"));
        let engine = decision.engine().map(|engine| engine.name());
        println!("  engine {}", engine.unwrap_or("none"));
        verdicts.push((document.name, document.repeats, decision.report.supported.is_some(), engine.is_some()));
    }

    let name = str::to_owned;
    assert_eq!(verdicts, [(name("fc1"), 1, true, true), (name("scale"), 0, false, false)]);
    Ok(())
}
