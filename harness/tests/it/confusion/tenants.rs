//! Processes of victims and aggressors: children of this test program that read cells from their
//! standard input. A tenant takes part in the device's virtual clock only during a cell; the parent
//! announces it to the clock before the cell starts.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use gpubench_kernels::KernelSet;
use gpubench_kernels::driver::{Context, Driver, Stream, WaitMode};
use gpubench_record::WorkloadSpec;
use gpubench_virtual_gpu::device::Device;
use gpubench_workloads::clock::{Clock, Participation, Time};
use gpubench_workloads::load::{self, Gpu, Prepared};

use crate::support::{Error, TestResult, rerun};

/// The role of a process: `victim NAME` or `aggressor NAME`, with `narrow` for one block on each
/// SM.
const ROLE: &str = "GPUBENCH_TEST_ROLE";
/// Prefix of its reports, because the test harness writes to the same output.
const MARK: &str = "@:";

const SHARE: f64 = 3.0 / 7.0;
const SERVICE_NS: u64 = 500_000;
/// Requests that an aggressor has on the device before it waits for them.
const DEPTH: usize = 4;

/// Blocks of a cell, each with one rate.
pub const BLOCKS: u64 = 8;

const VICTIM: u32 = 0;
const AGGRESSOR: u32 = 1;

/// One measurement: its start, the length of a block, the latest end of the aggressor, and the file
/// that the victim creates when it has ended.
#[derive(Debug, Clone)]
pub struct Cell {
    pub from_ns: u64,
    pub block_ns: u64,
    pub until_ns: u64,
    pub done_file: PathBuf,
}

pub struct Tenant {
    child: Child,
    out: BufReader<ChildStdout>,
    id: u32,
}

impl Drop for Tenant {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Tenant {
    /// Starts the process of a role, which calibrates and sets up its workload.
    pub fn start(
        test: &str,
        device: &Device,
        role: &str,
        configure: &dyn Fn(&mut Command),
    ) -> Result<Self, Error> {
        let id = if role.starts_with("victim") { VICTIM } else { AGGRESSOR };
        let mut command = rerun(test)?;
        configure(&mut command);
        command.env(ROLE, role).stdin(Stdio::piped()).stdout(Stdio::piped());
        device.expect(id)?;
        let mut child = command.spawn()?;
        let out = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut tenant = Self { child, out, id };
        tenant.figures()?;
        Ok(tenant)
    }

    /// Announces it to the clock, which stands still until it joins.
    pub fn announce(&self, device: &Device) -> TestResult {
        Ok(device.expect(self.id)?)
    }

    pub fn start_cell(&mut self, cell: &Cell) -> TestResult {
        let stdin = self.child.stdin.as_mut().ok_or("no input")?;
        let Cell { from_ns, block_ns, until_ns, done_file } = cell;
        Ok(writeln!(stdin, "{from_ns} {block_ns} {until_ns} {}", done_file.display())?)
    }

    pub fn figures(&mut self) -> Result<Vec<f64>, Error> {
        let mut line = String::new();
        while self.out.read_line(&mut line)? > 0 {
            if let Some((_, report)) = line.trim_end().split_once(MARK) {
                let figures = report.split_whitespace().map(str::parse);
                return Ok(figures.collect::<Result<_, _>>()?);
            }
            line.clear();
        }
        Err(format!("the tenant ended: {}", self.child.wait()?).into())
    }

    /// Ends the process. Its teardown takes virtual time.
    pub fn finish(mut self, device: &Device) -> TestResult {
        self.announce(device)?;
        drop(self.child.stdin.take());
        let status = self.child.wait()?;
        if status.success() { Ok(()) } else { Err(format!("a tenant failed: {status}").into()) }
    }
}

/// The role of this process, if it is a tenant.
pub fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// Runs a tenant until its input ends.
pub fn serve(role: &str) -> TestResult {
    let clock = Clock::find()?;
    assert!(clock.is_virtual(), "the virtual device is not found");
    let words: Vec<&str> = role.split(' ').collect();
    let (victim, name) = (words[0] == "victim", words[1]);
    let id = if victim { VICTIM } else { AGGRESSOR };
    let participation = Participation::join(&clock, id)?;
    let gpu = open()?;
    let workload = load::find(name)?;
    let share = if victim { SHARE } else { 1.0 };
    let mut spec = load::calibrate(workload, &gpu, &clock, share, SERVICE_NS)?.spec;
    if words.contains(&"narrow") {
        narrow(&mut spec, &gpu);
    }
    let mut prepared = workload.setup(&gpu, &spec)?;
    participation.leave()?;
    report(&[])?;
    for line in std::io::stdin().lock().lines() {
        let cell = parse(&line?)?;
        let participation = Participation::join(&clock, id)?;
        let figures = if victim {
            measure(&gpu, &mut *prepared, &clock, &cell)?
        } else {
            stress(&gpu, &mut *prepared, &clock, &cell)?
        };
        participation.leave()?;
        report(&figures)?;
    }
    let participation = Participation::join(&clock, id)?;
    drop(prepared);
    drop(gpu);
    Ok(participation.leave()?)
}

fn report(figures: &[f64]) -> TestResult {
    let text: Vec<String> = figures.iter().map(f64::to_string).collect();
    Ok(writeln!(std::io::stdout(), "\n{MARK}{}", text.join(" "))?)
}

fn parse(line: &str) -> Result<Cell, Error> {
    let mut words = line.splitn(4, ' ');
    let mut next = || words.next().ok_or("a cell has four words");
    Ok(Cell {
        from_ns: next()?.parse()?,
        block_ns: next()?.parse()?,
        until_ns: next()?.parse()?,
        done_file: Path::new(next()?).to_owned(),
    })
}

/// One block on each SM, so that the kernel leaves block slots free.
fn narrow(spec: &mut WorkloadSpec, gpu: &Gpu) {
    if let Some(blocks) = spec.params.get_mut("blocks") {
        *blocks = gpu.props.sm_count.into();
    }
}

/// The device of the environment with a new context.
fn open() -> Result<Gpu, Error> {
    let device = Driver::load()?.device(0)?;
    let context = Context::create(&device, WaitMode::BlockingSync)?;
    Ok(Gpu {
        kernels: KernelSet::new(&context),
        stream: Stream::new(&context)?,
        props: device.props()?,
        spin: false,
        context,
    })
}

/// Requests per second in each block, one request at a time.
fn measure(
    gpu: &Gpu,
    prepared: &mut dyn Prepared,
    clock: &Clock,
    cell: &Cell,
) -> Result<Vec<f64>, Error> {
    clock.sleep_until(cell.from_ns)?;
    for _ in 0..prepared.cycle() {
        prepared.step(gpu)?;
    }
    gpu.stream.synchronize()?;
    let mut now_ns = clock.now_ns();
    let mut rates = Vec::new();
    for _ in 0..BLOCKS {
        let (begun_ns, mut requests) = (now_ns, 0);
        while now_ns < begun_ns + cell.block_ns {
            prepared.step(gpu)?;
            gpu.stream.synchronize()?;
            requests += 1;
            now_ns = clock.now_ns();
        }
        rates.push(f64::from(requests) * 1e9 / (now_ns - begun_ns) as f64);
    }
    if now_ns > cell.until_ns {
        let late_ns = now_ns - cell.until_ns;
        return Err(format!("the victim goes on {late_ns} ns after the aggressor").into());
    }
    // The aggressor does not run meanwhile and finds the file when it runs next.
    std::fs::write(&cell.done_file, "")?;
    Ok(rates)
}

/// Keeps its resource busy until the victim is done.
fn stress(
    gpu: &Gpu,
    prepared: &mut dyn Prepared,
    clock: &Clock,
    cell: &Cell,
) -> Result<Vec<f64>, Error> {
    for _ in 0..prepared.cycle() {
        prepared.step(gpu)?;
    }
    gpu.stream.synchronize()?;
    if clock.now_ns() > cell.from_ns {
        return Err("the aggressor starts too late".into());
    }
    while clock.now_ns() < cell.until_ns && !cell.done_file.exists() {
        for _ in 0..DEPTH {
            prepared.step(gpu)?;
        }
        gpu.stream.synchronize()?;
    }
    Ok(Vec::new())
}
