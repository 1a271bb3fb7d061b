//! Tests of whole records: tables of worked cases, properties, and a seeded Monte Carlo.

mod lab;
mod memory;
mod monte_carlo;
mod pool;
mod properties;
mod reservations;
mod resources;
mod rows;
mod tails;
mod validity;
