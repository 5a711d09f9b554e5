//! Where pages are written: to a file, or to standard output for `-`.

use std::io::Write;
use std::path::Path;

use peerlane::nodes_check::NodesCheck;
use peerlane::site::Comparison;
use peerlane_report::html::{ReportDocument, nodes_page, page};

use crate::Failure;
use crate::output_file;

/// Fails if a page could not be written to the file: to be called before anything is measured.
pub(crate) fn can_write_page(file: Option<&Path>) -> Result<(), Failure> {
    file.filter(|file| *file != Path::new("-")).map_or(Ok(()), output_file::check)
}

/// Writes a report's page.
pub(crate) fn write_document(file: &Path, document: &ReportDocument) -> Result<(), Failure> {
    write_html(file, page(document))
}

/// Writes the page of a record, which names no folder.
pub(crate) fn write_nodes_page(
    page: &Path,
    comparison: &Comparison,
    judged: &NodesCheck,
    file: &str,
) -> Result<(), Failure> {
    let name = Path::new(file).file_name().map_or(file.into(), |name| name.to_string_lossy());
    write_html(page, nodes_page(comparison, judged, &name))
}

/// Writes a page.
pub(crate) fn write_html(file: &Path, page: Result<String, serde_json::Error>) -> Result<(), Failure> {
    let page = page.map_err(|e| Failure::new(format!("no report: {e}")))?;
    if file == Path::new("-") {
        std::io::stdout().lock().write_all(page.as_bytes())?;
        return Ok(());
    }
    output_file::write(file, page)
}
