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
mod findings;
mod fleet;
mod machine;
mod matrices;
mod page;
mod tables;

pub use document::{MachineReport, ReportDocument};
pub use fleet::{fleet_page, nodes_page};
pub use machine::{beside, compared, document};
pub use page::page;
