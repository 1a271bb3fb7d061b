//! The highest rates of a device, by the clocks and widths that it reports.

use gpubench_catalogue::workload::Ceiling;
use gpubench_record::DeviceIdentity;
use nvml_wrapper::enum_wrappers::device::Clock;

use super::Driver;

/// The highest rate of one resource.
#[derive(Debug, Clone, PartialEq)]
pub struct Rated {
    /// Bytes or operations per second.
    pub per_s: f64,
    pub source: String,
}

/// The clocks and widths that NVML reports; `None` where it does not.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reported {
    sm_clock_mhz: Option<u32>,
    /// The SM clock under load, where it is below the highest.
    held_mhz: Option<u32>,
    memory_clock_mhz: Option<u32>,
    bus_bits: Option<u32>,
    cores: Option<u32>,
    link_generation: Option<u32>,
    link_width: Option<u32>,
}

/// Results per clock and SM of double-precision and of 32-bit integer multiply-adds, by compute
/// capability (CUDA C++ Programming Guide, "Throughput of Native Arithmetic Instructions"). Before
/// 7.0 an integer multiply-add is several instructions.
const LANES: [((u32, u32), u32, Option<u32>); 9] = [
    ((6, 0), 32, None),
    ((6, 1), 4, None),
    ((7, 0), 32, Some(64)),
    ((7, 5), 2, Some(64)),
    ((8, 0), 32, Some(64)),
    ((8, 6), 2, Some(64)),
    ((8, 9), 2, Some(64)),
    ((9, 0), 64, Some(64)),
    ((10, 0), 64, Some(64)),
];

/// Multiply-adds of half precision with single-precision sums, per clock and SM (NVIDIA Tesla V100
/// and A100 architecture whitepapers). Elsewhere the rate of these instructions depends on the
/// product (7.5, 8.6, 8.9), or only instructions of warp groups reach the documented one (9.0).
const TENSOR_LANES: [((u32, u32), u32); 2] = [((7, 0), 512), ((8, 0), 1024)];

/// Transfers of a lane per second and the part of the bits that are data, by generation (PCI
/// Express Base Specification: 8b/10b, then 128b/130b; from 6.0 on FLITs of 256 bytes with 236
/// bytes of packets).
const LINK: [(f64, f64); 6] = [
    (2.5e9, 8.0 / 10.0),
    (5e9, 8.0 / 10.0),
    (8e9, 128.0 / 130.0),
    (16e9, 128.0 / 130.0),
    (32e9, 128.0 / 130.0),
    (64e9, 236.0 / 256.0),
];

impl Reported {
    /// Reads clocks and widths. The link is slower while it is idle, so its generation is the
    /// highest that device and host support.
    pub fn read(nvml: &Driver) -> Self {
        let Ok(device) = nvml.device() else {
            return Self::default();
        };
        Self {
            sm_clock_mhz: device.max_clock_info(Clock::SM).ok(),
            held_mhz: None,
            memory_clock_mhz: device.max_clock_info(Clock::Memory).ok(),
            bus_bits: device.memory_bus_width().ok(),
            cores: device.num_cores().ok(),
            link_generation: device.max_pcie_link_gen().ok(),
            link_width: device.current_pcie_link_width().ok(),
        }
    }

    /// The same with the SM clock that the board held under load.
    pub fn held_at(&self, mhz: u32) -> Self {
        let held_mhz = self.sm_clock_mhz.filter(|highest| mhz < *highest).map(|_| mhz.max(1));
        Self { held_mhz, ..*self }
    }

    /// The highest rate of a resource; `None` where the device does not report what it follows
    /// from, or where no document gives it.
    pub fn rated(&self, ceiling: Ceiling, identity: &DeviceIdentity) -> Option<Rated> {
        match ceiling {
            Ceiling::Dram => self.dram(),
            Ceiling::Single => self.arithmetic(self.cores?, "cores"),
            Ceiling::Double => self.lanes(identity, lanes_of(identity)?.0, "FP64"),
            Ceiling::Int => self.lanes(identity, lanes_of(identity)?.1?, "integer"),
            Ceiling::Tensor => self.lanes(identity, tensor_lanes_of(identity)?, "tensor"),
            Ceiling::Link => self.link(1.0),
            Ceiling::LinkBothWays => self.link(2.0),
        }
    }

    /// Two transfers a clock on every line of the bus (the formula of NVIDIA's `deviceQuery`).
    fn dram(&self) -> Option<Rated> {
        let (clock_mhz, bits) = (self.memory_clock_mhz?, self.bus_bits?);
        Some(Rated {
            per_s: 2.0 * f64::from(clock_mhz) * 1e6 * f64::from(bits) / 8.0,
            source: format!("memory clock {clock_mhz} MHz x {bits} bits x 2"),
        })
    }

    fn lanes(&self, identity: &DeviceIdentity, lanes: u32, kind: &str) -> Option<Rated> {
        // 0 until a tenant of the whole device has reported it.
        let sms = Some(identity.sm_count).filter(|sms| *sms > 0)?;
        self.arithmetic(sms * lanes, &format!("{kind} lanes on {sms} SMs"))
    }

    /// A multiply-add in every lane in every clock.
    fn arithmetic(&self, lanes: u32, what: &str) -> Option<Rated> {
        let highest_mhz = self.sm_clock_mhz?;
        let clock_mhz = self.held_mhz.unwrap_or(highest_mhz);
        let held = self.held_mhz.map(|_| format!(" under load, of {highest_mhz} MHz,"));
        let held = held.unwrap_or_default();
        Some(Rated {
            per_s: 2.0 * f64::from(clock_mhz) * 1e6 * f64::from(lanes),
            source: format!("SM clock {clock_mhz} MHz{held} x {lanes} {what} x 2"),
        })
    }

    fn link(&self, ways: f64) -> Option<Rated> {
        let (generation, width) = (self.link_generation?, self.link_width?);
        let at = usize::try_from(generation).ok()?.checked_sub(1)?;
        let (transfers_per_s, data) = LINK.get(at)?;
        Some(Rated {
            per_s: ways * transfers_per_s * data * f64::from(width) / 8.0,
            source: format!("PCIe {generation}.0 x{width}, {ways} directions"),
        })
    }
}

fn lanes_of(identity: &DeviceIdentity) -> Option<(u32, Option<u32>)> {
    let capability = capability_of(identity)?;
    let mut lanes = LANES.iter();
    let found = lanes.find(|(known, ..)| *known == capability)?;
    Some((found.1, found.2))
}

fn tensor_lanes_of(identity: &DeviceIdentity) -> Option<u32> {
    let capability = capability_of(identity)?;
    let mut lanes = TENSOR_LANES.iter();
    lanes.find(|(known, _)| *known == capability).map(|(_, lanes)| *lanes)
}

fn capability_of(identity: &DeviceIdentity) -> Option<(u32, u32)> {
    let (major, minor) = identity.compute_capability.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use gpubench_record::DeviceKind;

    use super::*;

    fn device(capability: &str, sm_count: u32) -> DeviceIdentity {
        DeviceIdentity {
            kind: DeviceKind::Real,
            name: String::new(),
            uuid: String::new(),
            driver: String::new(),
            cuda: String::new(),
            compute_capability: capability.to_owned(),
            sm_count,
            memory_mib: 0,
            l2_kib: 0,
            pci_id: None,
            facts: BTreeMap::new(),
        }
    }

    #[test]
    fn rates_are_those_of_data_sheets() {
        // H100 SXM: 3.35 TB/s, 66.9 and 33.5 TFLOP/s, PCIe 5.0 63 GB/s. A100: 312 TFLOP/s.
        let h100 = Reported {
            sm_clock_mhz: Some(1980),
            held_mhz: None,
            memory_clock_mhz: Some(2619),
            bus_bits: Some(5120),
            cores: Some(132 * 128),
            link_generation: Some(5),
            link_width: Some(16),
        };
        let a100 = Reported { sm_clock_mhz: Some(1410), ..h100 };
        let (hopper, ampere) = (device("9.0", 132), device("8.0", 108));
        for (reported, identity, ceiling, tera) in [
            (h100, &hopper, Ceiling::Dram, 3.352),
            (h100, &hopper, Ceiling::Single, 66.908),
            (h100, &hopper, Ceiling::Double, 33.454),
            (h100, &hopper, Ceiling::Int, 33.454),
            (h100, &hopper, Ceiling::Link, 0.063_015),
            (h100, &hopper, Ceiling::LinkBothWays, 0.126_03),
            (a100, &ampere, Ceiling::Tensor, 311.869),
        ] {
            let rated = reported.rated(ceiling, identity).expect("a rate");
            assert!((rated.per_s / 1e12 / tera - 1.0).abs() < 1e-4, "{ceiling:?} {rated:?}");
        }
        let source = h100.rated(Ceiling::Double, &hopper).map(|rated| rated.source);
        let expected = "SM clock 1980 MHz x 8448 FP64 lanes on 132 SMs x 2";
        assert_eq!(source.as_deref(), Some(expected));
        // The clock that a power cap leaves; a reading above the highest clock changes nothing.
        let held = h100.held_at(990).rated(Ceiling::Single, &hopper).expect("a rate");
        assert!((held.per_s / 33.454e12 - 1.0).abs() < 1e-4, "{held:?}");
        assert_eq!(held.source, "SM clock 990 MHz under load, of 1980 MHz, x 16896 cores x 2");
        assert_eq!(h100.held_at(990).dram(), h100.dram());
        let above = h100.held_at(1995);
        assert_eq!(above.rated(Ceiling::Int, &hopper), h100.rated(Ceiling::Int, &hopper));
    }

    #[test]
    fn what_is_not_reported_or_documented_has_no_ceiling() {
        let some = Reported {
            sm_clock_mhz: Some(1980),
            link_generation: Some(9),
            link_width: Some(16),
            ..Reported::default()
        };
        for (identity, ceiling) in [
            (device("9.0", 132), Ceiling::Dram),
            (device("9.0", 132), Ceiling::Single),
            (device("9.0", 132), Ceiling::Link),
            (device("9.0", 132), Ceiling::Tensor),
            (device("9.0", 0), Ceiling::Double),
            (device("6.1", 20), Ceiling::Int),
            (device("99.0", 20), Ceiling::Double),
            (device("", 20), Ceiling::Double),
        ] {
            assert_eq!(some.rated(ceiling, &identity), None, "{ceiling:?}");
        }
    }
}
