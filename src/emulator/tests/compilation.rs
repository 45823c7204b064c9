//! Compiling, caching, and the interface between source and launch.

use std::fs;

use super::*;
use crate::codegen::{device_code, without_primitives};
use crate::compile::PrivateFolder;

fn store_one(body: &str) -> Case {
    let text = format!("extern \"C\" __global__ void k(float* __restrict__ y) {{ {body} }}");
    Case::new(&text, "k", vec![Value::Output(4)])
}

fn compile_error(case: &Case) -> Option<Error> {
    Some(EmulatedKernel::compile_with(&compiler()?, &case.source, &cache_dir()).unwrap_err())
}

#[test]
fn source_that_does_not_compile_is_our_error_with_log_and_source() {
    let case = store_one("\n  *y = nonsense;");
    let Some(error) = compile_error(&case) else { return };
    let Error::Generated { log, source_path, .. } = error else { panic!("{error:?}") };
    assert!(log.contains("kernel.cu:2:") && log.contains("nonsense"), "{log}");
    assert_eq!(fs::read_to_string(source_path.unwrap()).unwrap(), case.source.text);
}

#[test]
fn source_sees_no_more_names_than_nvrtc_gives_it() {
    for body in
        ["uint32_t x = 0; *y = x;", "*y = INFINITY;", "std::size_t x = 0; *y = x;", "__shared__ float x[1]; *y = x[0];"]
    {
        let Some(error) = compile_error(&store_one(body)) else { return };
        assert!(matches!(error, Error::Generated { .. }), "{body}: {error:?}");
    }
}

#[test]
fn primitives_are_left_out_line_by_line() {
    let primitives = device_code(&["FW_SHARED", "fw_mbarrier", "fw_wgmma"]);
    let text = format!("{primitives}\nvoid kernel() {{}}\n");
    let left = without_primitives(&text);
    assert!(
        !left.contains("asm volatile") && !left.contains("#define FW_SHARED") && left.contains("fw_matrix_descriptor")
    );
    assert_eq!(left.lines().count(), text.lines().count());
    assert_eq!(left.lines().last(), text.lines().last());
}

#[test]
fn a_launch_must_pass_what_the_kernel_takes() {
    let mut case = store_one("*y = 1.0f;");
    case.values.push(int(1));
    let mut case = Case::new(&case.source.text, "k", case.values);
    case.expect_wrong(&["the launch passes arguments 'pi', the kernel takes 'p'"]);
    case.source.launches[0].parameters = vec![Parameter::Workspace { offset: 1 }];
    case.expect_wrong(&["Workspace", "which the run does not have"]);
}

#[test]
fn a_launch_must_name_a_function_of_the_source() {
    let mut case = store_one("*y = 1.0f;");
    case.source.launches[0].function = "other".to_owned();
    let Some(error) = compile_error(&case) else { return };
    assert!(matches!(error, Error::Generated { .. }), "{error:?}");
}

#[test]
fn a_damaged_entry_of_the_cache_is_built_again() {
    let Some(compiler) = compiler() else { return };
    let dir = tempfile::tempdir().unwrap();
    let case = store_one("*y = 3.0f;");
    let folder = PrivateFolder::open(dir.path()).unwrap();
    let path = dir.path().join(compiler.library(&case.source, &folder).unwrap());
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let kernel = EmulatedKernel::compile_with(&compiler, &case.source, dir.path()).unwrap();
    assert_eq!(as_floats(&case.run_compiled(&kernel, Schedule::Lazy).unwrap()[0]), [3.0]);
    assert_eq!(fs::read(&path).unwrap().len(), whole.len());

    let mut names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().path()).collect();
    names.sort_unstable_by_key(|path| path.extension().map(ToOwned::to_owned));
    assert_eq!(names.len(), 2, "one runtime and one library, nothing else: {names:?}");
}

/// A library that someone put there who could write the folder: its checksum is right, as anyone can make one.
#[test]
fn a_library_in_a_folder_that_others_may_write_is_not_loaded() {
    use std::os::unix::fs::PermissionsExt;
    let Some(compiler) = compiler() else { return };
    let dir = tempfile::tempdir().unwrap();
    let case = store_one("*y = 5.0f;");
    let folder = PrivateFolder::open(dir.path()).unwrap();
    let name = compiler.library(&case.source, &folder).unwrap();
    let trace = dir.path().join("it-ran");
    let source = dir.path().join("planted.cpp");
    let constructor = format!(
        "#include <cstdio>\n__attribute__((constructor)) static void run() {{ std::fopen(\"{}\", \"w\"); }}\n",
        trace.display()
    );
    fs::write(&source, constructor).unwrap();
    let built = dir.path().join("planted");
    let built_well = compiler.command().args(["-shared", "-fPIC", "-o"]).arg(&built).arg(&source).status();
    assert!(built_well.unwrap().success());
    super::super::artifact::store(&folder, &name, &fs::read(&built).unwrap()).unwrap();

    let set_mode = |mode| fs::set_permissions(dir.path(), fs::Permissions::from_mode(mode)).unwrap();
    let compile = || EmulatedKernel::compile_with(&compiler, &case.source, dir.path());
    set_mode(0o777);
    let error = compile().unwrap_err();
    assert_eq!(error.exit_code(), 3);
    assert!(!trace.exists(), "the planted library ran");
    set_mode(0o700);
    fs::set_permissions(dir.path().join(&name), fs::Permissions::from_mode(0o660)).unwrap();
    let kernel = compile().unwrap();
    assert_eq!(as_floats(&case.run_compiled(&kernel, Schedule::Lazy).unwrap()[0]), [5.0], "it is built again");
    assert!(!trace.exists(), "the planted library ran");
    // What only the user may write is loaded: no checksum finds forgery.
    drop(kernel);
    super::super::artifact::store(&folder, &name, &fs::read(&built).unwrap()).unwrap();
    compile().unwrap();
    assert!(trace.exists(), "the planted library does what the test believes");
}

#[test]
fn portable_contexts_do_as_well() {
    let Some(compiler) = compiler() else { return };
    let compiler = compiler.with_flag("-DFW_EMULATOR_UCONTEXT");
    let (case, expected) = super::kernels::transpose(40, 40);
    let kernel = EmulatedKernel::compile_with(&compiler, &case.source, &cache_dir()).unwrap();
    for schedule in [Schedule::Lazy, Schedule::Eager] {
        assert_eq!(case.run_compiled(&kernel, schedule).unwrap(), expected);
    }
}
