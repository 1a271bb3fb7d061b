//! The processes of a stage: daemons and clients.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, ExitStatus};

use gpubench_virtual_gpu_vendor_tools::nvidia_cuda_mps;

use super::{Error, Stage, WAIT_LIMIT, client};

/// A process that is killed when dropped.
pub struct Killed(pub Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A control daemon's process.
pub struct Daemon {
    pub child: Killed,
    pub(super) pipe: PathBuf,
}

impl Daemon {
    pub fn command(&self, command: &str) -> Result<String, Error> {
        let (answer, answered) = std::sync::mpsc::channel();
        let (pipe, line) = (self.pipe.clone(), command.to_owned());
        // A daemon that never answers must fail the test, not hang it.
        std::thread::spawn(move || answer.send(nvidia_cuda_mps::send(&pipe, &line)));
        let answered = answered.recv_timeout(WAIT_LIMIT);
        Ok(answered.map_err(|_| format!("no answer to {command}"))??)
    }

    /// The process ids in an answer.
    pub fn pids(&self, command: &str) -> Result<Vec<u32>, Error> {
        let answer = self.command(command)?;
        let pids = answer.lines().map(str::parse).collect::<Result<_, _>>();
        pids.map_err(|_| format!("{command}: {answer}").into())
    }

    /// The process id of the only server.
    pub fn server(&self) -> Result<u32, Error> {
        match self.pids("get_server_list")?[..] {
            [pid] => Ok(pid),
            ref pids => Err(format!("servers {pids:?}").into()),
        }
    }

    pub fn finish(mut self) -> Result<(), Error> {
        let status = self.child.0.wait()?;
        if status.success() { Ok(()) } else { Err(format!("the daemon failed: {status}").into()) }
    }
}

/// A client's process.
pub struct Client {
    pub(super) id: u32,
    pub child: Killed,
    pub(super) out: BufReader<ChildStdout>,
}

impl Client {
    pub fn pid(&self) -> u32 {
        self.child.0.id()
    }

    /// Its next line; `None` at its end.
    pub fn next_line(&mut self) -> Result<Option<String>, Error> {
        let mut line = String::new();
        while self.out.read_line(&mut line)? > 0 {
            if let Some(text) = line.trim_end().split_once(client::MARK) {
                return Ok(Some(text.1.to_owned()));
            }
            line.clear();
        }
        Ok(None)
    }

    /// Waits for its `hold` step, and returns the lines before it.
    pub fn until_hold(&mut self) -> Result<Vec<String>, Error> {
        let mut lines = Vec::new();
        loop {
            match self.next_line()? {
                Some(word) if word == client::HOLDING => return Ok(lines),
                Some(word) => lines.push(word),
                None => return Err(format!("ended after {lines:?}").into()),
            }
        }
    }

    /// Lets it continue after its `hold`.
    pub fn go(&mut self, stage: &Stage) -> Result<(), Error> {
        self.announce(stage)?;
        self.resume()
    }

    /// Announces it on the clock, which then stands until it continues.
    pub fn announce(&self, stage: &Stage) -> Result<(), Error> {
        if stage.device.is_virtual_time() {
            stage.device.expect(self.id)?;
        }
        Ok(())
    }

    /// Lets it continue, once announced.
    pub fn resume(&mut self) -> Result<(), Error> {
        let stdin = self.child.0.stdin.as_mut().ok_or("no input")?;
        writeln!(stdin, "go")?;
        Ok(())
    }

    /// Waits for its end and discards its output.
    pub fn ends(mut self) -> Result<ExitStatus, Error> {
        while self.next_line()?.is_some() {}
        Ok(self.child.0.wait()?)
    }

    /// Waits for its end and returns its output.
    pub fn finish(mut self) -> Result<Vec<String>, Error> {
        let mut lines = Vec::new();
        while let Some(word) = self.next_line()? {
            lines.push(word);
        }
        let status = self.child.0.wait()?;
        if status.success() {
            Ok(lines)
        } else {
            Err(format!("a client failed ({status}) after {lines:?}").into())
        }
    }
}
