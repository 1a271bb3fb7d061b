//! Running a plan: starts tenants, sends them messages, and writes events as they happen.
//!
//! [`run`] is the coordinator. It owns every wait ([`waits`]), shares an immutable [`Setup`], and
//! has components that each own their state: the record ([`recorder`]), Xids ([`xids`]), cores
//! ([`cores`]), mechanisms that have ended ([`ledger`]), the host with its tenants
//! ([`host_session`]). Functions take the components that they need.
//!
//! Nothing is judged here. The result is a folder of events and sample logs, which `gate` and
//! `score` read later.

mod calibrate;
mod cell;
mod clock;
mod continued;
mod coordinator;
mod core_shares;
mod cores;
mod device_processes;
mod fault;
mod fault_scheduler;
mod handles;
mod host_guard;
mod host_session;
mod host_setup;
mod kernel_log;
mod ledger;
mod log_capacity;
mod observe;
mod peaks;
mod pid_registry;
pub mod probe;
mod recorder;
pub mod sampler;
mod setup;
mod snapshot;
mod soak;
mod steal;
mod tenant_set;
mod waits;
mod xids;

pub use clock::{RunClock, rfc3339, rfc3339_now};
pub use continued::Continued;
pub use coordinator::run;
pub use core_shares::core_shares;
pub use cores::shortage;
use handles::RunHandles;
pub use host_setup::HostSetup;
pub use kernel_log::{KernelLog, PciAddress};
pub use setup::{Observer, RunEnd, RunError, RunPhase, Setup, Silent, TopUpDecision};
pub use tenant_set::{name_of, participants_of};
