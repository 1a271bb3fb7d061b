//! The mechanisms of the harness, by name. The harness compares this list with its catalogue
//! (`tests/it/hami.rs`), so that a new mechanism needs an entry in every table over all mechanisms.
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
    TimeSlicingCapped "time-slicing-capped",
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
