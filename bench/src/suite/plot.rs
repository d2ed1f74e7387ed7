//! Line plots as SVG, by hand: readable on light and on dark ground, no script, no font of their own.

use std::fmt::Write;

/// Curves over a logarithmic axis, each relative to its first point.
pub(crate) struct Plot<'a> {
    pub(crate) title: &'a str,
    pub(crate) x_name: &'a str,
    pub(crate) x: &'a [f64],
    pub(crate) curves: &'a [Curve],
}

/// One curve.
pub(crate) struct Curve {
    pub(crate) name: &'static str,
    /// The values, one for each `x`.
    pub(crate) y: Vec<f64>,
    /// How a value is written at its point.
    pub(crate) label: fn(f64) -> String,
}

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 610.0;
const TOP: f64 = 64.0;
const BOTTOM: f64 = 304.0;
/// The least that the axis shows: 0 to 150 % of the first point.
const TOP_SHARE_MIN: f64 = 1.5;

const STYLE: &str = "text{font:13px sans-serif;fill:#24292f}.small{font-size:11px}.axis{stroke:#57606a;stroke-width:1}\
    .grid{stroke:#d0d7de;stroke-width:1}.c0{stroke:#0969da}.c1{stroke:#bc4c00}.f0{fill:#0969da}.f1{fill:#bc4c00}\
    polyline{fill:none;stroke-width:2}\
    @media(prefers-color-scheme:dark){text{fill:#e6edf3}.axis{stroke:#8b949e}.grid{stroke:#30363d}.c0{stroke:#58a6ff}\
    .c1{stroke:#f0883e}.f0{fill:#58a6ff}.f1{fill:#f0883e}}";

impl Plot<'_> {
    /// The picture.
    pub(crate) fn svg(&self) -> String {
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\"><style>{STYLE}</style>\n\
             <text x=\"{LEFT}\" y=\"22\">{}</text>\n",
            self.title, self.title
        );
        let most = self.curves.iter().flat_map(relative).fold(TOP_SHARE_MIN, f64::max);
        self.axes(&mut svg, most);
        for (number, curve) in self.curves.iter().enumerate() {
            self.curve(&mut svg, number, curve, most);
        }
        svg.push_str("</svg>\n");
        svg
    }

    // Writing to a String cannot fail, here and below.
    fn axes(&self, svg: &mut String, most: f64) {
        let step = if most > 4.0 { (most / 4.0).ceil() } else { 0.5 };
        let mut share = 0.0;
        while share <= most {
            let y = height(share, most);
            let class = if share == 0.0 { "axis" } else { "grid" };
            let _ = writeln!(svg, "<line class=\"{class}\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>");
            let _ = writeln!(
                svg,
                "<text class=\"small\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{:.0} %</text>",
                LEFT - 8.0,
                y + 4.0,
                share * 100.0
            );
            share += step;
        }
        for x in self.x {
            let at = self.across(*x);
            let _ = writeln!(
                svg,
                "<text class=\"small\" x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                BOTTOM + 18.0,
                super::section::count(*x)
            );
        }
        let middle = f64::midpoint(LEFT, RIGHT);
        let _ =
            writeln!(svg, "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>", BOTTOM + 42.0, self.x_name);
    }

    fn curve(&self, svg: &mut String, number: usize, curve: &Curve, most: f64) {
        let points: Vec<(f64, f64)> =
            self.x.iter().zip(relative(curve)).map(|(x, y)| (self.across(*x), height(y, most))).collect();
        let line: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(svg, "<polyline class=\"c{number}\" points=\"{}\"/>", line.join(" "));
        for ((x, y), value) in points.iter().zip(&curve.y) {
            // The curves lie over each other where all is well: one has its labels above, the other below.
            let (below, anchor) = (if number == 0 { -8.0 } else { 18.0 }, anchor(*x));
            let label = (curve.label)(*value);
            let _ = writeln!(svg, "<circle class=\"f{number}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"/>");
            let _ = writeln!(
                svg,
                "<text class=\"small\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{label}</text>",
                y + below
            );
        }
        let x = LEFT + 200.0 * number as f64;
        let _ = writeln!(
            svg,
            "<circle class=\"f{number}\" cx=\"{}\" cy=\"42\" r=\"4\"/><text x=\"{}\" y=\"46\">{}</text>",
            x + 4.0,
            x + 14.0,
            curve.name
        );
    }

    /// Where an `x` is.
    fn across(&self, x: f64) -> f64 {
        let (first, last) = (self.x.first().copied().unwrap_or(1.0).ln(), self.x.last().copied().unwrap_or(1.0).ln());
        let share = if last > first { (x.ln() - first) / (last - first) } else { 0.5 };
        LEFT + 24.0 + share * (RIGHT - LEFT - 48.0)
    }
}

fn anchor(x: f64) -> &'static str {
    if x > RIGHT - 40.0 { "end" } else { "middle" }
}

fn height(share: f64, most: f64) -> f64 {
    BOTTOM - (BOTTOM - TOP) * share / most
}

fn relative(curve: &Curve) -> impl Iterator<Item = f64> {
    let first = curve.y.first().copied().filter(|first| *first > 0.0).unwrap_or(1.0);
    curve.y.iter().map(move |value| value / first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_every_point_and_its_value() {
        let curve = Curve { name: "rps", y: vec![100.0, 90.0, 200.0], label: |value| format!("{value:.0}/s") };
        let svg = Plot { title: "t", x_name: "entries", x: &[10.0, 100.0, 1000.0], curves: &[curve] }.svg();
        assert_eq!(svg.matches("r=\"3.5\"").count(), 3);
        assert!(svg.contains(">90/s<") && svg.contains(">1,000<") && svg.contains("200 %"), "{svg}");
        assert!(svg.ends_with("</svg>\n"));
    }
}
