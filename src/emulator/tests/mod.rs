//! Hand-written CUDA on the emulator: right kernels give right results, and planted defects are found.
//!
//! Without a C++ compiler these tests pass without doing anything, unless `FUSEWRIGHT_REQUIRE_EMULATOR=1` is set.

mod clusters;
mod compilation;
mod defects;
mod graphs;
mod hopper;
mod kernels;
mod signals;
mod tanh;

use std::path::PathBuf;

use super::bindings::Bindings;
use super::compiler::Compiler;
use super::library::Argument;
use super::{EmulatedKernel, Schedule};
use crate::codegen::{Source, without_primitives};
use crate::error::{Error, Result};
use crate::graph::{Graph, Tensor, TensorId};
use crate::kernel::{Launch, Parameter, TensorMap};

const VECTOR_ADD: &str = include_str!("vector_add.cu");
const BLOCK_SUM: &str = include_str!("block_sum.cu");
const TRANSPOSE: &str = include_str!("transpose.cu");
const GEMM: &str = include_str!("gemm.cu");
const FP8: &str = include_str!("fp8.cu");
const NUMBERS: &str = include_str!("numbers.cu");
const INTRINSICS: &str = include_str!("intrinsics.cu");

/// Where the tests keep compiled kernels.
fn cache_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/emulator-tests")
}

/// The machine's compiler; `None` means that the test is to be skipped.
fn compiler() -> Option<Compiler> {
    match Compiler::find() {
        Ok(compiler) => Some(compiler),
        Err(error) if std::env::var("FUSEWRIGHT_REQUIRE_EMULATOR").is_ok_and(|value| value == "1") => panic!("{error}"),
        Err(_) => None,
    }
}

/// Distinct tensor ids.
fn ids(count: usize) -> Vec<TensorId> {
    (0..count as u32).map(TensorId::at).collect()
}

/// Contents of an argument of a hand-written kernel.
#[derive(Clone)]
enum Value {
    Input(Vec<u8>),
    /// Bytes of an output.
    Output(usize),
    Scalar(Argument),
    /// Offset into the workspace.
    Workspace(u64),
    /// The value at a position as boxes; the tensor that the map names is not read.
    Map(usize, TensorMap),
}

/// A hand-written kernel with one launch and its arguments.
#[derive(Clone)]
struct Case {
    source: Source,
    values: Vec<Value>,
}

impl Case {
    fn new(text: &str, function: &str, values: Vec<Value>) -> Self {
        let ids = ids(values.len());
        let parameter = |(value, &id): (&Value, &TensorId)| match value {
            &Value::Map(position, map) => Parameter::TensorMap(TensorMap { tensor: ids[position], ..map }),
            Value::Input(_) | Value::Output(_) => Parameter::Tensor(id),
            Value::Scalar(_) => Parameter::Scalar(id),
            &Value::Workspace(offset) => Parameter::Workspace { offset },
        };
        let launch = Launch {
            function: function.to_owned(),
            grid: [1; 2],
            cluster: 1,
            block: [1; 3],
            shared_bytes: 0,
            starts_early: false,
            parameters: values.iter().zip(&ids).map(parameter).collect(),
        };
        Self {
            source: Source {
                text: text.to_owned(),
                launches: vec![launch],
                workspace_bytes: 0,
                uses_tf32: false,
                uses_fp8: false,
            },
            values,
        }
    }

    fn grid(mut self, grid: [u32; 2]) -> Self {
        self.source.launches[0].grid = grid;
        self
    }

    fn cluster(mut self, blocks: u32) -> Self {
        self.source.launches[0].cluster = blocks;
        self
    }

    fn block(mut self, block: [u32; 3]) -> Self {
        self.source.launches[0].block = block;
        self
    }

    fn shared(mut self, bytes: u32) -> Self {
        self.source.launches[0].shared_bytes = bytes;
        self
    }

    fn workspace(mut self, bytes: u64) -> Self {
        self.source.workspace_bytes = bytes;
        self
    }

    /// Plants a defect: `from` occurs in the text.
    fn planted(mut self, from: &str, to: &str) -> Self {
        // a primitive that is changed would be another text than the one that the emulator takes out
        let text = without_primitives(&self.source.text);
        assert!(text.contains(from), "nothing to replace: {from}");
        self.source.text = text.replace(from, to);
        self
    }

    fn compile(&self) -> Option<EmulatedKernel> {
        Some(EmulatedKernel::compile_with(&compiler()?, &self.source, &cache_dir()).unwrap_or_else(|error| {
            panic!("{error}: {}", if let Error::Generated { log, .. } = &error { log } else { "" })
        }))
    }

    /// Bytes of all outputs under one schedule; `None` means that the test is to be skipped.
    fn run_with(&self, schedule: Schedule) -> Option<Result<Vec<Vec<u8>>>> {
        let kernel = self.compile()?;
        Some(self.run_compiled(&kernel, schedule))
    }

    fn run_compiled(&self, kernel: &EmulatedKernel, schedule: Schedule) -> Result<Vec<Vec<u8>>> {
        let mut bindings = Bindings::new(self.source.workspace_bytes as usize);
        let ids = ids(self.values.len());
        for (i, (value, &id)) in self.values.iter().zip(&ids).enumerate() {
            match value {
                Value::Input(bytes) => bindings.input(id, format!("argument {i}"), bytes, 16),
                &Value::Output(bytes) => bindings.output(id, format!("argument {i}"), bytes, 16),
                &Value::Scalar(scalar) => bindings.scalar(id, scalar),
                Value::Workspace(_) | Value::Map(..) => {}
            }
        }
        kernel.execute(&mut bindings, schedule)?;
        let outputs = self.values.iter().zip(&ids).filter(|(value, _)| matches!(value, Value::Output(_)));
        Ok(outputs.map(|(_, &id)| bindings.bytes(id).to_vec()).collect())
    }

    /// Outputs that both schedules agree on.
    fn run(&self) -> Option<Vec<Vec<u8>>> {
        let lazy = self.run_with(Schedule::Lazy)?.unwrap();
        assert!(lazy == self.run_with(Schedule::Eager)?.unwrap(), "the result depends on the schedule");
        Some(lazy)
    }

    /// Fails unless the kernel is found wrong under both schedules, with all of `words` in one of the messages.
    #[track_caller]
    fn expect_wrong(&self, words: &[&str]) {
        let Some(lazy) = self.run_with(Schedule::Lazy) else { return };
        let eager = self.run_with(Schedule::Eager).expect("the compiler is still there");
        let messages = [lazy, eager].map(|result| match result.expect_err("the defect is found") {
            Error::Wrong(message) => message,
            other => panic!("{other:?}"),
        });
        assert!(messages.iter().any(|m| words.iter().all(|&word| m.contains(word))), "{messages:#?}");
    }

    /// Fails unless the kernel is found wrong under at least one schedule, with all of `words` in the message.
    #[track_caller]
    fn expect_reported(&self, words: &[&str]) {
        let Some(lazy) = self.run_with(Schedule::Lazy) else { return };
        let eager = self.run_with(Schedule::Eager).expect("the compiler is still there");
        let messages =
            [lazy, eager].map(|result| result.err().map_or("no defect".to_owned(), |error| error.to_string()));
        assert!(messages.iter().any(|m| words.iter().all(|&word| m.contains(word))), "{messages:#?}");
    }

    /// Fails unless at least one schedule gives something other than `right`, or finds the kernel wrong.
    #[track_caller]
    fn expect_not(&self, right: &[Vec<u8>]) {
        let Some(lazy) = self.run_with(Schedule::Lazy) else { return };
        let eager = self.run_with(Schedule::Eager).expect("the compiler is still there");
        let is_right = |result: &Result<Vec<Vec<u8>>>| result.as_ref().is_ok_and(|outputs| outputs == right);
        assert!(!is_right(&lazy) || !is_right(&eager), "the defect is not found");
    }
}

fn int(value: i32) -> Value {
    Value::Scalar(Argument::Int(value))
}

fn floats(values: impl IntoIterator<Item = f32>) -> Vec<u8> {
    values.into_iter().flat_map(f32::to_le_bytes).collect()
}

fn as_floats(bytes: &[u8]) -> Vec<f32> {
    as_words(bytes).into_iter().map(f32::from_bits).collect()
}

fn as_words(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks().0.iter().map(|&chunk| u32::from_le_bytes(chunk)).collect()
}
