//! What calls of the driver cost the calling thread.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Host time of driver calls, in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostCosts {
    /// Reading the clock.
    pub clock_ns: u64,
    /// Launching a kernel.
    pub launch_ns: u64,
    /// From submission until the device starts the work.
    pub launch_latency_ns: u64,
    /// Return from a wait after the work is done.
    pub sync_ns: u64,
    /// Recording an event.
    pub event_ns: u64,
    /// Query whether work is done.
    pub query_ns: u64,
    /// Submitting a copy.
    pub copy_ns: u64,
    /// Allocating device memory.
    pub alloc_ns: u64,
    /// Freeing device memory.
    pub free_ns: u64,
    /// Creating or destroying a stream.
    pub stream_ns: u64,
    /// Loading a module.
    pub module_ns: u64,
    /// Creating a context.
    pub context_ns: u64,
    /// Every other call.
    pub other_ns: u64,
    /// Refusing a launch, an allocation or a release.
    #[serde(default)]
    pub refused_ns: u64,
    /// Refusing a release, where that takes another time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_free_ns: Option<u64>,
    /// Share of the time of an allocation, a free, a module load or a context creation during which
    /// the driver's lock excludes other processes from these calls.
    pub lock_share: f64,
}
