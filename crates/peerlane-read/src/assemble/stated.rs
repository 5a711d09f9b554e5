//! The classes that a matrix states, by name and by the indices of a machine's devices. Pairs grow with the square of the
//! devices, so names are looked up once a device and never compared.

use std::collections::{HashMap, HashSet};

use peerlane_machine::fabric::PathClass;
use peerlane_machine::fact::ClassMatrix;

use super::device::Device;

/// A matrix whose names are indexed.
pub(super) struct ByName<'m> {
    matrix: &'m ClassMatrix,
    rows: HashMap<&'m str, usize>,
    cols: HashMap<&'m str, usize>,
}

impl<'m> ByName<'m> {
    pub(super) fn of(matrix: &'m ClassMatrix) -> Self {
        // of names that stand twice, the first counts
        fn index(names: &[String]) -> HashMap<&str, usize> {
            names.iter().enumerate().rev().map(|(i, name)| (name.as_str(), i)).collect()
        }
        ByName { matrix, rows: index(&matrix.rows), cols: index(&matrix.cols) }
    }

    /// The row and the column of a name.
    pub(super) fn place(&self, name: &str) -> (Option<usize>, Option<usize>) {
        (self.rows.get(name).copied(), self.cols.get(name).copied())
    }

    /// The class in the row and column of these indices.
    pub(super) fn at(&self, row: Option<usize>, col: Option<usize>) -> Option<PathClass> {
        self.matrix.cells.get(row?)?.get(col?).copied().flatten()
    }

    /// The class in row `a`, column `b`.
    pub(super) fn cell(&self, a: &str, b: &str) -> Option<PathClass> {
        self.at(self.rows.get(a).copied(), self.cols.get(b).copied())
    }
}

/// A matrix seen from the devices.
#[derive(Debug, Default)]
pub(super) struct Stated {
    /// For each device, whether the matrix has a row or column of it.
    listed: Vec<bool>,
    /// A row for each device, with the class to each device.
    classes: Vec<Option<PathClass>>,
    /// Pairs for which the matrix has a word that is not known, in both orders.
    words: HashSet<(usize, usize)>,
}

impl Stated {
    pub(super) fn of(matrix: &ClassMatrix, devices: &[Device]) -> Self {
        let names = ByName::of(matrix);
        let place = |device: &Device| {
            let mut places = std::iter::once(&device.name).chain(&device.aliases).map(|name| names.place(name));
            places.find(|place| *place != (None, None)).unwrap_or_default()
        };
        let places: Vec<_> = devices.iter().map(place).collect();
        let own = |a: &(_, _), b: &(_, _)| names.at(a.0, b.1).or_else(|| names.at(b.0, a.1));
        let classes = places.iter().flat_map(|a| places.iter().map(|b| own(a, b)).collect::<Vec<_>>()).collect();
        let listed = places.iter().map(|place| *place != (None, None)).collect();
        let index: HashMap<&str, usize> = devices
            .iter()
            .enumerate()
            .rev()
            .flat_map(|(at, d)| d.aliases.iter().chain([&d.name]).map(move |n| (n.as_str(), at)))
            .collect();
        let device = |names: &[String], at: usize| index.get(names.get(at)?.as_str()).copied();
        let cells = matrix.words.iter().flat_map(|word| &word.cells);
        let pairs = cells.filter_map(|&(i, j)| Some((device(&matrix.rows, i)?, device(&matrix.cols, j)?)));
        let words = pairs.flat_map(|(a, b)| [(a, b), (b, a)]).collect();
        Stated { listed, classes, words }
    }

    /// Whether the matrix has a word for the path between two devices that is not known.
    pub(super) fn has_word(&self, a: usize, b: usize) -> bool {
        self.words.contains(&(a, b))
    }

    /// Whether the matrix lists a device.
    pub(super) fn lists(&self, device: usize) -> bool {
        self.listed.get(device).copied().unwrap_or(false)
    }

    /// The class between two devices: that of the first one's row, else that of the second one's.
    pub(super) fn class(&self, a: usize, b: usize) -> Option<PathClass> {
        let devices = self.listed.len();
        self.classes.get(a * devices..(a + 1) * devices)?.get(b).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_aliases_find_rows_and_columns() {
        let names = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        let matrix = ClassMatrix {
            rows: names(&["GPU0", "GPU1", "GPU0"]),
            cols: names(&["GPU0", "GPU1", "NIC0"]),
            cells: vec![
                vec![Some(PathClass::Same), None, Some(PathClass::Pix)],
                vec![Some(PathClass::Sys), Some(PathClass::Same)],
                vec![Some(PathClass::Phb); 3],
            ],
            ..ClassMatrix::default()
        };
        let device =
            |name: &str, alias: &[&str]| Device { name: name.to_owned(), aliases: names(alias), ..Device::default() };
        let devices = [device("GPU0", &[]), device("GPU1", &[]), device("mlx5_0", &["NIC0"]), device("GPU2", &[])];
        let stated = Stated::of(&matrix, &devices);
        assert_eq!((0..4).map(|d| stated.lists(d)).collect::<Vec<_>>(), [true, true, true, false]);
        assert_eq!(stated.class(0, 1), Some(PathClass::Sys), "the other cell, as its own is unknown");
        assert_eq!((stated.class(0, 2), stated.class(2, 0)), (Some(PathClass::Pix), Some(PathClass::Pix)));
        assert_eq!((stated.class(1, 2), stated.class(0, 3), stated.class(9, 0)), (None, None, None));
    }
}
