//! What comes back, what is refused, and how it is said.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};
use siliconroute_core::accuracy::OutputDifference;
use siliconroute_core::fleet::{ChipModel, FleetTarget};
use siliconroute_core::model::{BoundInput, CaseFacts, ClassWork, Family, OperatorClass};
use siliconroute_core::statistics::Interval;
use siliconroute_core::{CaseId, ChipKind, ElementType, ModelId, Workload};

use super::read::digest_text;
use super::*;

fn case(number: u8) -> FleetCase {
    let facts = CaseFacts {
        batch: 1,
        parameters: 1000,
        weight_bytes: 4000,
        nodes: 3,
        flops: 2000.1,
        activation_bytes: 1.0 / 3.0,
        by_class: vec![ClassWork { class: OperatorClass::MatMul, nodes: 3, flops: 2000.1, bytes: 0.3 }],
        family: Family::Mlp,
        inputs: vec![BoundInput { name: String::new(), element: ElementType::Float32, shape: vec![1, 10] }],
        index_limits: BTreeMap::new(),
        precision: None,
        assumptions: Vec::new(),
        method_version: 1,
    };
    FleetCase { id: CaseId([number; 32]), model: ModelId([number; 32]), facts }
}

fn cpu() -> ChipModel {
    ChipModel {
        kind: ChipKind::Cpu,
        vendor: "Maker".to_owned(),
        name: "fast_chip_9".to_owned(),
        ids: None,
        architecture: Some("x86_64".to_owned()),
        logical_cores: Some(8),
        memory_bytes: None,
    }
}

fn gpu() -> ChipModel {
    ChipModel {
        kind: ChipKind::Gpu,
        vendor: "Hersteller®".to_owned(),
        name: "Графика 9 (Mobile)".to_owned(),
        ids: Some("10de:2d18".to_owned()),
        architecture: None,
        logical_cores: None,
        memory_bytes: Some(8 << 30),
    }
}

fn time(chip: ChipModel, case: u8, session: u64) -> FleetTime {
    let driver = (chip.kind == ChipKind::Gpu).then(|| "580.1".to_owned());
    FleetTime {
        target: FleetTarget {
            chip,
            provider: "openvino".to_owned(),
            target: "openvino-bf16+threads=2".to_owned(),
            library_version: "1.8 on onnxruntime 1.27.0".to_owned(),
            driver,
        },
        case: CaseId([case; 32]),
        workload: Workload::IdleLoaded,
        unix_day: 20_000,
        samples: 30,
        median_ns: 1e6 + 0.1,
        interval: Some(Interval { low: 1e6 - 1.0 / 3.0, high: 1e6 + 0.7 }),
        min_ns: 9e5,
        max_ns: 2e6,
        session_create_ns: session,
        first_run_ns: 12,
        peak_resident_bytes: Some(1 << 20),
        outputs: Some(OutputDifference {
            max_relative_error: 1.1e-7,
            same_top1: true,
            reference_magnitude: 0.7,
        }),
    }
}

fn sample() -> KnowledgeFile {
    let plain = FleetTime { interval: None, peak_resident_bytes: None, outputs: None, ..time(gpu(), 2, 4) };
    KnowledgeFile {
        program_version: "0.1.0".to_owned(),
        exported_unix_day: 20_001,
        hardware_id: "x86_64_fast_chip_9_8c_16gh".to_owned(),
        os: "linux".to_owned(),
        cases: vec![case(1), case(2)],
        times: vec![time(cpu(), 1, 1), time(gpu(), 1, 2), time(cpu(), 2, 3), plain],
    }
}

/// The lines of the sample without the last: head, chip, case, time, chip, time, case, time, time.
fn lines() -> Vec<Value> {
    let bytes = sample().to_bytes().bytes;
    let lines = std::str::from_utf8(&bytes).unwrap().lines();
    let mut lines: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    lines.pop();
    lines
}

/// A file of these lines with the checksum that belongs to them.
fn seal(lines: &[String]) -> Vec<u8> {
    let body = lines.join("\n") + "\n";
    let end = json!({"record": "end", "lines": lines.len(), "sha256": digest_text(body.as_bytes())});
    format!("{body}{end}\n").into_bytes()
}

fn sealed(lines: &[Value]) -> Vec<u8> {
    seal(&lines.iter().map(Value::to_string).collect::<Vec<_>>())
}

#[test]
fn what_is_written_comes_back() {
    let written = sample().to_bytes();
    assert_eq!((written.cases, written.times, written.left_out, written.first_fault), (2, 4, 0, None));
    assert_eq!(KnowledgeFile::parse(&written.bytes).unwrap(), sample());
    assert_eq!(sealed(&lines()).len(), written.bytes.len());
    KnowledgeFile::parse(&sealed(&lines())).unwrap();
}

#[test]
fn a_file_that_is_cut_off_anywhere_is_refused() {
    let bytes = sample().to_bytes().bytes;
    let head = bytes.iter().position(|byte| *byte == b'\n').unwrap();
    for end in 0..bytes.len() {
        let refused = KnowledgeFile::parse(&bytes[..end]).unwrap_err();
        match refused {
            KnowledgeFault::Truncated { lines } => assert!(end >= head && lines <= 10, "{end}"),
            KnowledgeFault::Line { line: 1, .. } => assert!(end < head, "{end}"),
            other => panic!("{end}: {other}"),
        }
    }
}

#[test]
fn a_file_with_a_changed_byte_is_refused() {
    let bytes = sample().to_bytes().bytes;
    for index in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[index] ^= 1;
        assert!(KnowledgeFile::parse(&changed).is_err(), "{index}");
    }
    let mut longer = bytes.clone();
    longer.extend(b"\n");
    assert!(matches!(KnowledgeFile::parse(&longer), Err(KnowledgeFault::Truncated { .. })));
    assert!(matches!(KnowledgeFile::parse(&[bytes.clone(), bytes].concat()), Err(KnowledgeFault::Changed)));
}

#[test]
fn another_version_is_named() {
    let mut lines = lines();
    lines[0] = json!({"record": "knowledge", "schema": "siliconroute.knowledge/2", "new": {"deep": [1]}});
    let refused = KnowledgeFile::parse(&sealed(&lines)).unwrap_err();
    assert_eq!(refused, KnowledgeFault::Version { found: "siliconroute.knowledge/2".to_owned() });
    for bytes in [&b""[..], b"\n", b"{}\n", b"board,candidate\n", b"PAR1", b"\xef\xbb\xbf{}"] {
        assert!(matches!(KnowledgeFile::parse(bytes), Err(KnowledgeFault::Line { line: 1, .. })));
    }
}

/// Changes a member of a line of the sample and expects a refusal of that line that holds `part`.
#[track_caller]
fn refuses(line: usize, member: &str, value: &Value, part: &str) {
    let mut lines = lines();
    *lines[line - 1].pointer_mut(member).unwrap() = value.clone();
    match KnowledgeFile::parse(&sealed(&lines)) {
        Err(KnowledgeFault::Line { line: found, reason }) => {
            assert_eq!(found, line, "{reason}");
            assert!(reason.contains(part), "`{part}` is not in: {reason}");
            assert!(reason.len() < 400 && !reason.contains(char::is_control), "{reason:?}");
        }
        other => panic!("{member} {value}: {other:?}"),
    }
}

#[test]
fn hostile_values_are_refused_with_their_line() {
    let long = "x".repeat(161);
    for (line, member, value, part) in [
        (1, "/hardware_id", json!("Jane's laptop"), "hardware_id"),
        (1, "/os", json!(""), "os"),
        (1, "/program_version", json!("1\u{1b}[2J"), "U+001B"),
        (1, "/exported_unix_day", json!(-1), "number of days"),
        (2, "/chip", json!(1), "numbered 0"),
        (2, "/kind", json!("tpu"), "unknown variant"),
        (2, "/vendor", json!("a\u{202e}b"), "U+202E"),
        (2, "/name", json!("Fast Chip"), "`name`"),
        (2, "/logical_cores", json!(0), "from 1 to"),
        (2, "/logical_cores", json!(1e300), "floating point"),
        (2, "/memory_bytes", json!(u64::MAX), "memory_bytes"),
        (5, "/name", json!(long), "more than 160"),
        (5, "/name", json!("line\nbreak"), "U+000A"),
        (5, "/ids", json!("10de:2d18@0000:01:00.0"), "no ids"),
        (3, "/case", json!("00"), "is not a sha256"),
        (3, "/nodes", json!(u64::MAX), "`nodes`"),
        (3, "/flops", json!(-1.0), "`flops`"),
        (3, "/flops", json!(1e300), "`flops`"),
        (3, "/activation_bytes", Value::Null, "null"),
        (3, "/batch", json!(-1), "-1"),
        (3, "/inputs/0/shape", json!([u64::MAX]), "`shape`"),
        (3, "/inputs/0/shape", json!(vec![1; 65]), "`shape`"),
        (3, "/inputs", json!(vec![json!({"element": "bool", "shape": []}); 1001]), "1001 inputs"),
        (3, "/by_class/0/bytes", json!(-0.5), "`bytes`"),
        (4, "/chip", json!(7), "chip 7"),
        (4, "/case", json!("7".repeat(64)), "tells of the case 777"),
        (4, "/provider", json!("../dml"), "`provider`"),
        (4, "/target", json!("dml/../../x"), "`target`"),
        (4, "/target", json!("x\u{9b}2J"), "`target`"),
        (4, "/library_version", json!("a\rb"), "U+000D"),
        (6, "/driver", json!("\u{200b}"), "U+200B"),
        (4, "/workload", json!("fast"), "unknown variant"),
        (4, "/unix_day", json!(i64::MAX), "number of days"),
        (4, "/samples", json!(0), "`samples`"),
        (4, "/samples", json!(u64::MAX), "`samples`"),
        (4, "/median_ns", json!(-5.0), "`median_ns`"),
        (4, "/median_ns", json!(0.0), "`median_ns`"),
        (4, "/median_ns", json!(1e-300), "`median_ns`"),
        (4, "/median_ns", json!(1e18), "`median_ns`"),
        (4, "/median_ns", Value::Null, "null"),
        (4, "/median_ns", json!("NaN"), "NaN"),
        (4, "/median_ns", json!(3e6), "not between"),
        (4, "/min_ns", json!(-0.0), "`min_ns`"),
        (4, "/ci95_ns", json!([2.0, 1.0]), "wrong order"),
        (4, "/ci95_ns", json!([1.0]), "length"),
        (4, "/session_create_ns", json!(-1), "-1"),
        (4, "/session_create_ns", json!(u64::MAX), "session_create_ns"),
        (4, "/peak_resident_bytes", json!(u64::MAX), "peak_resident_bytes"),
        (4, "/outputs/max_relative_error", json!(-1.0), "max_relative_error"),
        (4, "/record", json!("\u{1b}]0;x"), "unknown variant"),
        (4, "/record", json!("end"), "unknown field"),
    ] {
        refuses(line, member, &value, part);
    }
}

/// Replaces text in the sealed lines and expects a refusal of that line.
#[track_caller]
fn refuses_text(line: usize, from: &str, to: &str, part: &str) {
    let mut lines: Vec<String> = lines().iter().map(Value::to_string).collect();
    assert!(lines[line - 1].contains(from), "{}", lines[line - 1]);
    lines[line - 1] = lines[line - 1].replacen(from, to, 1);
    match KnowledgeFile::parse(&seal(&lines)) {
        Err(KnowledgeFault::Line { line: found, reason }) => {
            assert_eq!((found, reason.contains(part)), (line, true), "{reason}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn lines_that_are_no_lines_of_the_format_are_refused() {
    refuses_text(4, "\"samples\":30", "\"samples\":NaN", "expected");
    refuses_text(4, "\"samples\":30", "\"samples\":30,\"samples\":31", "duplicate field");
    refuses_text(4, "\"samples\":30", "\"samples\":30,\"user\":\"jane\"", "unknown field");
    refuses_text(4, "\"samples\":30,", "", "missing field `samples`");
    refuses_text(4, "900000.0", "1e999", "out of range");
    refuses_text(4, "{", "[", "no JSON object");
    refuses_text(4, "{", " {", "no JSON object");
    refuses_text(4, "{", &format!("{{\"x\":{}", "[".repeat(60_000)), "recursion");
    refuses_text(4, "{", &format!("{{\"x\":\"{}\",", "x".repeat(MOST_LINE_BYTES)), "bytes, and at most");
}

#[test]
fn what_is_there_twice_or_in_the_wrong_place_is_refused() {
    #[track_caller]
    fn check(order: &[usize], line: usize, part: &str) {
        let all = lines();
        let lines: Vec<Value> = order.iter().map(|index| all[*index].clone()).collect();
        match KnowledgeFile::parse(&sealed(&lines)) {
            Err(KnowledgeFault::Line { line: found, reason }) => {
                assert_eq!((found, reason.contains(part)), (line, true), "{reason}");
            }
            other => panic!("{other:?}"),
        }
    }
    check(&[0, 1, 2, 3, 3], 5, "session of line 4");
    check(&[0, 1, 2, 2], 4, "there twice");
    check(&[0, 1, 1], 3, "numbered 1");
    check(&[0, 1, 2, 0], 4, "second head");
    check(&[0, 3], 2, "no line before tells of chip 0");
    check(&[0, 1, 3], 3, "no line before tells of the case");
    check(&[0, 1, 2], 4, "no time");
    check(&[1, 0], 1, "no head");
}

#[test]
fn too_many_lines_are_refused_before_they_are_read() {
    let head = lines()[0].to_string();
    let bytes = [head.into_bytes(), vec![b'\n'; MOST_LINES + 1]].concat();
    let refused = KnowledgeFile::parse(&bytes).unwrap_err();
    assert!(matches!(refused, KnowledgeFault::Line { line, .. } if line == MOST_LINES + 1), "{refused}");
}

#[test]
fn a_time_that_no_reader_would_take_is_left_out_and_counted() {
    let mut file = sample();
    file.times[1].median_ns = f64::NAN;
    file.times[2].target.chip.vendor = "red\u{1b}[31m".to_owned();
    file.times.push(file.times[0].clone());
    let written = file.to_bytes();
    assert_eq!((written.cases, written.times, written.left_out), (2, 2, 3));
    assert!(written.first_fault.unwrap().contains("median_ns"));
    assert_eq!(KnowledgeFile::parse(&written.bytes).unwrap().times.len(), 2);
    let nameless = KnowledgeFile { hardware_id: "Jane".to_owned(), ..sample() };
    assert_eq!(nameless.to_bytes().times, 0);
}

fn line_change() -> impl Strategy<Value = (usize, usize, Vec<u8>)> {
    (0..9_usize, any::<usize>(), prop::collection::vec(any::<u8>(), 0..12))
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(KnowledgeFile::parse(&bytes).is_err());
    }

    #[test]
    fn any_change_of_a_line_is_read_or_refused_in_one_plain_line((line, at, put) in line_change()) {
        let mut lines: Vec<Vec<u8>> = lines().iter().map(|line| line.to_string().into_bytes()).collect();
        let at = at % lines[line].len();
        let end = lines[line].len().min(at + put.len());
        lines[line].splice(at..end, put);
        let body: Vec<u8> = lines.into_iter().flat_map(|line| [line, vec![b'\n']].concat()).collect();
        let count = body.split(|byte| *byte == b'\n').count() - 1;
        let end = json!({"record": "end", "lines": count, "sha256": digest_text(&body)});
        let bytes = [body, format!("{end}\n").into_bytes()].concat();
        match KnowledgeFile::parse(&bytes) {
            Ok(file) => prop_assert_eq!(KnowledgeFile::parse(&file.to_bytes().bytes).unwrap(), file),
            Err(error) => prop_assert!(!error.to_string().contains(char::is_control), "{}", error),
        }
    }

    #[test]
    fn any_times_come_back_bit_for_bit(
        median in 1e3_f64..1e15,
        width in 0.0_f64..1.0,
        samples in 1_u64..1_000_000_000,
        create in 0_u64..1_000_000_000_000_000,
        error in 0.0_f64..f64::MAX,
    ) {
        let mut file = sample();
        let it = &mut file.times[0];
        (it.median_ns, it.min_ns, it.max_ns) = (median, median * (1.0 - width).max(1e-3), median);
        it.interval = Some(Interval { low: it.min_ns, high: median });
        (it.samples, it.session_create_ns) = (samples, create);
        it.outputs.as_mut().unwrap().max_relative_error = error;
        prop_assert_eq!(KnowledgeFile::parse(&file.to_bytes().bytes).unwrap(), file);
    }
}
