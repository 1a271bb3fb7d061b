//! HAMi's token buckets: a tenant launches while its tokens are not below zero.

/// One tenant's tokens, counted in seconds of the whole device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bucket {
    /// Time between refills.
    pub refill_s: f64,
    /// Tokens added by a refill.
    pub added_s: f64,
    /// Capacity.
    pub max_s: f64,
}

/// The tenants that may launch: all, or those with tokens.
pub(super) struct Gate {
    buckets: Vec<Bucket>,
    tokens_s: Vec<f64>,
    refills: f64,
}

impl Gate {
    pub(super) fn new(buckets: Option<Vec<Bucket>>) -> Self {
        let buckets = buckets.unwrap_or_default();
        let tokens_s = buckets.iter().map(|bucket| bucket.max_s).collect();
        Self { buckets, tokens_s, refills: 0.0 }
    }

    pub(super) fn is_open(&self, tenant: usize) -> bool {
        self.tokens_s.get(tenant).is_none_or(|tokens_s| *tokens_s >= 0.0)
    }

    pub(super) fn launch(&mut self, tenant: usize, work_s: f64) {
        if let Some(tokens_s) = self.tokens_s.get_mut(tenant) {
            *tokens_s -= work_s;
        }
    }

    pub(super) fn next_refill_s(&self) -> f64 {
        self.buckets.first().map_or(0.0, |bucket| (self.refills + 1.0) * bucket.refill_s)
    }

    pub(super) fn refill(&mut self, now_s: f64) {
        let Some(refill_s) = self.buckets.first().map(|bucket| bucket.refill_s) else {
            return;
        };
        // `next_refill_s` has the same product, so the comparison is exact.
        let mut passed = 0.0;
        while (self.refills + passed + 1.0) * refill_s <= now_s {
            passed += 1.0;
        }
        self.refills += passed;
        for (tokens_s, bucket) in self.tokens_s.iter_mut().zip(&self.buckets) {
            *tokens_s = (*tokens_s + passed * bucket.added_s).min(bucket.max_s);
        }
    }
}
