//! Tests of whole records: tables of worked cases, properties, and a seeded Monte Carlo.

mod lab;
mod memory;
mod monte_carlo;
mod pairs;
mod pool;
mod properties;
mod reservations;
mod resources;
mod tails;
mod validity;
