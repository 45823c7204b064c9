//! Reads the graphs of a stream one by one: numbered, named, without repeats (FEJ-02, FEJ-33).

use std::collections::{HashMap, VecDeque};
use std::io::BufRead;
use std::path::Path;
use std::sync::Arc;

use super::GraphDocument;
use super::candidate::{Candidate, Header, candidates, fingerprint};
use super::error::Failure;
use super::finder::{Finder, Found};
use super::log::LogFacts;
use super::reader::Reading;
use crate::graph::Graph;

/// Iterator over the graphs of a stream. It holds one graph and, of those before, a hash and the name.
///
/// It gives at least one document: where there is no graph, one that says so.
pub struct DocumentReader<R> {
    source_name: Arc<str>,
    finder: Finder<R>,
    candidates: VecDeque<Candidate>,
    /// The last graph found; log lines may still add to it.
    pending: Option<Pending>,
    /// Number of graphs, without repeats.
    count: usize,
    seen: HashMap<[u8; 32], usize>,
    names: HashMap<String, usize>,
    repeats: HashMap<usize, usize>,
    warnings: Vec<String>,
    skipped_lines: usize,
    first_complaint: Option<String>,
    /// Something that begins like a graph could not be read.
    has_failed: bool,
    /// The library has logged here.
    is_library_log: bool,
    is_finished: bool,
}

struct Pending {
    document: GraphDocument,
    has_own_name: bool,
    facts: LogFacts,
    may_lack_ragged_offsets: bool,
}

/// Most skipped lines that are named one by one.
const MAX_SKIPPED_LINES: usize = 20;

impl<R: BufRead> DocumentReader<R> {
    /// Reads from a stream; `source_name` is for messages and names, `-` is standard input.
    pub fn new(source_name: &str, input: R) -> Self {
        Self {
            source_name: Arc::from(source_name),
            finder: Finder::new(input),
            candidates: VecDeque::new(),
            pending: None,
            count: 0,
            seen: HashMap::new(),
            names: HashMap::new(),
            repeats: HashMap::new(),
            warnings: Vec::new(),
            skipped_lines: 0,
            first_complaint: None,
            has_failed: false,
            is_library_log: false,
            is_finished: false,
        }
    }

    /// How often the graph with this number appeared again, so far.
    pub fn repeats(&self, number: usize) -> usize {
        self.repeats.get(&number).copied().unwrap_or(0)
    }

    /// What concerns the file as a whole, so far: lines that mention `"nodes"` but do not parse (FEJ-51).
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    pub(super) fn into_warnings(self) -> Vec<String> {
        self.warnings
    }

    fn take(&mut self, found: Found) {
        match found {
            Found::Value { text, line } => match candidates(&text, line) {
                Ok(candidates) => self.candidates.extend(candidates),
                Err(complaint) => self.complain(line, &complaint),
            },
            Found::Broken { line, message } => self.fail(line, Failure::new("FEJ-03", message)),
            Found::Unreadable { line, message } => self.fail(line, Failure::new("FEJ-01", message)),
            Found::NotJson { line, message } => self.complain(line, &message),
            Found::Text(text) => {
                self.is_library_log |= text.starts_with(b"[cudnn_frontend]");
                if let Some(pending) = &mut self.pending {
                    pending.facts.observe(&String::from_utf8_lossy(&text));
                }
            }
            Found::Skipped { line } => self.skip(line),
        }
    }

    fn fail(&mut self, line: usize, failure: Failure) {
        self.has_failed = true;
        self.candidates.push_back(Candidate::failed(line, failure));
    }

    /// Remembers why the first value that is no graph could not be parsed: it may be the graph that is missed.
    fn complain(&mut self, line: usize, message: &str) {
        self.first_complaint.get_or_insert_with(|| format!("line {line}: {message}"));
    }

    fn skip(&mut self, line: usize) {
        self.skipped_lines += 1;
        if self.skipped_lines <= MAX_SKIPPED_LINES {
            self.warnings.push(format!("line {line} mentions \"nodes\" but holds no object: skipped [FEJ-51]"));
        }
    }

    /// Reads a candidate; gives the graph before it, which is complete now. A repeat is only counted.
    fn accept(&mut self, candidate: Candidate) -> Option<GraphDocument> {
        let (header, reading) = candidate.read();
        if let Ok(reading) = &reading {
            let fingerprint = fingerprint(&reading.graph, header.record.as_deref());
            if let Some(&number) = self.seen.get(&fingerprint) {
                *self.repeats.entry(number).or_default() += 1;
                return None;
            }
            self.seen.insert(fingerprint, self.count + 1);
        }
        self.count += 1;
        let before = self.pending.take();
        self.pending = Some(self.open(header, reading));
        before.map(|before| self.close(before, false))
    }

    fn open(&self, header: Header, reading: Result<Reading, Failure>) -> Pending {
        let (number, first_line) = (self.count, header.first_line);
        let in_context = reading.as_ref().ok().map(|reading| &reading.graph.name).filter(|name| !name.is_empty());
        let name = header.record.or(in_context.cloned());
        let mut pending = Pending {
            has_own_name: name.is_some(),
            facts: LogFacts::default(),
            may_lack_ragged_offsets: false,
            document: GraphDocument {
                number,
                name: name.unwrap_or_else(|| format!("{}#{number}", self.stem())),
                first_line,
                repeats: 0,
                dialect: header.dialect,
                gid: header.gid,
                result: Ok(Graph::new()),
                warnings: Vec::new(),
                not_in_dump: Vec::new(),
                ignored_keys: Vec::new(),
            },
        };
        let document = &mut pending.document;
        match reading {
            Ok(reading) => {
                pending.may_lack_ragged_offsets = reading.may_lack_ragged_offsets;
                document.result = Ok(reading.graph);
                document.warnings = reading.warnings;
                document.not_in_dump = reading.not_in_dump.into_iter().collect();
                document.ignored_keys = reading.ignored_keys.into_iter().collect();
            }
            Err(failure) => document.result = Err(failure.into_error(&self.source_name, number, first_line)),
        }
        pending
    }

    /// Completes a graph by what the log said after it.
    fn close(&mut self, pending: Pending, is_only: bool) -> GraphDocument {
        let Pending { mut document, has_own_name, facts, may_lack_ragged_offsets } = pending;
        if let Ok(graph) = &mut document.result {
            facts.complete(graph, &mut document.warnings);
            if may_lack_ragged_offsets && graph.tensors().iter().all(|tensor| tensor.ragged_offset.is_none()) {
                let warning = "this frontend does not write ragged offsets, and the graph masks padding [FEJ-36]";
                document.warnings.push(warning.to_owned());
            }
        }
        if is_only && !has_own_name {
            document.name = self.stem();
        }
        let number = document.number;
        let first = *self.names.entry(document.name.clone()).or_insert(number);
        if first != number {
            let name = document.name.escape_debug();
            let warning =
                format!("graph {number} has the name '{name}', as graph {first} has: the number tells them apart");
            document.warnings.push(warning);
        }
        document
    }

    fn stem(&self) -> String {
        match &*self.source_name {
            "-" => "stdin".to_owned(),
            name => Path::new(name).file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        }
    }

    fn finish(&mut self) -> Option<GraphDocument> {
        if std::mem::replace(&mut self.is_finished, true) {
            return None;
        }
        if self.skipped_lines > MAX_SKIPPED_LINES {
            let more = self.skipped_lines - MAX_SKIPPED_LINES;
            self.warnings.push(format!("{more} more lines mention \"nodes\": skipped [FEJ-51]"));
        }
        let is_broken = self.has_failed || self.first_complaint.is_some();
        self.warnings.extend(self.finder.ranks().mixed().filter(|_| is_broken));
        if self.count == 0 {
            let failure = self.no_graph();
            self.accept(Candidate::failed(1, failure));
        }
        let is_only = self.count == 1;
        self.pending.take().map(|pending| self.close(pending, is_only))
    }

    fn no_graph(&self) -> Failure {
        if let Some(form) = binary_form(self.finder.opening()) {
            return Failure::new("FEJ-50", format!("no graph found: the input is {form}"));
        }
        if self.finder.is_blank() {
            return Failure::new("FEJ-01", "no graph found: the input is empty");
        }
        let looked_for = "looked for a JSON object with the key \"nodes\", or a record with one under \"graph\", \
                          at the start of a line or after \"json:\"";
        let complaint: String = self.first_complaint.iter().map(|complaint| format!("; {complaint}")).collect();
        let silent =
            "; frontends from 1.30 do not log graphs that a Python engine serves: print the graph before it is built";
        let silent = if self.is_library_log { silent } else { "" };
        Failure::new("FEJ-01", format!("no graph found: {looked_for}{silent}{complaint}"))
    }
}

/// What a file is that begins like this, where it is known and not text (FEJ-50).
fn binary_form(opening: &[u8]) -> Option<&'static str> {
    match opening {
        // In JSON text a blank, a quote or a brace follows; in UBJSON the type of the first key's length.
        [b'{', b'i' | b'U' | b'I' | b'l' | b'L' | b'#' | b'$', ..] => {
            Some("UBJSON, a serialized plan of the library; log or print the graph instead")
        }
        [0x1f, 0x8b, ..] => Some("compressed with gzip; decompress it first"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Some("UTF-16 text; UTF-8 is required"),
        _ => None,
    }
}

impl<R: BufRead> Iterator for DocumentReader<R> {
    type Item = GraphDocument;

    fn next(&mut self) -> Option<GraphDocument> {
        loop {
            while let Some(candidate) = self.candidates.pop_front() {
                if let Some(document) = self.accept(candidate) {
                    return Some(document);
                }
            }
            match self.finder.next() {
                Some(found) => self.take(found),
                None => return self.finish(),
            }
        }
    }
}
