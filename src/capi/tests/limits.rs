//! What callers cannot make: chains and rings of descriptors, lists that take too long, lists that end the process.

use std::process::Command;
use std::sync::Weak;
use std::time::{Duration, Instant};

use super::*;
use crate::capi::attribute::Access;
use crate::capi::attributes::of_kind;

/// The number after that of the last kind of descriptors.
const KINDS: u32 = 60;

/// A pointwise operation that is whole, and not finalized.
struct Relu {
    bundle: Owned,
    tensors: [Owned; 2],
}

impl Relu {
    fn new() -> Self {
        let bundle = Owned::new(Kind::CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
        let mode = RawMode::CUDNN_POINTWISE_RELU_FWD as u32;
        bundle.set(Name::CUDNN_ATTR_POINTWISE_MODE, Type::CUDNN_TYPE_POINTWISE_MODE, &[mode]).set(
            Name::CUDNN_ATTR_POINTWISE_MATH_PREC,
            Type::CUDNN_TYPE_DATA_TYPE,
            &[FLOAT as u32],
        );
        let tensors = [1, 2].map(|uid| unfinished_tensor(uid, HALF, &[1, 8, 8], &[64, 8, 1], false).finalize());
        Self { bundle: bundle.finalize(), tensors }
    }

    fn give(&self, operation: &Owned) {
        operation
            .refer(Name::CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, &self.bundle)
            .refer(Name::CUDNN_ATTR_OPERATION_POINTWISE_XDESC, &self.tensors[0])
            .refer(Name::CUDNN_ATTR_OPERATION_POINTWISE_YDESC, &self.tensors[1]);
    }

    fn operation(&self) -> Owned {
        let operation = Owned::new(Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
        self.give(&operation);
        operation
    }
}

/// An attribute that a forward mode does not use.
const UNUSED: Name = Name::CUDNN_ATTR_OPERATION_POINTWISE_DXDESC;

/// A chain of 50,000 finalized descriptors was destroyed by so many nested calls.
#[test]
fn chains_of_descriptors_end_at_their_second_link() {
    let relu = Relu::new();
    let last = relu.operation();
    last.refer(UNUSED, &relu.tensors[0]);
    let mut last = last.finalize();
    for link in 0..60_000 {
        let next = relu.operation();
        next.refer(UNUSED, &last);
        // the second for its kind, all others because the one before them is not finalized
        assert_ne!(cudnnBackendFinalize(next.0), Status::CUDNN_STATUS_SUCCESS, "link {link}");
        last = next;
    }
}

#[test]
fn rings_of_descriptors_go_with_their_pointers() {
    let relu = Relu::new();
    let mut kept: Vec<Weak<descriptor::Descriptor>> = Vec::new();
    for _ in 0..2000 {
        let (first, second) = (relu.operation().finalize(), relu.operation());
        second.refer(UNUSED, &first);
        assert_eq!(cudnnBackendFinalize(second.0), Status::CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE);
        let text = "CUDNN_ATTR_OPERATION_POINTWISE_DXDESC refers to [CUDNN_BACKEND_TENSOR_DESCRIPTOR]; found: \
                    CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR";
        assert!(last_error().contains(text));
        assert_eq!(cudnnBackendInitialize(first.0), Status::CUDNN_STATUS_SUCCESS);
        relu.give(&first);
        first.refer(UNUSED, &second);
        assert_ne!(cudnnBackendFinalize(first.0), Status::CUDNN_STATUS_SUCCESS);
        // what is got becomes like it, whatever it refers to
        let third = Owned::new(Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
        let find = |one: &Owned| descriptor::find(one.0).expect("a descriptor");
        find(&third).become_like(&find(&first)).expect("one of its kind");
        kept.extend([first, second, third].map(|one| Arc::downgrade(&find(&one))));
    }
    assert_eq!(kept.iter().filter(|descriptor| descriptor.strong_count() > 0).count(), 0);
}

/// Kinds refer to others in tiers. Tensors name their offsets' tensor, but none that does is finalized; an attention has a graph, but
/// none with an attention (`attention::an_attention_has_none_inside`).
#[test]
fn kinds_of_descriptors_lie_in_tiers() {
    fn tier(kind: Kind, depth: usize) -> usize {
        assert!(depth < 10, "{kind:?} refers to itself");
        let attributes = of_kind(kind as u32).map_or(&[][..], |row| row.1);
        let below = attributes.iter().filter(|attribute| {
            attribute.access != Access::Unsupported
                && attribute.name != Name::CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC
                && attribute.name != Name::CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH
        });
        below.flat_map(|attribute| attribute.kinds).map(|&kind| tier(kind, depth + 1) + 1).max().unwrap_or(0)
    }
    let kinds = (0..KINDS).filter_map(of_kind);
    for attribute in kinds.clone().flat_map(|row| row.1) {
        let refers = attribute.types == [Type::CUDNN_TYPE_BACKEND_DESCRIPTOR];
        assert_eq!(refers, !attribute.kinds.is_empty(), "{:?}", attribute.name);
    }
    assert_eq!(kinds.map(|row| tier(row.0, 0)).max(), Some(6), "tensors of the softmax of a plan's attention");
    let ragged = |uid, offsets: &Owned| {
        let tensor = unfinished_tensor(uid, HALF, &[1, 8, 8], &[64, 8, 1], false);
        tensor.refer(Name::CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, offsets);
        tensor
    };
    let offsets = unfinished_tensor(2, HALF, &[1, 8, 8], &[64, 8, 1], false).finalize();
    let tensor = ragged(1, &offsets);
    assert_eq!(cudnnBackendFinalize(tensor.0), Status::CUDNN_STATUS_SUCCESS);
    let chain = ragged(3, &tensor);
    assert_eq!(cudnnBackendFinalize(chain.0), Status::CUDNN_STATUS_BAD_PARAM, "offsets that are ragged");
}

fn unfinished_pack(uids: &[i64]) -> Owned {
    let pack = Owned::new(Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set(Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, Type::CUDNN_TYPE_INT64, uids);
    pack.set(Name::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, Type::CUDNN_TYPE_VOID_PTR, &vec![16_usize; uids.len()]);
    pack
}

/// Entry by entry, these took 4.9 s.
#[test]
fn packs_of_many_entries_take_no_time() {
    let mut uids: Vec<i64> = (0..200_000).rev().collect();
    let pack = unfinished_pack(&uids);
    let start = Instant::now();
    let pack = pack.finalize();
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    drop(pack);
    uids[0] = 77;
    let pack = unfinished_pack(&uids);
    assert_eq!(cudnnBackendFinalize(pack.0), Status::CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES);
    assert!(last_error().contains("the uid 77 has two pointers"));
}

#[test]
fn an_operation_that_is_there_millions_of_times_is_not_made_so_often() {
    let operation = Relu::new().operation().finalize();
    let graph = Owned::new(Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    let name = Name::CUDNN_ATTR_OPERATIONGRAPH_OPS;
    graph.set(name, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, &vec![operation.0; 1 << 20]);
    let start = Instant::now();
    assert_eq!(cudnnBackendFinalize(graph.0), Status::CUDNN_STATUS_BAD_PARAM);
    assert!(last_error().ends_with("a graph has at most 65536 operations; found: 1048576"));
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}

/// Runs a test in a process of its own; `name` is the test's.
pub(super) fn alone(name: &str, test: impl FnOnce()) {
    const ALONE: &str = "FUSEWRIGHT_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return test();
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", &format!("capi::tests::{name}")]).env(ALONE, "1");
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

/// Lets the process have so many bytes of address space more than it has now.
#[cfg(target_os = "linux")]
fn limit_memory(more: u64) {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = pages.split(' ').next().unwrap().parse().unwrap();
    let limit = libc::rlimit { rlim_cur: pages * 4096 + more, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the limit is valid for the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
}

#[test]
#[cfg(target_os = "linux")]
fn want_of_memory_is_a_status() {
    alone("limits::want_of_memory_is_a_status", || {
        const LENGTH: usize = 10 << 20;
        const LACKING: Status = Status::CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
        let numbers = vec![7_i64; LENGTH];
        let pack = unfinished_pack(&numbers);
        let text = Owned::new(Kind::CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
        let spaces = vec![b' '; LENGTH * 8];
        text.set(Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, Type::CUDNN_TYPE_CHAR, &spaces);
        let graph = Owned::new(Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
        let pointers = vec![graph.0; LENGTH];
        limit_memory(40 << 20);
        for (kind, name, of_type) in [
            (
                Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR,
                Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
                Type::CUDNN_TYPE_INT64,
            ),
            (
                Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR,
                Name::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                Type::CUDNN_TYPE_VOID_PTR,
            ),
        ] {
            assert_eq!(Owned::new(kind).try_set(name, of_type, &numbers), LACKING, "{name:?}");
            assert!(last_error().ends_with("there is no memory for 83886080 bytes"));
        }
        let operations = Name::CUDNN_ATTR_OPERATIONGRAPH_OPS;
        assert_eq!(graph.try_set(operations, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, &pointers), LACKING);
        let plan = Owned::new(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        let name = Name::CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION;
        assert_eq!(plan.try_set(name, Type::CUDNN_TYPE_CHAR, &spaces), LACKING);
        assert_eq!(cudnnBackendFinalize(pack.0), LACKING);
        assert_eq!(cudnnBackendFinalize(text.0), LACKING);
    });
}
