//! The results of a start as a page for the browser.
//!
//! Invariant: the page needs nothing beside itself, no script and no network, and text from outside is escaped.

use siliconroute::up::UpReport;

use super::summary;
use crate::commands::evaluate::{list_decisions, list_strategies};
use crate::output::escape_html;

/// The look of the page, by the browser's own fonts and colours.
const STYLE: &str = "\
:root { color-scheme: light dark; }
body { font-family: system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; line-height: 1.45; }
table { border-collapse: collapse; margin: 1rem 0 2rem; }
th, td { padding: 0.3rem 0.8rem; border-bottom: 1px solid #8884; text-align: left; white-space: nowrap; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; }
code { font-size: 1.05em; }";

/// The page for `report` of the machine called `hardware_id`.
pub(super) fn page(report: &UpReport, hardware_id: &str) -> String {
    let evaluation = &report.evaluation;
    let machine = escape_html(hardware_id);
    let summary = summary(report).map(|line| format!("<p>{}</p>\n", escape_html(&line))).concat();
    let (decisions, strategies) = (list_decisions(evaluation), list_strategies(evaluation));
    let tables = if decisions.is_empty() {
        "<p>No decision was checked.</p>\n".to_owned()
    } else {
        format!(
            "<h2>Where each model runs fastest</h2>\n<div class=\"wide\">{}</div>\n\
             <h2>The router beside fixed choices</h2>\n<div class=\"wide\">{}</div>\n",
            decisions.html(),
            strategies.html()
        )
    };
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>SiliconRoute on {machine}</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n\
         <h1>SiliconRoute on <code>{machine}</code></h1>\n{tables}{summary}\
         <p>Times are medians of new sessions on this machine, measured after each decision. \
         <code>siliconroute route -m MODEL</code> explains a decision; <code>siliconroute devices</code> lists every \
         target with its reason.</p>\n</body>\n</html>\n"
    )
}
