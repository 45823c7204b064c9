//! Reading and writing graphs as cuDNN-frontend JSON, from files, logs, JSONL and standard input.
