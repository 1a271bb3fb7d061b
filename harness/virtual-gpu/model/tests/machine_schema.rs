//! The published schema of machine files is that of the code. `GPUBENCH_REGENERATE=1` writes it.

use gpubench_virtual_gpu_model::machine::Machine;

#[test]
fn the_published_schema_matches_the_code() -> Result<(), Box<dyn std::error::Error>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../profiles/machines/schema.json");
    let text = serde_json::to_string_pretty(&schemars::schema_for!(Machine))? + "\n";
    if std::env::var_os("GPUBENCH_REGENERATE").is_some() {
        std::fs::write(path, &text)?;
    }
    let same = std::fs::read_to_string(path)? == text;
    assert!(same, "the schema differs: run with GPUBENCH_REGENERATE=1");
    Ok(())
}
