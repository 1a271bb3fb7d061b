//! What people read of a comparison of a model with hardware.

use super::{FidelityFormat, fidelity};
use crate::fidelity::{Check, Compared, Device, FORMAT, Fidelity, Row, Verdict};
use crate::render::RenderError;

fn table() -> Fidelity {
    let device =
        |product: &str| Device { product: product.to_owned(), driver: "580".to_owned(), blocks: 8 };
    let row = |variant: &str, figure: &str, verdict, reason: Option<&str>| Row {
        variant: variant.to_owned(),
        name: "bandwidth/dram".to_owned(),
        checks: vec![Check {
            figure: figure.to_owned(),
            real: "0.160".to_owned(),
            model: "0.726".to_owned(),
            error: Some(3.54),
            verdict,
        }],
        reason: reason.map(str::to_owned),
    };
    Fidelity {
        fidelity_format: FORMAT,
        records: vec![Compared {
            record: "h100_580_matrix".to_owned(),
            real: device("NVIDIA H100"),
            model: device("Virtual H100"),
            machine: "h100-80".to_owned(),
            seed: 1,
            rows: vec![
                row("mps", "level", Verdict::Optimistic, None),
                row(&"long-name".repeat(6), "retention", Verdict::Outside, Some("it | is so")),
                row("hami", "retention", Verdict::Within, None),
            ],
            cross_checks: Vec::new(),
        }],
        unneeded: Vec::new(),
    }
}

#[test]
fn text_fits_the_terminal_marks_rows_and_ends_with_the_answer() -> Result<(), RenderError> {
    let text = fidelity(&table(), FidelityFormat::Text)?;
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.contains("! mps bandwidth/dram"), "{text}");
    assert!(text.contains("known: it | is so"), "{text}");
    let last = text.lines().last();
    assert_eq!(last, Some("the model is more optimistic than the hardware"));
    Ok(())
}

#[test]
fn a_row_that_the_model_gets_wrong_stays_in_the_table_in_red() -> Result<(), RenderError> {
    let text = fidelity(&table(), FidelityFormat::Markdown)?;
    let line = |of: &str| text.lines().find(|line| line.contains(of)).unwrap_or_default();
    assert!(line("long-name").contains("\u{1f534} it \\| is so"), "{text}");
    assert!(line("mps").contains("\u{1f534} optimistic: no reason is listed"), "{text}");
    assert!(line("hami").ends_with("|  |") && !line("hami").contains("**"), "{text}");
    Ok(())
}
