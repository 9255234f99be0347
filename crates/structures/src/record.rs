//! Records: small collections as a sequence of values, each in the shortest form that prints the same bytes again.

pub mod value;
