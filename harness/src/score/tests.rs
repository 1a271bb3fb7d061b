//! Tests of whole records: tables of worked cases, properties, and a seeded Monte Carlo.

mod controls;
mod disturbances;
mod doses;
mod gaming;
mod lab;
mod lost_time;
mod memory;
mod modes;
mod monte_carlo;
mod operator;
mod pool;
mod properties;
mod reservations;
mod resources;
mod rows;
mod tails;
mod validity;
