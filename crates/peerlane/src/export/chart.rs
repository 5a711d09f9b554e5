//! A line chart as a standalone SVG. Colours and markers are chosen to be read on white and on black, and without colour.

use std::fmt::Write;

use peerlane_machine::units::Bytes;

/// Of the whole picture, in pixels, unless the legend needs more.
const WIDTH: f64 = 780.0;
const HEIGHT: f64 = 400.0;
/// Of the area with the curves.
const LEFT: f64 = 64.0;
const RIGHT: f64 = 540.0;
const TOP: f64 = 46.0;
const BOTTOM: f64 = 340.0;
/// From one line of the legend to the next.
const LINE: f64 = 22.0;
/// Width of a character of the legend.
const CHARACTER: f64 = 7.0;
/// Most labels on an axis.
const MOST_TICKS: i32 = 9;

/// Text and axes, between white and black.
const GREY: &str = "#808890";
/// Curves in order: blue, orange, green, violet, red, teal.
const TONES: [&str; 6] = ["#2a7de1", "#e0700a", "#2e9e5b", "#9b6bd3", "#d5485a", "#1597a5"];

/// The chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Above the chart, and what a screen reader reports.
    pub title: String,
    /// To the right.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// In the order of the legend.
    pub series: Vec<Series>,
    /// Values that the curves are compared with.
    pub levels: Vec<Level>,
}

/// One direction.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What it shows, with its unit.
    pub label: String,
    /// How its values are spread.
    pub scale: Scale,
}

/// How values are spread over an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// From zero to above the largest value.
    Linear,
    /// Logarithmic, with labels at powers of two.
    Doubling,
    /// [`Scale::Doubling`] of sizes in bytes, labelled `4 KiB`.
    Sizes,
}

/// A curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// In the legend.
    pub name: String,
    /// From left to right.
    pub points: Vec<(f64, f64)>,
    /// Its colour and marker; curves that belong together share it.
    pub tone: usize,
    /// A dashed line without markers.
    pub dashed: bool,
}

/// A horizontal dotted line.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// On the line.
    pub label: String,
    /// Where it is.
    pub value: f64,
}

/// An axis with its range, from values to pixels.
struct Placed {
    scale: Scale,
    /// Lowest and highest value, as exponents of two on a logarithmic axis.
    range: (f64, f64),
    /// Pixels of both.
    ends: (f64, f64),
}

impl Scale {
    /// A value on the axis; none for a value that a logarithmic axis cannot show.
    fn of(self, value: f64) -> Option<f64> {
        let at = if self == Scale::Linear { value } else { value.log2() };
        at.is_finite().then_some(at)
    }
}

impl Placed {
    fn new(scale: Scale, values: impl Iterator<Item = f64>, ends: (f64, f64)) -> Self {
        let values: Vec<f64> = values.filter_map(|v| scale.of(v)).collect();
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let range = match scale {
            _ if values.is_empty() => (0.0, 1.0),
            Scale::Linear => {
                let high = if high > 0.0 { high * 1.05 } else { 1.0 };
                let step = linear_step(high);
                (0.0, (high / step).ceil() * step)
            }
            _ if low < high => (low, high),
            _ => (low - 0.5, high + 0.5),
        };
        Placed { scale, range, ends }
    }

    /// The pixel of a value.
    fn at(&self, value: f64) -> Option<f64> {
        let share = (self.scale.of(value)? - self.range.0) / (self.range.1 - self.range.0);
        Some(self.ends.0 + share * (self.ends.1 - self.ends.0))
    }

    /// Values with labels.
    fn ticks(&self) -> Vec<(f64, String)> {
        let (low, high) = self.range;
        if self.scale == Scale::Linear {
            let step = linear_step(high);
            let decimals = (-step.log10().floor()).max(0.0) as usize;
            let count = (high / step).round() as i32;
            return (0..=count).map(|i| f64::from(i) * step).map(|v| (v, format!("{v:.decimals$}"))).collect();
        }
        let (first, last) = ((low - 1e-9).ceil() as i32, (high + 1e-9).floor() as i32);
        let step = ((last - first) / MOST_TICKS + 1).max(1);
        let label = |value: f64| match self.scale {
            Scale::Sizes => Bytes(value as u64).to_string(),
            _ => value.to_string(),
        };
        (first..=last).filter(|k| (k - first) % step == 0).map(|k| 2_f64.powi(k)).map(|v| (v, label(v))).collect()
    }
}

/// 1, 2 or 5 times a power of ten, at least five of which reach `high`.
fn linear_step(high: f64) -> f64 {
    let power = 10_f64.powf((high / 5.0).log10().floor());
    [5.0, 2.0, 1.0].map(|m| m * power).into_iter().find(|step| high / step >= 5.0 - 1e-9).unwrap_or(power)
}

impl Chart {
    /// The picture.
    pub fn to_svg(&self) -> String {
        let points = || self.series.iter().flat_map(|s| &s.points);
        let levels = self.levels.iter().map(|level| level.value);
        let x = Placed::new(self.x.scale, points().map(|p| p.0), (LEFT, RIGHT));
        let y = Placed::new(self.y.scale, points().map(|p| p.1).chain(levels), (BOTTOM, TOP));
        let title = escape(&self.title);
        let longest = self.series.iter().map(|s| s.name.chars().count()).max().unwrap_or(0);
        let width = WIDTH.max(RIGHT + 60.0 + CHARACTER * longest as f64).ceil();
        let height = HEIGHT.max(TOP + LINE * (self.series.len() + 1) as f64);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" font-family=\"system-ui, sans-serif\" font-size=\"12\" fill=\"{GREY}\" role=\"img\">\n\
             <title>{title}</title>\n\
             <text x=\"{LEFT}\" y=\"24\" font-size=\"15\" font-weight=\"600\">{title}</text>\n"
        );
        self.axes(&mut svg, &x, &y);
        for level in &self.levels {
            let Some(at) = y.at(level.value) else { continue };
            let _ = writeln!(
                svg,
                "<path d=\"M{LEFT} {at:.1}H{RIGHT}\" stroke=\"{GREY}\" stroke-width=\"1.5\" stroke-dasharray=\"1 4\" \
                 stroke-linecap=\"round\"/>\n<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"11\">{}</text>",
                LEFT + 6.0,
                at - 5.0,
                escape(&level.label)
            );
        }
        for (i, series) in self.series.iter().enumerate() {
            let placed: Vec<(f64, f64)> = series.points.iter().filter_map(|(a, b)| x.at(*a).zip(y.at(*b))).collect();
            series.draw(&mut svg, &placed, &placed);
            let at = TOP + 8.0 + LINE * i as f64;
            series.draw(&mut svg, &[(RIGHT + 20.0, at), (RIGHT + 48.0, at)], &[(RIGHT + 34.0, at)]);
            let _ =
                writeln!(svg, "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>", RIGHT + 56.0, at + 4.0, escape(&series.name));
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn axes(&self, svg: &mut String, x: &Placed, y: &Placed) {
        let mut grid = String::new();
        for (value, label) in x.ticks() {
            let Some(at) = x.at(value) else { continue };
            let _ = write!(grid, "M{at:.1} {TOP}V{BOTTOM}");
            let _ = writeln!(
                svg,
                "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"11\">{}</text>",
                BOTTOM + 17.0,
                escape(&label)
            );
        }
        for (value, label) in y.ticks() {
            let Some(at) = y.at(value) else { continue };
            let _ = write!(grid, "M{LEFT} {at:.1}H{RIGHT}");
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" font-size=\"11\">{label}</text>",
                LEFT - 8.0,
                at + 4.0
            );
        }
        let (middle, centre) = ((LEFT + RIGHT) / 2.0, (TOP + BOTTOM) / 2.0);
        let _ = writeln!(
            svg,
            "<path d=\"{grid}\" fill=\"none\" stroke=\"{GREY}\" stroke-opacity=\"0.25\"/>\n\
             <path d=\"M{LEFT} {TOP}V{BOTTOM}H{RIGHT}\" fill=\"none\" stroke=\"{GREY}\"/>\n\
             <text x=\"{middle}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n\
             <text transform=\"translate(18 {centre}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            BOTTOM + 40.0,
            escape(&self.x.label),
            escape(&self.y.label)
        );
    }
}

impl Series {
    /// The curve through `points`, with markers at `marked`, in pixels.
    fn draw(&self, svg: &mut String, points: &[(f64, f64)], marked: &[(f64, f64)]) {
        let tone = self.tone % TONES.len();
        let colour = TONES[tone];
        let mut path = String::new();
        for (i, (x, y)) in points.iter().enumerate() {
            let _ = write!(path, "{}{x:.1} {y:.1}", if i == 0 { 'M' } else { 'L' });
        }
        let dash = if self.dashed { " stroke-dasharray=\"6 4\"" } else { "" };
        let _ = writeln!(svg, "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dash}/>");
        let marked = if self.dashed { &[] } else { marked };
        let mut markers = String::new();
        for (x, y) in marked {
            let _ = match tone % 4 {
                0 => write!(markers, "M{:.1} {y:.1}a3.2 3.2 0 1 0 6.4 0a3.2 3.2 0 1 0 -6.4 0", x - 3.2),
                1 => write!(markers, "M{:.1} {:.1}h6v6h-6z", x - 3.0, y - 3.0),
                2 => write!(markers, "M{x:.1} {:.1}l4 7h-8z", y - 4.4),
                _ => write!(markers, "M{x:.1} {:.1}l4.2 4.2l-4.2 4.2l-4.2 -4.2z", y - 4.2),
            };
        }
        if !markers.is_empty() {
            let _ = writeln!(svg, "<path d=\"{markers}\" fill=\"{colour}\"/>");
        }
    }
}

/// Text for XML.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(scale: Scale) -> Axis {
        Axis { label: "a & b".to_owned(), scale }
    }

    fn chart(x: Scale, y: Scale, points: &[(f64, f64)]) -> Chart {
        let series = Series { name: "<one>".to_owned(), points: points.to_vec(), tone: 0, dashed: true };
        Chart { title: "T".to_owned(), x: axis(x), y: axis(y), series: vec![series], levels: Vec::new() }
    }

    #[test]
    fn values_are_where_their_scale_has_them() {
        let sizes = Placed::new(Scale::Sizes, [512.0, 8192.0].into_iter(), (100.0, 500.0));
        assert_eq!([512.0, 1024.0, 8192.0].map(|v| sizes.at(v)), [100.0, 200.0, 500.0].map(Some));
        assert_eq!(
            sizes.ticks().iter().map(|t| t.1.as_str()).collect::<Vec<_>>(),
            ["512 B", "1 KiB", "2 KiB", "4 KiB", "8 KiB"]
        );
        let rates = Placed::new(Scale::Linear, [0.3, 1.5].into_iter(), (300.0, 0.0));
        assert_eq!(rates.ticks().last().unwrap().1, "1.6");
        assert_eq!(rates.at(0.8), Some(150.0));
    }

    #[test]
    fn an_axis_has_few_labels() {
        let many = Placed::new(Scale::Doubling, [1.0, 2_f64.powi(40)].into_iter(), (0.0, 1.0));
        assert!((4..=10).contains(&many.ticks().len()));
        for high in [1e-9, 0.7, 1.0, 2.6, 13.0, 99.0, 1e12] {
            let count = Placed::new(Scale::Linear, [high].into_iter(), (0.0, 1.0)).ticks().len();
            assert!((6..=14).contains(&count), "{high}: {count}");
        }
    }

    #[test]
    fn no_input_makes_an_invalid_picture() {
        for (x, y) in [(Scale::Sizes, Scale::Linear), (Scale::Doubling, Scale::Doubling), (Scale::Linear, Scale::Sizes)]
        {
            for points in [&[][..], &[(0.0, 0.0)], &[(1.0, f64::NAN), (-3.0, f64::INFINITY)], &[(8.0, 1.0), (8.0, 1.0)]]
            {
                let svg = chart(x, y, points).to_svg();
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{x:?} {y:?} {points:?}: {svg}");
                assert!(svg.contains("&lt;one&gt;") && svg.contains("a &amp; b") && svg.ends_with("</svg>\n"));
            }
        }
    }
}
