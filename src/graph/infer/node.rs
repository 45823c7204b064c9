//! An operation with its tensors at hand, for the rules of each kind.

use super::advice;
use super::layout::Layout;
use crate::graph::Malformed;
use crate::graph::draft::Draft;
use crate::graph::{Attributes, DataType, Operation, OperationId, Port, Tensor, TensorId};

/// Most operations of a graph in which a result is followed: each is looked at for each defect.
const FOLLOWED: usize = 512;

/// One operation of a draft. Ports are looked up among the inputs first, then among the outputs.
pub(in crate::graph) struct Node<'a> {
    pub(in crate::graph) operation: &'a Operation,
    id: OperationId,
    draft: &'a mut Draft,
}

impl<'a> Node<'a> {
    pub(in crate::graph) fn new(draft: &'a mut Draft, operation: &'a Operation, id: OperationId) -> Self {
        Self { operation, id, draft }
    }

    /// A defect of the operation as a whole.
    pub(in crate::graph) fn fault(&self, rule: &'static str, message: impl Into<String>) -> Malformed {
        self.draft.fault(rule, self.id, None, message)
    }

    /// A defect of the tensor at a port.
    pub(in crate::graph) fn fault_at(&self, rule: &'static str, port: Port, message: impl AsRef<str>) -> Malformed {
        self.draft.fault(rule, self.id, self.tensor_id(port), format!("port {port}: {}", message.as_ref()))
    }

    /// How messages name the tensor at a port.
    pub(in crate::graph) fn describe(&self, port: Port) -> String {
        self.tensor_id(port).map_or_else(|| format!("port {port}"), |id| self.draft.describe_tensor(id))
    }

    fn tensor_id(&self, port: Port) -> Option<TensorId> {
        self.operation.input(port).or_else(|| self.operation.output(port))
    }

    /// The tensor at a port, where there is one.
    pub(in crate::graph) fn tensor(&self, port: Port) -> Option<&Tensor> {
        self.tensor_id(port).map(|id| self.draft.tensor(id))
    }

    /// Tensors of all inputs in port order; concatenations have many at one port.
    pub(in crate::graph) fn inputs(&self) -> impl DoubleEndedIterator<Item = &Tensor> + ExactSizeIterator {
        self.operation.input_tensors().map(|id| self.draft.tensor(id))
    }

    /// Dims at a port that must have some.
    pub(in crate::graph) fn dim(&self, port: Port) -> Result<&[i64], Malformed> {
        match self.tensor(port) {
            None => Err(self.fault("GR-PORTS", format!("port {port} has no tensor"))),
            Some(tensor) if tensor.dim.is_empty() => Err(self.not_set(port, "dims")),
            Some(tensor) => Ok(&tensor.dim),
        }
    }

    /// Dims that the author gave the result at a port or, where it has none, what pointwise operations make of it.
    pub(in crate::graph) fn given_result(&self, port: Port) -> Option<&[i64]> {
        let mut id = self.tensor_id(port)?;
        let mut rest: &[Operation] = &self.draft.operations;
        while self.draft.tensor(id).dim.is_empty() && self.draft.operations.len() <= FOLLOWED {
            let reads = |operation: &Operation| {
                matches!(operation.attributes, Attributes::Pointwise(_))
                    && operation.input_tensors().any(|input| input == id)
            };
            let reader = rest.iter().position(reads)?;
            id = rest[reader].result()?;
            rest = &rest[reader + 1..];
        }
        Some(&self.draft.tensor(id).dim[..]).filter(|dim| !dim.is_empty())
    }

    /// Strides at a port that must have some.
    pub(in crate::graph) fn stride(&self, port: Port) -> Result<&[i64], Malformed> {
        match self.tensor(port) {
            None => Err(self.fault("GR-PORTS", format!("port {port} has no tensor"))),
            Some(tensor) if tensor.stride.is_empty() => Err(self.not_set(port, "strides")),
            Some(tensor) => Ok(&tensor.stride),
        }
    }

    /// What only the author can know is missing.
    pub(in crate::graph) fn not_set(&self, port: Port, what: &str) -> Malformed {
        self.fault_at("ATTRIBUTE_NOT_SET", port, format!("{what} must be given; they cannot be inferred"))
    }

    /// Whether the tensor at a port is there and lacks dims.
    pub(in crate::graph) fn lacks_dim(&self, port: Port) -> bool {
        self.tensor(port).is_some_and(|tensor| tensor.dim.is_empty())
    }

    /// Whether the tensor at a port is there and lacks strides.
    pub(in crate::graph) fn lacks_stride(&self, port: Port) -> bool {
        self.tensor(port).is_some_and(|tensor| tensor.stride.is_empty())
    }

    /// Fills in what the tensor at a port lacks, and notes it (FEJ-21). Nothing happens where the port is empty.
    pub(in crate::graph) fn complete(&mut self, port: Port, dim: Vec<i64>, layout: &Layout) {
        let Some(id) = self.tensor_id(port) else { return };
        let tensor = self.draft.tensor(id);
        let what = match (tensor.dim.is_empty(), tensor.stride.is_empty()) {
            (false, false) => return,
            (true, true) => "dims and strides",
            (true, false) => "dims",
            (false, true) => "strides",
        };
        let name = tensor.name.escape_debug().to_string();
        let tensor = &mut self.draft.tensors[id.index()];
        let mut note = format!("{what} of '{name}' were not given; inferred");
        if tensor.dim.is_empty() {
            note += &format!(" dims {dim:?}");
            tensor.dim = dim;
        }
        if tensor.stride.is_empty() {
            tensor.stride = layout.strides(&tensor.dim);
            note += &format!(" strides {:?} ({})", tensor.stride, layout.name());
        }
        self.draft.notes.push(note);
    }

    /// A tensor that is not computed in the graph, and has fewer axes than others here, is aligned at the last axis: it gets axes of
    /// one element before its own, and a note.
    pub(in crate::graph) fn widen(&mut self, port: Port, rank: usize) {
        let Some(id) = self.tensor_id(port) else { return };
        let tensor = &mut self.draft.tensors[id.index()];
        let missing = rank.saturating_sub(tensor.dim.len());
        if tensor.is_virtual || missing == 0 || tensor.dim.is_empty() || tensor.stride.len() != tensor.dim.len() {
            return;
        }
        let outer = tensor.dim[0].saturating_mul(tensor.stride[0]);
        let note =
            format!("has dims {:?}, read as {rank} axes of which the first {missing} have one element", tensor.dim);
        tensor.dim.splice(0..0, std::iter::repeat_n(1, missing));
        tensor.stride.splice(0..0, std::iter::repeat_n(outer, missing));
        self.note(port, &note);
    }

    /// A scalar by value of 16 bits is read as `FLOAT`: programs that leave its type to the graph's context give a `FLOAT`
    /// (`docs/spec/norms.md` NA-11).
    pub(in crate::graph) fn read_as_float(&mut self, port: Port) {
        let Some(id) = self.tensor_id(port) else { return };
        let tensor = &mut self.draft.tensors[id.index()];
        let is_short = matches!(tensor.data_type, Some(DataType::Half | DataType::BFloat16));
        if is_short && tensor.is_pass_by_value && tensor.value.is_none() {
            tensor.data_type = Some(DataType::Float);
            self.note(port, "a scalar by value of 16 bits; its value is read as FLOAT");
        }
    }

    /// Says something about the tensor at a port to whoever reads the notes.
    pub(in crate::graph) fn note(&mut self, port: Port, message: &str) {
        if let Some(id) = self.tensor_id(port) {
            let tensor = self.draft.describe_tensor(id);
            self.draft.notes.push(format!("tensor {tensor}: {message}"));
        }
    }

    /// All tensors of the operation must have one rank; gives it.
    pub(in crate::graph) fn common_rank(&self, rule: &'static str, ports: &[Port]) -> Result<usize, Malformed> {
        let mut rank = None;
        for &port in ports {
            let found = self.dim(port)?.len();
            let expected = *rank.get_or_insert((found, port));
            if found != expected.0 {
                let message = format!(
                    "rank {found} with dims {:?}, but {} has rank {} with dims {:?}; all must have the same rank{}",
                    self.dim(port)?,
                    expected.1,
                    expected.0,
                    self.dim(expected.1)?,
                    self.widening(port, expected.1)?
                );
                return Err(self.fault_at(rule, port, message));
            }
        }
        Ok(rank.map_or(0, |found| found.0))
    }

    /// Advice on two ports of different rank, where the operation broadcasts: how to write the one of lower rank.
    fn widening(&self, one: Port, other: Port) -> Result<String, Malformed> {
        let (narrow, wide) = if self.dim(one)?.len() < self.dim(other)?.len() { (one, other) } else { (other, one) };
        let widened = match self.operation.attributes {
            Attributes::Matmul(_) => advice::with_leading_ones(self.dim(narrow)?, self.dim(wide)?.len()),
            Attributes::Pointwise(_) => advice::widened(self.dim(narrow)?, self.dim(wide)?),
            _ => None,
        };
        let subject = if narrow == one { "it".to_owned() } else { narrow.to_string() };
        let narrow_tensor = self.tensor(narrow);
        let told = widened.zip(narrow_tensor).map(|(dim, tensor)| {
            let strides = advice::widened_strides(&dim, &tensor.dim, &tensor.stride);
            format!("; write {subject} as {dim:?} with the strides {strides:?}")
        });
        Ok(told.unwrap_or_default())
    }

    /// The dims at a port must be exactly these; `reason` says where they come from.
    pub(in crate::graph) fn require_dim(
        &self,
        rule: &'static str,
        port: Port,
        required: &[i64],
        reason: &str,
    ) -> Result<(), Malformed> {
        let found = self.dim(port)?;
        if found == required {
            return Ok(());
        }
        Err(self.fault_at(rule, port, format!("dims are {found:?}, required {required:?}: {reason}")))
    }
}
