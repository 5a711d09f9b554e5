//! Simulations as charts, one curve per target.

use peerlane::export::chart::{Axis, Chart, Scale, Series};
use peerlane::simulate::result::SimulationDocument;
use peerlane::simulate::scaling::ScalingDocument;

/// Rate by size, as SVG.
///
/// # Errors
/// If the workload has no sizes, or only one was simulated.
pub fn sizes(documents: &[SimulationDocument]) -> Result<String, String> {
    let series = documents.iter().enumerate().map(|(tone, document)| {
        let points = document.points.iter().map(|p| (p.size as f64, p.algbw));
        curve(&document.target, tone, points.filter(|(size, _)| *size > 0.0).collect())
    });
    let axes = [("size", Scale::Sizes), ("algbw GB/s", Scale::Linear)];
    let workload = documents.first().map_or("", |d| &d.workload);
    draw(workload.to_owned(), axes, series.collect(), "several sizes, or --scaling")
}

/// Speed-up by nodes, as SVG.
///
/// # Errors
/// If only one number of nodes was simulated.
pub fn nodes(documents: &[ScalingDocument]) -> Result<String, String> {
    let series = documents.iter().enumerate().map(|(tone, document)| {
        curve(&document.target, tone, document.points.iter().map(|p| (f64::from(p.nodes), p.speedup)).collect())
    });
    let axes = [("nodes", Scale::Doubling), ("speed-up", Scale::Doubling)];
    let title = documents.first().map(|d| format!("{}, {} scaling", d.workload, d.scaling));
    draw(title.unwrap_or_default(), axes, series.collect(), "several numbers of nodes")
}

fn curve(name: &str, tone: usize, points: Vec<(f64, f64)>) -> Series {
    Series { name: name.to_owned(), points, tone, dashed: false }
}

fn draw(title: String, axes: [(&str, Scale); 2], series: Vec<Series>, needed: &str) -> Result<String, String> {
    if series.iter().all(|s| s.points.len() < 2) {
        return Err(format!("a chart of {title} needs {needed}"));
    }
    let [x, y] = axes.map(|(label, scale)| Axis { label: label.to_owned(), scale });
    Ok(Chart { title, x, y, series, levels: Vec::new() }.to_svg())
}
