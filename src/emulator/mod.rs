//! Runs rendered CUDA on the CPU.
