//! Hit ratios as a picture: a panel for each trace, a curve for each contender, as SVG.

use std::error::Error;
use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use plotters::style::text_anchor::Pos;
use plotters::style::text_anchor::VPos;

use crate::cache::contender::Role;
use crate::cache::contest::Outcome;
use crate::cache::contest::Row;
use crate::cache::contest::Sizes;
use crate::cache::trace::SHARES;
use crate::plot::INK;
use crate::plot::OURS;
use crate::plot::pixels;

/// Panels side by side.
const ACROSS: usize = 4;

/// The sizes of things, in pixels.
const PANEL: (u32, u32) = (340, 260);
const LEGEND: u32 = 34;
const LEGEND_STEP: i32 = 130;
const LEFT: i32 = 46;
const RIGHT: i32 = 16;
const TOP: i32 = 34;
const BOTTOM: i32 = 30;
const DOT: i32 = 3;

const GRID: RGBColor = RGBColor(215, 215, 215);
const OPTIMUM: RGBColor = RGBColor(120, 120, 120);
const RIVALS: [RGBColor; 4] = [
    RGBColor(40, 110, 190),
    RGBColor(40, 140, 80),
    RGBColor(140, 80, 170),
    RGBColor(175, 160, 110),
];
const DRAFTS: [RGBColor; 3] =
    [RGBColor(235, 140, 30), RGBColor(225, 110, 130), RGBColor(0, 150, 160)];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws a panel for each row.
///
/// # Errors
/// The file cannot be written.
pub fn draw(path: &Path, outcome: &Outcome) -> Result<(), Box<dyn Error>> {
    let down = outcome.rows.len().div_ceil(ACROSS).max(1);
    let size = (PANEL.0 * u32::try_from(ACROSS)?, LEGEND + PANEL.1 * u32::try_from(down)?);
    let area = SVGBackend::new(path, size).into_drawing_area();
    area.fill(&WHITE)?;
    let (top, panels) = area.split_vertically(LEGEND);
    let colors = colors(outcome);
    legend(&top, outcome, &colors)?;
    let places = panels.split_evenly((down, ACROSS));
    for (place, row) in places.iter().zip(&outcome.rows) {
        Panel::new(place, row)?.draw(row, &colors)?;
    }
    area.present()?;
    Ok(())
}

/// A color for each contender, the same in all panels.
fn colors(outcome: &Outcome) -> Vec<RGBColor> {
    let (mut rivals, mut drafts) = (RIVALS.iter().cycle(), DRAFTS.iter().cycle());
    let color = |&(_, role): &(&str, Role)| match role {
        Role::Ours => OURS,
        Role::Optimum => OPTIMUM,
        Role::Rival => *rivals.next().expect("a cycle"),
        Role::Draft => *drafts.next().expect("a cycle"),
    };
    outcome.contenders.iter().map(color).collect()
}

fn legend(area: &Area<'_>, outcome: &Outcome, colors: &[RGBColor]) -> Result<(), Box<dyn Error>> {
    let middle = i32::try_from(LEGEND / 2)?;
    let left = (0..).map(|at| RIGHT + at * LEGEND_STEP);
    for ((left, (name, _)), color) in left.zip(&outcome.contenders).zip(colors) {
        let line = vec![(left, middle), (left + 24, middle)];
        area.draw(&PathElement::new(line, color.stroke_width(3)))?;
        text(area, name, (left + 30, middle), HPos::Left)?;
    }
    Ok(())
}

/// Where the curves of one trace go.
struct Panel<'p, 'a> {
    area: &'p Area<'a>,
    /// What is left of the panel for the curves.
    width: i32,
    height: i32,
    /// The percentage at the top edge.
    most: f64,
}

impl<'p, 'a> Panel<'p, 'a> {
    fn new(area: &'p Area<'a>, row: &Row) -> Result<Self, Box<dyn Error>> {
        let (width, height) = area.dim_in_pixel();
        let highest = row.figures.iter().flatten().copied().fold(1.0, f64::max);
        Ok(Self {
            area,
            width: i32::try_from(width)? - LEFT - RIGHT,
            height: i32::try_from(height)? - TOP - BOTTOM,
            most: (highest / 10.0).ceil() * 10.0,
        })
    }

    fn draw(&self, row: &Row, colors: &[RGBColor]) -> Result<(), Box<dyn Error>> {
        let title = format!("{}: {}", row.name, row.note);
        text(self.area, &title, (LEFT - 30, TOP / 2), HPos::Left)?;
        self.grid()?;
        // The first one lies on top.
        for (sizes, color) in row.figures.iter().zip(colors).rev() {
            self.curve(sizes, *color)?;
        }
        Ok(())
    }

    /// Lines at four heights with their percentages, and the sizes of the cache at the foot.
    fn grid(&self) -> Result<(), Box<dyn Error>> {
        for quarter in 0..=4 {
            let percentage = self.most * f64::from(quarter) / 4.0;
            let y = self.y(percentage);
            let line = vec![(LEFT, y), (LEFT + self.width, y)];
            self.area.draw(&PathElement::new(line, GRID))?;
            text(self.area, &format!("{percentage} %"), (LEFT - 5, y), HPos::Right)?;
        }
        for share in SHARES {
            let place = (self.x(share), TOP + self.height + BOTTOM / 2);
            text(self.area, &format!("{share} %"), place, HPos::Center)?;
        }
        Ok(())
    }

    fn curve(&self, sizes: &Sizes, color: RGBColor) -> Result<(), Box<dyn Error>> {
        let points: Vec<_> =
            SHARES.iter().zip(sizes).map(|(&x, &y)| (self.x(x), self.y(y))).collect();
        for &point in &points {
            self.area.draw(&Circle::new(point, DOT, color.filled()))?;
        }
        self.area.draw(&PathElement::new(points, color.stroke_width(2)))?;
        Ok(())
    }

    /// Sizes are apart by their ratios.
    fn x(&self, share: u64) -> i32 {
        let log = |share: u64| f64::from(u32::try_from(share).expect("a percentage")).ln();
        let (least, most) = (log(SHARES[0]), log(SHARES[SHARES.len() - 1]));
        LEFT + pixels((log(share) - least) / (most - least) * f64::from(self.width))
    }

    fn y(&self, percentage: f64) -> i32 {
        TOP + self.height - pixels(percentage / self.most * f64::from(self.height))
    }
}

fn text(area: &Area<'_>, text: &str, place: (i32, i32), side: HPos) -> Result<(), Box<dyn Error>> {
    let style = ("sans-serif", 12).into_font().color(&INK).pos(Pos::new(side, VPos::Center));
    area.draw(&Text::new(text, place, style))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::fs;
    use std::process;

    use super::*;

    #[test]
    fn a_trace_becomes_a_panel_with_a_curve_for_each_contender() {
        let row = Row {
            name: "a trace".to_owned(),
            note: "short".to_owned(),
            is_in_mean: true,
            figures: vec![[0.0, 10.0, 20.0, 40.0], [0.0, 0.0, 0.0, 20.0]],
        };
        let contenders = vec![("ours", Role::Ours), ("a rival", Role::Rival)];
        let path = env::temp_dir().join(format!("peers-curves-{}.svg", process::id()));
        draw(&path, &Outcome { contenders, rows: vec![row] }).expect("a picture");
        let text = fs::read_to_string(&path).expect("the picture");
        fs::remove_file(&path).expect("the picture goes");
        for part in ["a trace: short", "a rival", "40 %", "25 %"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        let (right, top, middle) = (i32::try_from(PANEL.0).unwrap() - RIGHT, TOP, TOP + 98);
        let legend = i32::try_from(LEGEND).unwrap();
        for end in [format!("{right},{}", top + legend), format!("{right},{}", middle + legend)] {
            assert!(text.contains(&end), "no curve to {end} in {text}");
        }
    }
}
