//! Hostile input: graphs and files of hostile size, and names that would command a terminal.

mod files;
mod names;
mod program;
mod sizes;
