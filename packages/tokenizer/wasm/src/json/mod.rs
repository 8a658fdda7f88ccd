//! JSON as Python reads and writes it.
pub mod reader;
pub mod writer;
