//! Tables: columns that Arrow, NumPy and pandas take as they are.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, StringArray};
use arrow_schema::ArrowError;
use peerlane::comparison::{ComparedCell, ComparedMeasurement, ComparedTable, MachineComparison};
use peerlane::matrix::Operation;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyList, PyString};
use serde::Serialize;
use serde_json::Value;

use crate::work::{Error, work};

/// Columns of equal length.
#[pyclass(frozen, module = "peerlane._native")]
pub(crate) struct Table {
    rows: usize,
    columns: Vec<(String, Column)>,
}

#[derive(FromPyObject)]
enum Column {
    Flags(Vec<Option<bool>>),
    Integers(Vec<Option<i64>>),
    Numbers(Vec<Option<f64>>),
    Text(Vec<Option<String>>),
}

/// A value of a machine's table.
type Row<'a> = (&'a String, &'a ComparedTable, &'a ComparedCell, Option<&'a ComparedMeasurement>);

/// A value's name in JSON.
fn id(value: &impl Serialize) -> Option<String> {
    match serde_json::to_value(value) {
        Ok(Value::String(name)) => Some(name),
        _ => None,
    }
}

impl Table {
    /// A row for each measured value, and for each expected one of which nothing was measured. `from` is where the data is.
    pub(crate) fn of_cells(machines: &[(String, MachineComparison)]) -> Self {
        let mut rows = Vec::new();
        for (machine, comparison) in machines {
            for table in &comparison.tables {
                for cell in &table.cells {
                    let all = cell.measured.iter().map(Some);
                    let none = cell.measured.is_empty().then_some(None);
                    rows.extend(all.chain(none).map(|measured| (machine, table, cell, measured)));
                }
            }
        }
        let text = |of: &dyn Fn(&Row) -> Option<String>| Column::Text(rows.iter().map(of).collect());
        let number = |of: &dyn Fn(&Row) -> Option<f64>| Column::Numbers(rows.iter().map(of).collect());
        // a reader stands in the row, and data comes from the column
        let ends = |(_, table, cell, _): &Row| {
            let far = if cell.col == "self" { cell.row.clone() } else { cell.col.clone() };
            match table.op {
                Some(Operation::Read) => [far, cell.row.clone()],
                _ => [cell.row.clone(), far],
            }
        };
        let ratio = |row: &Row| Some(row.3?.value / row.2.expected?);
        let columns = vec![
            ("machine", text(&|row| Some(row.0.clone()))),
            ("from", text(&|row| ends(row).into_iter().next())),
            ("to", text(&|row| ends(row).into_iter().nth(1))),
            ("quantity", text(&|row| id(&row.1.quantity))),
            ("unit", text(&|row| id(&row.1.unit))),
            ("size", Column::Integers(rows.iter().map(|row| i64::try_from(row.1.size?.0).ok()).collect())),
            ("direction", text(&|row| id(&row.1.direction))),
            ("p2p", Column::Flags(rows.iter().map(|row| row.1.p2p).collect())),
            ("op", text(&|row| id(&row.1.op))),
            ("engine", text(&|row| id(&row.1.engine))),
            ("title", text(&|row| row.1.title.clone())),
            ("low", number(&|row| row.2.low)),
            ("expected", number(&|row| row.2.expected)),
            ("high", number(&|row| row.2.high)),
            ("measured", number(&|row| Some(row.3?.value))),
            ("ratio", number(&ratio)),
            ("binding", text(&|row| row.2.binding.clone())),
            ("published", Column::Flags(rows.iter().map(|row| Some(row.3?.published)).collect())),
            ("samples", Column::Integers(rows.iter().map(|row| i64::try_from(row.3?.n?).ok()).collect())),
            ("origin", text(&|row| Some(row.3?.origin.clone()))),
        ];
        let columns = columns.into_iter().map(|(name, column)| (name.to_owned(), column)).collect();
        Table { rows: rows.len(), columns }
    }

    fn batch(&self) -> Result<RecordBatch, ArrowError> {
        let arrays = self.columns.iter().map(|(name, column)| {
            let array: ArrayRef = match column {
                Column::Flags(all) => Arc::new(BooleanArray::from(all.clone())),
                Column::Integers(all) => Arc::new(Int64Array::from(all.clone())),
                Column::Numbers(all) => Arc::new(Float64Array::from(all.clone())),
                Column::Text(all) => Arc::new(all.iter().map(Option::as_deref).collect::<StringArray>()),
            };
            (name, array, true)
        });
        RecordBatch::try_from_iter_with_nullable(arrays)
    }
}

/// What makes a table again, and from what.
type Reduced<'py> = (Bound<'py, PyAny>, (Vec<(String, &'static str, Bound<'py, PyAny>)>,));

#[pymethods]
impl Table {
    /// From columns of equal length.
    #[new]
    fn new(columns: Vec<(String, Column)>) -> PyResult<Self> {
        let lengths = columns.iter().map(|(_, column)| match column {
            Column::Flags(all) => all.len(),
            Column::Integers(all) => all.len(),
            Column::Numbers(all) => all.len(),
            Column::Text(all) => all.len(),
        });
        let lengths: Vec<usize> = lengths.collect();
        let rows = lengths.first().copied().unwrap_or(0);
        match lengths.iter().all(|length| *length == rows) {
            true => Ok(Table { rows, columns }),
            false => Err(Error::new_err("the columns of a table have different lengths")),
        }
    }

    /// From the parts that [`Table::__reduce__`] names.
    #[staticmethod]
    fn of_parts(parts: Vec<(String, String, Bound<'_, PyAny>)>) -> PyResult<Self> {
        let column = |(name, kind, values): (String, String, Bound<'_, PyAny>)| {
            let column = match kind.as_str() {
                "flag" => Column::Flags(values.extract()?),
                "integer" => Column::Integers(values.extract()?),
                "number" => {
                    let bytes: &[u8] = values.extract()?;
                    let (numbers, _) = bytes.as_chunks::<8>();
                    let number = |bytes: &[u8; 8]| Some(f64::from_ne_bytes(*bytes)).filter(|n| !n.is_nan());
                    Column::Numbers(numbers.iter().map(number).collect())
                }
                _ => Column::Text(values.extract()?),
            };
            Ok((name, column))
        };
        Table::new(parts.into_iter().map(column).collect::<PyResult<_>>()?)
    }

    /// For pickle.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py>> {
        let parts = self.columns.iter().zip(self.kinds()).map(|((name, _), kind)| {
            let values = self.column(py, name)?;
            Ok((name.clone(), kind, values))
        });
        Ok((py.get_type::<Table>().getattr("of_parts")?, (parts.collect::<PyResult<_>>()?,)))
    }

    fn __len__(&self) -> usize {
        self.rows
    }

    /// The names of the columns.
    #[getter]
    fn columns(&self) -> Vec<&str> {
        self.columns.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// What each column holds: `flag`, `integer`, `number` or `text`.
    #[getter]
    fn kinds(&self) -> Vec<&'static str> {
        let kind = |(_, column): &(String, Column)| match column {
            Column::Flags(_) => "flag",
            Column::Integers(_) => "integer",
            Column::Numbers(_) => "number",
            Column::Text(_) => "text",
        };
        self.columns.iter().map(kind).collect()
    }

    /// A column: the bytes of numbers, with NaN for none, or a list.
    fn column<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let Some((_, column)) = self.columns.iter().find(|(known, _)| known == name) else {
            return Err(PyKeyError::new_err(name.to_owned()));
        };
        match column {
            Column::Numbers(all) => {
                let bytes: Vec<u8> = all.iter().flat_map(|n| n.unwrap_or(f64::NAN).to_ne_bytes()).collect();
                Ok(PyBytes::new(py, &bytes).into_any())
            }
            Column::Flags(all) => Ok(PyList::new(py, all)?.into_any()),
            Column::Integers(all) => Ok(PyList::new(py, all)?.into_any()),
            Column::Text(all) => {
                // one object for each text that is there many times
                let mut known: HashMap<&str, Bound<'py, PyString>> = HashMap::new();
                let objects = all.iter().map(|text| {
                    let text = text.as_deref()?;
                    Some(known.entry(text).or_insert_with(|| PyString::new(py, text)).clone())
                });
                Ok(PyList::new(py, objects.collect::<Vec<_>>())?.into_any())
            }
        }
    }

    /// All columns by Arrow's C stream interface.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // the interface lets a producer keep to its own schema
        let _ = requested_schema;
        let stream = work(py, || {
            let batch = self.batch()?;
            let schema = batch.schema();
            let batches = RecordBatchIterator::new([Ok(batch)], schema);
            Ok::<_, ArrowError>(FFI_ArrowArrayStream::new(Box::new(batches)))
        });
        PyCapsule::new_with_value(py, stream?, c"arrow_array_stream")
    }
}
