//! Windows of a cell, and the time that work was outstanding in them.

use gpubench_record::sample::MISSING;
use gpubench_record::{Durations, SampleRow, SampleStatus};

/// A half-open span of nanoseconds since the cell's common start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub start_ns: u64,
    pub end_ns: u64,
}

/// The measured parts of a cell.
#[derive(Debug, Clone, Copy)]
pub(super) struct Windows {
    pub closed: Span,
    pub open: Span,
}

impl Span {
    pub(super) fn length_ns(self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    pub(super) fn length_s(self) -> f64 {
        self.length_ns() as f64 / 1e9
    }
}

impl Windows {
    pub(super) fn of(durations: &Durations) -> Self {
        let closed_end_ns = durations.warmup_ns + durations.closed_ns;
        let open_start_ns = closed_end_ns + durations.sparse_ns + durations.gap_ns;
        Self {
            closed: Span { start_ns: durations.warmup_ns, end_ns: closed_end_ns },
            open: Span { start_ns: open_start_ns, end_ns: open_start_ns + durations.open_ns },
        }
    }
}

/// When a tenant had work outstanding: submitted to the driver and not complete. Disjoint and in
/// order.
///
/// A request counts from just before its first driver call, so a tenant that a limiter blocks
/// inside that call has work outstanding. A request that never completed counts without an end. A
/// request that the driver refused does not count.
pub(super) fn outstanding(rows: &[SampleRow]) -> Vec<Span> {
    let mut spans: Vec<Span> = rows
        .iter()
        .filter(|row| row.status != SampleStatus::Error || row.t_done_ns != MISSING)
        .map(|row| Span { start_ns: row.t_issue_ns, end_ns: row.t_done_ns })
        .filter(|span| span.start_ns < span.end_ns)
        .collect();
    spans.sort_unstable_by_key(|span| (span.start_ns, span.end_ns));
    let mut merged: Vec<Span> = Vec::with_capacity(spans.len());
    for span in spans {
        match merged.last_mut() {
            Some(last) if span.start_ns <= last.end_ns => {
                last.end_ns = last.end_ns.max(span.end_ns);
            }
            _ => merged.push(span),
        }
    }
    merged
}

/// The intersection of two lists of disjoint, ordered spans.
pub(super) fn common(left: &[Span], right: &[Span]) -> Vec<Span> {
    let (mut l, mut r) = (0, 0);
    let mut found = Vec::new();
    while let (Some(a), Some(b)) = (left.get(l), right.get(r)) {
        let start_ns = a.start_ns.max(b.start_ns);
        let end_ns = a.end_ns.min(b.end_ns);
        if start_ns < end_ns {
            found.push(Span { start_ns, end_ns });
        }
        if a.end_ns <= b.end_ns {
            l += 1;
        } else {
            r += 1;
        }
    }
    found
}

/// The share of `window` that the spans cover; `None` for an empty window.
pub(super) fn share(spans: &[Span], window: Span) -> Option<f64> {
    if window.length_ns() == 0 {
        return None;
    }
    let covered: u64 = common(spans, &[window]).iter().map(|span| span.length_ns()).sum();
    Some(covered as f64 / window.length_ns() as f64)
}

#[cfg(test)]
mod tests {
    use gpubench_record::Phase;

    use super::*;
    use crate::gate::fixture::row;

    fn span(start_ns: u64, end_ns: u64) -> Span {
        Span { start_ns, end_ns }
    }

    #[test]
    fn overlapping_requests_are_one_span() {
        let rows = [
            row(1, Phase::Closed, 50, 80),
            row(0, Phase::Closed, 10, 30),
            row(2, Phase::Closed, 20, 40),
            row(3, Phase::Closed, 80, 90),
        ];
        assert_eq!(outstanding(&rows), [span(10, 40), span(50, 90)]);
        // A short request within a long one does not end the span.
        let long = [row(0, Phase::Closed, 10, 60), row(1, Phase::Closed, 20, 30)];
        assert_eq!(outstanding(&long), [span(10, 60)]);
        let next = row(2, Phase::Closed, 50, 80);
        assert_eq!(outstanding(&[long[0], long[1], next]), [span(10, 80)]);
    }

    #[test]
    fn unfinished_work_has_no_end_and_refused_work_does_not_count() {
        let unfinished =
            SampleRow { status: SampleStatus::Unfinished, ..row(0, Phase::Open, 5, MISSING) };
        let refused = SampleRow { status: SampleStatus::Error, ..unfinished };
        assert_eq!(outstanding(&[unfinished]), [span(5, MISSING)]);
        assert_eq!(outstanding(&[refused]), []);
        assert_eq!(share(&outstanding(&[unfinished]), span(0, 10)), Some(0.5));
    }

    #[test]
    fn shares_are_cut_to_the_window() {
        let spans = [span(0, 20), span(40, 60), span(90, 200)];
        for (window, want) in [
            (span(0, 100), Some(0.5)),
            (span(20, 40), Some(0.0)),
            (span(50, 60), Some(1.0)),
            (span(7, 7), None),
        ] {
            assert_eq!(share(&spans, window), want, "{window:?}");
        }
        assert_eq!(common(&spans, &[span(10, 50)]), [span(10, 20), span(40, 50)]);
        assert_eq!(common(&[span(10, 50)], &spans), [span(10, 20), span(40, 50)]);
    }

    #[test]
    fn windows_follow_one_another() {
        let durations =
            Durations { warmup_ns: 10, closed_ns: 20, gap_ns: 5, open_ns: 40, sparse_ns: 0 };
        let windows = Windows::of(&durations);
        assert_eq!((windows.closed, windows.open), (span(10, 30), span(35, 75)));
        assert_eq!(windows.open.end_ns, durations.cell_ns());
    }
}
