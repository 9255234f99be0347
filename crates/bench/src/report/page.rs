//! The page of results: sections of text, tables and plots, as Markdown and HTML.

use std::fmt::Write as _;

use super::plot::Plot;

/// A section of the results.
pub struct Section {
    pub title: &'static str,
    /// A paragraph on what is measured and how.
    pub text: String,
    pub tables: Vec<Table>,
    pub plots: Vec<Plot>,
}

pub struct Table {
    pub caption: String,
    pub heading: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(caption: impl Into<String>, heading: &[&str]) -> Self {
        let heading = heading.iter().map(|cell| cell.to_string()).collect();
        Self { caption: caption.into(), heading, rows: Vec::new() }
    }

    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let mut out = format!("{}\n\n{}", self.caption, line(&self.heading));
        out.push_str(&format!("|{}\n", "---|".repeat(self.heading.len())));
        out.extend(self.rows.iter().map(|row| line(row)));
        out
    }

    fn html(&self) -> String {
        let row = |cells: &[String], tag: &str| {
            let cells = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell)));
            format!("<tr>{}</tr>\n", cells.collect::<String>())
        };
        let mut out = format!("<p>{}</p>\n<table>\n", escaped(&self.caption));
        out.push_str(&row(&self.heading, "th"));
        out.extend(self.rows.iter().map(|cells| row(cells, "td")));
        out.push_str("</table>\n");
        out
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// All results.
pub struct Page {
    /// Machine and programs, one line each.
    pub circumstances: Vec<String>,
    pub command: String,
    pub sections: Vec<Section>,
}

const TITLE: &str = "Results";
const STYLE: &str = "body{font:16px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color:#222}\
                     table{border-collapse:collapse;margin:0 0 1.5em}\
                     th,td{padding:.2em .8em;text-align:right;border-bottom:1px solid #ddd}\
                     th:first-child,td:first-child{text-align:left}svg{max-width:100%;height:auto}";

impl Page {
    /// Returns Markdown, with plots in `results/NAME.svg`.
    pub fn markdown(&self) -> String {
        let mut out = format!("# {TITLE}\n\n");
        out.push_str("One command measures everything and writes this page:\n\n");
        let _infallible = write!(out, "```sh\n{}\n```\n\n", self.command);
        self.circumstances.iter().for_each(|line| out.push_str(&format!("- {line}\n")));
        for section in &self.sections {
            let _infallible = write!(out, "\n## {}\n\n{}\n", section.title, section.text);
            for table in &section.tables {
                let _infallible = write!(out, "\n{}", table.markdown());
            }
            for plot in &section.plots {
                let _infallible = write!(out, "\n![{}](results/{}.svg)\n", plot.title, plot.name);
            }
        }
        out
    }

    /// Returns HTML, with the plots in it.
    pub fn html(&self) -> Result<String, String> {
        let mut out = format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{TITLE}</title>\
             <style>{STYLE}</style></head><body>\n<h1>{TITLE}</h1>\n<pre>{}</pre>\n<ul>\n",
            escaped(&self.command)
        );
        self.circumstances.iter().for_each(|line| out.push_str(&format!("<li>{}</li>\n", escaped(line))));
        out.push_str("</ul>\n");
        for section in &self.sections {
            let (title, text) = (escaped(section.title), escaped(&section.text));
            let _infallible = write!(out, "<h2>{title}</h2>\n<p>{text}</p>\n");
            section.tables.iter().for_each(|table| out.push_str(&table.html()));
            for plot in &section.plots {
                out.push_str(&plot.svg()?);
            }
        }
        out.push_str("</body></html>\n");
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::super::plot::Shape;
    use super::*;

    #[test]
    fn a_page_in_both_forms() {
        let mut table = Table::new("Bytes a key", &["what", "A <b>"]);
        table.row(vec!["string".to_string(), "12.5".to_string()]);
        let plot = Plot {
            name: "keys".to_string(),
            title: "Bytes".to_string(),
            x_label: "keys".to_string(),
            y_label: "bytes".to_string(),
            shape: Shape::Lines,
            series: vec![("A".to_string(), vec![(1000.0, 3.0), (10_000.0, 5.0)])],
        };
        let section = Section {
            title: "Memory",
            text: "All of it.".to_string(),
            tables: vec![table],
            plots: vec![plot],
        };
        let page = Page {
            circumstances: vec!["a machine".to_string()],
            command: "warmline-benchmark report".to_string(),
            sections: vec![section],
        };
        let markdown = page.markdown();
        for part in [
            "# Results",
            "- a machine",
            "## Memory",
            "| string | 12.5 |",
            "|---|---|",
            "![Bytes](results/keys.svg)",
        ] {
            assert!(markdown.contains(part), "{part} in {markdown}");
        }
        let html = page.html().unwrap();
        assert!(
            html.contains("<th>A &lt;b&gt;</th>") && html.contains("<svg") && html.ends_with("</html>\n")
        );
    }
}
