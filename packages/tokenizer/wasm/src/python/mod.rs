//! Python's text of values: `str`, `repr`, numbers, kinds of characters.
pub mod characters;
pub mod format;
pub mod numbers;
pub mod text;
