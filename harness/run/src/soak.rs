//! Keeps the device at one speed: heats it before the first cell, loads it again after an idle, and
//! measures the rate of one kernel between cells.
//!
//! The check kernel does the same work each time, on the device without a mechanism, so its rate is
//! the speed of the device. It runs where the host is in a state that allows that: before and after
//! each switch of the host, and now and then between two mechanisms. Nothing is judged here.

use gpubench_host::device::Driver;
use gpubench_record::probe::step::RunRequests;
use gpubench_record::{
    CompletedRequests, Heating, RunEvent, SoakPlan, SpeedCheck, TimePart, WorkloadSpec,
};
use gpubench_stats::summary::moments;

use super::calibrate::with_retries_to;
use super::handles::MechanismLedger;
use super::host_session::{HostSession, MechanismKey};
use super::tenant_set::TenantSet;
use super::{Observer, RunError, RunHandles, RunPhase, probe};

/// Arithmetic in every thread slot of every SM, as requests that are long beside a launch.
const WORKLOAD: &str = "fma-hog";
const SERVICE_NS: u64 = 20_000_000;
/// Within one mechanism the check kernel waits so many times longer: it closes the contexts.
const WITHIN: u64 = 2;
/// A request may be shorter than calibrated by this factor.
const SHORTER: f64 = 1.5;

/// The load of the device between cells.
pub struct Soak {
    handles: RunHandles,
    plan: SoakPlan,
    spec: WorkloadSpec,
    /// When the last load of the device ended.
    busy_until_ns: u64,
    /// When the check kernel was last measured.
    checked_at_ns: Option<u64>,
}

impl Soak {
    /// Heats the device with these tenants, which have the whole of it. `None` where the plan wants
    /// nothing, or the device cannot be loaded; a warning then says why.
    pub async fn begin(
        tenants: &mut TenantSet,
        observer: &mut dyn Observer,
    ) -> Result<Option<Self>, RunError> {
        let handles = tenants.handles().clone();
        let Some(plan) = handles.setup.plan.soak else { return Ok(None) };
        if handles.setup.host.facts.mig == Some(true) {
            let text = "the device is not heated and its speed is not checked: MIG mode is on, and \
                        no tenant has the whole device";
            handles.recorder.warning(text)?;
            return Ok(None);
        }
        let before = handles.spend(TimePart::SpeedChecks).await;
        let heated = Self::heated(tenants, handles.clone(), plan, observer).await;
        handles.spend(before).await;
        match heated {
            Ok(soak) => Ok(Some(soak)),
            Err(error) => not_loaded(&handles, error).map(|()| None),
        }
    }

    async fn heated(
        tenants: &mut TenantSet,
        handles: RunHandles,
        plan: SoakPlan,
        observer: &mut dyn Observer,
    ) -> Result<Self, RunError> {
        let slot = slot(tenants);
        tenants.open_only(slot).await?;
        let entry = with_retries_to(tenants, slot, WORKLOAD, 1.0, SERVICE_NS).await?;
        let mut soak = Self {
            busy_until_ns: handles.now_ns().await?,
            checked_at_ns: None,
            spec: entry.spec,
            handles,
            plan,
        };
        if plan.limit_ns > 0 {
            observer.phase(&RunPhase::Heating);
            let heating = soak.heat(tenants, slot).await?;
            if !heating.steady {
                soak.handles.recorder.warning(not_steady(&heating))?;
            }
            let event = RunEvent::Heated { heating };
            soak.handles.recorder.event(&event)?;
        }
        Ok(soak)
    }

    /// Loads the device, window by window, until it is steady or the limit is reached.
    async fn heat(&mut self, tenants: &mut TenantSet, slot: usize) -> Result<Heating, RunError> {
        let began_ns = self.handles.now_ns().await?;
        let mut windows = vec![self.measure(tenants, slot, self.plan.window_ns).await?];
        loop {
            let (first, last) = (windows[0], windows[windows.len() - 1]);
            let elapsed_ns = self.busy_until_ns.saturating_sub(began_ns);
            let steady = is_steady(&windows);
            if steady || elapsed_ns >= self.plan.limit_ns {
                return Ok(Heating { steady, elapsed_ns, first, last });
            }
            let next = self.measure(tenants, slot, self.plan.window_ns).await?;
            windows.push(next);
        }
    }

    /// Before a cell: measures the check kernel where the host is switched or it is time to, and
    /// loads the device where it was idle. The cell's tenants are ready afterwards if they can be.
    pub async fn before(
        &mut self,
        session: &mut HostSession,
        key: &MechanismKey<'_>,
        ledger: &mut MechanismLedger,
    ) -> Result<(), RunError> {
        let (switches, opens) = (session.would_switch(key), session.would_open(key));
        if switches {
            self.check(session).await?;
        }
        self.handles.spend(TimePart::Other).await;
        if session.ready(key, ledger).await?.is_err() {
            return Ok(());
        }
        let now_ns = self.handles.now_ns().await?;
        let idle_ns = now_ns.saturating_sub(self.busy_until_ns);
        if let Some(load_ns) = load_after_ns(&self.plan, idle_ns) {
            self.handles.spend(TimePart::SpeedChecks).await;
            self.warm(session, key, ledger, [idle_ns, load_ns]).await?;
        }
        // Between two mechanisms contexts are opened anew in any case.
        let every_ns = self.plan.every_ns * if opens { 1 } else { WITHIN };
        let is_due = |at_ns: u64| now_ns.saturating_sub(at_ns) >= every_ns;
        if switches || self.checked_at_ns.is_none_or(is_due) {
            self.check(session).await?;
        }
        self.handles.spend(TimePart::Other).await;
        Ok(())
    }

    /// After the calibration or a cell, which loaded the device.
    pub async fn after_load(&mut self) -> Result<(), RunError> {
        self.busy_until_ns = self.handles.now_ns().await?;
        Ok(())
    }

    /// After the last cell: the measurement that closes its bracket. Where the host is in a state
    /// without native tenants, that state is left first.
    pub async fn finish(&mut self, session: &mut HostSession) -> Result<(), RunError> {
        if self.plan.check_ns > 0 && session.native().await?.is_none() {
            session.leave().await?;
        }
        self.check(session).await
    }

    /// Measures the check kernel, where native tenants can run.
    async fn check(&mut self, session: &mut HostSession) -> Result<(), RunError> {
        if self.plan.check_ns == 0 {
            return Ok(());
        }
        self.handles.spend(TimePart::SpeedChecks).await;
        let Some(tenants) = session.native().await? else { return Ok(()) };
        let slot = slot(tenants);
        let measured = match tenants.open_only(slot).await {
            Ok(()) => self.measure(tenants, slot, self.plan.check_ns).await,
            Err(error) => Err(error),
        };
        self.checked_at_ns = Some(self.handles.now_ns().await?);
        match measured {
            Ok(check) => {
                let event = RunEvent::SpeedChecked { check };
                Ok(self.handles.recorder.event(&event)?)
            }
            Err(error) => not_loaded(&self.handles, error),
        }
    }

    /// Loads the device for as long as it was idle, one window at most: with native tenants, else
    /// with the victim of the mechanism.
    async fn warm(
        &mut self,
        session: &mut HostSession,
        key: &MechanismKey<'_>,
        ledger: &mut MechanismLedger,
        [idle_ns, load_ns]: [u64; 2],
    ) -> Result<(), RunError> {
        let is_native = session.native().await?.is_some();
        let tenants = if is_native {
            session.native().await?
        } else {
            session.ready(key, ledger).await?.ok()
        };
        let user_victim = self.handles.setup.plan.user_victim.is_some();
        let Some(tenants) = tenants.filter(|_| is_native || !user_victim) else { return Ok(()) };
        let slot = if is_native { slot(tenants) } else { 0 };
        let loaded = match tenants.open_only(slot).await {
            Ok(()) => self.measure(tenants, slot, load_ns).await,
            Err(error) => Err(error),
        };
        match loaded {
            Ok(_) => {
                let event = RunEvent::KeptWarm { idle_ns, load_ns };
                Ok(self.handles.recorder.event(&event)?)
            }
            Err(error) => not_loaded(&self.handles, error),
        }
    }

    /// Runs the kernel for that long and reads the device.
    async fn measure(
        &mut self,
        tenants: &mut TenantSet,
        slot: usize,
        watch_ns: u64,
    ) -> Result<SpeedCheck, RunError> {
        let count = watch_ns as f64 / SERVICE_NS as f64 * SHORTER;
        let requests =
            RunRequests { spec: self.spec.clone(), watch_ns, requests_max: count as u32 + 4 };
        let completed = probe::step(tenants, slot, requests).await?;
        let doing = "reading clock and temperature";
        let readings = |nvml: &Driver| (nvml.sm_clock_mhz(), nvml.temperature_c());
        let (sm_clock_mhz, temperature_c) = self.handles.nvml(doing, readings).await?;
        self.busy_until_ns = self.handles.now_ns().await?;
        Ok(SpeedCheck {
            at_ns: self.busy_until_ns,
            rate_per_s: rate_per_s(&completed),
            sm_clock_mhz,
            temperature_c,
        })
    }
}

/// The slot that loads the device: that of a neighbour, because the victim can be a user's program.
fn slot(tenants: &TenantSet) -> usize {
    usize::from(tenants.handles().setup.plan.tenants > 1)
}

fn rate_per_s(completed: &CompletedRequests) -> f64 {
    let span_ns = completed.ended_ns.last().copied().unwrap_or(0).max(1);
    completed.ended_ns.len() as f64 * 1e9 / span_ns as f64
}

/// A tenant that fails costs a measurement of the speed, and no cell.
fn not_loaded(handles: &RunHandles, error: RunError) -> Result<(), RunError> {
    match error {
        RunError::Tenant(error) => {
            let text = format!("the speed of the device is not known: {error}");
            Ok(handles.recorder.warning(text)?)
        }
        other => Err(other),
    }
}

fn not_steady(heating: &Heating) -> String {
    let seconds = heating.elapsed_ns as f64 / 1e9;
    let moved = heating.last.rate_per_s / heating.first.rate_per_s - 1.0;
    format!(
        "the device is not steady after {seconds:.0} s of load: its rate moved by {:+.1} % \
         (soak.limit is the longest heating)",
        100.0 * moved
    )
}

// When a device under load is steady, and how long it is loaded after an idle.

/// The device is steady when the rates of so many windows in a row vary by less than this, as a
/// standard deviation over their mean, and its temperature by less than this slope.
const WINDOWS: usize = 5;
const RATE_SPREAD_MAX: f64 = 0.01;
const SLOPE_MAX_C_PER_MIN: f64 = 0.5;

fn is_steady(windows: &[SpeedCheck]) -> bool {
    let Some(at) = windows.len().checked_sub(WINDOWS) else { return false };
    let last = &windows[at..];
    let rates: Vec<f64> = last.iter().map(|window| window.rate_per_s).collect();
    let Ok(found) = moments(&rates) else { return false };
    let minutes = last[WINDOWS - 1].at_ns.saturating_sub(last[0].at_ns) as f64 / 60e9;
    let ends = last[0].temperature_c.zip(last[WINDOWS - 1].temperature_c);
    let slope = ends.map_or(0.0, |(from, to)| (to - from) / minutes);
    found.sd <= RATE_SPREAD_MAX * found.mean && slope.abs() < SLOPE_MAX_C_PER_MIN
}

/// How long the device is loaded after an idle of this length; `None` where it is not.
fn load_after_ns(plan: &SoakPlan, idle_ns: u64) -> Option<u64> {
    let is_long = plan.keep_warm_ns > 0 && idle_ns >= plan.keep_warm_ns;
    is_long.then(|| idle_ns.min(plan.window_ns))
}

#[cfg(test)]
mod tests {
    use gpubench_record::{SoakPlan, SpeedCheck};

    use super::{is_steady, load_after_ns};

    fn windows(rates: &[f64], temperatures: &[f64]) -> Vec<SpeedCheck> {
        let both = rates.iter().zip(temperatures).zip(1_u64..);
        both.map(|((&rate_per_s, &temperature), number)| SpeedCheck {
            at_ns: number * 12_000_000_000,
            rate_per_s,
            sm_clock_mhz: None,
            temperature_c: (temperature > 0.0).then_some(temperature),
        })
        .collect()
    }

    #[test]
    fn a_device_is_steady_when_rate_and_temperature_are() {
        let flat = [50.0; 5];
        for (rates, temperatures, steady) in [
            (&[50.0, 50.2, 49.9, 50.1, 50.0][..], &[60.0; 5][..], true),
            // Four windows do not show it.
            (&flat[..4], &[60.0; 4], false),
            // The rate falls by 1.2 % a window.
            (&[52.4, 51.8, 51.2, 50.6, 50.0], &[60.0; 5], false),
            // 1 C in 48 s.
            (&flat, &[60.0, 60.0, 61.0, 61.0, 61.0], false),
            // Earlier windows do not count.
            (&[60.0, 50.0, 50.0, 50.0, 50.0, 50.0], &[40.0, 60.0, 60.0, 60.0, 60.0, 60.0], true),
            // A device without a thermometer.
            (&flat, &[0.0; 5], true),
        ] {
            let windows = windows(rates, temperatures);
            assert_eq!(is_steady(&windows), steady, "{rates:?} {temperatures:?}");
        }
    }

    #[test]
    fn a_device_is_loaded_for_as_long_as_it_was_idle_up_to_a_window() {
        for (keep_warm_ns, idle_ns, load_ns) in [
            (2_000, 1_999, None),
            (2_000, 2_000, Some(2_000)),
            (2_000, 12_001, Some(12_000)),
            (0, 12_001, None),
        ] {
            let plan =
                SoakPlan { limit_ns: 0, window_ns: 12_000, keep_warm_ns, check_ns: 0, every_ns: 1 };
            assert_eq!(load_after_ns(&plan, idle_ns), load_ns, "{keep_warm_ns} {idle_ns}");
        }
    }
}
