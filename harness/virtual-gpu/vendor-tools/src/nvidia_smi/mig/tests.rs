//! Lists of `nvidia-smi mig`, against what drivers printed.

use super::super::tests::{facts, on};
use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_model::machine::Machine;
use gpubench_virtual_gpu_model::mig;

type Error = Box<dyn std::error::Error>;

/// Turns MIG on and makes instances: profile, first slot, and slices of each compute instance.
fn divide(device: &Device, machine: &Machine, wanted: &[(&str, u32, &[u32])]) -> Result<(), Error> {
    device.transact(|state, _| {
        mig::set_mode(state, machine, true);
        for (name, start, compute) in wanted {
            let profiles = machine.mig.iter().flat_map(|mig| &mig.profile);
            let index = profiles.map(|profile| profile.name.as_str()).position(|n| n == *name);
            let index = index.ok_or(mig::MigError::Unknown)? as u32;
            let row = mig::create_instance(state, machine, index, Some(*start))?;
            for slices in *compute {
                mig::create_engine(state, machine, row, *slices)?;
            }
        }
        Ok::<_, mig::MigError>(())
    })??;
    Ok(())
}

/// Cells of the rows of a list, by column.
fn cells(text: &str, column: usize) -> Vec<&str> {
    let rows = text.lines().filter(|line| line.contains("MIG "));
    rows.filter_map(|row| row.split_whitespace().nth(column)).collect()
}

#[test]
fn profiles_are_listed_as_the_vendor_lists_them_with_mig_off_and_on() -> Result<(), Error> {
    let machine = Machine::load("h200")?;
    on(&machine, true, |run, device| {
        assert_eq!(run("mig -lgip")?.text, facts("lgip.txt")?);
        for list in ["-lgi", "-lci", "-lcip"] {
            let found = run(&format!("mig {list} -i 0"))?;
            assert_eq!((found.text, found.code), (facts("lgi.txt")?, 6), "{list}");
        }
        divide(device, &machine, &[])?;
        assert_eq!(run("mig --list-gpu-instance-profiles")?.text, facts("lgip.txt")?);
        for (list, text) in [
            ("-lgi", "No GPU instances found: Not Found\n"),
            ("-lcip", "No GPU instances found: Not Found\n"),
            ("-lci", "No compute instances found: Not Found\n"),
        ] {
            let found = run(&format!("mig {list}"))?;
            assert_eq!((found.text.as_str(), found.code), (text, 6));
        }
        assert_eq!(run("mig -lgip -i 1")?.code, 6);
        assert_eq!(run("mig")?.code, 2);
        assert_eq!(run("mig -lgi -lci")?.code, 2);
        let places = run("mig -lgipp")?.text;
        assert!(places.contains("GPU  0 Profile ID 15 Placements: {0,2,4,6}:2\n"), "{places}");
        assert!(places.ends_with("GPU  0 Profile ID  0 Placement : {0}:8\n"), "{places}");
        Ok(())
    })?;
    on(&machine, false, |run, device| {
        divide(device, &machine, &[])?;
        assert_eq!(run("mig -lgip")?.code, 0);
        let found = run("mig -lgi")?;
        let text = "Failed to display GPU instances: Insufficient Permissions\n\
                    No GPU instances found: Insufficient Permissions\n";
        assert_eq!((found.text.as_str(), found.code), (text, 4));
        Ok(())
    })
}

/// Two instances of an H200 with driver 580.173.02: starkdrift/prickle-exporter, testdata of
/// its GPU collector, h200-mig-20260726. Ids are ours.
#[test]
fn instances_take_from_what_is_free() -> Result<(), Error> {
    let machine = Machine::load("h200")?;
    on(&machine, true, |run, device| {
        divide(device, &machine, &[("1g.18gb", 4, &[1]), ("1g.18gb", 6, &[1])])?;
        let listed = run("mig -lgi")?.text;
        let expected = "\
+---------------------------------------------------------+
| GPU instances:                                          |
| GPU   Name               Profile  Instance   Placement  |
|                            ID       ID       Start:Size |
|=========================================================|
|   0  MIG 1g.18gb           19        1          4:1     |
+---------------------------------------------------------+
|   0  MIG 1g.18gb           19        2          6:1     |
+---------------------------------------------------------+
";
        assert_eq!(listed, expected);
        let free = cells(&run("mig -lgip")?.text, 5).join(" ");
        assert_eq!(free, "5/7 1/1 2/4 2/3 1/2 1/1 0/1");
        Ok(())
    })
}

/// An H100 with driver 580.173.02: as above, h100-mig-mixed-20260729. Ids are ours, and the
/// compute instance is at the first slice.
#[test]
fn compute_instances_are_listed_by_profile_and_instance() -> Result<(), Error> {
    let machine = Machine::load("h100-80")?;
    on(&machine, true, |run, device| {
        let parts: [(&str, u32, &[u32]); 3] =
            [("1g.10gb", 6, &[1]), ("3g.40gb", 0, &[1]), ("1g.10gb+me", 4, &[1])];
        divide(device, &machine, &parts)?;
        let free = cells(&run("mig -lgip")?.text, 5).join(" ");
        assert_eq!(free, "1/7 0/1 0/4 0/3 0/2 0/1 0/1");
        assert_eq!(cells(&run("mig -lgi")?.text, 4).join(" "), "19 9 20");
        let listed = run("mig -lci")?.text;
        let expected = "\
+--------------------------------------------------------------------+
| Compute instances:                                                 |
| GPU     GPU       Name             Profile   Instance   Placement  |
|       Instance                       ID        ID       Start:Size |
|         ID                                                         |
|====================================================================|
|   0      1       MIG 1g.10gb          0         0          0:1     |
+--------------------------------------------------------------------+
|   0      2       MIG 1c.3g.40gb       0         0          0:1     |
+--------------------------------------------------------------------+
|   0      3       MIG 1g.10gb          0         0          0:1     |
+--------------------------------------------------------------------+
";
        assert_eq!(listed, expected);
        // The columns are those of an A100 (NVIDIA MIG user guide, "Create Compute
        // Instances").
        let listed = run("mig -lcip -gi 2")?.text;
        let expected = "\
+--------------------------------------------------------------------------------------+
| Compute instance profiles:                                                           |
| GPU     GPU       Name             Profile  Instances   Exclusive       Shared       |
|       Instance                       ID     Free/Total     SM       DEC   ENC   OFA  |
|         ID                                                          CE    JPEG       |
|======================================================================================|
|   0      2       MIG 1c.3g.40gb       0      2/3           20        3     0     0   |
|                                                                      3     3         |
+--------------------------------------------------------------------------------------+
|   0      2       MIG 2c.3g.40gb       1      1/1           40        3     0     0   |
|                                                                      3     3         |
+--------------------------------------------------------------------------------------+
|   0      2       MIG 3g.40gb          2*     0/1           60        3     0     0   |
|                                                                      3     3         |
+--------------------------------------------------------------------------------------+
";
        assert_eq!(listed, expected);
        Ok(())
    })
}

/// The lists of an A30 with driver 535.183.01 in a public log: two columns less.
#[test]
fn names_have_less_room_before_branch_580() -> Result<(), Error> {
    let mut machine = Machine::load("a100-80")?;
    machine.gpu.driver = "535.virtual".to_owned();
    on(&machine, true, |run, device| {
        divide(device, &machine, &[("3g.40gb", 4, &[])])?;
        let row = "|   0  MIG 3g.40gb          9        1          4:4     |\n";
        let listed = run("mig -lgi")?.text;
        assert!(listed.contains(row), "{listed}");
        let listed = run("mig -lgip")?.text;
        assert!(listed.lines().all(|line| line.len() == 79), "{listed}");
        assert!(listed.contains("|   0  MIG 3g.40gb        9     1/2        "), "{listed}");
        Ok(())
    })
}
