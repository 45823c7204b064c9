//! Where a rule comes from: documents by title and address, and the sections that records name.

use serde::Serialize;

/// A public document, or this project's own.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Document {
    /// How sources begin that mean it.
    #[serde(skip)]
    pub key: &'static str,
    /// Its title.
    pub title: &'static str,
    /// Where it is found; of the project's own documents the file in the repository.
    pub address: &'static str,
}

/// Every document that a source can name.
pub static DOCUMENTS: &[Document] = &[
    Document {
        key: "000",
        title: "cuDNN v8 backend API for Convolution, NVIDIA Developer Forums",
        address: "https://forums.developer.nvidia.com/t/cudnn-v8-backend-api-for-convolution/145226",
    },
    Document {
        key: "002",
        title: "cuDNN API Reference, version 8.0.3, among the archived documentation",
        address: "https://docs.nvidia.com/deeplearning/cudnn/archives/index.html",
    },
    Document {
        key: "003",
        title: "cuDNN Graph API, Developer Guide",
        address: "https://docs.nvidia.com/deeplearning/cudnn/frontend/latest/developer/graph-api.html",
    },
    Document {
        key: "004",
        title: "cuDNN Troubleshooting",
        address: "https://docs.nvidia.com/deeplearning/cudnn/latest/reference/troubleshooting.html",
    },
    Document {
        key: "frontend",
        title: "cuDNN frontend, as read by this project",
        address: "docs/spec/frontend-json.md",
    },
    Document { key: "operations", title: "Operations, as read by this project", address: "docs/spec/operations.md" },
    Document { key: "attention", title: "Attention, as read by this project", address: "docs/spec/attention.md" },
    Document { key: "norms", title: "Norms, as read by this project", address: "docs/spec/norms.md" },
    Document { key: "project", title: "A reading of this project", address: "docs/spec/support-surfaces.md" },
];

/// A place in a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Citation {
    /// The document.
    #[serde(flatten)]
    pub document: &'static Document,
    /// Heading or number of the section; empty for the whole document.
    pub section: &'static str,
}

/// The places that a record's source names: `KEY SECTION`, several separated by `; `.
///
/// # Errors
/// What a source looks like, and which keys there are.
pub fn citations(source: &'static str) -> Result<Vec<Citation>, String> {
    source.split("; ").map(citation).collect()
}

fn citation(part: &'static str) -> Result<Citation, String> {
    let key = part.split([' ', ',', ':']).next().unwrap_or_default();
    match DOCUMENTS.iter().find(|document| document.key == key) {
        Some(document) => Ok(Citation { document, section: part[key.len()..].trim_start_matches([' ', ',', ':']) }),
        None => {
            let keys: Vec<String> =
                DOCUMENTS.iter().map(|document| format!("{} ({})", document.key, document.title)).collect();
            Err(format!(
                "\"{part}\" names no document: a source is KEY SECTION, several separated by \"; \"; keys are {}",
                keys.join(", ")
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_documents_and_sections() {
        let found = citations("003 Matmul; 002 9.2.10 to 9.2.12; project").expect("the keys are known");
        let found: Vec<_> = found.iter().map(|citation| (citation.document.key, citation.section)).collect();
        assert_eq!(found, [("003", "Matmul"), ("002", "9.2.10 to 9.2.12"), ("project", "")]);
        assert_eq!(citations("project, implied by 002 9.2.16").unwrap()[0].section, "implied by 002 9.2.16");
        let message = citations("cuDNN guide").unwrap_err();
        assert!(message.starts_with("\"cuDNN guide\" names no document") && message.contains("003 (cuDNN Graph API"));
    }

    #[test]
    fn documents_of_the_project_are_in_the_repository() {
        for document in DOCUMENTS.iter().filter(|document| !document.address.starts_with("https://")) {
            let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(document.address);
            assert!(path.is_file(), "{}", document.address);
        }
    }
}
