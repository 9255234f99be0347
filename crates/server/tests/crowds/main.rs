//! Crowds: many of something that a command may have to do with, or not. What has nothing to do with them costs as little
//! with sixteen times as many, what has costs in proportion, and when they have gone, time and memory are back.
//!
//! Counted, not timed: debug builds count the places that are looked at, and what is moved and hashed (`structures::work`).
#![cfg(debug_assertions)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod data;
