//! Messages for invalid profiles, key by key.

use super::message;

/// An invalid profile, and its message.
const INVALID: &[(&str, &str)] = &[
    ("", "profile mine.toml: key `version`: missing (accepted: 1)"),
    (
        "# mine\nversion = 2\n",
        "profile mine.toml:2: key `version`: this gpubench does not read version 2 \
         (accepted: 1)",
    ),
    (
        "version = 1\nseeds = 3\n",
        "profile mine.toml:2: key `seeds`: unknown key (accepted: version, summary, decides, \
         mechanisms, axes, victims, aggressors, tenants, neighbours, sweep, pairs, \
         depths, loads, events, shares, share, seed, service, load, slo, slo_share, bursts, \
         doses, rotation, open_loops, jitter_pairs, device_time, \
         telemetry_period, meters, probe_windows, soak, blocks, cell, cell_min, faults, \
         thresholds, margins, user-victim, time-slicing, time-slicing-capped, mps, \
         mps-quota, mps-static, mps-memory, mig, \
         mig-mps, hami)",
    ),
    (
        "version = 1\n\n[blocks]\nmost = 9\n",
        "profile mine.toml:4: key `blocks.most`: unknown key (accepted: min, max, \
         top_up, half_width)",
    ),
    (
        "version = 1\n[blocks]\nhalf_width = 0.6\n",
        "profile mine.toml:3: key `blocks.half_width`: 0.6 is out of range (accepted: 0 to 0.5)",
    ),
    (
        "version = 1\n[margins]\np99 = 0.0\n",
        "profile mine.toml:3: key `margins.p99`: 0 is too small (accepted: 0.0001 to 10)",
    ),
    (
        "version = 1\n[thresholds]\nretention = 0.9\n",
        "profile mine.toml:3: key `thresholds.retention`: unknown key (accepted: \
         retention_l3, retention_l2, retention_l1, guarantee_l3, jitter_negligible, \
         service_jitter_low_medium, effectiveness_max, overlap_min, drift_max, \
         tail_requests_min)",
    ),
    (
        "version = 1\n[thresholds]\nindex_l1 = 0.2\n",
        "profile mine.toml:3: key `thresholds.index_l1`: a key of scoring-v3 (accepted: \
         retention_l1, a bound of the retention)",
    ),
    (
        "version = 1\n[thresholds]\njitter_low_medium = 1.0\n",
        "profile mine.toml:3: key `thresholds.jitter_low_medium`: a key of scoring-v3 (accepted: \
         service_jitter_low_medium, a bound of the service jitter)",
    ),
    (
        "version = 1\n[thresholds]\njitter_requests_min = 400\n",
        "profile mine.toml:3: key `thresholds.jitter_requests_min`: a key of scoring-v3 \
         (accepted: tail_requests_min)",
    ),
    (
        "version = 1\naxes = [\n  \"compute\",\n  \"l3\",\n]\n",
        "profile mine.toml:4: key `axes`: unknown axis \"l3\" (accepted: memory, compute, \
         bandwidth, fault, jitter, power, compute/sm, compute/issue, compute/launch, \
         compute/driver, bandwidth/dram, bandwidth/l2, bandwidth/pcie, memory/capacity, \
         power/power, memory/cap, memory/residue, memory/visibility, fault/api, fault/process, \
         fault/starvation, fault/sm, fault/mmu, fault/service)",
    ),
    (
        "version = 1\nprobe_windows = [\"10ms\", \"25ms\"]\n",
        "profile mine.toml:2: key `probe_windows`: 25ms is not accepted (accepted: \"5ms\" to \
         \"10s\", each once, all multiples of the shortest)",
    ),
    (
        "version = 1\nneighbours = [\"peer\"]\n",
        "profile mine.toml:2: key `neighbours`: the first neighbour must run the aggressor \
         of the cell (accepted: a list that begins with \"aggressor\")",
    ),
    (
        "version = 1\nneighbours = [\"aggressor\", \"peer\"]\n",
        "profile mine.toml:2: key `neighbours`: 2 roles for 1 neighbours (accepted: at most 1)",
    ),
    (
        "version = 1\ntenants = 4\nsweep = [2, 4]\n",
        "profile mine.toml:3: key `sweep`: 4 tenants (accepted: rising numbers from 2 to 3, below \
         tenants)",
    ),
    (
        "version = 1\n[bursts]\nrequests = 5.0\npeak = 1.0\n",
        "profile mine.toml:4: key `bursts.peak`: 1 is out of range (accepted: above 1 and at most \
         1000)",
    ),
    (
        "version = 1\n[user-victim]\ncommand = \"  \"\n",
        "profile mine.toml:3: key `user-victim.command`: no command (accepted: a shell command; \
         \"\" for no program)",
    ),
    (
        "version = 1\n[user-victim]\nready = \"999ms\"\n",
        "profile mine.toml:3: key `user-victim.ready`: 999ms is too small (accepted: 1s to 1h)",
    ),
    (
        "version = 1\nmechanisms = \"mps\"\n",
        "profile mine.toml:2: key `mechanisms`: invalid value: string \"mps\" (accepted: \
         \"all\" or a list of names)",
    ),
    (
        "version = 1\nmechanisms = [\"mpx\"]\n",
        "profile mine.toml:2: key `mechanisms`: unknown mechanism \"mpx\" (accepted: \
         exclusive, exclusive-process, time-slicing, time-slicing-capped, mps, \
         mps-quota, mps-static, mps-memory, \
         mig, mig-mps, hami, green-context, stream-priority)",
    ),
    (
        "version = 1\naxes = []\n",
        "profile mine.toml:2: key `axes`: an empty list (accepted: \"all\", memory, \
         compute, bandwidth, fault, jitter, power, compute/sm, compute/issue, compute/launch, \
         compute/driver, bandwidth/dram, bandwidth/l2, bandwidth/pcie, memory/capacity, \
         power/power, memory/cap, memory/residue, memory/visibility, fault/api, fault/process, \
         fault/starvation, fault/sm, fault/mmu, fault/service)",
    ),
    (
        "version = 1\n[cell]\nopen = \"2 seconds\"\n",
        "profile mine.toml:3: key `cell.open`: invalid value: string \"2 seconds\" \
         (accepted: a duration with its unit, such as \"20us\", \"250ms\", \"1.5s\" or \
         \"10min\")",
    ),
    (
        "version = 1\nservice = 1000\n",
        "profile mine.toml:2: key `service`: invalid type: integer `1000` (accepted: a \
         duration with its unit, such as \"20us\", \"250ms\", \"1.5s\" or \"10min\")",
    ),
    (
        "version = 1\nshare = \"8/7\"\n",
        "profile mine.toml:2: key `share`: invalid value: string \"8/7\" (accepted: a number \
         above 0 and at most 1, or a quotient such as \"3/7\")",
    ),
    (
        "version = 1\nseed = -1\n",
        "profile mine.toml:2: key `seed`: invalid value: integer `-1` (accepted: a whole \
         number, not negative)",
    ),
    (
        "version = 1\ndecides = \"no\"\n",
        "profile mine.toml:2: key `decides`: invalid type: string \"no\" (accepted: true or \
         false)",
    ),
    (
        "version = 1\nblocks = 8\n",
        "profile mine.toml:2: key `blocks`: invalid type: integer `8` (accepted: a table)",
    ),
    (
        "version = 1\n[blocks]\nmin = 6\n",
        "profile mine.toml:3: key `blocks.min`: 6 blocks (accepted: 8 to 1000, or 6 and more \
         with decides = false)",
    ),
    (
        "version = 1\nblocks = { min = 12, max = 9 }\n",
        "profile mine.toml:2: key `blocks.max`: 9 blocks (accepted: 12 (blocks.min) \
         to 1000)",
    ),
    (
        "version = 1\ndoses = [0.5, 1.0, 0.25]\n",
        "profile mine.toml:2: key `doses`: not in rising order (accepted: each dose once, \
         smallest first)",
    ),
    (
        "version = 1\ndoses = [0.5]\n",
        "profile mine.toml:2: key `doses`: 1.0 is missing (accepted: a list that ends in 1.0, \
         which scores use)",
    ),
    (
        "version = 1\ntenants = 1\n",
        "profile mine.toml:2: key `tenants`: 1 is too small (accepted: 2 to 48)",
    ),
    (
        "version = 1\n[cell]\nclosed = \"100ms\"\n",
        "profile mine.toml:3: key `cell.closed`: 100ms is too small (accepted: 120ms to 1h)",
    ),
    (
        "version = 1\n[thresholds]\nretention_l3 = 0.7\n",
        "profile mine.toml:3: key `thresholds.retention_l3`: 0.7 is too low (accepted: a \
         number above thresholds.retention_l2, which is 0.8)",
    ),
    (
        "version = 1\n[time-slicing]\nslice = \"tiny\"\n",
        "profile mine.toml:3: key `time-slicing.slice`: unknown variant `tiny` (accepted: \
         default, short, medium, long)",
    ),
];

#[test]
fn an_invalid_profile_names_the_line_and_what_is_accepted() {
    let mut wrong = Vec::new();
    for (text, line) in INVALID {
        let reported = message(text);
        if reported != *line {
            wrong.push(format!("{text}\nfound  {reported}\nwanted {line}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
