//! Victims and aggressors in processes of their own: this very program again, which does what it
//! is told on its input. Whoever acts has a place on the device's clock, which its parent
//! announces before it tells anybody to go on; at other times it stands beside the clock.

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

/// The role of a process: `victim NAME` or `aggressor NAME`, with `narrow` where it keeps to one
/// block on each SM.
const PART: &str = "GPUBENCH_TEST_PART";
/// Stands before what it says, since the test harness writes on the same output.
const MARK: &str = "@:";

const SHARE: f64 = 3.0 / 7.0;
const SERVICE_NS: u64 = 500_000;
/// Requests that an aggressor has on the device before it waits for them.
const DEPTH: usize = 4;

/// Blocks of which each gives a rate.
pub const BLOCKS: u64 = 8;

/// Places on the clock.
const VICTIM: u32 = 0;
const AGGRESSOR: u32 = 1;

/// One measurement: when it begins, how long a block lasts, when the neighbour stops at the
/// latest, and the file that appears when the victim is done.
#[derive(Debug, Clone)]
pub struct Cell {
    pub from_ns: u64,
    pub block_ns: u64,
    pub until_ns: u64,
    pub over: PathBuf,
}

/// A process with a part.
pub struct Actor {
    child: Child,
    out: BufReader<ChildStdout>,
    id: u32,
}

impl Drop for Actor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Actor {
    /// Starts the process of a part; it calibrates and prepares itself.
    pub fn start(
        test: &str,
        device: &Device,
        part: &str,
        around: &dyn Fn(&mut Command),
    ) -> Result<Self, Error> {
        let id = if part.starts_with("victim") {
            VICTIM
        } else {
            AGGRESSOR
        };
        let mut command = rerun(test)?;
        around(&mut command);
        command
            .env(PART, part)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        device.expect(id)?;
        let mut child = command.spawn()?;
        let out = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut actor = Self { child, out, id };
        actor.says()?;
        Ok(actor)
    }

    /// Has its place on the clock kept for it: the clock stands until it comes.
    pub fn announce(&self, device: &Device) -> TestResult {
        Ok(device.expect(self.id)?)
    }

    /// Tells it to play in a cell, once it is announced.
    pub fn play(&mut self, cell: &Cell) -> TestResult {
        let stdin = self.child.stdin.as_mut().ok_or("no input")?;
        let Cell {
            from_ns,
            block_ns,
            until_ns,
            over,
        } = cell;
        Ok(writeln!(
            stdin,
            "{from_ns} {block_ns} {until_ns} {}",
            over.display()
        )?)
    }

    /// The figures that it says when it has played.
    pub fn says(&mut self) -> Result<Vec<f64>, Error> {
        let mut line = String::new();
        while self.out.read_line(&mut line)? > 0 {
            if let Some((_, said)) = line.trim_end().split_once(MARK) {
                let figures = said.split_whitespace().map(str::parse);
                return Ok(figures.collect::<Result<_, _>>()?);
            }
            line.clear();
        }
        Err(format!("it ended: {}", self.child.wait()?).into())
    }

    /// Lets it end, which takes a place on the clock once more.
    pub fn finish(mut self, device: &Device) -> TestResult {
        self.announce(device)?;
        drop(self.child.stdin.take());
        let status = self.child.wait()?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("a part failed: {status}").into())
        }
    }
}

/// The part of this process, if it has one.
pub fn part() -> Option<String> {
    std::env::var(PART).ok()
}

/// Plays the part to its end.
pub fn follow(part: &str) -> TestResult {
    let clock = Clock::find()?;
    assert!(clock.is_virtual(), "the virtual device is not found");
    let words: Vec<&str> = part.split(' ').collect();
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
    say(&[])?;
    for line in std::io::stdin().lock().lines() {
        let cell = parse(&line?)?;
        let participation = Participation::join(&clock, id)?;
        let said = if victim {
            measure(&gpu, &mut *prepared, &clock, &cell)?
        } else {
            lean(&gpu, &mut *prepared, &clock, &cell)?
        };
        participation.leave()?;
        say(&said)?;
    }
    let participation = Participation::join(&clock, id)?;
    drop(prepared);
    drop(gpu);
    Ok(participation.leave()?)
}

fn say(figures: &[f64]) -> TestResult {
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
        over: Path::new(next()?).to_owned(),
    })
}

/// A grid that fills the device takes every slot for blocks too, which has an aggressor of its own.
fn narrow(spec: &mut WorkloadSpec, gpu: &Gpu) {
    if let Some(blocks) = spec.params.get_mut("blocks") {
        *blocks = gpu.props.sm_count.into();
    }
}

/// A context of its own on the device of the environment.
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

/// Requests a second, one after the other, in each block.
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
    // The neighbour has not the clock meanwhile, and sees it at its next turn.
    std::fs::write(&cell.over, "")?;
    Ok(rates)
}

/// Keeps its resource busy until the victim is done.
fn lean(
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
        return Err("the aggressor comes too late".into());
    }
    while clock.now_ns() < cell.until_ns && !cell.over.exists() {
        for _ in 0..DEPTH {
            prepared.step(gpu)?;
        }
        gpu.stream.synchronize()?;
    }
    Ok(Vec::new())
}
