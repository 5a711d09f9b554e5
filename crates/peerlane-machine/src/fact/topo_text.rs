//! A class matrix as the driver's tool prints it.

use std::fmt::Write as _;

use super::ClassMatrix;
use crate::fabric::{CpuList, PathClass};
use crate::names::gpu_number;

impl ClassMatrix {
    /// As `nvidia-smi topo -m` prints it today: tabs, a header, a line a row, and the NIC legend where it is known.
    ///
    /// NUMA columns are left out where no row has a value; an unknown class is the word that was printed, or an empty cell.
    pub fn to_topo_text(&self) -> String {
        let mut out = String::new();
        let has_gpu_numa = self.gpu_numa.iter().any(Option::is_some);
        let has_numa = has_gpu_numa || self.numa_affinity.iter().any(Option::is_some);
        for col in &self.cols {
            let _ = write!(out, "\t{col}");
        }
        out.push_str("\tCPU Affinity");
        out.push_str(if has_numa { "\tNUMA Affinity" } else { "" });
        out.push_str(if has_gpu_numa { "\tGPU NUMA ID\n" } else { "\n" });
        for (i, row) in self.rows.iter().enumerate() {
            out.push_str(row);
            for (j, cell) in self.cells.get(i).into_iter().flatten().enumerate() {
                let _ = match cell {
                    Some(PathClass::Same) => write!(out, "\t X "),
                    Some(PathClass::Sys) if self.old_names => write!(out, "\tSOC"),
                    Some(class) => write!(out, "\t{class}"),
                    None => write!(out, "\t{}", self.word(i, j).unwrap_or_default()),
                };
            }
            let unknown = if gpu_number(row).is_some() { "N/A" } else { "" };
            let list = |list: &[Option<CpuList>]| match list.get(i) {
                Some(Some(list)) => list.to_string(),
                _ => unknown.to_owned(),
            };
            let _ = write!(out, "\t{}", list(&self.cpu_affinity));
            if has_numa {
                let _ = write!(out, "\t{}", list(&self.numa_affinity));
            }
            if has_gpu_numa {
                let id = self.gpu_numa.get(i).copied().flatten().map_or(unknown.to_owned(), |id| id.to_string());
                // the driver prints two tabs here, to align its wide title
                let _ = write!(out, "\t\t{id}");
            }
            out.push('\n');
        }
        if !self.nic_names.is_empty() {
            out.push_str("\nNIC Legend:\n\n");
            for (nic, name) in &self.nic_names {
                let _ = writeln!(out, "  {nic}: {name}");
            }
        }
        out
    }
}
