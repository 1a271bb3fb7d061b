//! Lists of devices, on a host with four GPUs and on virtual machines.

use super::*;

const A: &str = "GPU-aaaaaaaa-1111";
const B: &str = "GPU-bbbbbbbb-2222";
/// It begins as B does.
const C: &str = "GPU-bbbbbbbb-3333";

fn host() -> Vec<HostGpu> {
    let uuids = [Ok(A), Ok(B), Err("GPU is lost"), Ok(C)];
    let gpu = |(index, uuid): (u32, Result<&str, &str>)| HostGpu {
        index,
        uuid: uuid.map(str::to_owned).map_err(str::to_owned),
        name: "H100".to_owned(),
    };
    (0..).zip(uuids).map(gpu).collect()
}

fn choices(list: &str) -> Vec<DeviceChoice> {
    list.split(',').filter_map(|one| one.parse().ok()).collect()
}

/// `device in folder` of each target, as this host has it.
fn found(list: &str, allotted: Option<&[String]>) -> Result<Vec<String>, String> {
    let wanted = choices(list);
    let (machines, real) = parted(&wanted).map_err(|error| error.to_string())?;
    let targets = match machines.as_slice() {
        [] => of_host(&real, &host(), allotted),
        machines => of_machines(machines),
    };
    let targets = targets.map_err(|error| {
        assert_eq!(error.exit_code().code(), 2);
        error.to_string()
    })?;
    let text = |one: Target| {
        let problem = one.problem.map_or_else(String::new, |why| format!(": {why}"));
        format!("{} in {}{problem}", one.device, one.folder)
    };
    Ok(targets.into_iter().map(text).collect())
}

fn of(texts: &[&str]) -> Result<Vec<String>, String> {
    Ok(texts.iter().map(|text| (*text).to_owned()).collect())
}

#[test]
fn a_list_keeps_its_order_and_all_has_every_gpu() {
    let (a, b) = (format!("{A} in GPU-aaaaaaaa"), format!("{B} in {B}"));
    let lost = "2 in index-2: GPU is lost";
    assert_eq!(found(&format!("1,{A}"), None), of(&[&b, &a]));
    assert_eq!(found("2,0", None), of(&[lost, &a]));
    let c = format!("{C} in {C}");
    assert_eq!(found("all", None), of(&[&a, &b, lost, &c]));
    let allotted = [C.to_owned(), A.to_owned()];
    assert_eq!(found("all", Some(&allotted)), of(&[&c, &a]));
    assert_eq!(
        found("virtual,virtual:x/turing.toml,virtual:turing", None),
        of(&[
            "virtual:h100-80 in virtual-h100-80",
            "virtual:x/turing.toml in virtual-turing",
            "virtual:turing in virtual-turing-2",
        ])
    );
}

#[test]
fn what_is_no_list_is_refused_in_one_line() {
    for (list, problem) in [
        ("0,0", "--device names GPU 0 GPU-aaaaaaaa-1111 twice"),
        ("0,GPU-aaaaaaaa-1111", "--device names GPU 0 GPU-aaaaaaaa-1111 twice"),
        ("2,2", "--device names GPU 2 twice"),
        ("virtual,virtual:h100-80", "--device names virtual:h100-80 twice"),
        ("virtual,0", "--device: virtual:h100-80 and 0 are no list"),
        ("0,MIG-7d1e9a58-5d5c", "--device: a list cannot have the MIG instance MIG-7d1e9a58-5d5c"),
        (
            "0,9",
            "--device: no GPU \"9\" (found: 0 GPU-aaaaaaaa-1111, 1 GPU-bbbbbbbb-2222, \
             2 (GPU is lost), 3 GPU-bbbbbbbb-3333)",
        ),
    ] {
        assert_eq!(found(list, None), Err(problem.to_owned()), "{list}");
    }
    let both = targets(&choices("all,0")).map_err(|error| error.to_string());
    let problem = "--device: all includes every GPU of this host";
    assert_eq!(both, Err(problem.to_owned()));
    let allotted = [A.to_owned()];
    assert_eq!(
        found("0,1", Some(&allotted)),
        Err(format!("--device {B} is not in CUDA_VISIBLE_DEVICES"))
    );
    let instance = ["MIG-7d1e9a58-5d5c".to_owned()];
    assert!(found("all", Some(&instance)).is_err_and(|line| line.contains("no GPU")));
}
