//! Running a plan: starts tenants, sends them messages, and writes events as they happen.
//!
//! [`run`] is the coordinator. It owns every wait ([`waits`]), shares an immutable [`Setup`], and
//! has components that each own their state: the record ([`setup::Recorder`]), Xids ([`xids`]),
//! cores ([`cores`]), mechanisms that have ended ([`handles::MechanismLedger`]), the host with its
//! tenants ([`host_session`]). Functions take the components that they need.
//!
//! Nothing is judged here. The result is a folder of events and sample logs, which `gate` and
//! `score` read later.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests start processes"))]

mod calibrate;
mod cell;
mod coordinator;
mod cores;
mod fault;
mod fault_scheduler;
mod handles;
mod host_session;
mod kernel_log;
mod observe;
mod peaks;
pub mod probe;
pub mod sampler;
mod setup;
mod soak;
mod tenant_process;
mod tenant_set;
mod transient;
mod waits;
mod xids;

pub use coordinator::run;
pub use cores::core_shares;
pub use cores::shortage;
use handles::RunHandles;
pub use kernel_log::{KernelLog, PciAddress};
pub use setup::{Continued, HostSetup};
pub use setup::{Observer, RunEnd, RunError, RunPhase, Setup, Silent, TopUpDecision};
pub use tenant_set::{name_of, participants_of};
pub use waits::{RunClock, rfc3339, rfc3339_now};
