//! The report: one self-contained HTML file.
//!
//! `document` is what it shows, `machine` gathers that from a machine, `comparison` from several side by side, and `page` puts it into the page that
//! `web/` builds (`web/dist/report.html`, committed).

mod charts;
mod comparison;
mod document;
mod facts;
mod figures;
mod findings;
mod machine;
mod matrices;
mod page;
mod tables;

pub(crate) use document::ReportDocument;
pub(crate) use machine::{Subject, compared, document};
pub(crate) use page::page;
