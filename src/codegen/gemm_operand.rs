//! Spells the operands of a matrix product: coordinates, padding, mainloop stage, way to shared memory.

use serde::Serialize;

use super::names;
use super::pairs::pairs;
use super::sections::Used;
use super::sweep::{SweepSpeller, index_type, term};
use crate::graph::{DataType, FinalizedGraph};
use crate::kernel::{Coordinate, Digit, Fetch, GemmKernel, MmaType, Multiply, Operand, Register, row_along_outer};

/// What `mainloop/operand.cuh` and `mainloop/place.cuh` read.
#[derive(Serialize)]
pub(super) struct OperandText {
    /// `a` or `b`.
    name: &'static str,
    title: String,
    fetch: &'static str,
    /// The index that is not k: `m` or `n`.
    outer: &'static str,
    /// Parameters of the operand's function.
    arguments: String,
    /// Arguments for the piece of a tile.
    call: String,
    /// Type of what is fetched at once.
    result: String,
    /// Function that rounds a vector of floats to it, two at a time.
    pack: Option<&'static str>,
    /// The register that holds a pair, where `before` computes pairs.
    pair: Option<String>,
    zero: &'static str,
    vector: i64,
    /// Lines that move a point outside to the nearest inside, where a value is chosen instead of returned early.
    nearest: Vec<String>,
    coordinates: Vec<String>,
    /// Condition under which an element exists.
    inside: String,
    before: Vec<String>,
    body: Vec<String>,
    value: String,
    /// Address of what is copied as it is.
    source: String,
    /// Whether a row of the tile in shared memory runs along k.
    k_major: bool,
    row_bytes: u32,
    /// Bytes of what is fetched at once, and their number in a row and in a tile.
    piece_bytes: u32,
    row_pieces: u32,
    pieces: u32,
    /// Pieces of a thread, rounded up.
    passes: u32,
    has_rest: bool,
    /// Elements from the tile's start, of piece `piece` of row `row`.
    outer_in: String,
    k_in: String,
    /// Row and column of element `i` in shared memory.
    row: String,
    column: String,
    unroll: u32,
    /// Part of a step in which the tile's next load starts.
    filled_in_part: u32,
    /// Where the piece of a row lies in the tile: for `wgmma` columns of swizzled rows, one after the other.
    place: String,
    /// Address of the tile of the first stage, and where the tile lies in a stage.
    tile: &'static str,
    tile_offset: u32,
}

/// An operand that the threads of a warpgroup bring to its tile.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum FilledText {
    Computed(Box<OperandText>),
    Turned(TurnedText),
}

/// What `mainloop/turn_stage.cuh` reads.
#[derive(Serialize)]
pub(super) struct TurnedText {
    /// `a` or `b`.
    name: &'static str,
    title: String,
    fetch: &'static str,
    /// Elements of a piece, 16 bytes of m or n, and lines of k of which pieces are turned together: to four bytes of k.
    vector: u32,
    lines: u32,
    /// Pieces of all lines that are turned together, and their number along k.
    pieces: u32,
    groups: u32,
    /// Where a piece of line `row` lies in shared memory, from the stage's start.
    raw: String,
    /// Where the tile lies in a stage.
    tile_offset: u32,
    /// Four bytes of k of element `e` of the pieces.
    word: &'static str,
}

fn element_bytes(kernel: &GemmKernel) -> u32 {
    match kernel.multiply {
        Multiply::Fma { .. } => 4,
        Multiply::Mma { operand, .. } | Multiply::Wgmma { operand, .. } => operand.bytes(),
    }
}

pub(super) fn filled(graph: &FinalizedGraph, used: &mut Used, kernel: &GemmKernel, slot: usize) -> FilledText {
    let operand = [&kernel.a, &kernel.b][slot];
    match operand.fetch {
        Fetch::Turned(_) => FilledText::Turned(turned(graph, used, kernel, slot)),
        _ => FilledText::Computed(Box::new(self::operand(graph, used, kernel, slot))),
    }
}

fn turned(graph: &FinalizedGraph, used: &mut Used, kernel: &GemmKernel, slot: usize) -> TurnedText {
    const PIECE: u32 = 16;
    const WORD: u32 = 4;
    let operand = [&kernel.a, &kernel.b][slot];
    let (name, block) = [("a", kernel.tile.m), ("b", kernel.tile.n)][slot];
    let (row_elements, rows) = (block, kernel.tile.k);
    let boxes = Layout { k_major: false, row_elements, rows, ..Layout::new(kernel, operand, block) };
    let bytes = boxes.element_bytes;
    used.add("fw_vector");
    if bytes == 1 {
        used.add("fw_byte_column");
    }
    let (vector, lines) = (PIECE / bytes, WORD / bytes);
    let groups = kernel.tile.k / lines;
    TurnedText {
        name,
        title: title(graph, operand, name),
        fetch: fetch_name(kernel, operand),
        vector,
        lines,
        pieces: block / vector * groups,
        groups,
        raw: format!("{} + {}", kernel.shared.stage.raw[slot], boxes.place(used, PIECE, "piece")),
        tile_offset: kernel.shared.stage.tiles[slot],
        word: if bytes == 1 { "fw_byte_column(read, e)" } else { "read[0].at[e]" },
    }
}

pub(super) fn operand(graph: &FinalizedGraph, used: &mut Used, kernel: &GemmKernel, slot: usize) -> OperandText {
    let operand = if slot == 0 { &kernel.a } else { &kernel.b };
    let (name, outer) = [("a", "m"), ("b", "n")][slot];
    let block = if slot == 0 { kernel.tile.m } else { kernel.tile.n };
    let vector = operand.sweep.vector;
    let element = Element::of(kernel.multiply);
    let Values { pack, pair, before, body, value } = Values::spell(graph, used, kernel, operand, &element);
    let inside = inside(kernel, operand, slot);
    let source = source(graph, operand);
    let uses = [&before[..], &body[..], std::slice::from_ref(&inside), std::slice::from_ref(&source)].concat();
    let storage = element.storage();
    let result = match vector {
        _ if pack.is_some() => format!("fw_vector<unsigned, {}>", vector / 2),
        1 => storage.to_owned(),
        _ => format!("fw_vector<{storage}, {vector}>"),
    };
    if vector > 1 {
        used.add("fw_vector");
    }
    let layout = Layout::new(kernel, operand, block);
    OperandText {
        name,
        title: title(graph, operand, name),
        fetch: fetch_name(kernel, operand),
        outer,
        arguments: arguments(graph, kernel, slot, operand),
        call: format!("{}{}", layout.call(slot), raw_argument(graph, used, kernel, operand, &layout, slot)),
        result,
        pack,
        pair,
        zero: element.zero(),
        vector,
        nearest: nearest(kernel, operand, slot),
        coordinates: coordinate_lines(kernel, operand, slot, &uses),
        inside,
        before,
        body,
        value,
        source,
        k_major: layout.k_major,
        row_bytes: layout.row_elements * layout.element_bytes,
        piece_bytes: layout.element_bytes * vector as u32,
        row_pieces: layout.row_pieces(),
        pieces: layout.pieces(),
        passes: layout.pieces().div_ceil(layout.threads),
        has_rest: !layout.pieces().is_multiple_of(layout.threads),
        outer_in: layout.outer_in(),
        k_in: layout.k_in(),
        row: layout.element_row(),
        column: layout.element_column(),
        unroll: kernel.tuning.pieces_under_way[slot],
        filled_in_part: kernel.tuning.load_in_part[slot],
        place: layout.place(used, vector as u32 * layout.element_bytes, if vector > 1 { "piece" } else { "column" }),
        tile: ["shared_a", "shared_b"][slot],
        tile_offset: kernel.shared.stage.tiles[slot],
    }
}

/// How the values of an operand come about.
struct Values {
    /// Function that rounds them two at a time.
    pack: Option<&'static str>,
    /// The register that holds a pair, where `before` computes pairs.
    pair: Option<String>,
    before: Vec<String>,
    body: Vec<String>,
    /// The value of an element.
    value: String,
}

impl Values {
    fn spell(
        graph: &FinalizedGraph,
        used: &mut Used,
        kernel: &GemmKernel,
        operand: &Operand,
        element: &Element,
    ) -> Self {
        let names: Vec<String> = operand.coordinates.iter().map(|coordinate| coordinate.name.to_owned()).collect();
        let raw = match operand.fetch {
            Fetch::Transformed(map) | Fetch::Fragments(map) => Some((map.tensor, "raw".to_owned())),
            _ => None,
        };
        let mut speller = SweepSpeller::new(graph, used, &operand.sweep, &[]).with_names(names).with_vectors_from(raw);
        let pack = pack(graph, kernel, operand, element);
        if pack.is_none() {
            speller.speller.consume(operand.tensor);
        }
        let takes_pairs = matches!(operand.fetch, Fetch::Fragments(_)) && pack.is_some();
        if let Some((before, pair)) = takes_pairs.then(|| pairs(&mut speller, operand.tensor)).flatten() {
            return Self { pack, pair: Some(pair), before, body: Vec::new(), value: String::new() };
        }
        if operand.fetch == Fetch::Async {
            let before = speller.offsets();
            return Self { pack, pair: None, before, body: Vec::new(), value: String::new() };
        }
        let (before, body) = speller.values_alone();
        let value = match pack {
            Some(pack) => {
                let value = speller.speller.unrounded(operand.tensor);
                used.add(pack);
                used.add(names::storage_section(element.data_type()));
                value
            }
            None => {
                let value = speller.speller.value(operand.tensor);
                let register = Register::of(graph.tensor(operand.tensor).data_type);
                let value = element.spell(used, register, &value);
                rounded(used, kernel, value)
            }
        };
        Self { pack, pair: None, before, body, value }
    }
}

/// Values of a stage in the type in which they are multiplied, FP16 or BF16, are rounded two at a time.
fn pack(graph: &FinalizedGraph, kernel: &GemmKernel, operand: &Operand, element: &Element) -> Option<&'static str> {
    let data_type = graph.tensor(operand.tensor).data_type;
    let is_computed = matches!(operand.fetch, Fetch::Vector | Fetch::Transformed(_) | Fetch::Fragments(_));
    let of_matrix_instructions = !matches!(kernel.multiply, Multiply::Fma { .. });
    let pairs = is_computed && of_matrix_instructions && operand.sweep.vector % 2 == 0;
    match data_type {
        DataType::Half if pairs && element.data_type() == data_type => Some("fw_pack_f16"),
        DataType::BFloat16 if pairs && element.data_type() == data_type => Some("fw_pack_bf16"),
        _ => None,
    }
}

/// What `wgmma` reads as TF32 is rounded on its way to shared memory; the tensor core alone would cut bits off.
fn rounded(used: &mut Used, kernel: &GemmKernel, value: String) -> String {
    match kernel.multiply {
        Multiply::Wgmma { operand: MmaType::Tf32, .. } => {
            used.add("fw_as_tf32");
            format!("fw_as_tf32({value})")
        }
        _ => value,
    }
}

fn title(graph: &FinalizedGraph, operand: &Operand, name: &str) -> String {
    let tensor = graph.canonical_name(operand.tensor);
    let name = name.to_uppercase();
    match graph.producer(operand.tensor) {
        Some(_) => format!("mainloop fusion of {name}, {tensor}"),
        None => format!("operand {name}, {tensor}"),
    }
}

fn fetch_name(kernel: &GemmKernel, operand: &Operand) -> &'static str {
    match (kernel.multiply, operand.fetch) {
        (Multiply::Fma { .. }, _) => "plain",
        (_, Fetch::Tma(_)) => "tma",
        (_, Fetch::Transformed(_)) => "transformed",
        (_, Fetch::Fragments(_)) => "fragments",
        (_, Fetch::Turned(_)) => "turned",
        (_, Fetch::Async) => "async",
        (_, Fetch::Vector) => "vector",
        (_, Fetch::Element) => "element",
    }
}

fn arguments(graph: &FinalizedGraph, kernel: &GemmKernel, slot: usize, operand: &Operand) -> String {
    let index = index_type(kernel.wide_index);
    let at = if slot == 0 { format!("{index} m, {index} k") } else { format!("{index} k, {index} n") };
    match operand.fetch {
        Fetch::Transformed(map) | Fetch::Fragments(map) => {
            let storage = names::storage_type(graph.tensor(map.tensor).data_type);
            format!("{at}, const {storage}* raw")
        }
        _ => at,
    }
}

/// Where in shared memory the piece that is transformed lies.
fn raw_argument(
    graph: &FinalizedGraph,
    used: &mut Used,
    kernel: &GemmKernel,
    operand: &Operand,
    layout: &Layout,
    slot: usize,
) -> String {
    let Fetch::Transformed(map) = operand.fetch else { return String::new() };
    let stored = graph.tensor(map.tensor).data_type;
    used.add(names::storage_section(stored));
    let storage = names::storage_type(stored);
    let bytes = map.element.bytes();
    let raw = Layout { element_bytes: bytes, ..*layout };
    let place = raw.place(used, layout.vector * bytes, "piece");
    let offset = kernel.shared.stage.raw[slot];
    format!(", reinterpret_cast<const {storage}*>(shared_bytes + (tile - shared) + {offset} + {place})")
}

/// What is in shared memory.
enum Element {
    Register(Register),
    Mma(MmaType),
}

impl Element {
    fn of(multiply: Multiply) -> Self {
        match multiply {
            Multiply::Fma { accumulator, .. } => Self::Register(accumulator),
            Multiply::Mma { operand, .. } | Multiply::Wgmma { operand, .. } => Self::Mma(operand),
        }
    }

    fn data_type(&self) -> DataType {
        match self {
            Self::Register(Register::Float) | Self::Mma(MmaType::Tf32) => DataType::Float,
            Self::Register(_) => DataType::Int32,
            Self::Mma(MmaType::F16) => DataType::Half,
            Self::Mma(MmaType::Bf16) => DataType::BFloat16,
            Self::Mma(MmaType::S8 | MmaType::Fp8) => DataType::Int8,
        }
    }

    fn storage(&self) -> &'static str {
        names::storage_type(self.data_type())
    }

    fn zero(&self) -> &'static str {
        match self.data_type() {
            DataType::Half | DataType::BFloat16 => "{}",
            _ => "0",
        }
    }

    /// A value of the operand tensor as an element of the tile.
    fn spell(&self, used: &mut Used, register: Register, value: &str) -> String {
        let data_type = self.data_type();
        let same =
            matches!((register, data_type), (Register::Float, DataType::Float) | (Register::Int, DataType::Int32));
        used.add(names::storage_section(data_type));
        if same {
            return value.to_owned();
        }
        if register != Register::Float && data_type != DataType::Int8 {
            used.add("fw_f32");
            return names::to_storage(data_type, &names::to_storage(DataType::Float, value));
        }
        names::to_storage(data_type, value)
    }
}

/// How a tile lies in shared memory and how threads share it.
struct Layout {
    k_major: bool,
    /// Elements of a row of the tile, and rows.
    row_elements: u32,
    rows: u32,
    element_bytes: u32,
    vector: u32,
    threads: u32,
    along_k: bool,
    tile_k: u32,
    block: u32,
    /// Whether rows longer than a line are cut into columns of lines.
    in_columns: bool,
}

impl Layout {
    fn new(kernel: &GemmKernel, operand: &Operand, block: u32) -> Self {
        let tile_k = kernel.tile.k;
        let k_major = operand.along_k || operand.fetch == Fetch::Element;
        let (row_elements, rows) = if k_major { (tile_k, block) } else { (block, tile_k) };
        Self {
            k_major,
            row_elements,
            rows,
            element_bytes: element_bytes(kernel),
            vector: operand.sweep.vector as u32,
            threads: kernel.multiply.loaders(kernel.tile),
            along_k: operand.along_k,
            tile_k,
            block,
            in_columns: matches!(kernel.multiply, Multiply::Wgmma { .. }),
        }
    }

    fn row_pieces(&self) -> u32 {
        self.row_elements / self.vector
    }

    fn pieces(&self) -> u32 {
        self.row_pieces() * self.rows
    }

    fn in_piece(&self) -> String {
        term("piece", self.vector.into()).unwrap_or_default()
    }

    fn outer_in(&self) -> String {
        if self.k_major { "row".to_owned() } else { self.in_piece() }
    }

    fn k_in(&self) -> String {
        if self.k_major { self.in_piece() } else { "row".to_owned() }
    }

    /// Elements of k-major tiles in the order in which memory has them.
    fn element_row(&self) -> String {
        if self.along_k { format!("i / {}", self.tile_k) } else { format!("i % {}", self.block) }
    }

    fn element_column(&self) -> String {
        if self.along_k { format!("i % {}", self.tile_k) } else { format!("i / {}", self.block) }
    }

    /// Byte of a piece in the tile.
    fn place(&self, used: &mut Used, piece_bytes: u32, piece: &str) -> String {
        used.add("fw_swizzled");
        let row_bytes = self.row_elements * self.element_bytes;
        let line = row_along_outer(self.row_elements, self.element_bytes) * self.element_bytes;
        if self.k_major || row_bytes <= line || !self.in_columns {
            let byte = term(piece, piece_bytes.into()).unwrap_or_default();
            return match row_bytes {
                0..32 => format!("row * {row_bytes} + {byte}"),
                _ => format!("fw_swizzled<{row_bytes}>(row, {byte})"),
            };
        }
        let per_line = line / piece_bytes;
        format!("fw_swizzled<{line}>({piece} / {per_line} * {} + row, {piece} % {per_line} * {piece_bytes})", self.rows)
    }

    fn call(&self, slot: usize) -> String {
        let (outer, k) = match self.vector {
            1 => ("row".to_owned(), "column".to_owned()),
            _ => (self.outer_in(), self.k_in()),
        };
        if slot == 0 { format!("m0 + {outer}, k0 + {k}") } else { format!("k0 + {k}, n0 + {outer}") }
    }
}

/// Address of a piece copied as it is.
fn source(graph: &FinalizedGraph, operand: &Operand) -> String {
    let name = graph.canonical_name(operand.tensor);
    if operand.fetch == Fetch::Async { format!("p_{name} + o_{name}") } else { String::new() }
}

/// Condition under which an element exists: within the matrix, within the image, on an element.
fn inside(kernel: &GemmKernel, operand: &Operand, slot: usize) -> String {
    let [_, m, n, k] = kernel.space.extents();
    let (outer, extent, block) = if slot == 0 { ("m", m, kernel.tile.m) } else { ("n", n, kernel.tile.n) };
    let mut conditions = Vec::new();
    if extent % i64::from(block) != 0 {
        conditions.push(format!("{outer} < {extent}"));
    }
    if k % i64::from(kernel.tile.k) != 0 {
        conditions.push(format!("k < {k}"));
    }
    for coordinate in &operand.coordinates {
        let name = coordinate.name;
        if coordinate.divisor > 1 {
            conditions.push(format!("over_{name} >= 0 && over_{name} % {} == 0", coordinate.divisor));
        }
        if let Some(bound) = coordinate.bound {
            let low = if coordinate.divisor > 1 { String::new() } else { format!("{name} >= 0 && ") };
            conditions.push(format!("{low}{name} < {bound}"));
        }
    }
    if conditions.is_empty() { "true".to_owned() } else { conditions.join(" && ") }
}

/// What moves a point of a fragment that lies outside to the nearest inside, whose side inputs can be read.
fn nearest(kernel: &GemmKernel, operand: &Operand, slot: usize) -> Vec<String> {
    if !matches!(operand.fetch, Fetch::Fragments(_)) {
        return Vec::new();
    }
    let [_, m, n, k] = kernel.space.extents();
    let (outer, extent, block) = if slot == 0 { ("m", m, kernel.tile.m) } else { ("n", n, kernel.tile.n) };
    let axes = [(outer, extent, block, 1), ("k", k, kernel.tile.k, operand.sweep.vector)];
    let ragged = axes.into_iter().filter(|&(_, extent, block, _)| extent % i64::from(block) != 0);
    ragged.map(|(name, extent, _, step)| format!("if ({name} >= {extent}) {name} = {};", extent - step)).collect()
}

/// Digits, then coordinates: those that the text uses.
fn coordinate_lines(kernel: &GemmKernel, operand: &Operand, slot: usize, uses: &[String]) -> Vec<String> {
    let needed: Vec<&Coordinate> = operand
        .coordinates
        .iter()
        .filter(|coordinate| mentions(uses, coordinate.name) || coordinate.bound.is_some())
        .collect();
    let terms: Vec<String> =
        needed.iter().flat_map(|coordinate| coordinate.terms.iter().map(|term| term.0.to_owned())).collect();
    let space = &kernel.space;
    let outer = if slot == 0 { ("m", &space.m) } else { ("n", &space.n) };
    let mut lines = Vec::new();
    for (index, digits) in [("b", &space.b), outer, ("k", &space.k)] {
        lines.extend(digit_lines(kernel, index, digits, &terms));
    }
    lines.extend(needed.into_iter().filter(|coordinate| !coordinate.is_digit()).flat_map(|c| spell(kernel, c)));
    lines
}

/// Whether some text has this identifier.
pub(super) fn mentions(texts: &[String], identifier: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    texts.iter().any(|text| text.split(|c| !is_part(c)).any(|word| word == identifier))
}

/// Lines that cut an index into its digits, as far as they are used.
pub(super) fn digit_lines(kernel: &GemmKernel, index: &str, digits: &[Digit], uses: &[String]) -> Vec<String> {
    let kind = index_type(kernel.wide_index);
    let mut below = 1;
    let mut lines = Vec::new();
    for (position, digit) in digits.iter().enumerate().rev() {
        let quotient = if below == 1 { index.to_owned() } else { format!("{index} / {below}") };
        let value = if position == 0 { quotient } else { format!("{quotient} % {}", digit.extent) };
        if digit.name != value && mentions(uses, digit.name) {
            lines.push(format!("const {kind} {} = {value};", digit.name));
        }
        below *= digit.extent;
    }
    lines.reverse();
    lines
}

/// `const int h = int(p) * 2 + int(r) - 1;`
fn spell(kernel: &GemmKernel, coordinate: &Coordinate) -> Vec<String> {
    let Coordinate { name, terms, constant, divisor, bound } = coordinate;
    let is_natural = terms.iter().all(|term| term.1 > 0) && *constant >= 0 && bound.is_none();
    let signed = if kernel.wide_index { "(long long)" } else { "int" };
    let factor = |digit: &str| if is_natural { digit.to_owned() } else { format!("{signed}({digit})") };
    let mut sum = String::new();
    for (digit, scale) in terms {
        let sign = match (sum.is_empty(), *scale < 0) {
            (true, false) => "",
            (true, true) => "-",
            (false, false) => " + ",
            (false, true) => " - ",
        };
        sum += &format!("{sign}{}", term(&factor(digit), scale.abs()).unwrap_or_default());
    }
    match (sum.is_empty(), *constant) {
        (true, _) => sum = constant.to_string(),
        (false, 0) => {}
        (false, constant) if constant < 0 => sum += &format!(" - {}", -constant),
        (false, constant) => sum += &format!(" + {constant}"),
    }
    let signed_type = if kernel.wide_index { "long long" } else { "int" };
    let kind = if is_natural { index_type(kernel.wide_index) } else { signed_type };
    if *divisor == 1 {
        return vec![format!("const {kind} {name} = {sum};")];
    }
    vec![format!("const {kind} over_{name} = {sum};"), format!("const {kind} {name} = over_{name} / {divisor};")]
}
