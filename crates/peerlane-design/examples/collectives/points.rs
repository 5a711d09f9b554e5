//! Published and recorded figures of collectives, and what peerlane predicts for them.

use std::collections::HashMap;
use std::path::Path;

use peerlane_design::cluster::{Cluster, Wanted};
use peerlane_design::simulate::library::Library;
use peerlane_machine::one_line::shown;
use peerlane_machine::transfer::Collective;
use peerlane_machine::units::{Bytes, Rate, Seconds};
use peerlane_model::collectives::Choice;
use peerlane_model::collectives::tuner::{Predicted, Ranks};
use peerlane_read::catalogue::system;
use peerlane_read::input_file::{self, Kind};

/// Columns of a file of points.
const HEADER: &str = "machine,target,nodes,gpus_per_node,nics_per_node_gbps,network,collective,size,setting,time_us,busbw_GBs,\
                      library,source";

/// Sizes from which on a point counts as large.
pub(crate) const LARGE: u64 = 256 << 20;
/// Sizes up to which it counts as small.
pub(crate) const SMALL: u64 = 1 << 20;

/// One figure.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) machine: String,
    pub(crate) target: String,
    pub(crate) nodes: u32,
    pub(crate) gpus: usize,
    /// How many NICs a node has, and their Gb/s, where the source states them.
    pub(crate) nics: Option<(usize, f64)>,
    pub(crate) network: String,
    pub(crate) collective: Collective,
    pub(crate) size: u64,
    pub(crate) setting: String,
    /// Microseconds.
    pub(crate) time: f64,
    pub(crate) source: String,
}

/// The points of a file. A line of `#` is a comment.
pub(crate) fn read(path: &Path) -> Result<Vec<Point>, String> {
    let text = input_file::text(path, Kind::Source)?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.starts_with('#') && !line.trim().is_empty());
    let rows = lines.filter(|(_, line)| *line != HEADER);
    rows.map(|(i, line)| point(line).map_err(|why| format!("{}:{}: {why}", shown(path), i + 1))).collect()
}

fn point(line: &str) -> Result<Point, String> {
    let cells: Vec<&str> = line.splitn(13, ',').map(str::trim).collect();
    let &[machine, target, nodes, gpus, nics, network, collective, size, setting, time, busbw, _, source] = &cells[..]
    else {
        return Err(format!("{} columns, not 13", cells.len()));
    };
    let number = |text: &str| text.parse::<f64>().map_err(|_| format!("'{text}' is no number"));
    let nodes = number(nodes)? as u32;
    let gpus = number(gpus)? as usize;
    let collective = Collective::ALL.into_iter().find(|c| c.name() == collective).ok_or("no such collective")?;
    let size: Bytes = size.parse().map_err(|e| format!("size: {e}"))?;
    let time = match (time, busbw) {
        ("", "") => return Err("neither a time nor a bandwidth".to_owned()),
        ("", busbw) => size.0 as f64 * collective.bus_factor(gpus * nodes as usize) / number(busbw)? / 1e3,
        (time, _) => number(time)?,
    };
    // 8x400 IB
    let nics = nics.split_once('x').and_then(|(count, rest)| {
        let rate = rest.split_whitespace().next()?;
        Some((count.parse().ok()?, rate.parse().ok()?))
    });
    Ok(Point {
        machine: machine.to_owned(),
        target: target.to_owned(),
        nodes,
        gpus,
        nics,
        network: network.to_owned(),
        collective,
        size: size.0,
        setting: setting.to_owned(),
        time,
        source: source.to_owned(),
    })
}

/// The points of a table that nccl-tests printed, out of place.
pub(crate) fn recorded(text: &str, like: &Point) -> Vec<Point> {
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    rows.filter_map(|line| {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let size: u64 = cells.first()?.parse().ok().filter(|size| *size > 0)?;
        let time = cells.get(5)?.parse().ok()?;
        Some(Point { size, time, ..like.clone() })
    })
    .collect()
}

/// What is predicted, or why nothing is. Rates of one machine and collective are found once.
#[derive(Default)]
pub(crate) struct Predictor {
    known: HashMap<String, Result<Library, String>>,
}

impl Predictor {
    pub(crate) fn predict(&mut self, point: &Point) -> Result<Predicted, String> {
        let (choice, run) = setting(&point.setting)?;
        let key = format!(
            "{} {} {} {:?} {} {} {choice} {run:?}",
            point.target,
            point.nodes,
            point.gpus,
            point.nics,
            point.network,
            point.collective.name()
        );
        let library = self.known.entry(key).or_insert_with(|| {
            let cluster = cluster(point)?;
            Library::of(&cluster, point.collective, choice, None).map(|l| l.run_as(run)).map_err(|e| e.to_string())
        });
        library.as_ref().map_err(Clone::clone)?.predict(Bytes(point.size), choice).map_err(|e| e.to_string())
    }
}

/// NCCL's choice under a setting, and how ranks are run: words joined by `;`.
fn setting(text: &str) -> Result<(Choice, Ranks), String> {
    let (mut choice, mut run) = (Choice::FREE, Ranks::ProcessEach);
    for word in text.split(';').map(str::trim) {
        match word {
            "" | "default" => {}
            "one process" => run = Ranks::OneProcess,
            "graph" => run = Ranks::Graph,
            "nvls off" => choice.no_nvls = true,
            "ring" | "tree" => choice = format!("{word}+any").parse().map_err(|e| format!("{e}"))?,
            "collnet" => choice = "collnetdirect".parse().map_err(|e| format!("{e}"))?,
            word => choice = word.parse().map_err(|e| format!("{e}"))?,
        }
    }
    Ok((choice, run))
}

fn cluster(point: &Point) -> Result<Cluster, String> {
    let machine = system(&point.target).ok_or("no such system in the catalogue")?.map_err(|e| e.to_string())?;
    let mut cluster = if point.nodes == 1 {
        Cluster::single(machine)
    } else {
        let network = match point.network.as_str() {
            "" | "efa" => "rail",
            other => other,
        };
        let wanted: Wanted = network.parse().map_err(|e| format!("{e}"))?;
        let rate = point.nics.map(|(_, gbps)| Rate::from_gb(gbps / 8.0));
        Cluster::of(machine, point.nodes, &wanted, rate, Seconds::from_us(0.3)).map_err(|e| e.to_string())?
    };
    cluster.taking.1 = point.gpus;
    if let Some((count, _)) = point.nics.filter(|(count, _)| point.nodes > 1 && *count < cluster.nics.len()) {
        // spread over the NICs that are nearest to the GPUs in use
        let fabric = &cluster.node.fabric;
        let gpus = cluster.gpus();
        let far = |nic: &_| gpus.iter().filter_map(|gpu| fabric.class(*gpu, *nic)).min();
        let nearest = cluster.nics.iter().filter_map(far).min();
        let near: Vec<_> = cluster.nics.iter().copied().filter(|nic| far(nic) == nearest).collect();
        let step = (near.len() / count).max(1);
        cluster.nics = near.into_iter().step_by(step).take(count).collect();
    }
    Ok(cluster)
}

/// A point with what was predicted for it.
pub(crate) struct Scored {
    pub(crate) point: Point,
    pub(crate) predicted: Predicted,
}

impl Scored {
    /// The predicted time over the measured one.
    pub(crate) fn ratio(&self) -> f64 {
        self.predicted.time * 1e6 / self.point.time
    }

    /// The predicted bandwidth over the measured one, less one.
    pub(crate) fn error(&self) -> f64 {
        1.0 / self.ratio() - 1.0
    }
}

/// Predictions of these points, and for those without one why.
pub(crate) fn score(points: Vec<Point>) -> (Vec<Scored>, Vec<(Point, String)>) {
    let mut predictor = Predictor::default();
    let (mut scored, mut without) = (Vec::new(), Vec::new());
    for point in points {
        match predictor.predict(&point) {
            Ok(predicted) => scored.push(Scored { point, predicted }),
            Err(why) => without.push((point, why)),
        }
    }
    (scored, without)
}

/// Quantile of absolute errors, in percent.
pub(crate) fn quantile(scored: &[&Scored], q: f64) -> Option<f64> {
    let mut errors: Vec<f64> = scored.iter().map(|s| 100.0 * s.error().abs()).collect();
    errors.sort_by(f64::total_cmp);
    let last = errors.len().checked_sub(1)?;
    errors.get((q * last as f64).round() as usize).copied()
}

/// The geometric mean of the larger of ratio and its inverse, less one, in percent.
pub(crate) fn geometric(scored: &[&Scored]) -> f64 {
    let sum: f64 = scored.iter().map(|s| s.ratio().ln().abs()).sum();
    100.0 * ((sum / scored.len().max(1) as f64).exp() - 1.0)
}
