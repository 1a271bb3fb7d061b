//! Tests of whole records: tables of worked cases, properties, and a seeded Monte Carlo.

mod gaming;
mod lab;
mod memory;
mod neighbours;
mod planted;
mod resources;
mod rows;
mod statistics;
mod views;
