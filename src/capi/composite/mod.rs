//! Descriptors of composite operations. Each is a file here with a record for a descriptor, which says what it has, which operation
//! it describes and which port each tensor is; nothing else of the ABI knows which composites there are.

mod norm;
mod paged_cache_load;
mod softmax;

use cudarc::cudnn::sys::cudnnBackendAttributeName_t as Name;
use cudarc::cudnn::sys::cudnnBackendDescriptorType_t as Kind;

use super::attribute::Attribute;
use crate::graph::{Composite, KeptAttributes, Port};

/// A composite operation's descriptor.
pub(super) struct Row {
    pub(super) kind: Kind,
    pub(super) attributes: &'static [Attribute],
    /// The operation that a descriptor with these enumerators describes.
    pub(super) read: fn(Enumerators<'_>) -> Result<Composite, Wrong>,
    pub(super) compute: Compute,
    /// The port of each tensor; the operation says which of them it reads and writes.
    pub(super) slots: &'static [(Port, Name)],
    /// The ports of the tensors that an attribute lists.
    pub(super) lists: &'static [(&'static [Port], Name)],
}

/// What a descriptor's enumerators are set to, by name.
pub(super) type Enumerators<'a> = &'a dyn Fn(Name) -> Option<u32>;

/// The type that an operation is computed in.
#[derive(Clone, Copy)]
pub(super) enum Compute {
    /// The descriptor has none: it is `FLOAT`.
    Float,
    /// The descriptor's attribute says it.
    Given(Name),
}

/// Why enumerators describe no operation.
pub(super) enum Wrong {
    /// They have no meaning.
    Bad(String),
    /// What they mean is not there.
    Unsupported(String),
}

/// The composite operation of a tag.
fn of_tag(tag: &str) -> Result<Composite, Wrong> {
    let composite = Composite::read(tag, &KeptAttributes::new());
    composite.ok_or_else(|| Wrong::Unsupported(format!("there is no {tag}")))
}

/// Every composite operation.
pub(super) const ROWS: &[Row] =
    &[softmax::ROW, paged_cache_load::ROW, norm::FORWARD, norm::BACKWARD, norm::FINALIZE, norm::WEIGHTS];

/// Kinds of operations with those of composites behind them.
pub(super) const fn with_kinds<const COUNT: usize>(primitives: &[Kind]) -> [Kind; COUNT] {
    let mut kinds = [ROWS[0].kind; COUNT];
    let mut at = 0;
    while at < COUNT {
        kinds[at] = if at < primitives.len() { primitives[at] } else { ROWS[at - primitives.len()].kind };
        at += 1;
    }
    kinds
}

/// A [`Row`] whose descriptor has nothing but slots for tensors, which are listed once.
macro_rules! slots {
    (
        $kind:ident, $tag:literal;
        inputs { $($input_access:ident $input:ident: $input_name:ident;)* }
        outputs { $($output_access:ident $output:ident: $output_name:ident;)* }
    ) => {
        $crate::capi::attribute::attributes! {
            ATTRIBUTES {
                $($input_access $input_name: $crate::capi::attribute::DESCRIPTOR, $crate::capi::attribute::ONE, TENSORS;)*
                $($output_access $output_name: $crate::capi::attribute::DESCRIPTOR, $crate::capi::attribute::ONE, TENSORS;)*
            }
        }

        pub(super) const ROW: $crate::capi::composite::Row = $crate::capi::composite::Row {
            kind: cudarc::cudnn::sys::cudnnBackendDescriptorType_t::$kind,
            attributes: ATTRIBUTES,
            read: |_| $crate::capi::composite::of_tag($tag),
            compute: $crate::capi::composite::Compute::Float,
            lists: &[],
            slots: &[
                $(($crate::graph::Port::$input, cudarc::cudnn::sys::cudnnBackendAttributeName_t::$input_name),)*
                $(($crate::graph::Port::$output, cudarc::cudnn::sys::cudnnBackendAttributeName_t::$output_name),)*
            ],
        };
    };
}

use slots;
