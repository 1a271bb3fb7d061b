//! Rows that were read from a Parquet file, by column: each column is complete and has the type
//! that the table gives it, or the error names what is wrong.

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;

use polars_core::prelude::{ChunkedArray, Column, DataFrame, PolarsNumericType, PolarsResult};

use super::error::StoreError;
use super::parquet::parquet_error;

/// Rows read from a Parquet file, by column.
#[derive(Debug)]
pub(super) struct Rows<'a> {
    pub(super) path: &'a Path,
    pub(super) frame: DataFrame,
}

impl Rows<'_> {
    /// How many rows were read.
    pub(super) fn count(&self) -> usize {
        self.frame.height()
    }

    pub(super) fn u8(&self, name: &str) -> Result<Cow<'_, [u8]>, StoreError> {
        self.whole(name, self.column(name, Column::u8)?)
    }

    pub(super) fn u32(&self, name: &str) -> Result<Cow<'_, [u32]>, StoreError> {
        self.whole(name, self.column(name, Column::u32)?)
    }

    pub(super) fn u64(&self, name: &str) -> Result<Cow<'_, [u64]>, StoreError> {
        self.whole(name, self.column(name, Column::u64)?)
    }

    pub(super) fn i32(&self, name: &str) -> Result<Cow<'_, [i32]>, StoreError> {
        self.whole(name, self.column(name, Column::i32)?)
    }

    pub(super) fn f64(&self, name: &str) -> Result<Cow<'_, [f64]>, StoreError> {
        self.whole(name, self.column(name, Column::f64)?)
    }

    /// The values of a column, and `missing` where the file has a null.
    pub(super) fn u64_or(&self, name: &str, missing: u64) -> Result<Cow<'_, [u64]>, StoreError> {
        let column = self.column(name, Column::u64)?;
        if let Ok(slice) = column.cont_slice() {
            return self.full(name, Cow::Borrowed(slice));
        }
        let mut values = Vec::with_capacity(self.count());
        for array in column.downcast_iter() {
            let start = values.len();
            values.extend_from_slice(array.values());
            let valid = array.validity().into_iter().flatten();
            for (value, is_valid) in values[start..].iter_mut().zip(valid) {
                if !is_valid {
                    *value = missing;
                }
            }
        }
        self.full(name, Cow::Owned(values))
    }

    pub(super) fn bool(&self, name: &str) -> Result<Vec<bool>, StoreError> {
        let column = self.column(name, Column::bool)?;
        let is_valid = column.iter().map(|one| one.is_some());
        self.refuse_null(name, is_valid, column.null_count())?;
        let values = column.downcast_iter().flat_map(|array| array.values());
        Ok(self.full(name, Cow::Owned(values.collect()))?.into_owned())
    }

    pub(super) fn text(&self, name: &str) -> Result<Vec<&str>, StoreError> {
        self.complete(name, self.column(name, Column::str)?.iter())
    }

    /// The text of a column without nulls in the row `row`.
    pub(super) fn text_at(&self, name: &str, row: usize) -> Result<&str, StoreError> {
        let text = self.column(name, Column::str)?.get(row);
        text.ok_or_else(|| self.null(name, row))
    }

    /// Runs of rows that are equal in all of these columns, in order. None of them has a null.
    pub(super) fn runs(
        &self,
        texts: &[&str],
        numbers: &[&str],
    ) -> Result<Vec<Range<usize>>, StoreError> {
        let mut starts = Vec::new();
        for name in texts {
            starts.extend(self.text_changes(name)?);
        }
        for name in numbers {
            let values = self.u32(name)?;
            let changed = (1..values.len()).filter(|&row| values[row] != values[row - 1]);
            starts.extend(changed);
        }
        starts.sort_unstable();
        starts.dedup();
        let ends = starts.iter().skip(1).copied().chain([self.count()]);
        let runs = starts.iter().zip(ends);
        Ok(runs.map(|(&start, end)| start..end).collect())
    }

    /// The rows in which a column of text differs from the row before, and the first row.
    fn text_changes(&self, name: &str) -> Result<Vec<usize>, StoreError> {
        let column = self.column(name, Column::str)?;
        let mut changes = Vec::new();
        let (mut row, mut last) = (0, None);
        let is_valid = column.iter().map(|text| text.is_some());
        self.refuse_null(name, is_valid, column.null_count())?;
        for array in column.downcast_iter() {
            let mut last_view = None;
            for (index, view) in array.views().iter().enumerate() {
                // Equal views of one array are the same text. Others may be, too.
                let view = Some(view.as_u128());
                if view != last_view {
                    let text = Some(array.value(index));
                    if text != last {
                        changes.push(row);
                        last = text;
                    }
                    last_view = view;
                }
                row += 1;
            }
        }
        self.refuse_length(name, row)?;
        Ok(changes)
    }

    fn column<'a, T>(
        &'a self,
        name: &str,
        typed: impl FnOnce(&'a Column) -> PolarsResult<T>,
    ) -> Result<T, StoreError> {
        let column = self.frame.column(name).and_then(typed);
        column.map_err(|error| parquet_error(self.path, &error))
    }

    /// The values of a column of numbers without nulls.
    fn whole<'a, T: PolarsNumericType>(
        &self,
        name: &str,
        values: &'a ChunkedArray<T>,
    ) -> Result<Cow<'a, [T::Native]>, StoreError> {
        match values.cont_slice() {
            Ok(slice) => self.full(name, Cow::Borrowed(slice)),
            Err(_) => Ok(Cow::Owned(self.complete(name, values.iter())?)),
        }
    }

    /// The values of a column without nulls.
    fn complete<T: Clone>(
        &self,
        name: &str,
        values: impl Iterator<Item = Option<T>>,
    ) -> Result<Vec<T>, StoreError> {
        let values = values.enumerate();
        let values = values.map(|(row, value)| value.ok_or_else(|| self.null(name, row)));
        let values = values.collect::<Result<_, _>>()?;
        Ok(self.full(name, Cow::Owned(values))?.into_owned())
    }

    /// Names the first null of a column that has some.
    fn refuse_null(
        &self,
        name: &str,
        mut is_valid: impl Iterator<Item = bool>,
        nulls: usize,
    ) -> Result<(), StoreError> {
        if nulls == 0 {
            return Ok(());
        }
        Err(self.null(name, is_valid.position(|one| !one).unwrap_or_default()))
    }

    fn null(&self, name: &str, row: usize) -> StoreError {
        self.error(format!("row {row}: column {name} is null"))
    }

    /// The values, one for each row: the columns of a damaged file differ in length.
    fn full<'a, T: Clone>(
        &self,
        name: &str,
        values: Cow<'a, [T]>,
    ) -> Result<Cow<'a, [T]>, StoreError> {
        self.refuse_length(name, values.len())?;
        Ok(values)
    }

    fn refuse_length(&self, name: &str, found: usize) -> Result<(), StoreError> {
        let rows = self.count();
        if found == rows {
            return Ok(());
        }
        Err(self.error(format!("column {name} has {found} values in {rows} rows")))
    }

    /// An error about these rows.
    pub(super) fn error(&self, reason: String) -> StoreError {
        StoreError::Parquet { path: self.path.to_path_buf(), reason }
    }
}
