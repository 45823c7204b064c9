//! The runtime fusion engine: surfaces 90, 80 and 70, which answer for every graph. What they refuse for what it is,
//! such as composite operations, may still run beyond them.

use super::{Family, Limits, Subject};
use crate::fusion::Core;
use crate::support::context::Context;
use crate::support::findings::Findings;
use crate::support::records::RECORDS;
use crate::support::rules;
use crate::support::surface::{SURFACES, Surface};

pub(super) static FAMILY: Family = Family {
    surfaces: &[(SURFACES[0].id, SURFACES[0]), (SURFACES[1].id, SURFACES[1]), (SURFACES[2].id, SURFACES[2])],
    rules: RECORDS,
    is_by_name: false,
};

impl Limits for Surface {
    /// All graphs but those of whose cores the documentation of the engine knows nothing.
    fn concerns(&self, subject: &Subject) -> bool {
        let is_of_attention =
            |core: &Core| matches!(core, Core::Attention(_) | Core::AttentionBackward(_) | Core::Mha(_));
        !subject.facts.fusion.as_ref().is_ok_and(|fusion| is_of_attention(fusion.core()))
    }

    fn check(&self, subject: &Subject, found: &mut Findings) {
        rules::check(&self.context(subject), found);
    }

    fn notes(&self, subject: &Subject) -> Vec<String> {
        rules::core::notes(&self.context(subject))
    }
}

impl Surface {
    fn context<'a>(&'a self, &Subject { graph, capability, facts }: &Subject<'a>) -> Context<'a> {
        Context { graph, capability, surface: self, facts }
    }
}
