//! Tables as a picture: a panel for each table, a bar for each contestant, as SVG.

use std::error::Error;
use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use plotters::style::text_anchor::Pos;
use plotters::style::text_anchor::VPos;

use crate::report::Entry;
use crate::report::Table;
use crate::report::Unit;

/// Panels side by side.
const ACROSS: usize = 3;

/// The sizes of things, in pixels.
const PANEL_WIDTH: u32 = 460;
const HEADING: i32 = 34;
const ROW: i32 = 20;
const BAR: i32 = 13;
const NAMES: i32 = 150;
const FIGURES: i32 = 90;
const MARGIN: i32 = 12;

/// The color of ours.
pub const OURS: RGBColor = RGBColor(200, 60, 40);
const RIVAL: RGBColor = RGBColor(90, 125, 170);

/// The color of text.
pub const INK: RGBColor = RGBColor(40, 40, 40);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws the tables among the entries.
///
/// # Errors
/// The file cannot be written.
pub fn draw(path: &Path, entries: &[Entry]) -> Result<(), Box<dyn Error>> {
    let panels: Vec<_> = entries.iter().filter_map(Panel::of).collect();
    let rows = panels.iter().map(|panel| panel.bars.len()).max().unwrap_or(0);
    let height = HEADING + ROW * i32::try_from(rows)? + MARGIN;
    let down = panels.len().div_ceil(ACROSS).max(1);
    let size =
        (PANEL_WIDTH * u32::try_from(ACROSS)?, u32::try_from(height)? * u32::try_from(down)?);
    let area = SVGBackend::new(path, size).into_drawing_area();
    area.fill(&WHITE)?;
    for (place, panel) in area.split_evenly((down, ACROSS)).iter().zip(&panels) {
        panel.draw(place)?;
    }
    area.present()?;
    Ok(())
}

/// One table: the column that says most.
struct Panel {
    title: String,
    /// Name, length against the longest, and figure.
    bars: Vec<(String, f64, String)>,
}

impl Panel {
    fn of(entry: &Entry) -> Option<Self> {
        let Entry::Table(table) = entry else {
            return None;
        };
        let at = telling(table);
        let (column, unit) = *table.columns.get(at)?;
        let figures = table.rows.iter().map(|(_, figures)| length(unit, figures[at]));
        let longest = figures.clone().fold(f64::MIN_POSITIVE, f64::max);
        let bars = table.rows.iter().zip(figures);
        let bars =
            bars.map(|((name, row), figure)| (name.clone(), figure / longest, unit.tell(row[at])));
        let scale = if unit == Unit::Time { ", shorter is better, logarithmic" } else { "" };
        let title = format!("{} {}: {column}{scale}", table.id, table.title);
        Some(Self { title, bars: bars.collect() })
    }

    fn draw(&self, area: &Area<'_>) -> Result<(), Box<dyn Error>> {
        let width = i32::try_from(area.dim_in_pixel().0)?;
        let heading = ("sans-serif", 13).into_font().color(&INK);
        area.draw(&Text::new(self.title.as_str(), (MARGIN, MARGIN), heading))?;
        let text = ("sans-serif", 12).into_font().color(&INK);
        let name_text = text.pos(Pos::new(HPos::Right, VPos::Center));
        let figure_text = text.pos(Pos::new(HPos::Left, VPos::Center));
        let room = f64::from(width - NAMES - FIGURES);
        for (row, (name, share, figure)) in (0..).zip(&self.bars) {
            let middle = HEADING + row * ROW + ROW / 2;
            let end = NAMES + pixels(share * room);
            let color = if name.starts_with("ours") { OURS } else { RIVAL };
            let corners = [(NAMES, middle - BAR / 2), (end, middle + BAR / 2)];
            area.draw(&Rectangle::new(corners, color.filled()))?;
            area.draw(&Text::new(name.as_str(), (NAMES - 6, middle), name_text.clone()))?;
            area.draw(&Text::new(figure.as_str(), (end + 6, middle), figure_text.clone()))?;
        }
        Ok(())
    }
}

/// The column that is drawn: of latencies the last one that is a time, else the first.
fn telling(table: &Table) -> usize {
    table.columns.iter().rposition(|&(_, unit)| unit == Unit::Time).unwrap_or(0)
}

/// How long a bar is: tails differ by orders of magnitude, and more operations are a longer bar.
fn length(unit: Unit, figure: f64) -> f64 {
    match unit {
        Unit::Rate => 1.0 / figure,
        Unit::Time => figure.max(1.0).log10(),
        Unit::Bytes | Unit::Seconds | Unit::Percent | Unit::Times => figure,
    }
}

/// A length within a panel.
#[expect(clippy::cast_possible_truncation, reason = "at most the width of a panel")]
pub fn pixels(length: f64) -> i32 {
    length.round() as i32
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::fs;
    use std::process;

    use super::*;

    #[test]
    fn a_table_becomes_bars_with_names_and_figures() {
        let table = Table {
            id: "E0",
            title: "a test".to_owned(),
            columns: vec![("wall", Unit::Rate)],
            rows: vec![("ours".to_owned(), vec![100.0]), ("a rival".to_owned(), vec![200.0])],
        };
        let path = env::temp_dir().join(format!("peers-plot-{}.svg", process::id()));
        draw(&path, &[Entry::Table(table)]).expect("a picture");
        let text = fs::read_to_string(&path).expect("the picture");
        fs::remove_file(&path).expect("the picture goes");
        for part in ["E0 a test: wall", "a rival", "10.00 M/s", "5.00 M/s"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
