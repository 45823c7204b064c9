//! Execution plans: variant pack, workspace, launch.
