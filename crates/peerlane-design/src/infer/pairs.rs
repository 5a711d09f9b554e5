//! What a matrix of lone pairs shows: which GPUs are alike by their rates, and which cells are not as their neighbours.
//! What pairs share it cannot tell, since no two of them ran at once.

use peerlane_machine::schema::JsonSchema;
use serde::{Deserialize, Serialize};

use super::document::Unidentifiable;
use super::explore::digits;
use super::flows::FlowKind;
use peerlane_machine::machine::{Machine, SourcedMatrix};
use peerlane_machine::matrix::{Direction, Matrix, Operation, Quantity};
use peerlane_machine::names::{is_host, ranges};

/// Rates farther apart than this are of different paths.
const APART: f64 = 0.08;

/// Cells between the same groups that differ by more are on different levels. The matrices of one program on one
/// machine agree to 1 to 2 %.
const LEVEL: f64 = 0.04;

/// Cells of an unusual level that are named one by one.
const NAMED: usize = 3;

/// What one matrix shows. Rates are in GB/s, as the matrix counts them: the sum of both directions where it is of both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RateGroups {
    /// The matrix by its title.
    pub matrix: String,
    /// Where it stands.
    pub source: String,
    /// Whether a document states it, and no program's own output.
    pub published: bool,
    /// GPUs among which every pair is faster than any pair to the outside; the smallest groups first.
    pub groups: Vec<RateGroup>,
    /// The rates of pairs within no group.
    pub between: Vec<RateLevel>,
}

/// GPUs that are alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RateGroup {
    /// Which.
    pub members: Vec<String>,
    /// The slowest pair within.
    pub low: f64,
    /// The fastest.
    pub high: f64,
}

/// Pairs of about one rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RateLevel {
    /// The slowest.
    pub low: f64,
    /// The fastest.
    pub high: f64,
    /// How many ordered pairs.
    pub pairs: usize,
    /// What these have in common that others have not; absent for the level that most are on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noticed: Option<String>,
}

/// What every matrix of pairs of a machine shows, and which sets would show more. Of several matrices of one kind the first.
pub(super) fn rate_groups(machine: &Machine) -> (Vec<RateGroups>, Vec<Unidentifiable>) {
    let mut known = Vec::new();
    let (mut all, mut open) = (Vec::new(), Vec::new());
    for measured in &machine.matrices {
        let matrix = &measured.matrix;
        let kind = (matrix.direction, matrix.p2p, matrix.op);
        if matrix.quantity != Quantity::Bandwidth || known.contains(&kind) {
            continue;
        }
        let Some(rates) = Rates::of(measured) else { continue };
        known.push(kind);
        let shown = rates.shown(measured, &title(measured, &machine.matrices));
        if matrix.p2p != Some(false) && open.is_empty() {
            open = left_open(&rates.names, &shown.groups, matrix.direction == Some(Direction::Bidirectional));
        }
        all.push(shown);
    }
    (all, open)
}

/// A row, a column, and the rate there.
type Cell = (usize, usize, f64);

/// A square matrix of GPUs in GB/s.
struct Rates {
    names: Vec<String>,
    /// By row and column; 0 where nothing is known, and on the diagonal.
    values: Vec<Vec<f64>>,
}

impl Rates {
    /// `None` for what is no matrix of three GPUs or more.
    fn of(measured: &SourcedMatrix) -> Option<Self> {
        let matrix = &measured.matrix;
        let names = matrix.rows.clone();
        if names.len() < 3 || names != matrix.cols || names.iter().any(|n| is_host(n)) {
            return None;
        }
        let value = |i: usize, j: usize| if i == j { 0.0 } else { matrix.rate(i, j).map_or(0.0, |r| r.gb()) };
        let values: Vec<Vec<f64>> = (0..names.len()).map(|i| (0..names.len()).map(|j| value(i, j)).collect()).collect();
        values.iter().flatten().any(|v| *v > 0.0).then_some(Rates { names, values })
    }

    /// Two GPUs' rate: the slower order, so that one outlier joins nothing.
    fn pair(&self, i: usize, j: usize) -> f64 {
        let at = |i: usize, j: usize| self.values.get(i).and_then(|row| row.get(j)).copied().unwrap_or(0.0);
        at(i, j).min(at(j, i))
    }

    /// The cells with their places, in any order.
    fn cells(&self) -> impl Iterator<Item = Cell> + '_ {
        let rows = self.values.iter().enumerate();
        let cells = rows.flat_map(|(i, row)| row.iter().enumerate().map(move |(j, v)| (i, j, *v)));
        cells.filter(|(_, _, v)| *v > 0.0)
    }

    fn shown(&self, measured: &SourcedMatrix, title: &str) -> RateGroups {
        let groups = self.groups();
        let within = |i: usize, j: usize| groups.iter().any(|g| g.contains(&i) && g.contains(&j));
        let group = |members: &Vec<usize>| {
            let inside = self.cells().filter(|(i, j, _)| members.contains(i) && members.contains(j));
            let (low, high) = extent(inside.map(|c| c.2));
            RateGroup { members: self.named(members), low, high }
        };
        let between: Vec<Cell> = self.cells().filter(|(i, j, _)| !within(*i, *j)).collect();
        RateGroups {
            matrix: title.to_owned(),
            source: measured.origin.to_string(),
            published: measured.published,
            groups: groups.iter().map(group).collect(),
            between: self.levels(between),
        }
    }

    fn named(&self, members: &[usize]) -> Vec<String> {
        members.iter().filter_map(|i| self.names.get(*i).cloned()).collect()
    }

    /// Groups at every level of rates at which pairs fall into groups; none where all pairs are alike.
    fn groups(&self) -> Vec<Vec<usize>> {
        let n = self.names.len();
        let mut rates: Vec<f64> =
            (0..n).flat_map(|i| (0..i).map(move |j| (i, j))).map(|(i, j)| self.pair(i, j)).collect();
        rates.sort_by(|a, b| b.total_cmp(a));
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for (at, rate) in rates.iter().enumerate() {
            let next = rates.get(at + 1).copied().unwrap_or(0.0);
            // a level ends where the next pair is much slower
            if next > rate * (1.0 - APART) || *rate <= 0.0 {
                continue;
            }
            let parts = self.parts(*rate);
            let whole =
                |part: &Vec<usize>| part.iter().all(|i| part.iter().all(|j| i == j || self.pair(*i, *j) >= *rate));
            if parts.iter().all(whole) {
                groups.extend(parts.into_iter().filter(|p| p.len() > 1 && p.len() < n));
            }
        }
        groups.sort_by_key(Vec::len);
        groups.dedup();
        groups
    }

    /// What pairs of at least this rate join.
    fn parts(&self, rate: f64) -> Vec<Vec<usize>> {
        let n = self.names.len();
        let mut part_of: Vec<usize> = (0..n).collect();
        for i in 0..n {
            for j in 0..i {
                if self.pair(i, j) >= rate
                    && let (Some(a), Some(b)) = (part_of.get(i).copied(), part_of.get(j).copied())
                {
                    part_of.iter_mut().filter(|p| **p == a).for_each(|p| *p = b);
                }
            }
        }
        let parts = (0..n).map(|p| (0..n).filter(|i| part_of.get(*i) == Some(&p)).collect::<Vec<_>>());
        parts.filter(|p| !p.is_empty()).collect()
    }

    /// Levels of cells, the one of most cells first; of the others what they have in common.
    fn levels(&self, mut cells: Vec<Cell>) -> Vec<RateLevel> {
        cells.sort_by(|a, b| a.2.total_cmp(&b.2));
        let mut levels: Vec<&[Cell]> = cells.chunk_by(|a, b| b.2 <= a.2 * (1.0 + LEVEL)).collect();
        levels.sort_by_key(|level| std::cmp::Reverse(level.len()));
        let level = |(at, level): (usize, &&[Cell])| {
            let (low, high) = extent(level.iter().map(|c| c.2));
            let noticed = (at > 0).then(|| self.in_common(level, &cells));
            RateLevel { low, high, pairs: level.len(), noticed }
        };
        levels.iter().enumerate().map(level).collect()
    }

    /// What the cells of a level have in common.
    fn in_common(&self, level: &[Cell], all: &[Cell]) -> String {
        let touches = |cell: &Cell, gpu: usize| cell.0 == gpu || cell.1 == gpu;
        let is_here = |cell: &Cell| level.iter().any(|l| (l.0, l.1) == (cell.0, cell.1));
        let wholly = |gpu: &usize| {
            let mut own = all.iter().filter(|c| touches(c, *gpu)).peekable();
            own.peek().is_some() && own.all(is_here)
        };
        let gpus: Vec<usize> = (0..self.names.len()).filter(wholly).collect();
        let explained = !gpus.is_empty() && level.iter().all(|c| gpus.iter().any(|gpu| touches(c, *gpu)));
        if explained {
            return format!("just the pairs that touch {}", self.named(&gpus).join(" or "));
        }
        let ends: [fn(&Cell) -> usize; 2] = [|c| c.0, |c| c.1];
        for (word, end) in ["from", "to"].into_iter().zip(ends) {
            let all_at = |gpu: &usize| all.iter().filter(|c| end(c) == *gpu).count();
            let alone = |gpu: &usize| level.iter().all(|c| end(c) == *gpu) && level.len() == all_at(gpu);
            if let Some(gpu) = (0..self.names.len()).find(alone) {
                return format!("just the pairs {word} {}", self.names[gpu]);
            }
        }
        let pair = |c: &Cell| self.named(&[c.0, c.1]).join("→");
        let named: Vec<String> = level.iter().take(NAMED).map(pair).collect();
        match level.len().saturating_sub(NAMED) {
            0 => named.join(", "),
            more => format!("{} and {more} more", named.join(", ")),
        }
    }
}

/// A matrix by its title, with its operation where another one of that title has another.
fn title(measured: &SourcedMatrix, all: &[SourcedMatrix]) -> String {
    let Matrix { title, op, .. } = &measured.matrix;
    let twin = all.iter().any(|other| other.matrix.title == *title && other.matrix.op != *op);
    match op {
        Some(Operation::Read) if twin => format!("{title}, reads"),
        Some(Operation::Write) if twin => format!("{title}, writes"),
        _ => title.clone(),
    }
}

fn extent(rates: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = rates.fold((f64::INFINITY, 0.0_f64), |(low, high), rate| (low.min(rate), high.max(rate)));
    (digits(low.min(high)), digits(high))
}

/// What lone pairs leave open, and the sets that would decide it: pairs at once that have no GPU in common.
fn left_open(names: &[String], groups: &[RateGroup], both: bool) -> Vec<Unidentifiable> {
    let arrow = if both { "↔" } else { "→" };
    let pair = |a: &String, b: &String| format!("{a}{arrow}{b}");
    let mut all = Vec::new();
    let mut open = |members, hidden: &str, would_tell| {
        let why = format!("every pair ran alone, so that {hidden} does not show");
        all.push(Unidentifiable::new(FlowKind::GpuToGpu, members, None, why, would_tell));
    };
    // the largest groups stand behind one uplink each, if at all
    let largest = groups.iter().map(|g| g.members.len()).max().unwrap_or(0);
    let outer: Vec<&RateGroup> = groups.iter().filter(|g| g.members.len() == largest).collect();
    for (at, a) in outer.iter().enumerate() {
        for b in outer.iter().skip(at + 1) {
            let across: Vec<String> = a.members.iter().zip(&b.members).map(|(x, y)| pair(x, y)).collect();
            let two: Vec<String> = across.iter().take(2).cloned().collect();
            if two.len() == 2 {
                let (a, b) = (ranges(&a.members), ranges(&b.members));
                let why = format!("an uplink which all pairs between {a} and {b} share");
                open(across.clone(), &why, if across.len() > 2 { vec![two, across] } else { vec![two] });
            }
        }
    }
    for members in outer.iter().map(|g| &g.members).chain(groups.is_empty().then_some(&names.to_vec())) {
        let inside: Vec<String> = members.chunks(2).filter_map(|c| Some(pair(c.first()?, c.get(1)?))).collect();
        if inside.len() > 1 {
            open(inside.clone(), &format!("what pairs among {} share", ranges(members)), vec![inside]);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane_read::catalogue;

    fn shown(system: &str) -> (RateGroups, Vec<Unidentifiable>) {
        let machine = catalogue::system(system).unwrap().unwrap();
        let (groups, open) = rate_groups(&machine);
        (groups.into_iter().find(|g| g.published).unwrap(), open)
    }

    fn members(groups: &RateGroups) -> Vec<String> {
        groups.groups.iter().map(|g| ranges(&g.members)).collect()
    }

    #[test]
    fn two_banks_behind_one_switch_each_and_two_odd_gpus() {
        let (groups, open) = shown("exxact-txr550");
        assert_eq!(members(&groups), ["GPU0–GPU3", "GPU4–GPU7"]);
        assert_eq!((groups.groups[0].low, groups.groups[1].high), (25.01, 25.04));
        let [most, odd] = groups.between.as_slice() else { panic!("{:?}", groups.between) };
        assert_eq!((most.low, most.high, most.pairs, &most.noticed), (15.96, 16.01, 18, &None));
        assert_eq!((odd.low, odd.high, odd.pairs), (14.69, 14.73, 14));
        assert_eq!(odd.noticed.as_deref(), Some("just the pairs that touch GPU3 or GPU6"));
        assert_eq!(open[0].would_tell[0], ["GPU0↔GPU4", "GPU1↔GPU5"]);
        assert!(open[0].why.contains("uplink which all pairs between GPU0–GPU3 and GPU4–GPU7 share"));
    }

    #[test]
    fn one_odd_cell_joins_nothing_and_is_named() {
        let (groups, _) = shown("exxact-traditional");
        assert_eq!(members(&groups), ["GPU0, GPU1", "GPU2, GPU3"]);
        assert_eq!(groups.between[1].noticed.as_deref(), Some("GPU1→GPU2"));
        assert_eq!(groups.between[1].high, 17.07);
    }

    #[test]
    fn pairs_below_one_switch() {
        let (groups, open) = shown("exxact-devbox");
        assert_eq!(members(&groups), ["GPU0, GPU1", "GPU2, GPU3"]);
        assert_eq!(groups.between.len(), 1);
        assert_eq!(open[0].would_tell, [["GPU0↔GPU2", "GPU1↔GPU3"]]);
    }
}
