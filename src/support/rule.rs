//! A documented rule as a value, and the catalogue of all of them.

use std::fmt;

use serde::{Serialize, Serializer};

/// A support surface: limits that a graph keeps to as a whole, or not.
///
/// The runtime fusion engine's three are independent of each other (V-01) and known by number; a surface of another
/// family is known by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SurfaceId {
    /// Surface 90: Hopper.
    S90,
    /// Surface 80: Ampere and later.
    S80,
    /// Surface 70: Volta and later.
    S70,
    /// A surface of another family, by the name that messages give it; unlike any other's, and no number.
    Named(&'static str),
}

impl SurfaceId {
    /// The surfaces of the runtime fusion engine in the order they are tried (V-02).
    pub const RUNTIME: [Self; 3] = [Self::S90, Self::S80, Self::S70];

    /// 90, 80 or 70; `None` for surfaces of other families.
    pub fn number(self) -> Option<u32> {
        match self {
            Self::S90 => Some(90),
            Self::S80 => Some(80),
            Self::S70 => Some(70),
            Self::Named(_) => None,
        }
    }

    /// The name of a surface of another family; `None` for the three that have numbers.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::Named(name) => Some(name),
            Self::S90 | Self::S80 | Self::S70 => None,
        }
    }

    /// The surface with this number.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::RUNTIME.into_iter().find(|surface| surface.number() == Some(number))
    }
}

impl fmt::Display for SurfaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::S90 => f.write_str("90"),
            Self::S80 => f.write_str("80"),
            Self::S70 => f.write_str("70"),
            Self::Named(name) => f.write_str(name),
        }
    }
}

impl Serialize for SurfaceId {
    /// The number, or null: records keep to `90|80|70|null`, whatever families there are.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.number().serialize(serializer)
    }
}

/// Sub-status of `NOT_SUPPORTED` that breaking a rule gives in the cuDNN backend API (`docs/spec/backend-api.md` section 8).
///
/// Ordered from the most decisive: a wrong chip explains more than a wrong stride.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DetailedStatus {
    /// Compute capability.
    ArchMismatch,
    /// Patterns and node placement.
    GraphPattern,
    /// Types of tensors and computations.
    DataType,
    /// Dims.
    Shape,
    /// Layout, packing and alignment.
    Layout,
    /// Padding parameters.
    Padding,
    /// No sub-status fits: modes, scales, window parameters.
    Unspecified,
}

impl DetailedStatus {
    /// Name in the backend API, without the `CUDNN_STATUS_` prefix.
    pub fn name(self) -> &'static str {
        match self {
            Self::ArchMismatch => "NOT_SUPPORTED_ARCH_MISMATCH",
            Self::GraphPattern => "NOT_SUPPORTED_GRAPH_PATTERN",
            Self::DataType => "NOT_SUPPORTED_DATA_TYPE",
            Self::Shape => "NOT_SUPPORTED_SHAPE",
            Self::Layout => "NOT_SUPPORTED_LAYOUT",
            Self::Padding => "NOT_SUPPORTED_PADDING",
            Self::Unspecified => "NOT_SUPPORTED",
        }
    }
}

/// What a row of the catalogue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A restriction on well-formed graphs; breaking it gives this status.
    Checked(DetailedStatus),
    /// A condition of well-formedness: a graph that breaks it is malformed and has no verdict.
    WellFormed,
    /// A restriction that another row states as well; that row's id is the one reported.
    Restated(&'static str),
    /// A definition or procedure: nothing can break it.
    Definition,
    /// A permission that bounds a restriction.
    Permission,
    /// A recommendation: it never changes a verdict (V-06).
    Note,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Checked(_) => "checked",
            Self::WellFormed => "well-formed",
            Self::Restated(_) => "restated",
            Self::Definition => "definition",
            Self::Permission => "permission",
            Self::Note => "note",
        }
    }
}

/// One documented rule.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// Id in `docs/spec`, such as `S90-MM-G2-DIMS`; stable.
    pub id: &'static str,
    /// Surfaces it belongs to, all of one family, in the order they are tried.
    pub surfaces: &'static [SurfaceId],
    /// What it concerns: pattern (`MM`, `CF`, `CBF`, `CBD`, `PW`), stage (`g1`, `g2`, `core`, `io`) or operation.
    pub scope: &'static str,
    /// One line for people.
    pub summary: &'static str,
    /// Document and heading it comes from.
    pub source: &'static str,
    /// What kind of row it is.
    pub kind: Kind,
}

impl Rule {
    /// Status that breaking the rule gives; `None` where nothing can break it, or a malformed graph would.
    pub fn status(&self) -> Option<DetailedStatus> {
        match self.kind {
            Kind::Checked(status) => Some(status),
            _ => None,
        }
    }

    /// The surfaces as people write them: `90`, `90, 80`, or `all` for the runtime fusion engine's three.
    pub fn surface_label(&self) -> String {
        if self.surfaces == SurfaceId::RUNTIME {
            return "all".to_owned();
        }
        let names: Vec<String> = self.surfaces.iter().map(SurfaceId::to_string).collect();
        names.join(", ")
    }

    /// What another surface asks in the same words, under an id and a heading of its own.
    pub(super) const fn restating(
        other: &Self,
        id: &'static str,
        surfaces: &'static [SurfaceId],
        source: &'static str,
    ) -> Self {
        Self { id, surfaces, scope: other.scope, summary: other.summary, source, kind: other.kind }
    }
}

impl Serialize for Rule {
    /// `{"id", "surface", "scope", "summary", "source", "kind", "status"}`, the records of `rules --format json`;
    /// `surface` is the number where there is one surface that has a number, else the label.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let mut record = serializer.serialize_struct("Rule", 7)?;
        record.serialize_field("id", self.id)?;
        match self.surfaces {
            [surface] if surface.number().is_some() => record.serialize_field("surface", surface)?,
            _ => record.serialize_field("surface", &self.surface_label())?,
        }
        record.serialize_field("scope", self.scope)?;
        record.serialize_field("summary", self.summary)?;
        record.serialize_field("source", self.source)?;
        record.serialize_field("kind", self.kind.name())?;
        record.serialize_field("status", &self.status().map(DetailedStatus::name))?;
        record.end()
    }
}

/// Declares the records of one heading: a static for each rule, and the list `RULES` of all of them. A record that says
/// on another surface what an earlier one says refers to it: `S80_CT_RED = "S80-CT-RED" as S90_CT_RED`.
macro_rules! rules {
    ($($surfaces:expr, $source:literal {
        $($name:ident = $id:literal $(, $scope:literal, $kind:expr, $summary:literal)? $(as $other:ident)?;)*
    })*) => {
        $($(
            pub(crate) static $name: $crate::support::rule::Rule = $crate::support::rule::record!(
                $id, $surfaces, $source, $($scope, $kind, $summary)? $(as $other)?
            );
        )*)*

        /// The rules of this heading.
        pub(in crate::support) static RULES: &[&$crate::support::rule::Rule] = &[$($(&$name),*),*];
    };
}

/// One record of [`rules`].
macro_rules! record {
    ($id:literal, $surfaces:expr, $source:literal, $scope:literal, $kind:expr, $summary:literal) => {
        $crate::support::rule::Rule {
            id: $id,
            surfaces: $surfaces,
            scope: $scope,
            summary: $summary,
            source: $source,
            kind: $kind,
        }
    };
    ($id:literal, $surfaces:expr, $source:literal, as $other:ident) => {
        $crate::support::rule::Rule::restating(&$other, $id, $surfaces, $source)
    };
}

pub(super) use record;
pub(super) use rules;

// The kinds as the records of a heading spell them.
pub(super) const ARCH: Kind = Kind::Checked(DetailedStatus::ArchMismatch);
pub(super) const PATTERN: Kind = Kind::Checked(DetailedStatus::GraphPattern);
pub(super) const TYPE: Kind = Kind::Checked(DetailedStatus::DataType);
pub(super) const SHAPE: Kind = Kind::Checked(DetailedStatus::Shape);
pub(super) const LAYOUT: Kind = Kind::Checked(DetailedStatus::Layout);
pub(super) const PADDING: Kind = Kind::Checked(DetailedStatus::Padding);
pub(super) const OTHER: Kind = Kind::Checked(DetailedStatus::Unspecified);
pub(super) const WELL_FORMED: Kind = Kind::WellFormed;
pub(super) const DEFINITION: Kind = Kind::Definition;
pub(super) const PERMISSION: Kind = Kind::Permission;
pub(super) const NOTE: Kind = Kind::Note;

pub(super) const fn restated(by: &'static str) -> Kind {
    Kind::Restated(by)
}

// The surfaces of the runtime fusion engine that a record belongs to.
pub(super) const S90: &[SurfaceId] = &[SurfaceId::S90];
pub(super) const S80: &[SurfaceId] = &[SurfaceId::S80];
pub(super) const S70: &[SurfaceId] = &[SurfaceId::S70];
pub(super) const S98: &[SurfaceId] = &[SurfaceId::S90, SurfaceId::S80];
pub(super) const RUNTIME: &[SurfaceId] = &SurfaceId::RUNTIME;
