//! The documented rules as records, one file per heading: what tables of limits name and checks report.

pub(crate) mod alignment;
pub(crate) mod capability;
pub(crate) mod composite;
pub(crate) mod compute_type;
pub(crate) mod core;
pub(crate) mod data_type;
pub(crate) mod epilogue;
pub(crate) mod genstats;
pub(crate) mod layout;
pub(crate) mod mainloop;
pub(crate) mod pointwise;
pub(crate) mod procedure;
pub(crate) mod reduction;
pub(crate) mod resample;
pub(crate) mod unfused;

use super::rule::Rule;

/// Records of every heading, in the order of the document.
pub(super) static RECORDS: &[&[&Rule]] = &[
    procedure::RULES,
    capability::RULES,
    data_type::RULES,
    compute_type::RULES,
    mainloop::RULES,
    epilogue::RULES,
    unfused::RULES,
    layout::RULES,
    alignment::RULES,
    core::RULES,
    pointwise::RULES,
    genstats::RULES,
    reduction::RULES,
    resample::RULES,
    composite::RULES,
];
