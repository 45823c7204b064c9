//! What a plan expects of a variant pack.

use std::borrow::Cow;

use super::variant_pack::{Value, VariantPack};
use super::{scalar, tensor_map};
use crate::error::{Error, Misuse};
use crate::graph::{DataType, FinalizedGraph, GraphKey, TensorId};
use crate::host_tensor::HostTensor;
use crate::kernel::{Launch, Parameter};

/// What a tensor must be given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// A device pointer with this alignment, to memory of this size, both in bytes.
    Pointer { alignment: u64, bytes: u64 },
    /// A host value of this type.
    Scalar { data_type: DataType },
}

/// One entry a pack must have.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Binding {
    pub(super) uid: i64,
    pub(super) kind: Kind,
    /// How messages name the tensor.
    pub(super) label: String,
}

/// Identity of the memory that a plan works on: the graph's key, and the size of each tensor by uid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TensorsDigest([u8; 32]);

impl TensorsDigest {
    /// The memory of every tensor of a graph.
    pub(crate) fn of(graph: &FinalizedGraph) -> Self {
        Bindings::of(graph, &[]).digest(graph.key())
    }
}

/// Every entry a pack must have, in ascending order of uid.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bindings(Vec<Binding>);

impl Bindings {
    /// Those of a graph and its launches: every tensor that is not virtual, except host scalars whose value the graph
    /// states. Where a launch takes a tensor map, the pointer is aligned for it.
    pub(super) fn of(graph: &FinalizedGraph, launches: &[Launch]) -> Self {
        let mut bindings = Self::new(graph.tensor_ids().filter_map(|id| binding(graph, id)).collect());
        for parameter in launches.iter().flat_map(|launch| &launch.parameters) {
            if let Parameter::TensorMap(map) = parameter {
                bindings.require_alignment(graph.tensor(map.tensor).uid, tensor_map::POINTER_ALIGNMENT);
            }
        }
        bindings
    }

    fn new(mut bindings: Vec<Binding>) -> Self {
        bindings.sort_by_key(|binding| binding.uid);
        Self(bindings)
    }

    /// What two plans share exactly where each runs on the memory of the other.
    pub(super) fn digest(&self, key: GraphKey) -> TensorsDigest {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&key.to_bytes());
        for Binding { uid, kind, .. } in &self.0 {
            let bytes = match kind {
                Kind::Pointer { bytes, .. } => *bytes,
                Kind::Scalar { .. } => 0,
            };
            hasher.update(&uid.to_le_bytes()).update(&bytes.to_le_bytes());
        }
        TensorsDigest(*hasher.finalize().as_bytes())
    }

    /// Position of a uid, in the bindings and in every pack that passed [`Self::check`].
    pub(super) fn position(&self, uid: i64) -> Option<usize> {
        self.0.binary_search_by_key(&uid, |binding| binding.uid).ok()
    }

    /// Demands that the pointer of a uid is a multiple of this power of two of bytes as well.
    fn require_alignment(&mut self, uid: i64, required: u64) {
        let position = self.position(uid);
        let binding = position.and_then(|position| self.0.get_mut(position));
        if let Some(Binding { kind: Kind::Pointer { alignment, .. }, .. }) = binding {
            let missing_bits = required.trailing_zeros().saturating_sub(alignment.trailing_zeros());
            // No address is a multiple of more than 64 bits hold, nor of the largest number that they do.
            *alignment = alignment.checked_mul(1 << missing_bits).unwrap_or(u64::MAX);
        }
    }

    /// Whether a pack has exactly these entries, with usable values. Does not allocate unless it fails.
    pub(super) fn check(&self, pack: &VariantPack) -> Result<(), Error> {
        let entries = pack.entries();
        for (position, binding) in self.0.iter().enumerate() {
            match entries.get(position) {
                Some((uid, value)) if *uid == binding.uid => binding.check(*value)?,
                Some((uid, _)) if *uid < binding.uid => return Err(self.extra(*uid)),
                _ => return Err(missing(binding)),
            }
        }
        entries.get(self.0.len()).map_or(Ok(()), |(uid, _)| Err(self.extra(*uid)))
    }

    /// A pack's entries of the uids that are bound; the pack itself where it has no others.
    pub(super) fn known<'a>(&self, pack: &'a VariantPack) -> Cow<'a, VariantPack> {
        pack.only(|uid| self.position(uid).is_some())
    }

    #[cold]
    fn extra(&self, uid: i64) -> Error {
        let expected: Vec<String> = self.0.iter().map(|binding| binding.uid.to_string()).collect();
        pack_error(format!(
            "uid {uid} is not expected: no tensor that is read or written has it, or its value is stated in the graph; \
             expected are {}",
            expected.join(", ")
        ))
    }
}

impl Binding {
    fn check(&self, value: Value) -> Result<(), Error> {
        match (self.kind, value) {
            (Kind::Pointer { alignment, .. }, Value::Pointer(pointer)) => {
                let address = pointer.address();
                if address != 0 && address.is_multiple_of(alignment) {
                    return Ok(());
                }
                Err(self.bad_pointer(address, alignment))
            }
            (Kind::Scalar { data_type }, Value::Scalar(value)) => match scalar::slot(data_type, value) {
                Some(_) => Ok(()),
                None => Err(pack_error(format!("tensor {}: {value:?} is no value of {data_type}", self.label))),
            },
            (Kind::Pointer { .. }, Value::Scalar(_)) => {
                Err(pack_error(format!("tensor {}: required: a device pointer; found: a host value", self.label)))
            }
            (Kind::Scalar { .. }, Value::Pointer(_)) => Err(pack_error(format!(
                "tensor {}: required: a host value, as it is passed by value; found: a device pointer",
                self.label
            ))),
        }
    }

    #[cold]
    fn bad_pointer(&self, address: u64, alignment: u64) -> Error {
        let label = &self.label;
        if address == 0 {
            return Error::execution(Misuse::NullPointer, format!("tensor {label}: the device pointer is null"));
        }
        let message =
            format!("tensor {label}: required: an alignment of {alignment} bytes; found: address {address:#x}");
        Error::execution(Misuse::Alignment, message)
    }
}

/// What a pack must have for a tensor, if anything.
fn binding(graph: &FinalizedGraph, id: TensorId) -> Option<Binding> {
    let tensor = graph.tensor(id);
    let kind = if tensor.is_pass_by_value {
        if tensor.value.is_some() {
            return None;
        }
        Kind::Scalar { data_type: tensor.data_type }
    } else if tensor.is_virtual {
        return None;
    } else {
        let bytes = HostTensor::storage_bytes(tensor.data_type, &tensor.dim, &tensor.stride);
        let bytes = bytes.ok().and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(u64::MAX);
        Kind::Pointer { alignment: u64::try_from(tensor.alignment).unwrap_or(1).max(1), bytes }
    };
    Some(Binding { uid: tensor.uid, kind, label: graph.describe_tensor(id) })
}

#[cold]
fn missing(binding: &Binding) -> Error {
    pack_error(format!("tensor {} has no entry", binding.label))
}

fn pack_error(message: String) -> Error {
    Error::execution(Misuse::Pack, message)
}

#[cfg(test)]
mod tests {
    use super::super::DevicePointer;
    use super::*;
    use crate::graph::Scalar;

    fn bindings() -> Bindings {
        let binding = |uid, kind| Binding { uid, kind, label: format!("'t{uid}' (uid {uid})") };
        Bindings::new(vec![
            binding(9, Kind::Scalar { data_type: DataType::Int32 }),
            binding(2, Kind::Pointer { alignment: 16, bytes: 4 }),
            binding(-4, Kind::Pointer { alignment: 1, bytes: 4 }),
        ])
    }

    fn pointer(address: u64) -> DevicePointer {
        DevicePointer::from_raw(address)
    }

    fn pack() -> VariantPack {
        let mut pack = VariantPack::new();
        pack.set_scalar(9, Scalar::Integer(1)).set_pointer(-4, pointer(1)).set_pointer(2, pointer(0x20));
        pack
    }

    #[track_caller]
    fn refused(pack: &VariantPack, expected: &str) {
        let error = bindings().check(pack).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains(expected), "{error}");
    }

    #[test]
    fn a_complete_pack_passes_and_lines_up_with_the_bindings() {
        bindings().check(&pack()).unwrap();
        for uid in [-4, 2, 9] {
            let position = bindings().position(uid).unwrap();
            assert_eq!(pack().entries()[position].0, uid);
        }
        assert_eq!(bindings().position(3), None);
    }

    #[test]
    fn missing_entries_are_named() {
        refused(&VariantPack::new(), "tensor 't-4' (uid -4) has no entry");
        let mut without_last = VariantPack::new();
        without_last.set_pointer(-4, pointer(1)).set_pointer(2, pointer(16));
        refused(&without_last, "tensor 't9' (uid 9) has no entry");
    }

    #[test]
    fn extra_entries_are_named_wherever_they_stand() {
        for uid in [-5, 0, 5, 10] {
            refused(pack().set_pointer(uid, pointer(16)), &format!("uid {uid} is not expected"));
        }
    }

    #[test]
    fn entries_of_other_uids_can_be_left_out() {
        let mut larger = pack();
        for uid in [-5, 0, 5, 10] {
            larger.set_pointer(uid, DevicePointer::NULL);
        }
        assert_eq!(*bindings().known(&larger), pack());
        assert!(matches!(bindings().known(&pack()), Cow::Borrowed(_)), "nothing is copied without need");
    }

    #[test]
    fn null_and_misaligned_pointers_are_refused() {
        refused(pack().set_pointer(2, DevicePointer::NULL), "tensor 't2' (uid 2): the device pointer is null");
        refused(pack().set_pointer(2, pointer(0x28)), "required: an alignment of 16 bytes; found: address 0x28");
        bindings().check(pack().set_pointer(-4, pointer(3))).unwrap();
    }

    #[test]
    fn alignments_are_only_ever_raised() {
        let mut bindings = Bindings::new(vec![
            Binding { uid: 0, kind: Kind::Pointer { alignment: 24, bytes: 4 }, label: "'odd' (uid 0)".to_owned() },
            Binding { uid: 1, kind: Kind::Pointer { alignment: 64, bytes: 4 }, label: "'wide' (uid 1)".to_owned() },
            Binding {
                uid: 2,
                kind: Kind::Pointer { alignment: (1 << 62) + 2, bytes: 4 },
                label: "'none' (uid 2)".to_owned(),
            },
        ]);
        bindings.require_alignment(0, 16);
        bindings.require_alignment(1, 16);
        bindings.require_alignment(2, 16);
        assert_eq!(bindings.0[0].kind, Kind::Pointer { alignment: 48, bytes: 4 });
        assert_eq!(bindings.0[1].kind, Kind::Pointer { alignment: 64, bytes: 4 });
        assert_eq!(bindings.0[2].kind, Kind::Pointer { alignment: u64::MAX, bytes: 4 });
    }

    #[test]
    fn pointers_and_values_are_not_exchanged() {
        refused(pack().set_scalar(2, Scalar::Integer(0)), "required: a device pointer");
        refused(pack().set_pointer(9, pointer(16)), "required: a host value");
    }
}
