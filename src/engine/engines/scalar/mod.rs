//! The engine that runs on every chip from sm_70 on: pointwise and reduction graphs at memory speed, matmuls and
//! convolutions with any mainloop and epilogue DAG on plain multiply-adds.
//!
//! It evaluates a stage value by value at each point of an iteration space, so it takes any DAG, any mix of types
//! and layouts, and any extents.

mod gemm;
mod passes;

use crate::device::ComputeCapability;
use crate::engine::lowering::{RELAXED, is_lowered, taken_apart, with_converted_operands};
use crate::engine::{Engine, Offer};
use crate::error::Reason;
use crate::fusion::Core;
use crate::support::{Rule, Supported};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scalar;

const NAME: &str = "scalar";

impl Engine for Scalar {
    fn id(&self) -> i64 {
        2
    }

    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "every pattern in scalar code on every chip from sm_70 on"
    }

    fn relaxes(&self) -> &'static [&'static Rule] {
        &RELAXED
    }

    fn take(&self, supported: &Supported) -> Result<Box<dyn Offer>, Reason> {
        let capability = supported.capability();
        if capability < ComputeCapability::new(7, 0) {
            return Err(Reason::Chip(format!("{capability} is older than sm_70")));
        }
        let fusion = &*taken_apart(supported).map_err(Reason::Graph)?;
        is_lowered(fusion).map_err(Reason::Graph)?;
        let fusion = &*with_converted_operands(fusion).map_err(Reason::Graph)?;
        Ok(match fusion.core() {
            Core::None => Box::new(passes::Passes::new(fusion)),
            Core::Product(product) => Box::new(gemm::Tiles::new(fusion, product)),
            Core::Attention(_) | Core::AttentionBackward(_) | Core::Mha(_) => {
                return Err(Reason::Graph("an attention".to_owned()));
            }
        })
    }
}
