//! `hami`: HAMi's library is preloaded into every tenant and limits its memory and its launches.
//!
//! The library is the user's: `--hami-lib`, else the one that HAMi installs. Its hash identifies
//! it, because build flags change its behaviour. A cluster requests the same by HAMi's own
//! resources (`nvidia.com/gpumem`, `nvidia.com/gpucores`); a fractional `nvidia.com/gpu` is
//! refused.
//!
//! Each tenant has an accounting file of its own: in the default file, which the whole host shares,
//! the first tenant sets the limits of all. The limiter is always on (`FORCE`), and hooks redirect
//! to the preloaded library, so that no second copy is loaded. Contexts are opened one after
//! another, because the library finds the tenant's process id as the new one on the device
//! (Project-HAMi/HAMi-core at 8f3a89c: `multiprocess_memory_limit.c`, `libvgpu.c`, `utils.c`).
//!
//! A static program is not limited, nor is one that looks symbols up in another way. The proof is
//! therefore taken in the tenant: the library is mapped, `cuMemAlloc_v2` resolves into it, the
//! memory that the tenant sees is its limit, an allocation beyond it is refused, and the library
//! does not report that it cannot find its process, which turns its SM limiter off.

use gpubench_plan::Availability;
use gpubench_record::{Proof, Sharing};

use super::host::{Change, ControlError, Guard, HostError};
use super::interface::{About, MEMORY_PCT, Requirement, USUAL};
use super::waivers::{device_is_partitioned, sharing_is_off, too_little_for_share, waived};
use super::{
    Compute, ComputeLimit, Configuration, HostStage, InForce, Mechanism, MechanismContext,
    MechanismEntry, Observation, OpeningChecks, OptionEntry, TenantEnv, TenantObservation,
    interface, memory_cap, user_program,
};

#[derive(Debug)]
pub struct Hami;

/// Time between two fillings of the library's token bucket (HAMi-core at 8f3a89c,
/// `multiprocess_utilization_watcher.c`).
const PERIOD_NS: u64 = 120_000_000;

/// Time until victims of a fault count. The bucket is empty at the first launch of a process and is
/// first filled one period later. After three fillings no trial attributes that pause to the fault.
const SETTLES_NS: u64 = 3 * PERIOD_NS;

/// At this percentage the library limits no launches.
const NO_LIMIT_PCT: u32 = 100;
/// Messages of the library when it does not find its process on the device. It then neither counts
/// the context nor delays a launch (HAMi-core, `utils.c`, `memory.c`: `pidfound`).
pub const LIBRARY_FAULTS: [&str; 2] = ["SET_TASK_PID FAILED", "host pid is error"];

const ENTRY: MechanismEntry = MechanismEntry {
    name: "hami",
    summary: "a preloaded library limits the memory and the launches of each process",
    about: About {
        since: "any driver",
        needs: "HAMi-core (--hami-lib)",
        changes: "private folders",
        proof: "the library is mapped and allocates; an allocation beyond the limit is refused",
        deployed_by: "HAMi, Volcano vGPU",
    },
    group: "plain",
    options: &[
        MEMORY_PCT,
        OptionEntry {
            key: "sm_pct",
            summary: "maximum SM time of each process, in percent; 100 is no limit",
            accepted: &["1 to 100"],
        },
    ],
    sharing: Sharing::InTime,
    accounting_library: true,
    settles_ns: SETTLES_NS,
    period_ns: PERIOD_NS,
    ..USUAL
};

impl Mechanism for Hami {
    fn entry(&self) -> &'static MechanismEntry {
        &ENTRY
    }

    fn availability(&self, cx: &MechanismContext<'_>) -> Availability {
        let facts = cx.facts;
        if let Some(waived) = device_is_partitioned(facts).or_else(|| sharing_is_off(facts)) {
            return waived;
        }
        if let Some(program) = facts.static_programs.first() {
            let shown = program.display();
            return waived(
                format!("{shown} is a static binary, into which no library can be preloaded"),
                Some("a build for a dynamic target"),
            );
        }
        match (&facts.hami, &facts.hami_requested) {
            (Some(library), _) => {
                if let Some(problem) = &library.problem {
                    let reason = format!("{}: {problem}", library.path.display());
                    return waived(reason, Some("--hami-lib PATH of HAMi-core's libvgpu.so"));
                }
            }
            (None, Some(path)) => {
                let reason = format!("{} cannot be read", path.display());
                return waived(reason, Some("--hami-lib PATH of HAMi-core's libvgpu.so"));
            }
            (None, None) => {
                return waived("libvgpu.so was not found", Some("--hami-lib PATH"));
            }
        }
        let options = &cx.profile.hami;
        too_little_for_share(cx, "memory", options.memory_pct)
            .or_else(|| match cx.profile.asked {
                Some(_) => None,
                None => too_little_for_share(cx, "SMs", options.sm_pct),
            })
            .unwrap_or(Availability::Available)
    }

    fn configuration(&self, cx: &MechanismContext<'_>) -> Configuration {
        let options = &cx.profile.hami;
        let limit_mib = limit_mib(cx);
        let (memory, sm) = (options.memory_pct, cx.profile.limit_of(options.sm_pct, 0));
        let limits = cx.profile.limits_as_text(options.sm_pct);
        let variant = format!("{}[memory={memory},sm={limits}]", ENTRY.name);
        Configuration {
            variant: variant.clone(),
            host_changes: vec!["a private folder for each tenant's accounting".to_owned()],
            stage: Some(HostStage {
                key: variant,
                // The library keeps a context of its own open, so no cell beside it is native.
                allows_native: false,
            }),
            checks: OpeningChecks {
                over_limit_bytes: limit_mib.map(|mib| memory_cap::beyond_bytes(cx.facts, mib)),
                ..OpeningChecks::default()
            },
            refuses_outsiders: false,
            memory_limit_bytes: limit_mib.map(|mib| mib << 20),
            compute_limit: (sm < NO_LIMIT_PCT)
                .then(|| ComputeLimit { share: f64::from(sm) / 100.0, of: Compute::Time }),
            required: required(cx),
        }
    }

    fn enter(&self, _cx: &MechanismContext<'_>, guard: &mut Guard) -> Result<InForce, HostError> {
        let folder = interface::short_folder().ok_or_else(|| {
            ControlError::new("setting HAMi up", "no private folder is short enough")
        })?;
        guard.make(Change::Folder { path: folder.clone() })?;
        Ok(InForce { folder: Some(folder), ..InForce::default() })
    }

    fn tenant_env(&self, cx: &MechanismContext<'_>, set_up: &InForce, slot: usize) -> TenantEnv {
        let mut env = TenantEnv::new();
        let (Some(library), Some(folder)) = (&cx.facts.hami, &set_up.folder) else {
            return env;
        };
        let options = &cx.profile.hami;
        let mut put = |name: &str, value: std::ffi::OsString| env.insert(name.into(), value);
        put("LD_PRELOAD", library.path.clone().into());
        put("CUDA_REDIRECT", library.path.clone().into());
        if let Some(mib) = limit_mib(cx) {
            put("CUDA_DEVICE_MEMORY_LIMIT", format!("{mib}M").into());
        }
        let sm = cx.profile.limit_of(options.sm_pct, slot);
        put("CUDA_DEVICE_SM_LIMIT", sm.to_string().into());
        put("GPU_CORE_UTILIZATION_POLICY", "FORCE".into());
        let cache = folder.join(format!("tenant-{slot}.cache"));
        put("CUDA_DEVICE_MEMORY_SHARED_CACHE", cache.into());
        // Warnings are logged too: one of them reports that the limiter is off.
        put("LIBCUDA_LOG_LEVEL", "2".into());
        env
    }

    fn prove(&self, cx: &MechanismContext<'_>, observed: &Observation) -> Vec<Proof> {
        if observed.condition.is_native() || observed.tenants.is_empty() {
            return Vec::new();
        }
        let Some(library) = &cx.facts.hami else {
            return Vec::new();
        };
        let path = library.path.display().to_string();
        let mut proofs = vec![serves(&path, &library.hash, observed)];
        proofs.extend(limit_mib(cx).map(|mib| memory_cap::shown(mib, observed)));
        proofs.extend(mapped(&path, observed));
        if is_limited(cx) {
            proofs.push(limiter(observed));
        }
        proofs.extend(memory_cap::over_limit(observed));
        proofs.extend(user_program::has_variables(observed));
        proofs
    }
}

/// Whether a tenant has a limit of SM time.
fn is_limited(cx: &MechanismContext<'_>) -> bool {
    (0..2).any(|slot| cx.profile.limit_of(cx.profile.hami.sm_pct, slot) < NO_LIMIT_PCT)
}

/// The memory limit of each tenant; `None` if there is none.
fn limit_mib(cx: &MechanismContext<'_>) -> Option<u64> {
    memory_cap::limit_mib(cx.facts, cx.profile.hami.memory_pct)
}

/// The library is in every process while it is measured.
const MAPPED: Requirement = Requirement::during("the library is mapped into every tenant");
const SERVES: Requirement = Requirement::at_open("the library serves every tenant's allocations");
/// The limiter counts every tenant.
const FINDS: Requirement = Requirement::once("the SM limiter finds its process");

fn required(cx: &MechanismContext<'_>) -> Vec<Requirement> {
    let mut required = vec![MAPPED, SERVES];
    if limit_mib(cx).is_some() {
        required.extend([memory_cap::SHOWN, memory_cap::OVER_LIMIT]);
    }
    if is_limited(cx) {
        required.push(FINDS);
    }
    required.extend(user_program::required(cx));
    required
}

/// Whether the library is mapped into every tenant. A user's program shows nothing else: a static
/// one, or one that drops the variable, is not limited.
fn mapped(path: &str, observed: &Observation) -> Option<Proof> {
    observed.listed_at_ns?;
    let has = |files: &Vec<String>| files.iter().any(|file| file == path);
    let tenants = observed.tenants.iter();
    let bare = tenants.filter(|tenant| !tenant.mapped.as_ref().is_some_and(has));
    let bare = bare.map(|tenant| format!("not into the {}", tenant.name()));
    let of_program = observed.program.iter().flat_map(|program| program.without(path));
    let of_program = of_program.map(|pid| format!("not into {pid} of the victim's program"));
    let bare: Vec<String> = bare.chain(of_program).collect();
    let evidence = if bare.is_empty() {
        format!("{path} in each")
    } else {
        format!("{path} {}", bare.join(", "))
    };
    Some(Proof { limiter: bare.is_empty(), ..MAPPED.proof(bare.is_empty(), evidence) })
}

/// Whether every tenant's `cuMemAlloc_v2` is the library's.
fn serves(path: &str, hash: &str, observed: &Observation) -> Proof {
    let file = |tenant: &TenantObservation| tenant.facts.get("allocator_file").cloned();
    let tenants = observed.tenants.iter().map(|tenant| (tenant.name(), file(tenant)));
    let other = tenants.filter(|(_, file)| file.as_deref() != Some(path));
    let text = |(name, file): (String, Option<String>)| {
        let file = file.unwrap_or_else(|| "an unknown file".to_owned());
        format!("{name}: cuMemAlloc_v2 is in {file}")
    };
    let other: Vec<String> = other.map(text).collect();
    let evidence = if other.is_empty() {
        format!("cuMemAlloc_v2 is in {path} (BLAKE3 {hash})")
    } else {
        other.join(", ")
    };
    SERVES.proof(other.is_empty(), evidence)
}

/// Whether the library found every tenant's process, without which its SM limiter is off.
fn limiter(observed: &Observation) -> Proof {
    let text = |tenant: &TenantObservation| {
        let line = tenant.library_faults.first()?;
        Some(format!("{}: {line}", tenant.name()))
    };
    let off: Vec<String> = observed.tenants.iter().filter_map(text).collect();
    let evidence = if off.is_empty() {
        "no tenant's library reports that it cannot find its process".to_owned()
    } else {
        format!("the SM limiter is off: {}", off.join(", "))
    };
    FINDS.proof(off.is_empty(), evidence)
}

#[cfg(test)]
mod tests {
    use gpubench_record::Condition;

    use super::{limiter, mapped, serves};
    use crate::mechanism::{Observation, TenantObservation};

    const PATH: &str = "/usr/local/vgpu/libvgpu.so";

    fn observed(
        mapped: Option<&str>,
        allocator: Option<&str>,
        memory_mib: Option<u64>,
    ) -> Observation {
        let reported = [
            ("allocator_file", allocator.map(str::to_owned)),
            ("memory_total_bytes", memory_mib.map(|mib| (mib << 20).to_string())),
        ];
        let tenant = TenantObservation {
            facts: reported
                .into_iter()
                .filter_map(|(name, fact)| Some((name.to_owned(), fact?)))
                .collect(),
            mapped: mapped.map(|file| vec!["/usr/lib/libc.so.6".to_owned(), file.to_owned()]),
            ..TenantObservation::default()
        };
        Observation { tenants: vec![tenant], ..Observation::new(Condition::C, vec![7]) }
    }

    #[test]
    fn the_library_must_be_mapped_and_serve_allocations() {
        for (file, allocator, is_mapped, does_serve) in [
            (Some(PATH), Some(PATH), true, true),
            (Some(PATH), Some("/usr/lib/libcuda.so.1"), true, false),
            (Some("/opt/other/libvgpu.so"), Some(PATH), false, true),
            (None, Some(PATH), false, true),
            (Some(PATH), None, true, false),
        ] {
            let observed = Observation { listed_at_ns: Some(1), ..observed(file, allocator, None) };
            let found = mapped(PATH, &observed).map(|proof| (proof.holds, proof.limiter));
            assert_eq!(found, Some((is_mapped, is_mapped)), "{file:?}");
            assert_eq!(serves(PATH, "00", &observed).holds, does_serve, "{allocator:?}");
        }
        let not_observed = observed(Some(PATH), Some(PATH), None);
        assert_eq!(mapped(PATH, &not_observed), None, "no files were read during the samples");
    }

    #[test]
    fn a_limiter_that_cannot_find_its_process_is_off() {
        let mut observed = observed(None, None, None);
        assert!(limiter(&observed).holds);
        let line = "[HAMI-core ERROR (7:1:utils.c:9)]: host pid is error!".to_owned();
        observed.tenants[0].library_faults = vec![line];
        let proof = limiter(&observed);
        assert!(!proof.holds && proof.evidence.contains("host pid is error!"), "{proof:?}");
    }
}
