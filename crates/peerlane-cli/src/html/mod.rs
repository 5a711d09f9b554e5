//! Pages: self-contained HTML files.
//!
//! Of the report, `document` is the content, `machine` collects that from a machine, `comparison` from several side by side,
//! and `page` embeds it into the template that `web/` builds (`page/report.html`, committed). `fleet` is all of a fleet's page, which is
//! that of a record between nodes, too.

mod charts;
mod comparison;
mod document;
mod facts;
mod figures;
mod file;
mod findings;
mod fleet;
mod machine;
mod matrices;
mod page;
mod tables;

use document::ReportDocument;
pub(crate) use file::{can_write_page, write_document, write_html, write_nodes_page, write_page};
pub(crate) use fleet::fleet_page;
use fleet::nodes_page;
pub(crate) use machine::{Subject, compared, document};
use page::page;
