//! Plots as SVG: lines over a logarithmic scale, and groups of bars.

use plotters::coord::Shift;
use plotters::prelude::*;

const WIDTH: u32 = 860;
const HEIGHT: u32 = 420;
const FONT: &str = "sans-serif";
const COLOURS: [RGBColor; 6] = [
    RGBColor(0x1f, 0x77, 0xb4),
    RGBColor(0xff, 0x7f, 0x0e),
    RGBColor(0x2c, 0xa0, 0x2c),
    RGBColor(0xd6, 0x27, 0x28),
    RGBColor(0x94, 0x67, 0xbd),
    RGBColor(0x8c, 0x56, 0x4b),
];

pub enum Shape {
    /// Over a logarithmic horizontal axis.
    Lines,
    /// Groups with these names; the values of a series are those of its groups, in order.
    Bars(Vec<String>),
}

pub struct Plot {
    /// Of the file.
    pub name: String,
    pub title: String,
    pub x_label: String,
    pub y_label: String,
    pub shape: Shape,
    /// With their names.
    pub series: Vec<(String, Vec<(f64, f64)>)>,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

impl Plot {
    pub fn svg(&self) -> Result<String, String> {
        let mut out = String::new();
        {
            let area = SVGBackend::with_string(&mut out, (WIDTH, HEIGHT)).into_drawing_area();
            let drawn =
                area.fill(&WHITE).map_err(|error| error.to_string()).and_then(|()| match &self.shape {
                    Shape::Lines => self.lines(&area).map_err(|error| error.to_string()),
                    Shape::Bars(groups) => self.bars(&area, groups).map_err(|error| error.to_string()),
                });
            drawn.and_then(|()| area.present().map_err(|error| error.to_string()))?;
        }
        Ok(out)
    }

    fn points(&self) -> impl Iterator<Item = &(f64, f64)> {
        self.series.iter().flat_map(|(_, points)| points).filter(|point| point.1.is_finite())
    }

    /// With room for the names of the series.
    fn y_max(&self) -> f64 {
        let room = 1.1 + 0.06 * self.series.len() as f64;
        self.points().map(|point| point.1).fold(f64::MIN_POSITIVE, f64::max) * room
    }

    fn lines(&self, area: &Area<'_>) -> Result<(), Box<dyn std::error::Error>> {
        let x_min = self.points().map(|point| point.0).fold(f64::INFINITY, f64::min);
        let x_max = self.points().map(|point| point.0).fold(f64::MIN_POSITIVE, f64::max);
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, (FONT, 20))
            .margin(14)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d((x_min.min(x_max)..x_max.max(x_min * 1.01)).log_scale(), 0.0..self.y_max())?;
        chart
            .configure_mesh()
            .x_labels(6)
            .x_label_formatter(&|x| super::count(x.round() as u64))
            .x_desc(&self.x_label)
            .y_desc(&self.y_label)
            .light_line_style(WHITE)
            .draw()?;
        for ((name, points), colour) in self.series.iter().zip(COLOURS.iter().cycle()) {
            let style = colour.stroke_width(2);
            let line = points.iter().copied().filter(|point| point.1.is_finite());
            chart
                .draw_series(LineSeries::new(line.clone(), style))?
                .label(name)
                .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], style));
            chart.draw_series(line.map(|point| Circle::new(point, 3, colour.filled())))?;
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.85))
            .draw()?;
        Ok(())
    }

    fn bars(&self, area: &Area<'_>, groups: &[String]) -> Result<(), Box<dyn std::error::Error>> {
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, (FONT, 20))
            .margin(14)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(0.0..groups.len() as f64, 0.0..self.y_max())?;
        let name = |x: &f64| {
            let group = (x - 0.5).round();
            let is_middle = (x - 0.5 - group).abs() < 0.01 && group >= 0.0;
            groups.get(group as usize).filter(|_| is_middle).cloned().unwrap_or_default()
        };
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(groups.len() * 2 + 1)
            .x_label_formatter(&name)
            .x_desc(&self.x_label)
            .y_desc(&self.y_label)
            .light_line_style(WHITE)
            .draw()?;
        let width = 0.8 / self.series.len().max(1) as f64;
        for (index, ((name, points), colour)) in self.series.iter().zip(COLOURS.iter().cycle()).enumerate() {
            let bar = |(group, point): (usize, &(f64, f64))| {
                let left = group as f64 + 0.1 + index as f64 * width;
                Rectangle::new([(left, 0.0), (left + width * 0.92, point.1)], colour.filled())
            };
            chart
                .draw_series(points.iter().enumerate().filter(|(_, point)| point.1.is_finite()).map(bar))?
                .label(name)
                .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 12, y + 5)], colour.filled()));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .background_style(WHITE.mix(0.85))
            .draw()?;
        Ok(())
    }
}
