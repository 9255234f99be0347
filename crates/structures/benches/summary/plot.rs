//! Line plots over a logarithmic axis of sizes, several to a picture, as hand-written SVG.

use std::fmt::Write;

const COLUMNS: usize = 3;
const PANEL_WIDTH: f64 = 300.0;
const PANEL_HEIGHT: f64 = 210.0;
/// Room for the labels of an axis within a panel.
const LEFT: f64 = 52.0;
const RIGHT: f64 = 14.0;
const ABOVE: f64 = 26.0;
const BELOW: f64 = 30.0;
/// Room for the title and the legend above all panels.
const HEAD: f64 = 58.0;
/// Distinguishable with red-green colour blindness (Okabe and Ito).
const COLOURS: [&str; 4] = ["#0072b2", "#d55e00", "#999999", "#009e73"];

/// One line: points of size and value, both above 0.
pub struct Series<'a> {
    /// Name in the legend.
    pub name: &'a str,
    /// Points of size and value.
    pub points: Vec<(f64, f64)>,
}

/// One plot; its series are in the order of the other panels' series.
pub struct Panel<'a> {
    /// Title of the plot.
    pub title: String,
    /// The values' axis: logarithmic, or linear from 0.
    pub scale: Scale,
    /// The lines.
    pub series: Vec<Series<'a>>,
}

/// The scale of an axis.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    Linear,
    Logarithmic,
}

/// An axis along a length of the picture, and the positions of its lines.
struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
    marks: Vec<f64>,
    start: f64,
    length: f64,
}

impl Axis {
    fn over(scale: Scale, values: impl Iterator<Item = f64> + Clone, start: f64, length: f64) -> Self {
        let smallest = values.clone().fold(f64::INFINITY, f64::min).max(1e-3);
        let largest = values.fold(0.0, f64::max).max(1e-3);
        let marks: Vec<f64> = if scale == Scale::Logarithmic {
            let low = smallest.log10().floor() as i32;
            let high = (largest.log10().ceil() as i32).max(low + 1);
            (low..=high).map(|power| 10f64.powi(power)).collect()
        } else {
            let power = 10f64.powf(largest.log10().floor());
            let step = if largest > 4.0 * power { power } else { power / 2.0 };
            (0..=(largest / step).ceil() as u32).map(|i| i as f64 * step).collect()
        };
        let (low, high) = (marks[0], marks[marks.len() - 1]);
        Axis { scale, low, high, marks, start, length }
    }

    fn place(&self, value: f64) -> f64 {
        let part = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Logarithmic => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        self.start + self.length * part
    }
}

fn label(value: f64) -> String {
    if value >= 1e6 {
        format!("{} M", value / 1e6)
    } else if value >= 1e3 {
        format!("{} K", value / 1e3)
    } else {
        // Ticks are multiples of a step, which need not be exact: 3 * 0.1.
        format!("{}", (value * 1e6).round() / 1e6)
    }
}

/// The picture of all panels under one title and one legend.
pub fn grid(title: &str, panels: &[Panel<'_>]) -> String {
    let columns = panels.len().clamp(1, COLUMNS);
    let width = (columns as f64 * PANEL_WIDTH).max(520.0);
    let height = HEAD + panels.len().div_ceil(columns) as f64 * PANEL_HEIGHT;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"11\" fill=\"#222\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n\
         <text x=\"12\" y=\"22\" font-size=\"15\">{title}</text>\n"
    );
    legend(&mut svg, panels);
    for (number, panel) in panels.iter().enumerate() {
        let x = (number % columns) as f64 * PANEL_WIDTH;
        let y = HEAD + (number / columns) as f64 * PANEL_HEIGHT;
        draw(&mut svg, panel, x, y);
    }
    svg.push_str("</svg>\n");
    svg
}

fn legend(svg: &mut String, panels: &[Panel<'_>]) {
    let mut x = 12.0;
    for (series, colour) in panels.iter().take(1).flat_map(|panel| &panel.series).zip(COLOURS) {
        _ = write!(
            svg,
            "<line x1=\"{x}\" y1=\"40\" x2=\"{}\" y2=\"40\" stroke=\"{colour}\" stroke-width=\"2.5\"/>\n\
             <text x=\"{}\" y=\"44\">{}</text>\n",
            x + 22.0,
            x + 28.0,
            series.name
        );
        x += 48.0 + 6.5 * series.name.len() as f64;
    }
}

fn draw(svg: &mut String, panel: &Panel<'_>, x: f64, y: f64) {
    let points = || panel.series.iter().flat_map(|series| series.points.iter().copied());
    _ = writeln!(svg, "<text x=\"{}\" y=\"{}\" font-size=\"12\">{}</text>", x + LEFT, y + 16.0, panel.title);
    if points().next().is_none() {
        return;
    }
    let bottom = y + PANEL_HEIGHT - BELOW;
    let across =
        Axis::over(Scale::Logarithmic, points().map(|point| point.0), x + LEFT, PANEL_WIDTH - LEFT - RIGHT);
    let up = Axis::over(panel.scale, points().map(|point| point.1), bottom, -(PANEL_HEIGHT - ABOVE - BELOW));
    for &mark in &across.marks {
        let at = across.place(mark);
        _ = write!(
            svg,
            "<line x1=\"{at:.1}\" y1=\"{:.1}\" x2=\"{at:.1}\" y2=\"{bottom:.1}\" stroke=\"#e4e4e4\"/>\n\
             <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"10\">{}</text>\n",
            y + ABOVE,
            bottom + 14.0,
            label(mark)
        );
    }
    for &mark in &up.marks {
        let at = up.place(mark);
        _ = write!(
            svg,
            "<line x1=\"{:.1}\" y1=\"{at:.1}\" x2=\"{:.1}\" y2=\"{at:.1}\" stroke=\"#e4e4e4\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" font-size=\"10\">{}</text>\n",
            x + LEFT,
            x + PANEL_WIDTH - RIGHT,
            x + LEFT - 5.0,
            at + 3.5,
            label(mark)
        );
    }
    for (series, colour) in panel.series.iter().zip(COLOURS) {
        line(svg, series, colour, &across, &up);
    }
}

fn line(svg: &mut String, series: &Series<'_>, colour: &str, across: &Axis, up: &Axis) {
    let places = series.points.iter().map(|&(size, value)| (across.place(size), up.place(value)));
    let path: Vec<String> = places.clone().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    _ = writeln!(
        svg,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
        path.join(" ")
    );
    for (x, y) in places {
        _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.6\" fill=\"{colour}\"/>");
    }
}
