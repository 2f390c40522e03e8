//! Work by operator, and rates that a chip was measured not to exceed.

use super::*;

#[test]
fn recovers_work_by_operator() {
    // 20 µs and 2 µs for each node; matrices at 100 GFLOP/s, convolutions at 400, depthwise ones at 20, 15 GB/s.
    let mut draws = Draws::new(3);
    let rows: Vec<FitRow> = (0..40)
        .map(|index| {
            let mut work = || 1e9 * (-4.0 * draws.uniform()).exp();
            let operators = OperatorWork {
                matrix_flops: work(),
                convolution_flops: work(),
                depthwise_flops: 0.1 * work(),
                recurrent_flops: 0.0,
                moved_bytes: 0.03 * work(),
            };
            let flops = operators.matrix_flops + operators.convolution_flops + operators.depthwise_flops;
            let nodes = (5 + 7 * (index % 30)) as f64;
            let time_ns = 2e4
                + 2e3 * nodes
                + operators.matrix_flops / 100.0
                + operators.convolution_flops / 400.0
                + operators.depthwise_flops / 20.0
                + operators.moved_bytes / 15.0;
            let (model, family) = (model(index), Family::Conv);
            FitRow {
                model,
                flops,
                weight_bytes: 1e6,
                parameters: 25e4,
                batch: 1.0,
                nodes,
                operators,
                family,
                time_ns,
            }
        })
        .collect();
    let fit = fit_forms(&rows, 0.0).unwrap();
    assert_eq!(fit.form, Form::ByOperator);
    for (name, expected) in [
        ("overhead_ms", 0.02),
        ("overhead_per_node_us", 2.0),
        ("throughput_gflops_matrix", 100.0),
        ("throughput_gflops_convolution", 400.0),
        ("throughput_gflops_depthwise", 20.0),
        ("bandwidth_gb_per_s", 15.0),
    ] {
        let parameter = parameter(&fit, name);
        assert_near(parameter.value.unwrap(), expected, 1e-6);
        assert_eq!(parameter.status, ParameterStatus::Reliable, "{name}");
    }
    assert!(fit.parameters.iter().all(|it| !it.name.contains("recurrent")), "no row has any");
}

#[test]
fn no_rate_exceeds_what_the_chip_was_measured_to_do() {
    // The law reads 500 GFLOP/s and 25 GB/s; the chip was seen to reach 400 and 20.
    let rows = ladder(|row| (2e4 + row.flops / 500.0 + row.weight_bytes / 25.0) * jitter(row));
    let bounds = ChipBounds {
        flops_per_ns: Some(400.0),
        bytes_per_ns: Some(20.0),
        memory_bytes_per_ns: Some(20.0),
        ..ChipBounds::from(4e6)
    };
    for form in Form::ALL.into_iter().filter(|form| *form != Form::LogLinear) {
        let free = fit_form(form, &rows, 4e6).unwrap();
        let held = fit_form(form, &rows, bounds).unwrap();
        let most = |fit: &Fit, sort: &str| {
            let own = fit.parameters.iter().filter(|it| it.name.contains(sort));
            own.filter_map(|it| it.value).fold(0.0, f64::max)
        };
        assert!(most(&free, "throughput") > 450.0, "{form}");
        assert!(most(&held, "throughput") <= 400.0 * (1.0 + 1e-9), "{form}");
        assert!(most(&held, "bandwidth") <= 20.0 * (1.0 + 1e-9), "{form}");
        let at_ceiling = held.parameters.iter().filter(|it| it.status == ParameterStatus::AtCeiling);
        assert!(at_ceiling.count() > 0, "{form}");
        // A rate that is not reached binds nothing.
        let roomy = ChipBounds { flops_per_ns: Some(1e6), bytes_per_ns: Some(1e6), ..ChipBounds::from(4e6) };
        let roomy = fit_form(form, &rows, roomy).unwrap();
        for (bound, unbound) in std::iter::zip(&roomy.coefficients, &free.coefficients) {
            assert!((bound - unbound).abs() <= 1e-5 * unbound.abs() + 2e-6, "{form}: {bound} {unbound}");
        }
    }
}
