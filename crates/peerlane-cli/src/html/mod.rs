//! The report: one self-contained HTML file.
//!
//! `document` is its content, `machine` collects that from a machine, `comparison` from several side by side, and `page`
//! embeds it into the template that `web/` builds (`page/report.html`, committed).

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
