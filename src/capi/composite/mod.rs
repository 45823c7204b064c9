//! Descriptors of composite operations. Each is a file here with one record, which says what its descriptor has and which
//! port each tensor is; nothing else of the ABI knows which composites there are.

mod softmax;

use cudarc::cudnn::sys::cudnnBackendAttributeName_t as Name;
use cudarc::cudnn::sys::cudnnBackendDescriptorType_t as Kind;

use super::attribute::Attribute;
use crate::graph::{DataType, Port};

/// A composite operation's descriptor.
pub(super) struct Row {
    pub(super) kind: Kind,
    /// Tag of the operation in graph files.
    pub(super) tag: &'static str,
    /// Type that it is computed in.
    pub(super) compute: DataType,
    pub(super) attributes: &'static [Attribute],
    pub(super) inputs: &'static [(Port, Name)],
    pub(super) outputs: &'static [(Port, Name)],
}

/// Every composite operation.
pub(super) const ROWS: &[Row] = &[softmax::ROW];

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
        $kind:ident, $tag:literal computed in $compute:ident;
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
            tag: $tag,
            compute: $crate::graph::DataType::$compute,
            attributes: ATTRIBUTES,
            inputs: &[$(($crate::graph::Port::$input, cudarc::cudnn::sys::cudnnBackendAttributeName_t::$input_name)),*],
            outputs: &[$(($crate::graph::Port::$output, cudarc::cudnn::sys::cudnnBackendAttributeName_t::$output_name)),*],
        };
    };
}

use slots;

#[cfg(test)]
mod tests {
    use super::ROWS;
    use crate::graph::Composite;

    #[test]
    fn every_row_is_of_a_composite_of_the_graph() {
        for row in ROWS {
            let composite = Composite::read(row.tag, &Default::default());
            assert_eq!(composite.expect("a composite").tag(), row.tag);
        }
    }
}
