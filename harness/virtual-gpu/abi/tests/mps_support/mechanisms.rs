//! The mechanisms by which the harness shares a device, each by its name there. This list and the
//! harness's catalogue are held against each other by its tests (`tests/hami.rs` there), so that a
//! new mechanism has to be given its place in every table that goes through them all.
#![allow(dead_code, reason = "each test binary uses its own part")]

macro_rules! mechanisms {
    ($($mechanism:ident $name:literal,)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Mechanism { $($mechanism),* }

        impl Mechanism {
            /// In the order of the catalogue.
            pub const ALL: &[Self] = &[$(Self::$mechanism),*];

            /// As in the catalogue.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$mechanism => $name),* }
            }
        }
    };
}

mechanisms! {
    Exclusive "exclusive",
    ExclusiveProcess "exclusive-process",
    TimeSlicing "time-slicing",
    Mps "mps",
    MpsQuota "mps-quota",
    MpsStatic "mps-static",
    MpsMemory "mps-memory",
    Mig "mig",
    MigMps "mig-mps",
    Hami "hami",
    GreenContext "green-context",
    StreamPriority "stream-priority",
}
