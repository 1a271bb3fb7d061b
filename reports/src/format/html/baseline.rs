//! The comparison with an earlier record.

use maud::{Markup, html};

use crate::format::Page;

/// The section.
pub(super) fn baseline(page: &Page) -> Markup {
    html! {
        p { b { (page.title) } }
        @for notice in &page.notices { p { (notice) } }
        @for table in &page.tables {
            div class="scroll" tabindex="0" role="region" aria-label=(table.heading) {
                table {
                    caption { (table.heading) }
                    thead { tr { @for name in &table.columns { th scope="col" { (name) } } } }
                    tbody {
                        @for row in &table.rows {
                            tr class=(verdict_class(row)) { @for cell in row { td { (cell) } } }
                        }
                    }
                }
            }
        }
    }
}

fn verdict_class(row: &[String]) -> &'static str {
    let verdict = row.first().map(|first| first.trim_end_matches('*').to_lowercase());
    match verdict.as_deref() {
        Some("regressed") => "L0",
        Some("improved") => "L3",
        _ => "same",
    }
}
