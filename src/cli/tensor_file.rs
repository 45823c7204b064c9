//! A graph's tensors in safetensors files.
//!
//! A tensor's key is its name, or its uid in decimal where the name is empty or another tensor in memory has it too.
//! Elements are dense and row-major, whatever the strides in the graph; truth values take a byte each.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use safetensors::tensor::{SafeTensors, TensorView};
use safetensors::{Dtype, SafeTensorError};

use fusewright::error::Error;
use fusewright::graph::{DataType, FinalTensor, FinalizedGraph, TensorId};
use fusewright::host_tensor::{HostTensor, HostTensors};
use fusewright::reference::required_inputs;

use super::plain;

/// Element types that both sides know.
const TYPES: [(DataType, Dtype); 11] = [
    (DataType::Float, Dtype::F32),
    (DataType::Double, Dtype::F64),
    (DataType::Half, Dtype::F16),
    (DataType::BFloat16, Dtype::BF16),
    (DataType::Int8, Dtype::I8),
    (DataType::UInt8, Dtype::U8),
    (DataType::Int32, Dtype::I32),
    (DataType::Int64, Dtype::I64),
    (DataType::Boolean, Dtype::BOOL),
    (DataType::Fp8E4M3, Dtype::F8_E4M3),
    (DataType::Fp8E5M2, Dtype::F8_E5M2),
];

/// The key of every tensor in memory.
fn keys(graph: &FinalizedGraph) -> HashMap<TensorId, String> {
    let ids: Vec<TensorId> = graph.tensor_ids().filter(|&id| !graph.tensor(id).is_virtual).collect();
    let mut uses: HashMap<&str, usize> = HashMap::new();
    ids.iter().for_each(|&id| *uses.entry(graph.tensor(id).name.as_str()).or_default() += 1);
    let key = |tensor: &FinalTensor| match uses[tensor.name.as_str()] {
        1 if !tensor.name.is_empty() => tensor.name.clone(),
        _ => tensor.uid.to_string(),
    };
    ids.iter().map(|&id| (id, key(graph.tensor(id)))).collect()
}

/// Reads every input of a graph, and the prior content of what it updates; other tensors are left alone. Host scalars
/// whose value the graph states may be absent.
///
/// # Errors
/// [`Error::Input`] naming file and tensor: a file that is not there or no safetensors file, a tensor that is missing,
/// of another type or of other extents.
pub(super) fn read_inputs(path: &Path, graph: &FinalizedGraph) -> Result<HostTensors, Error> {
    let place = plain::path(path);
    let content = fs::read(path).map_err(|error| Error::input(&place, format!("cannot be read: {error}")))?;
    let file = SafeTensors::deserialize(&content)
        .map_err(|error| Error::input(&place, format!("is not a safetensors file: {error}")))?;
    let keys = keys(graph);
    let mut inputs = HostTensors::new();
    let read_tensors: BTreeSet<TensorId> = graph.inputs().chain(required_inputs(graph)).collect();
    for id in read_tensors {
        let is_optional = graph.tensor(id).value.is_some();
        match file.tensor(&keys[&id]) {
            Err(SafeTensorError::TensorNotFound(_)) if is_optional => {}
            view => {
                let view = view.map_err(|_| missing(&place, graph, id, &keys[&id], &file))?;
                inputs.insert(id, read(&place, graph, id, &view)?);
            }
        }
    }
    Ok(inputs)
}

fn missing(place: &str, graph: &FinalizedGraph, id: TensorId, key: &str, file: &SafeTensors<'_>) -> Error {
    let mut present: Vec<String> = file.names().iter().map(|name| format!("\"{}\"", name.escape_debug())).collect();
    present.sort();
    present.truncate(20);
    let message = format!(
        "input tensor {} is missing: no entry \"{}\"; the file holds {}",
        graph.describe_tensor(id),
        key.escape_debug(),
        if present.is_empty() { "nothing".to_owned() } else { present.join(", ") }
    );
    Error::input(place, message)
}

fn read(place: &str, graph: &FinalizedGraph, id: TensorId, view: &TensorView<'_>) -> Result<HostTensor, Error> {
    let tensor = graph.tensor(id);
    let wrong = |message: String| Error::input(place, format!("tensor {}: {message}", graph.describe_tensor(id)));
    let required = file_type(tensor.data_type).ok_or_else(|| {
        let data_type = tensor.data_type;
        wrong(format!("safetensors files have no type for {data_type}"))
    })?;
    // A truth value is a byte either way.
    let is_bytes = (required, view.dtype()) == (Dtype::BOOL, Dtype::U8);
    if view.dtype() != required && !is_bytes {
        return Err(wrong(format!(
            "type {:?} is required for {}, found {:?}",
            required,
            tensor.data_type,
            view.dtype()
        )));
    }
    let is_scalar = tensor.is_pass_by_value && view.shape().iter().all(|&extent| extent == 1);
    if !is_scalar && !tensor.dim.iter().map(|&extent| extent as usize).eq(view.shape().iter().copied()) {
        return Err(wrong(format!("shape {:?} is required, found {:?}", tensor.dim, view.shape())));
    }
    HostTensor::from_row_major_bytes(tensor.data_type, &tensor.dim, &tensor.stride, view.data())
        .map_err(|error| wrong(error.to_string()))
}

fn file_type(data_type: DataType) -> Option<Dtype> {
    TYPES.iter().find(|row| row.0 == data_type).map(|row| row.1)
}

/// A file of results that appears at once and whole, or not at all.
///
/// Regular files are written beside their place and renamed; what is no regular file (a pipe, a device) is written to
/// directly.
#[derive(Debug)]
pub(super) struct ResultFile {
    path: PathBuf,
    file: Target,
}

#[derive(Debug)]
enum Target {
    /// By way of a temporary file in this folder.
    Beside(PathBuf),
    Direct(File),
}

impl ResultFile {
    /// Makes sure that the file can be written, before anything long is computed.
    ///
    /// # Errors
    /// [`Error::Input`] where the place cannot be written to.
    pub(super) fn create(path: &Path) -> Result<Self, Error> {
        let refuse = |why: &dyn std::fmt::Display| Error::input(plain::path(path), format!("cannot be written: {why}"));
        let file = match fs::metadata(path) {
            Ok(found) if found.is_dir() => return Err(refuse(&"it is a folder")),
            Ok(found) if !found.is_file() => {
                Target::Direct(File::options().write(true).open(path).map_err(|error| refuse(&error))?)
            }
            found => {
                // A file that is there and must not be written stays as it is, even where its folder may be.
                if found.is_ok() {
                    File::options().append(true).open(path).map_err(|error| refuse(&error))?;
                }
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
                // Made when there is something to write: a process that is killed before leaves nothing.
                tempfile::NamedTempFile::new_in(folder).map_err(|error| refuse(&error))?;
                Target::Beside(folder.to_owned())
            }
        };
        Ok(Self { path: path.to_owned(), file })
    }

    /// Writes the content, and puts the file in its place.
    ///
    /// # Errors
    /// [`Error::Environment`] where the disk is full or fails; nothing is left then.
    pub(super) fn write(self, content: &[u8]) -> Result<(), Error> {
        let written = match self.file {
            Target::Direct(mut file) => file.write_all(content).and_then(|()| file.flush()),
            Target::Beside(folder) => replace(&folder, &self.path, content),
        };
        written.map_err(|error| Error::Environment {
            message: format!("{}: cannot be written", plain::path(&self.path)),
            source: Some(Box::new(error)),
        })
    }
}

/// Writes a temporary file in the folder, and renames it.
fn replace(folder: &Path, path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(content)?;
    share_with_others(file.as_file())?;
    file.persist(path).map(drop).map_err(|error| error.error)
}

/// Temporary files are private; results are as readable as any new file.
fn share_with_others(file: &File) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    file.set_permissions(fs::Permissions::from_mode(0o644))
}

/// The bytes of a file that holds a graph's outputs; the same for the same outputs.
///
/// # Errors
/// [`Error::Input`] for an output whose type the file format does not know.
pub(super) fn serialize_outputs(graph: &FinalizedGraph, outputs: &HostTensors) -> Result<Vec<u8>, Error> {
    let keys = keys(graph);
    let mut dense = Vec::new();
    for (id, output) in outputs {
        let wrong = |what: &str| Error::input("outputs", format!("tensor {}: {what}", graph.describe_tensor(*id)));
        let data_type = file_type(output.data_type).ok_or_else(|| wrong("safetensors files do not know its type"))?;
        let shape: Vec<usize> = output.dim.iter().map(|&extent| extent as usize).collect();
        dense.push((keys[id].as_str(), data_type, shape, output.to_row_major_bytes()?));
    }
    let views = dense
        .iter()
        .map(|(key, data_type, shape, bytes)| Ok((*key, TensorView::new(*data_type, shape.clone(), bytes)?)))
        .collect::<Result<Vec<_>, SafeTensorError>>();
    let content = views.and_then(|views| safetensors::serialize(views, None));
    content.map_err(|error| Error::input("outputs", error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fusewright::graph::{Graph, PointwiseMode, Tensor};

    /// `y = x1 + x2`, with these names.
    fn sum(names: [&str; 3], data_type: DataType) -> FinalizedGraph {
        let mut graph = Graph::new().io_data_type(data_type).compute_data_type(DataType::Float);
        let inputs = [(names[0], 11), (names[1], 12)]
            .map(|(name, uid)| graph.tensor(Tensor::new(name).uid(uid).dim([2, 3]).stride([1, 2])));
        let y = graph.pointwise("add", PointwiseMode::Add, &inputs);
        *graph.set_output(y) = Tensor::new(names[2]).uid(13);
        graph.finalize().unwrap()
    }

    fn file(entries: &[(&str, Dtype, &[usize], &[u8])]) -> tempfile::NamedTempFile {
        let views = entries
            .iter()
            .map(|(key, data_type, shape, bytes)| (*key, TensorView::new(*data_type, shape.to_vec(), bytes).unwrap()));
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&safetensors::serialize(views, None).unwrap()).unwrap();
        file
    }

    fn keys_of(names: [&str; 3]) -> Vec<String> {
        let graph = sum(names, DataType::Int8);
        let keys = keys(&graph);
        [11, 12, 13].map(|uid| keys[&graph.tensor_by_uid(uid).unwrap()].clone()).into()
    }

    #[test]
    fn names_are_keys_unless_empty_or_shared() {
        assert_eq!(keys_of(["a", "b", "y"]), ["a", "b", "y"]);
        assert_eq!(keys_of(["a", "", "a"]), ["11", "12", "13"]);
    }

    #[test]
    fn inputs_are_dense_in_files_and_strided_in_memory() {
        let graph = sum(["a", "b", "y"], DataType::Int8);
        let file = file(&[("a", Dtype::I8, &[2, 3], &[1, 2, 3, 4, 5, 6]), ("b", Dtype::I8, &[2, 3], &[0; 6])]);
        let inputs = read_inputs(file.path(), &graph).unwrap();
        assert_eq!(inputs[&graph.tensor_by_uid(11).unwrap()].bytes, [1, 4, 2, 5, 3, 6]);
        let written = serialize_outputs(&graph, &inputs).unwrap();
        let read = SafeTensors::deserialize(&written).unwrap();
        assert_eq!(read.tensor("a").unwrap().data(), [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn every_misfit_names_file_and_tensor() {
        let graph = sum(["a", "b", "y"], DataType::Int8);
        let good: (&str, Dtype, &[usize], &[u8]) = ("a", Dtype::I8, &[2, 3], &[0; 6]);
        for (entries, complaint) in [
            (vec![good], "input tensor 'b' (uid 12) is missing: no entry \"b\"; the file holds \"a\""),
            (
                vec![good, ("b", Dtype::U8, &[2, 3], &[0; 6])],
                "tensor 'b' (uid 12): type I8 is required for INT8, found U8",
            ),
            (
                vec![good, ("b", Dtype::I8, &[3, 2], &[0; 6])],
                "tensor 'b' (uid 12): shape [2, 3] is required, found [3, 2]",
            ),
        ] {
            let file = file(&entries);
            let error = read_inputs(file.path(), &graph).unwrap_err();
            assert_eq!(error.to_string(), format!("{}: {complaint}", file.path().display()));
            assert_eq!(error.exit_code(), 2);
        }
    }

    #[test]
    fn a_file_that_is_none_is_refused() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"\xff\xff\xff\xff\xff\xff\xff\x7f").unwrap();
        let graph = sum(["a", "b", "y"], DataType::Int8);
        assert!(read_inputs(file.path(), &graph).unwrap_err().to_string().contains("is not a safetensors file"));
        assert!(read_inputs(Path::new("/nowhere/x"), &graph).unwrap_err().to_string().contains("cannot be read"));
    }

    #[test]
    fn results_appear_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("y.safetensors");
        ResultFile::create(&path).unwrap();
        assert!(!path.exists());
        ResultFile::create(&path).unwrap().write(b"abc").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"abc");
        assert_eq!(ResultFile::create(folder.path()).unwrap_err().exit_code(), 2);
        assert_eq!(ResultFile::create(&folder.path().join("no/y")).unwrap_err().exit_code(), 2);
        assert_eq!(ResultFile::create(Path::new("/dev/full")).unwrap().write(b"abc").unwrap_err().exit_code(), 3);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
