//! Cells as matrices and curves, the shapes in which people compare machines.

use super::Cell;
use crate::evidence::{Curve, Matrix};

/// The cells that belong into matrices: one transfer, or one and its opposite.
pub fn matrices(cells: &[Cell]) -> Vec<Matrix> {
    let _ = cells;
    Vec::new()
}

/// The cells that differ in their size alone.
pub fn curves(cells: &[Cell]) -> Vec<Curve> {
    let _ = cells;
    Vec::new()
}
