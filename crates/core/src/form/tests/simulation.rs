//! Coverage of prediction intervals and parameter intervals by simulation.

use super::*;

/// A machine with 400 GFLOP/s, 30 GB/s and 20 µs overhead, each model being off by its own factor and
/// each timing by a little more.
fn simulated_model(draws: &mut Draws, index: usize, model_noise: f64) -> Vec<FitRow> {
    let parameters = (10.0 + 8.0 * draws.uniform()).exp();
    let uses = (4.0 * draws.uniform()).exp();
    let off = model_noise * draws.normal();
    [1.0, 8.0]
        .map(|batch| {
            let (flops, weight_bytes) = (2.0 * parameters * uses * batch, 4.0 * parameters);
            let noise = (off + 0.05 * draws.normal()).exp();
            let time_ns = (2e4 + flops / 400.0 + weight_bytes / 30.0) * noise;
            let (model, family) = (model(index), Family::Mlp);
            FitRow {
                model,
                flops,
                weight_bytes,
                parameters,
                batch,
                nodes: 8.0,
                operators: OperatorWork::default(),
                family,
                time_ns,
            }
        })
        .to_vec()
}

#[test]
fn prediction_intervals_cover_new_models() {
    let mut draws = Draws::new(5);
    for (models, model_noise) in [(5, 0.15), (8, 0.0), (8, 0.15), (20, 0.15), (40, 0.3)] {
        let (mut covered, mut total) = (0, 0);
        for _ in 0..60 {
            let rows: Vec<FitRow> =
                (0..models).flat_map(|index| simulated_model(&mut draws, index, model_noise)).collect();
            let problem = Problem::new(Form::Roofline, &rows, 0.0).unwrap();
            let half_width = leave_one_model_out(&problem).unwrap().log_halfwidth();
            let coefficients = problem.solve(&problem.triangle(), |_| true).unwrap();
            let fresh: Vec<FitRow> =
                (0..20).flat_map(|index| simulated_model(&mut draws, 1_000 + index, model_noise)).collect();
            let fresh_problem = Problem::new(Form::Roofline, &fresh, 0.0).unwrap();
            for (index, row) in fresh.iter().enumerate() {
                let error = (fresh_problem.predict(&coefficients, index) / row.time_ns).ln().abs();
                covered += usize::from(error <= half_width);
                total += 1;
            }
        }
        let share = f64::from(covered as u32) / f64::from(total);
        assert!((0.90..=0.99).contains(&share), "{models} models, noise {model_noise}: {share}");
    }
}

#[test]
fn chosen_forms_cover_new_models_too() {
    let mut draws = Draws::new(6);
    let (mut covered, mut total) = (0_u32, 0_u32);
    for _ in 0..15 {
        let rows: Vec<FitRow> = (0..25).flat_map(|index| simulated_model(&mut draws, index, 0.15)).collect();
        let fit = fit_forms(&rows, 4e6).unwrap();
        for row in (0..40).flat_map(|index| simulated_model(&mut draws, 1_000 + index, 0.15)) {
            let predicted = fit.predict(&facts(&row));
            covered += u32::from(predicted.low_ns <= row.time_ns && row.time_ns <= predicted.high_ns);
            total += 1;
        }
    }
    let share = f64::from(covered) / f64::from(total);
    assert!((0.90..=0.99).contains(&share), "{share}");
}

#[test]
fn parameter_intervals_cover_the_true_values() {
    let mut draws = Draws::new(8);
    let truths = [("overhead_ms", 0.02), ("throughput_gflops", 400.0), ("bandwidth_gb_per_s", 30.0)];
    let mut covered = [0_u32; 3];
    for _ in 0..50 {
        let rows: Vec<FitRow> = (0..25).flat_map(|index| simulated_model(&mut draws, index, 0.0)).collect();
        let problem = Problem::new(Form::Roofline, &rows, 0.0).unwrap();
        let triangle = problem.triangle();
        let coefficients = problem.solve(&triangle, |_| true).unwrap();
        let parameters = parameter::physical_parameters(&problem, &triangle, &coefficients);
        for ((count, parameter), (name, truth)) in std::iter::zip(&mut covered, &parameters).zip(truths) {
            assert_eq!(parameter.name, name);
            *count += u32::from(parameter.interval.is_some_and(|interval| interval.contains(truth)));
        }
    }
    assert!(covered.iter().all(|count| *count >= 40), "{covered:?} of 50");
}
