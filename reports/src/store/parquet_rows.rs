//! Rows that were read from a Parquet file, by column: each column is complete and has the type
//! that the table gives it, or the error names what is wrong.

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

    pub(super) fn u8(&self, name: &str) -> Result<Vec<u8>, StoreError> {
        self.whole(name, self.column(name, Column::u8)?)
    }

    pub(super) fn u32(&self, name: &str) -> Result<Vec<u32>, StoreError> {
        self.whole(name, self.column(name, Column::u32)?)
    }

    pub(super) fn u64(&self, name: &str) -> Result<Vec<u64>, StoreError> {
        self.whole(name, self.column(name, Column::u64)?)
    }

    pub(super) fn i32(&self, name: &str) -> Result<Vec<i32>, StoreError> {
        self.whole(name, self.column(name, Column::i32)?)
    }

    pub(super) fn f64(&self, name: &str) -> Result<Vec<f64>, StoreError> {
        self.whole(name, self.column(name, Column::f64)?)
    }

    /// The values of a column, and `missing` where the file has a null.
    pub(super) fn u64_or(&self, name: &str, missing: u64) -> Result<Vec<u64>, StoreError> {
        let values = self.column(name, Column::u64)?;
        let values = match values.cont_slice() {
            Ok(slice) => slice.to_vec(),
            Err(_) => values.iter().map(|one| one.unwrap_or(missing)).collect(),
        };
        self.full(name, values)
    }

    pub(super) fn bool(&self, name: &str) -> Result<Vec<bool>, StoreError> {
        self.complete(name, self.column(name, Column::bool)?.iter())
    }

    pub(super) fn text(&self, name: &str) -> Result<Vec<&str>, StoreError> {
        self.complete(name, self.column(name, Column::str)?.iter())
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
    fn whole<T: PolarsNumericType>(
        &self,
        name: &str,
        values: &ChunkedArray<T>,
    ) -> Result<Vec<T::Native>, StoreError> {
        match values.cont_slice() {
            Ok(slice) => self.full(name, slice.to_vec()),
            Err(_) => self.complete(name, values.iter()),
        }
    }

    /// The values of a column without nulls.
    fn complete<T>(
        &self,
        name: &str,
        values: impl Iterator<Item = Option<T>>,
    ) -> Result<Vec<T>, StoreError> {
        let values = values.enumerate();
        let values = values.map(|(row, value)| {
            value.ok_or_else(|| self.error(format!("row {row}: column {name} is null")))
        });
        self.full(name, values.collect::<Result<_, _>>()?)
    }

    /// The values, one for each row: the columns of a damaged file differ in length.
    fn full<T>(&self, name: &str, values: Vec<T>) -> Result<Vec<T>, StoreError> {
        let (found, rows) = (values.len(), self.count());
        if found == rows {
            return Ok(values);
        }
        Err(self.error(format!("column {name} has {found} values in {rows} rows")))
    }

    /// An error about these rows.
    pub(super) fn error(&self, reason: String) -> StoreError {
        StoreError::Parquet {
            path: self.path.to_path_buf(),
            reason,
        }
    }
}
