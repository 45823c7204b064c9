//! The arguments of a launch: a block of bytes, prepared when the plan is built and completed by each execution.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use super::bindings::Bindings;
use super::driver::inconsistent;
use super::tensor_map::EncodedMap;
use super::variant_pack::{Value, VariantPack};
use super::{Workspace, peers, scalar, tensor_map};
use crate::error::{Error, Misuse};
use crate::graph::{DataType, FinalizedGraph, TensorId};
use crate::kernel::{Launch, Parameter, TensorMap};

/// Most bytes of one kernel's arguments, each taken as a multiple of 8, and tensor maps aligned to 128.
pub const MAX_PARAMETER_BYTES: usize = 4096;

const MAX_WORDS: usize = MAX_PARAMETER_BYTES / size_of::<u64>();

/// A value that only an execution knows.
#[derive(Clone, Debug, PartialEq)]
enum Variable {
    /// The device pointer at this position of the variant pack.
    Pointer(usize),
    /// The host value at this position, of this type.
    Scalar(usize, DataType),
    /// This many bytes into the workspace.
    Workspace(u64),
    /// Which of the pointers at these positions is to memory of the device of this number, first.
    OwnRank { positions: Box<[usize]>, ordinal: u32 },
}

/// A place of the block that an execution completes.
#[derive(Clone, Debug)]
pub(super) struct Patch {
    variable: Variable,
    word: usize,
    /// Whether a tensor map begins there, whose address only the driver can replace.
    is_map: bool,
    /// Bytes before the value that are meant.
    lead: u64,
}

/// What launches are told of their device among those of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Among {
    /// Number of the device.
    pub(super) ordinal: u32,
    /// Address of the word for the rank of a GPU that is absent; null where no launch needs it.
    pub(super) absent_rank: u64,
}

/// What is known of a launch's arguments beforehand.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    /// Constants, and tensor maps but for their addresses; zero where an execution puts its values.
    words: Vec<u64>,
    /// Word at which each argument begins.
    starts: Vec<usize>,
    patches: Vec<Patch>,
}

/// The arguments of one launch of one execution. Only as much of it is ever written as the launch has arguments.
#[derive(Debug)]
#[repr(C, align(128))]
pub(super) struct Block {
    words: [MaybeUninit<u64>; MAX_WORDS],
    pointers: [MaybeUninit<*mut c_void>; MAX_WORDS],
}

impl Arguments {
    /// Those of a launch that the bindings were made for.
    pub(super) fn prepare(
        graph: &FinalizedGraph,
        bindings: &Bindings,
        launch: &Launch,
        among: Among,
    ) -> Result<Self, Error> {
        let mut arguments = Self::default();
        for parameter in &launch.parameters {
            arguments.push(graph, bindings, parameter, among)?;
        }
        let bytes = arguments.words.len() * size_of::<u64>();
        if bytes > MAX_PARAMETER_BYTES {
            let name = launch.function.escape_debug();
            return Err(inconsistent(format!(
                "kernel {name} has {bytes} bytes of parameters; required: at most {MAX_PARAMETER_BYTES}"
            )));
        }
        Ok(arguments)
    }

    fn push(
        &mut self,
        graph: &FinalizedGraph,
        bindings: &Bindings,
        parameter: &Parameter,
        among: Among,
    ) -> Result<(), Error> {
        match parameter {
            Parameter::Workspace { offset }
            | Parameter::TileCounter { offset }
            | Parameter::Accumulators { offset, .. }
            | Parameter::Intermediate { offset, .. } => {
                self.push_variable(Variable::Workspace(*offset));
            }
            Parameter::Tensor(id) => self.push_variable(Variable::Pointer(pointer(graph, bindings, *id)?)),
            Parameter::Scalar(id) => self.push_scalar(graph, bindings, *id)?,
            Parameter::Constant { bits, .. } => {
                self.push_words(&[u64::from(*bits)], 1);
            }
            Parameter::OwnRank { first } => self.push_own_rank(graph, bindings, (*first, among.ordinal))?,
            Parameter::AbsentRank => {
                self.push_words(&[among.absent_rank], 1);
            }
            Parameter::FirstHead(number) | Parameter::Int(number) => {
                self.push_words(&[u64::from(number.cast_unsigned())], 1);
            }
            Parameter::Long(number) => {
                self.push_words(&[number.cast_unsigned()], 1);
            }
            Parameter::TensorMap(map) => {
                let base = Variable::Pointer(pointer(graph, bindings, map.tensor)?);
                self.push_map(&graph.describe_tensor(map.tensor), map, base)?;
            }
            Parameter::IntermediateMap { map, offset } => {
                self.push_map("a copy in the workspace", map, Variable::Workspace(*offset))?;
            }
        }
        Ok(())
    }

    fn push_scalar(&mut self, graph: &FinalizedGraph, bindings: &Bindings, id: TensorId) -> Result<(), Error> {
        let tensor = graph.tensor(id);
        let stated = tensor.value.filter(|_| tensor.is_pass_by_value);
        if let Some(bits) = stated.and_then(|value| scalar::slot(tensor.data_type, value)) {
            self.push_words(&[bits], 1);
            return Ok(());
        }
        let position = bindings.position(tensor.uid).filter(|_| tensor.is_pass_by_value && tensor.value.is_none());
        let position = position.ok_or_else(|| wrong(graph, id, "host scalar that a kernel takes"))?;
        self.push_variable(Variable::Scalar(position, tensor.data_type));
        Ok(())
    }

    /// The rank of the device of a number, by the tensors of the peers whose first one this is.
    fn push_own_rank(
        &mut self,
        graph: &FinalizedGraph,
        bindings: &Bindings,
        (first, ordinal): (TensorId, u32),
    ) -> Result<(), Error> {
        let reader = graph.operations().find(|operation| operation.peers().next() == Some(first));
        let peers = reader.into_iter().flat_map(|operation| operation.peers());
        let positions = peers.map(|id| pointer(graph, bindings, id)).collect::<Result<_, _>>()?;
        self.push_variable(Variable::OwnRank { positions, ordinal });
        Ok(())
    }

    /// The map of a tensor that messages name so, whose address is the value of `base`.
    fn push_map(&mut self, tensor: &str, map: &TensorMap, base: Variable) -> Result<(), Error> {
        let EncodedMap { words, address } = tensor_map::encode(tensor, map)?;
        let start = self.push_words(&words, tensor_map::ALIGNMENT_WORDS);
        let word = start + address.unwrap_or(0);
        self.patches.push(Patch { variable: base, word, is_map: address.is_none(), lead: map.lead });
        Ok(())
    }

    fn push_variable(&mut self, variable: Variable) {
        let word = self.push_words(&[0], 1);
        self.patches.push(Patch { variable, word, is_map: false, lead: 0 });
    }

    /// Appends an argument at a multiple of `alignment` words, and says where.
    fn push_words(&mut self, words: &[u64], alignment: usize) -> usize {
        let start = self.words.len().next_multiple_of(alignment);
        self.words.resize(start, 0);
        self.words.extend_from_slice(words);
        self.starts.push(start);
        start
    }

    /// The places that an execution completes.
    pub(super) fn patches(&self) -> &[Patch] {
        &self.patches
    }
}

impl Patch {
    /// Whether the pack of an execution has what it needs.
    ///
    /// # Errors
    /// [`Error::Execution`] where no tensor of peers lies on the plan's device.
    pub(super) fn check(&self, pack: &VariantPack) -> Result<(), Error> {
        let Variable::OwnRank { positions, ordinal } = &self.variable else { return Ok(()) };
        match peers::own_rank(pack, positions, *ordinal) {
            Some(_) => Ok(()),
            None => Err(Error::execution(
                Misuse::Peers,
                format!("none of the {} tensors lies on device {ordinal}, which the plan runs on", positions.len()),
            )),
        }
    }

    /// Its value in an execution. The pack has passed the check of the plan's bindings.
    pub(super) fn value(&self, pack: &VariantPack, workspace: Workspace) -> u64 {
        let value = |position: usize| pack.entries().get(position).map(|entry| entry.1);
        let value = match &self.variable {
            Variable::OwnRank { positions, ordinal } => peers::own_rank(pack, positions, *ordinal).unwrap_or(0),
            &Variable::Workspace(offset) => workspace.pointer.address() + offset,
            &Variable::Pointer(position) => match value(position) {
                Some(Value::Pointer(pointer)) => pointer.address(),
                _ => 0,
            },
            &Variable::Scalar(position, data_type) => match value(position) {
                Some(Value::Scalar(value)) => scalar::slot(data_type, value).unwrap_or(0),
                _ => 0,
            },
        };
        value.wrapping_sub(self.lead)
    }
}

impl Block {
    /// Room for any launch's arguments, with nothing in it.
    #[inline]
    pub(super) fn new() -> Self {
        Self { words: [const { MaybeUninit::uninit() }; _], pointers: [const { MaybeUninit::uninit() }; _] }
    }

    /// Puts in what is known beforehand.
    pub(super) fn fill(&mut self, arguments: &Arguments) {
        for (word, known) in self.words.iter_mut().zip(&arguments.words) {
            word.write(*known);
        }
    }

    /// Puts in a value of an execution. The block was filled with the arguments whose patch it is.
    pub(super) fn set(&mut self, patch: &Patch, value: u64) -> Result<(), Error> {
        if patch.is_map {
            let map = self.words[patch.word..patch.word + tensor_map::WORDS].as_mut_ptr();
            // SAFETY: `Arguments::push_map` put an encoded map there, at a multiple of its alignment into the block,
            // which is aligned as much.
            return unsafe { tensor_map::replace_address(map.cast(), value) };
        }
        self.words[patch.word].write(value);
        Ok(())
    }

    /// One pointer per argument, as launches take them; valid while the block is neither moved nor changed.
    pub(super) fn pointers(&mut self, arguments: &Arguments) -> *mut *mut c_void {
        let words = self.words.as_mut_ptr();
        for (pointer, start) in self.pointers.iter_mut().zip(&arguments.starts) {
            pointer.write(words.wrapping_add(*start).cast());
        }
        self.pointers.as_mut_ptr().cast()
    }
}

/// Position of a tensor in device memory.
fn pointer(graph: &FinalizedGraph, bindings: &Bindings, id: TensorId) -> Result<usize, Error> {
    let tensor = graph.tensor(id);
    let position = bindings.position(tensor.uid).filter(|_| !tensor.is_pass_by_value);
    position.ok_or_else(|| wrong(graph, id, "tensor in device memory"))
}

fn wrong(graph: &FinalizedGraph, id: TensorId, what: &str) -> Error {
    inconsistent(format!("tensor {} is no {what}", graph.describe_tensor(id)))
}
