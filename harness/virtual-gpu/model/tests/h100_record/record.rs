//! The figures of the record that the laws start from and are compared with.

use serde_json::Value;

use super::Error;
use super::device::{Axis, Pair};

/// The record `reports/examples/h100_580.159.04_matrix`.
pub struct Record(Value);

impl Record {
    pub fn read() -> Result<Self, Error> {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../../reports/examples/h100_580.159.04_matrix/record.json"
        );
        Ok(Self(serde_json::from_slice(&std::fs::read(path)?)?))
    }

    pub fn retention(&self, mechanism: &str, sub_axis: &str) -> Result<f64, Error> {
        let rows = self.0["matrix"].as_array().ok_or("no matrix")?;
        let row =
            rows.iter().find(|row| row["mechanism"] == mechanism && row["sub_axis"] == sub_axis);
        let value = row.and_then(|row| row["retention"]["value"].as_f64());
        Ok(value.ok_or_else(|| format!("no row {mechanism} {sub_axis}"))?)
    }

    /// Victim and aggressor of an axis, each alone on the device.
    pub fn pair(&self, axis: Axis) -> Result<Pair, Error> {
        let (victim, aggressor) = axis.workloads();
        let entry = |name: &str| &self.0["calibration"]["entries"][name];
        let blocks = entry(victim)["spec"]["params"]["blocks"].as_u64();
        let peak = self.0["calibration"]["peaks"][aggressor]["alone_per_s"].as_f64();
        let work = entry(victim)["work_per_request"].as_f64();
        let peak = peak.ok_or("no peak")?;
        Ok(Pair {
            axis,
            victim_blocks: blocks.ok_or("no blocks")?,
            victim_share: work.ok_or("no work")? / self.gpu_s(victim)? / peak,
        })
    }

    /// Median time of the victim's request on the GPU in the first native cell.
    fn gpu_s(&self, victim: &str) -> Result<f64, Error> {
        let cells = self.0["cells"].as_array().ok_or("no cells")?;
        let native = cells.iter().find(|cell| cell["condition"] == "N" && cell["victim"] == victim);
        let ns = native.and_then(|cell| cell["rates"]["gpu_p50_ns"].as_f64());
        Ok(ns.ok_or("no native cell")? / 1e9)
    }
}
