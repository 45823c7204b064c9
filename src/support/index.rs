//! Every id that messages print: the rules of the surfaces, and what else a message can name in brackets.

use serde::Serialize;

use super::family::catalogue;
use super::rule::Rule;

/// What an id that is no rule of a surface stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TermKind {
    /// A condition of well-formedness: a graph that breaks it is malformed and has no verdict.
    WellFormed,
    /// A rule of the frontend's files: a graph that breaks it cannot be read, or is read with a warning.
    FileFormat,
    /// How this project reads what the documentation leaves open.
    Reading,
}

impl TermKind {
    /// Name in texts.
    pub fn name(self) -> &'static str {
        match self {
            Self::WellFormed => "well-formed",
            Self::FileFormat => "file format",
            Self::Reading => "reading",
        }
    }
}

/// An id that is no rule of a surface.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Term {
    /// The id as messages print it.
    pub id: &'static str,
    /// What it is.
    pub kind: TermKind,
    /// One line for people.
    pub summary: &'static str,
    /// Document and heading it comes from, as [`citations`](super::citations) reads it.
    pub source: &'static str,
}

const fn shape(id: &'static str, source: &'static str, summary: &'static str) -> Term {
    Term { id, kind: TermKind::WellFormed, summary, source }
}

const fn file(id: &'static str, source: &'static str, summary: &'static str) -> Term {
    Term { id, kind: TermKind::FileFormat, summary, source }
}

const fn reading(id: &'static str, summary: &'static str) -> Term {
    Term { id, kind: TermKind::Reading, summary, source: "project" }
}

static TERMS: &[Term] = &[
    shape("ATTRIBUTE_NOT_SET", "frontend section 8", "dims, strides and types that nothing implies are stated"),
    shape("SHAPE_DEDUCTION_FAILED", "frontend section 8", "dims and strides that are left out follow from the inputs"),
    shape("GR-PORTS", "operations; 002 9.2", "an operation has the ports of its definition, once each"),
    shape("D-R6", "operations section 1; 002", "a tensor has at most 8 axes"),
    shape(
        "MATMUL-SHAPE",
        "operations section 2; 003 Matmul",
        "A is [.., M, K], B is [.., K, N], C is [.., M, N]; batches broadcast",
    ),
    shape("CV-R2", "002 9.3.1; operations section 3", "N, groups, C and K agree among the tensors of a convolution"),
    shape(
        "CV-R3",
        "002 9.2.12; operations section 3",
        "ranks and parameters of a convolution fit one of the two forms of groups",
    ),
    shape("CV-R4", "002 5.2.8, 5.2.10, 6.2.2", "output channels are a multiple of the groups"),
    shape("CV-R5", "002 5.2.18, 5.2.28", "output extents of a convolution are exactly those of the formula"),
    shape("CV-R6", "000 answer 6; 004 Error Reporting And API Logging", "output extents of a convolution are positive"),
    shape(
        "PW-BROADCAST",
        "002 9.2.14; operations section 4",
        "inputs of one rank broadcast to the output: on each axis extents are equal or 1",
    ),
    shape("PW-IDX", "002 9.2.14; operations section 4", "GEN_INDEX has an axis of its tensor"),
    shape("RD-SHAPE", "002 9.2.15; operations section 6", "each extent of a reduction's result is the input's or 1"),
    shape("GS-SHAPE", "002 9.2.13; operations section 5", "statistics are [1, C, 1, ..] of an input with channels"),
    shape(
        "RS-SHAPE",
        "003 ResampleFwd; 003 ResampleBwd; operations section 7",
        "tensors and window of a resampling fit each other",
    ),
    shape("CONCAT-SHAPE", "operations section 8", "the result is the inputs joined along the axis, in their type"),
    shape("SIGNAL-SHAPE", "operations section 8", "a flag is one value, and the tensor passes through"),
    shape("RESHAPE-SHAPE", "operations section 8", "a reshaped tensor has as many elements as its input"),
    shape(
        "TRANSPOSE-SHAPE",
        "frontend section 6",
        "a permutation names each axis once, and the result has its extents",
    ),
    shape("SLICE-SHAPE", "frontend section 6", "each slice has limits within its axis and a positive step"),
    shape("DATA-TYPE", "frontend section 6", "data movement keeps the type"),
    shape("SM-SHAPE", "frontend section 6", "all tensors of a softmax fit its input"),
    shape("SDPA-SHAPE", "frontend section 6", "queries of attention have rank 4"),
    shape("AT-E1", "attention section 10", "operands of attention have four axes: batch, heads, sequence, head size"),
    shape(
        "AT-E2",
        "attention section 10",
        "batches, head sizes and sequences of attention's operands fit each other, and O fits them",
    ),
    shape("AT-E3", "attention section 10", "keys and values of attention have a divisor of the heads of the queries"),
    shape("AT-E7", "attention section 10", "statistics of attention's softmax, and its sink, are FLOAT"),
    shape(
        "AT-E8",
        "attention section 10",
        "statistics of attention's softmax have one value a row, its sink one a head, and a scale is one number",
    ),
    shape(
        "AT-E9",
        "attention section 10",
        "lengths of sequences are INT32, one a batch, for queries and keys or for neither",
    ),
    shape(
        "AT-E12",
        "attention section 10",
        "a bound of a band is one number by value, INT32 or FLOAT; a mask of one side has one",
    ),
    shape("AT-E14", "attention section 10", "a bias has the extents of the scores, or 1 on some axes"),
    shape(
        "AT-E16",
        "attention section 10",
        "dropout keeps with a probability above 0, at most 1; seed and offset are one INT32 or INT64 each",
    ),
    shape("AT-E18", "attention section 10", "a scale that is a number and a tensor has one value"),
    shape(
        "AT-E19",
        "attention section 10",
        "a mask of blocks is UINT8, a bit for each tile of 128 by 128 scores, eight of a row to the byte",
    ),
    shape(
        "AT-E20",
        "attention section 10",
        "operations on scores begin and end with tensors of theirs, and end with scores",
    ),
    shape(
        "AT-E11",
        "attention section 10",
        "a page table is INT32 and has a page for all rows of each sequence, whose length is given",
    ),
    shape("AT-E10", "attention section 10", "ragged tensors go with the lengths of their sequences"),
    shape("AT-O3", "attention section 4", "scores that a band masks have four axes"),
    shape("AT-O7", "attention section 4", "scores lean by one slope of each head, which a flag gives, or a tensor"),
    shape(
        "AT-O11",
        "attention section 4",
        "a mask of blocks has a bit for each tile of 128 by 128 scores that is kept",
    ),
    shape(
        "AT-O12",
        "attention section 4",
        "a modifier of scores is any pointwise operations; that of a backward pass is a soft cap, which is one number, and gradients of masked scores are \
         set to 0",
    ),
    shape(
        "AT-O19",
        "attention section 4",
        "numbers that scale an attention in FP8, and its largest magnitudes, have one element",
    ),
    shape("AT-O13", "attention section 4", "dropout is of scores of four axes, and the mask has their extents"),
    shape("AT-O14", "attention section 4", "a mask of dropout has the extents of the scores, or 1 on some axes"),
    shape("AT-O17", "attention section 4", "rows of sequences come out of pages of the same heads, elements and type"),
    shape(
        "AT-O18",
        "attention section 4",
        "rows of keys and values in pages are as many as a node says, or its tensors",
    ),
    shape("AT-P27", "attention section 2.2", "attention's gradient as one node is sent by nobody"),
    shape("AT-P36", "attention section 2.3", "what masked scores are set to leaves nothing of them"),
    shape("AT-P37", "attention section 2.3", "a length of sequences that is a host scalar is the extent of the scores"),
    shape("AT-P41", "attention section 2.4", "where nothing is dropped, what gradients are multiplied by for it is 1"),
    shape("N-150", "operations; 002 9.2", "a norm has the phase, and the tensors, that its results are made with"),
    shape("N-154", "operations; 002 9.2", "epsilon, momentum and count of a norm have one element"),
    shape("N-155", "operations; 002 9.2", "a norm without a scale has no bias, and no gradients of them"),
    shape("N-156", "operations; 002 9.2", "a norm without a scale and statistics has one axis after the first"),
    shape("N-157", "operations; 002 9.2", "the running statistics of a batch norm come together or not at all"),
    reading("N-160", "cuDNN's GROUP_NORM says nowhere but in its statistics how many groups there are"),
    shape("N-169", "operations; 002 9.2", "the number of groups of a norm divides the channels"),
    shape("NORM-SHAPE", "frontend section 6", "statistics and parameters of a norm fit its input"),
    shape("MOE-SHAPE", "frontend section 6", "tokens, weights and result of grouped experts fit each other"),
    shape("BLOCK-SCALE-SHAPE", "frontend section 6", "scales fit the blocks of their tensor"),
    reading("A-01", "the annotated second row HALF to FLOAT, HALF of surface 70 is void"),
    reading(
        "A-26",
        "a reduction reduces the axes where its result has extent 1; one that reduces nothing is malformed",
    ),
    reading(
        "A-50",
        "beta of a convolution other than 0 reads the result's former values: only a graph of one operation may",
    ),
    reading("A-59", "a host scalar has no pointer: its dims are 1, and no operation writes it"),
    reading("A-61", "a graph has a stored result; operations that lead to none are left out"),
    reading(
        "A-64",
        "compute types beyond the documented rows: operands are converted, sums follow in the compute type",
    ),
    file("FEJ-01", "frontend section 1", "a file is JSON, JSONL or a log that holds graphs"),
    file("FEJ-02", "frontend section 1", "graphs are numbered from 1; exact repeats are read once"),
    file("FEJ-03", "frontend section 1", "a graph that ends in the middle is reported, and spoils no other"),
    file("FEJ-04", "frontend section 2", "the dialect is told by the shape; `json_version` is a second opinion"),
    file("FEJ-05", "frontend section 4", "a reference names one tensor, by uid, key or name"),
    file("FEJ-08", "frontend section 5", "a scalar is read in its tensor's type"),
    file("FEJ-09", "frontend section 5", "a float is a number or eight hexadecimal digits"),
    file("FEJ-10", "frontend section 5", "a host scalar without a value is given at run time, or was lost"),
    file("FEJ-11", "frontend section 6", "tags and ports are known, and required ports are there"),
    file("FEJ-12", "frontend section 7", "values of types and modes are spelled exactly"),
    file("FEJ-13", "frontend section 9", "keys have the form of their kind; what is required is there"),
    file("FEJ-23", "frontend section 8", "before frontend 1.6 a pointwise result had the dims and strides of IN_0"),
    file(
        "FEJ-31",
        "frontend section 10",
        "tensors of one name are one in older files: what stands for several is refused",
    ),
    file("FEJ-34", "frontend section 10", "frontend 1.15 to 1.23 wrote a block mask under the port Q"),
    file("FEJ-35", "frontend section 10", "frontends before 1.24 wrote epsilon of LAYER_NORM_BPROP as DY"),
    file("FEJ-36", "frontend section 10", "frontends before 1.20 wrote no ragged offsets"),
    file("FEJ-39", "frontend section 10", "tensors without a name are told apart by their whole text alone"),
    file("FEJ-41", "frontend section 10", "a mode that the frontend has no spelling for is written as null"),
    file("FEJ-50", "frontend section 12", "binary plans hold no graph in text"),
    file("FEJ-51", "frontend section 13", "lines that mention nodes and are no JSON are named"),
];

/// Every id that messages print and that is no rule of a surface.
pub fn terms() -> &'static [Term] {
    TERMS
}

/// What an id stands for.
#[derive(Clone, Copy, Debug)]
pub enum Entry {
    /// A rule of the surfaces.
    Rule(&'static Rule),
    /// Anything else.
    Term(&'static Term),
}

/// What an id stands for, whatever the case of its letters.
pub fn entry(id: &str) -> Option<Entry> {
    let rule = catalogue().find(|rule| rule.id.eq_ignore_ascii_case(id)).map(Entry::Rule);
    rule.or_else(|| TERMS.iter().find(|term| term.id.eq_ignore_ascii_case(id)).map(Entry::Term))
}
