//! Documents of what is open, as the commands of the same names write them for `--json`.

use peerlane::case::Case;
use peerlane::catalogue::{self, Parts};
use peerlane::check::Settings;
use peerlane::cluster;
use peerlane::comparison::Comparison;
use peerlane::export::json::{MachineCheck, SystemsDocument};
use peerlane::fleet::{self, Dictionary, Fleet, Node, Records, Unread};
use peerlane::machine::Machine;
use peerlane::model::Model;
use peerlane::nodes_check::judge;
use peerlane::site::{self, Site};
use peerlane::target::{Opened, compare as compared, designs};
use peerlane::units::Bytes;
use peerlane::what_if::Edit;
use peerlane_report::html::{MachineReport, ReportDocument};
use peerlane_report::{Report, html};
use serde::Serialize;

use crate::protocol::Refusal;
use crate::session::{Record, Session, Subject};

type Answer = Result<String, Refusal>;
type All = [(String, Opened)];

pub(crate) fn check(subject: &Subject, edits: &[Edit]) -> Answer {
    let settings = Settings::default();
    match subject {
        Subject::Machines(all) => json(&together(all, edits)?.check(&settings)),
        Subject::Nodes(run, _) => {
            let site = Site::of(run).map_err(|e| e.to_string())?;
            json(&judge(&site::Comparison::of(&site, run), &settings, None))
        }
        Subject::Fleet(runs) => json(&judged_fleet(runs)),
    }
}

pub(crate) fn predict(all: &All, edits: &[Edit], sizes: &[Bytes], collectives: &[Bytes]) -> Answer {
    json(&together(all, edits)?.predict(sizes, collectives))
}

pub(crate) fn explain(all: &All, edits: &[Edit], machine: Option<&str>, a: &str, b: &str) -> Answer {
    let mut opened = together(all, edits)?;
    if let Some(wanted) = machine {
        opened = opened.only(wanted).map_err(|e| e.to_string())?;
    }
    json(&opened.explain(a, b).map_err(|e| e.to_string())?)
}

pub(crate) fn compare(all: &All, edits: &[Edit]) -> Answer {
    json(&compared(&side_by_side(all, edits)?))
}

/// The document of a page: of one target its machines; of several, and with edits, all side by side.
pub(crate) fn report(session: &Session, edits: &[Edit]) -> Answer {
    let document = document(session.machines()?, edits, &session.before.borrow())?;
    let answer = compact(&document);
    if edits.is_empty() {
        session.before.replace(document.machines);
    }
    answer
}

/// The same as a page.
pub(crate) fn page(subject: &Subject, edits: &[Edit]) -> Answer {
    let page = match subject {
        Subject::Machines(all) => html::page(&document(all, edits, &[])?).map_err(|e| e.to_string()),
        Subject::Nodes(run, file) => {
            let site = Site::of(run).map_err(|e| e.to_string())?;
            let comparison = site::Comparison::of(&site, run);
            let judged = judge(&comparison, &Settings::default(), None);
            let name = file.rsplit('/').next().unwrap_or(file);
            html::nodes_page(&comparison, &judged, name).map_err(|e| e.to_string())
        }
        Subject::Fleet(runs) => html::fleet_page(&judged_fleet(runs)).map_err(|e| e.to_string()),
    };
    compact(&page?)
}

/// A text, as `map --format system` writes it.
pub(crate) fn system(all: &All, edits: &[Edit]) -> Answer {
    let opened = together(all, edits)?;
    match opened.cases.as_slice() {
        [case] => compact(&catalogue::write_system(&case.machine).map_err(|e| e.to_string())?),
        _ => Err("a system file describes one machine".to_owned()),
    }
}

/// Records of many machines, compared with each other and with what they should be.
fn judged_fleet(records: &[(String, Record)]) -> Fleet {
    let dictionary = Dictionary::default();
    let (mut nodes, mut unread) = (Vec::new(), Vec::new());
    for (name, record) in records {
        match record {
            Record::Machine(run) => nodes.push(Node::of(run, name, &dictionary)),
            Record::Nodes(run) => match Node::between(run, name, &dictionary) {
                Ok(all) => nodes.extend(all),
                Err(error) => unread.push(Unread { name: name.clone(), why: error.to_string() }),
            },
        }
    }
    nodes.sort_by(|a, b| a.file.cmp(&b.file));
    let again = |node: &Node| match records.iter().find(|(name, _)| *name == node.file)? {
        (name, Record::Machine(run)) => Case::of_run((**run).clone(), name).ok(),
        (_, Record::Nodes(_)) => None,
    };
    let settings = Settings::default();
    let again: Option<fleet::Again> = Some(&again);
    let records = Records { nodes: &nodes, baseline: &[], dictionary: &dictionary, settings: &settings, again };
    fleet::judge(&records, unread)
}

/// The machines, side by side where they are several or edited. `before` has reports that were made already.
fn document(all: &All, edits: &[Edit], before: &[MachineReport]) -> Result<ReportDocument, Refusal> {
    let beside = all.len() > 1 || !edits.is_empty();
    let designs = match beside {
        true => side_by_side(all, edits)?,
        false => all
            .iter()
            .flat_map(|(_, opened)| opened.cases.iter().map(|c| (c.machine.name.clone(), c.clone())))
            .collect(),
    };
    // a machine that was edited has a title that says so; a report leaves out one that is the name
    let made = |(name, Case { machine, .. }): &(String, Case)| {
        let title = machine.title.as_ref().filter(|title| **title != machine.name);
        before.iter().find(|made| made.name == *name && made.title.as_ref() == title)
    };
    let models: Vec<Model> = designs.iter().map(|(_, case)| Model::new(&case.machine, Parts::embedded())).collect();
    let fresh = || designs.iter().zip(&models).filter(|(design, _)| made(design).is_none());
    let cases = || fresh().map(|((_, case), _)| case);
    let comparisons: Vec<Comparison> = fresh().map(|(_, model)| Comparison::of(model)).collect();
    let settings = Settings::default();
    let judge = |(case, comparison)| MachineCheck::of(case, comparison, &settings, Vec::new());
    let checks: Vec<MachineCheck> = cases().zip(&comparisons).map(judge).collect();
    let reports = Report::of_machines(cases(), &comparisons, &checks);
    let document = html::document(&reports);
    let mut new = document.machines.into_iter();
    let machines = designs.iter().filter_map(|design| made(design).cloned().or_else(|| new.next())).collect();
    match beside {
        true => Ok(html::beside(machines, models.iter(), &compared(&designs))),
        false => Ok(ReportDocument { machines, ..document }),
    }
}

pub(crate) fn systems() -> Answer {
    let machines = catalogue::system_names().filter_map(catalogue::system).collect::<Result<Vec<Machine>, _>>();
    let clusters = cluster::cluster_names().filter_map(cluster::embedded).collect::<Result<Vec<_>, _>>();
    let machines = machines.map_err(|e| e.to_string())?;
    json(&SystemsDocument::new(&machines, &clusters.map_err(|e| e.to_string())?, false))
}

pub(crate) fn parts() -> Answer {
    #[derive(Serialize)]
    struct Named<'a> {
        name: &'a str,
        title: &'a str,
        kind: &'static str,
    }
    let named = |part: &'static catalogue::Part| {
        let kind = part.kind.node_kind()?.name();
        Some(Named { name: &part.name, title: &part.title, kind })
    };
    compact(&Parts::embedded().iter().filter_map(named).collect::<Vec<_>>())
}

/// All machines with the edits made.
fn together(all: &All, edits: &[Edit]) -> Result<Opened, Refusal> {
    let mut opened = Opened::default();
    opened.extend(all.iter().map(|(_, one)| one.clone()));
    if edits.is_empty() { Ok(opened) } else { opened.changed(edits).map_err(|e| e.to_string()) }
}

/// The designs, and what the edits make of them.
fn side_by_side(all: &All, edits: &[Edit]) -> Result<Vec<(String, Case)>, Refusal> {
    designs(all.to_vec(), edits).map_err(|e| e.to_string())
}

/// As the program writes it, so that what is saved is the same file.
fn json(document: &impl Serialize) -> Answer {
    serde_json::to_string_pretty(document).map_err(|e| e.to_string())
}

/// What only a page reads.
fn compact(document: &impl Serialize) -> Answer {
    serde_json::to_string(document).map_err(|e| e.to_string())
}
