//! The top level of a graph object: its dialect, its context, its versions (sections 2 and 3).

use std::fmt;

use serde_json::Value;

use super::error::Failure;
use super::fields::{Fields, Object};
use crate::graph::Graph;

/// Form in which a graph is written; which one depends on the frontend's version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Frontend 1.1 to 1.4: every tensor in full at each use.
    V1A,
    /// Frontend 1.5: tensors keyed by name, no version keys.
    V1B,
    /// Frontend 1.6 to 1.26: `json_version` 1.0.
    V1C,
    /// Frontend 1.27 and later: `json_version` 2.0, references are uids.
    V2,
    /// Python's print of a graph that is not lowered, since 1.27.
    Python,
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1A => "1.1 to 1.4",
            Self::V1B => "1.5",
            Self::V1C => "1.0",
            Self::V2 => "2.0",
            Self::Python => "Python",
        })
    }
}

/// What stands beside nodes and tensors.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Envelope {
    pub(super) dialect: Dialect,
    /// Frontend version (1.32.0 is 13200); where the file states none, the last that writes this dialect.
    pub(super) version: i64,
    pub(super) warnings: Vec<String>,
    /// Top-level keys without meaning for us.
    pub(super) ignored_keys: Vec<String>,
}

const KNOWN_KEYS: [&str; 8] = [
    "context",
    "cudnn_backend_version",
    "cudnn_frontend_version",
    "json_version",
    "graph_uid",
    "gid",
    "nodes",
    "tensors",
];

/// Reads the envelope of a graph object.
pub(super) fn read(root: &Object) -> Result<Envelope, Failure> {
    let fields = Fields(root);
    let dialect = detect(fields)?;
    let mut warnings = Vec::new();
    // `json_version` is only a second opinion: an unknown one with a known shape is read (FEJ-04).
    let stated = fields.text("json_version")?;
    let expected = match dialect {
        Dialect::V1C => Some("1.0"),
        Dialect::V2 => Some("2.0"),
        _ => None,
    };
    if let (Some(stated), Some(expected)) = (stated, expected)
        && stated != expected
    {
        let stated = stated.escape_debug();
        warnings.push(format!("`json_version` is \"{stated}\", read as \"{expected}\" by its shape [FEJ-04]"));
    }
    Ok(Envelope {
        dialect,
        version: fields.integer("cudnn_frontend_version")?.unwrap_or(last_version(dialect)),
        warnings,
        ignored_keys: root.keys().filter(|key| !KNOWN_KEYS.contains(&key.as_str())).cloned().collect(),
    })
}

fn last_version(dialect: Dialect) -> i64 {
    match dialect {
        Dialect::V1A => 10400,
        Dialect::V1B => 10500,
        Dialect::V1C => 12600,
        Dialect::V2 | Dialect::Python => 13200,
    }
}

/// The dialect, by shape first and `json_version` second (FEJ-04).
pub(super) fn detect(fields: Fields<'_>) -> Result<Dialect, Failure> {
    let first = fields.array("nodes")?.first();
    let is_python = first.is_some_and(|node| node.get("tag").is_none() && node.get("type").is_some());
    let has_pairs = |node: &Value| ["inputs", "outputs"].iter().any(|side| node.get(side).is_some_and(Value::is_array));
    let stated = fields.text("json_version").unwrap_or_default();
    Ok(match fields.get("tensors") {
        _ if is_python => Dialect::Python,
        Some(Value::Array(_)) => Dialect::V2,
        Some(_) if stated.is_some() => Dialect::V1C,
        Some(_) => Dialect::V1B,
        None if first.is_some_and(has_pairs) => Dialect::V1A,
        None if stated == Some("2.0") => Dialect::V2,
        None if stated.is_some() => Dialect::V1C,
        None if fields.get("context").is_some() => Dialect::V1B,
        None => Dialect::V1A,
    })
}

/// Reads the graph-wide defaults into `graph`. Whose shapes an execution may override has dynamic ones.
pub(super) fn read_context(root: &Object, graph: &mut Graph) -> Result<(), Failure> {
    let Some(context) = Fields(root).object("context")? else { return Ok(()) };
    let context = Fields(context);
    graph.name = context.text("name")?.unwrap_or_default().to_owned();
    graph.io_data_type = context.data_type("io_data_type")?;
    graph.intermediate_data_type = context.data_type("intermediate_data_type")?;
    graph.compute_data_type = context.data_type("compute_data_type")?;
    for key in ["is_dynamic_shape_enabled", "is_override_shape_enabled"] {
        graph.is_dynamic |= context.boolean(key)? == Some(true);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::graph::DataType;

    fn envelope(root: &Value) -> Envelope {
        read(root.as_object().unwrap()).unwrap()
    }

    #[test]
    fn shape_tells_the_dialect() {
        let pairs = json!([{"tag": "X", "inputs": [["X", {}]], "outputs": []}]);
        for (root, dialect) in [
            (json!({"nodes": pairs}), Dialect::V1A),
            (json!({"nodes": null}), Dialect::V1A),
            (json!({"nodes": null, "tensors": null, "context": {}}), Dialect::V1B),
            (json!({"nodes": [], "tensors": {}}), Dialect::V1B),
            (json!({"nodes": [], "tensors": {}, "json_version": "1.0"}), Dialect::V1C),
            (json!({"nodes": [], "tensors": []}), Dialect::V2),
            (json!({"nodes": [{"type": "MATMUL"}], "tensors": {}}), Dialect::Python),
        ] {
            assert_eq!(envelope(&root).dialect, dialect, "{root}");
        }
    }

    #[test]
    fn an_unknown_json_version_is_read_with_a_warning() {
        let read = envelope(&json!({"nodes": [], "tensors": [], "json_version": "3.0"}));
        assert_eq!(read.dialect, Dialect::V2);
        assert!(read.warnings[0].contains("\"3.0\""), "{:?}", read.warnings);
    }

    #[test]
    fn the_context_gives_the_graph_its_defaults() {
        for [dynamic, overridden] in [[false, false], [true, false], [false, true], [true, true]] {
            let root = json!({"context": {"io_data_type": "HALF", "compute_data_type": null, "name": "net",
                                          "is_dynamic_shape_enabled": dynamic, "is_override_shape_enabled": overridden}});
            let mut graph = Graph::new();
            read_context(root.as_object().unwrap(), &mut graph).unwrap();
            let is_dynamic = dynamic || overridden;
            let expected = Graph { is_dynamic, ..Graph::new().name("net").io_data_type(DataType::Half) };
            assert_eq!(graph, expected);
        }
    }

    #[test]
    fn a_misspelled_context_type_is_an_error() {
        let root = json!({"context": {"io_data_type": "HALFF"}});
        let error = read_context(root.as_object().unwrap(), &mut Graph::new()).unwrap_err();
        let text = "`io_data_type`: unknown value \"HALFF\", did you mean \"HALF\"? (one of FLOAT, ";
        assert!(error.message.starts_with(text), "{}", error.message);
    }
}
