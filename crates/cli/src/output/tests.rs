//! What reaches a terminal, and how wide.

use super::*;

#[track_caller]
fn check(text: &str, shown: &str) {
    assert_eq!(visible(text), shown);
}

#[test]
fn what_a_terminal_obeys_shows_as_an_escape() {
    check("plain – ünï 日本 👩‍💻 C:\\new", "plain – ünï 日本 👩‍💻 C:\\new");
    check("\u{1b}[31mred", "\\x1b[31mred");
    check("a\nb\r\tc\0", "a\\nb\\r\\tc\\x00");
    check("\u{7f}\u{9b}2J\u{85}", "\\x7f\\x9b2J\\x85");
    check("exe\u{202e}xnno", "exe\\u{202e}xnno");
    check("\u{2066}\u{2069}\u{200f}\u{2028}", "\\u{2066}\\u{2069}\\u{200f}\\u{2028}");
    assert_eq!(visible_lines("a\u{7}\nb\r\n"), "a\\x07\nb\\r\n");
}

/// A table with a name of fifty letters and a cell that would start a line of its own.
fn listing() -> Listing {
    let mut listing = table(&["name", "#time"]);
    listing.add_row([&"n".repeat(50), "1 ms\n2 ms"]);
    listing
}

#[test]
fn a_table_is_not_wrapped_where_there_is_no_terminal() {
    let text = listing().text(None);
    assert_eq!(text.lines().count(), 5, "{text}");
    assert!(text.contains(&"n".repeat(50)), "{text}");
    assert!(text.contains("1 ms\\n2 ms"), "{text}");
}

#[test]
fn a_table_is_wrapped_to_its_terminal_and_nothing_is_lost() {
    for width in [30, 40, 60] {
        let text = listing().text(Some(width));
        assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
        assert!(text.lines().count() > 5, "{text}");
        assert_eq!(text.matches('n').count(), 50 + "name".matches('n').count() + 1, "{text}");
    }
}

#[test]
fn a_terminal_too_narrow_for_the_columns_gets_each_row_as_a_list() {
    let names =
        ["#one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];
    let mut listing = table(&names);
    listing.add_row((0..12).map(|index| format!("cell{index} with some words")));
    listing.add_row((0..12).map(|index| format!("more{index}")));
    for width in [30, 40, 80] {
        let text = listing.text(Some(width));
        assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
        for (index, name) in names.iter().enumerate() {
            assert!(text.contains(&format!("more{index}")), "{text}");
            assert_eq!(text.matches(name.trim_start_matches('#')).count(), 2, "{text}");
        }
    }
    assert!(listing.text(Some(120)).contains('│'));
}

#[test]
fn on_a_very_narrow_terminal_a_view_is_lines_of_whole_words() {
    let mut listing = table(&["sensor", "now"]);
    listing.add_row(["cpu temperature", "54 °C"]);
    listing.add_row(["gpu:10de:2d18@0000:01:00.0 load", "at most 40 %"]);
    let told = ["cpu temperature: 54", " °C", "gpu:10de:2d18@0000:0", " 1:00.0 load: at", " most 40 %"];
    assert_eq!(listing.view(20), told);
    assert!(listing.view(40).iter().any(|line| line.contains('│')));
    for width in 0..30 {
        let text = "a few words, 人工智能人工智能人工 and averyverylongword";
        let lines = listing::broken(text, width, listing::VIEW);
        let widest = lines.iter().map(|line| console::measure_text_width(line)).max().unwrap();
        assert!(widest <= usize::from(width).max(3), "{width}: {lines:?}");
        let letters = |text: &str| text.split_whitespace().collect::<String>();
        let joined = letters(&lines.concat());
        assert_eq!(joined, letters(text));
        let whole: Vec<String> = listing::broken(text, width, listing::PARAGRAPH);
        assert_eq!(whole.join(" "), text, "{width}: no word is cut and no line set in");
        assert!(whole.iter().all(
            |line| console::measure_text_width(line) <= usize::from(width).max(2) || !line.contains(' ')
        ));
    }
    assert!(!listing.text(Some(20)).contains('│'), "{}", listing.text(Some(20)));
}

#[test]
fn a_unit_stands_apart_from_a_number_and_joins_a_prefix() {
    for (value, expected) in
        [(64.0, "64 FLOP"), (999.0, "999 FLOP"), (1e3, "1.00 kFLOP"), (4.09e9, "4.09 GFLOP"), (0.0, "0 FLOP")]
    {
        assert_eq!(quantity(value, "FLOP"), expected);
    }
}

#[test]
fn text_from_outside_is_escaped_in_html() {
    let mut listed = table(&["name", "#time"]);
    listed.add_row(["<b>&\"'</b>", "1 ms"]);
    let html = listed.html();
    assert!(
        html.contains("<td>&lt;b&gt;&amp;&quot;&#39;&lt;/b&gt;</td><td class=\"number\">1 ms</td>"),
        "{html}"
    );
    assert!(html.contains("<th>name</th><th class=\"number\">time</th>"), "{html}");
}
