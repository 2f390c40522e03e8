//! Tests of non-negative least squares; golden values from `tests/golden/nnls.py`.

use proptest::prelude::*;

use super::*;

type Matrix = Vec<Vec<f64>>;

fn residual(a: &Matrix, b: &[f64], x: &[f64]) -> Vec<f64> {
    std::iter::zip(a, b)
        .map(|(row, right)| right - std::iter::zip(row, x).map(|(value, x)| value * x).sum::<f64>())
        .collect()
}

fn norm(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum::<f64>().sqrt()
}

fn column(a: &Matrix, index: usize) -> Vec<f64> {
    a.iter().map(|row| row[index]).collect()
}

/// Checks the Karush-Kuhn-Tucker conditions: x ≥ 0, gradient ≤ 0 at 0 and = 0 above.
fn kkt_violation(a: &Matrix, b: &[f64], x: &[f64]) -> f64 {
    let rest = residual(a, b, x);
    let violations = x.iter().enumerate().map(|(index, &value)| {
        let along = column(a, index);
        let scale = norm(&along) * norm(b);
        let gradient: f64 = std::iter::zip(&along, &rest).map(|(value, rest)| value * rest).sum();
        let relative = if scale > 0.0 { gradient / scale } else { 0.0 };
        if value < 0.0 {
            f64::INFINITY
        } else if value > 0.0 {
            relative.abs()
        } else {
            relative
        }
    });
    violations.fold(0.0, f64::max)
}

/// Unconstrained least squares on some columns by normal equations and Gauss elimination.
fn naive_least_squares(a: &Matrix, b: &[f64], columns: &[usize]) -> Option<Vec<f64>> {
    let count = columns.len();
    let mut system: Matrix = (0..count)
        .map(|i| {
            let product = |other: &[f64]| -> f64 {
                std::iter::zip(column(a, columns[i]), other).map(|(x, y)| x * y).sum()
            };
            let mut row: Vec<f64> = columns.iter().map(|j| product(&column(a, *j))).collect();
            row.push(product(b));
            row
        })
        .collect();
    for pivot in 0..count {
        let best =
            (pivot..count).max_by(|i, j| system[*i][pivot].abs().total_cmp(&system[*j][pivot].abs()))?;
        system.swap(pivot, best);
        if system[pivot][pivot].abs() < 1e-9 {
            return None;
        }
        for row in 0..count {
            if row != pivot {
                let factor = system[row][pivot] / system[pivot][pivot];
                let pivot_row = system[pivot].clone();
                std::iter::zip(&mut system[row], pivot_row)
                    .for_each(|(value, above)| *value -= factor * above);
            }
        }
    }
    Some((0..count).map(|i| system[i][count] / system[i][i]).collect())
}

/// The smallest residual over all subsets of columns whose least squares are not negative.
fn exhaustive_residual(a: &Matrix, b: &[f64]) -> f64 {
    let count = a[0].len();
    let mut smallest = norm(b);
    for mask in 1_u32..1 << count {
        let subset: Vec<usize> = (0..count).filter(|index| mask & (1 << index) != 0).collect();
        let Some(values) = naive_least_squares(a, b, &subset) else { continue };
        if values.iter().all(|value| *value >= 0.0) {
            let mut x = vec![0.0; count];
            std::iter::zip(&subset, values).for_each(|(index, value)| x[*index] = value);
            smallest = smallest.min(norm(&residual(a, b, &x)));
        }
    }
    smallest
}

#[test]
fn matches_scipy() {
    for (rows, columns, shift, expected_x, expected_norm) in [
        (8, 3, 6, &[0.234_234_234_234_234_17, 0.0, 1.049_549_549_549_549_5][..], 5.158_850_524_946_303),
        (
            12,
            5,
            3,
            &[
                0.242_807_782_306_532_7,
                0.059_093_183_578_986_304,
                0.0,
                0.398_370_485_976_150_8,
                0.169_625_561_190_464_54,
            ],
            6.370_390_414_263_436,
        ),
        (
            20,
            7,
            8,
            &[
                0.0,
                0.0,
                4.140_837_707_283_41,
                0.256_874_594_843_269_7,
                0.284_142_949_750_109_9,
                0.159_595_156_939_420_03,
                0.0,
            ],
            8.062_891_566_011_618,
        ),
        (
            40,
            10,
            5,
            &[
                0.054_783_051_834_595_06,
                0.0,
                0.095_711_087_652_882_86,
                0.348_209_085_614_443_97,
                0.253_276_062_900_407_8,
                0.0,
                0.306_225_429_528_247_1,
                0.115_428_132_886_818_19,
                0.064_326_101_727_819_7,
                0.0,
            ],
            11.269_288_390_084_547,
        ),
    ] {
        let value = |i: i32, j: i32| f64::from((i * 7 + j * 13 + i * j * 5) % 17 - shift) / 4.0;
        let a: Matrix = (0..rows).map(|i| (0..columns).map(|j| value(i, j)).collect()).collect();
        let b: Vec<f64> = (0..rows).map(|i| f64::from((i * 11 + 3) % 13 - 4) / 2.0).collect();
        let solution = nnls(&a, &b).unwrap();
        assert!((solution.residual_norm - expected_norm).abs() < 1e-12, "{}", solution.residual_norm);
        for (found, expected) in std::iter::zip(&solution.x, expected_x) {
            assert!((found - expected).abs() < 1e-11, "{found} instead of {expected}");
        }
    }
}

#[test]
fn takes_the_zero_solution_when_every_column_points_away() {
    let solution = nnls(&[[-1.0, -2.0], [-3.0, -1.0]], &[1.0, 1.0]).unwrap();
    assert_eq!(solution.x, [0.0, 0.0]);
    assert!((solution.residual_norm - 2.0_f64.sqrt()).abs() < 1e-15);
}

#[test]
fn leaves_zero_and_repeated_columns_at_zero() {
    let a: Matrix = (1..=6).map(|i| vec![1.0, 0.0, f64::from(i), 2.0 * f64::from(i)]).collect();
    let b: Vec<f64> = (1..=6).map(|i| 3.0 + 4.0 * f64::from(i)).collect();
    let solution = nnls(&a, &b).unwrap();
    assert!((solution.x[0] - 3.0).abs() < 1e-12);
    assert!(solution.x[1] <= 0.0);
    assert!((solution.x[2] + 2.0 * solution.x[3] - 4.0).abs() < 1e-12);
    assert!(solution.x[2] == 0.0 || solution.x[3] == 0.0);
}

#[test]
fn is_indifferent_to_units_of_wildly_different_size() {
    let a: Matrix = (1..=8).map(|i| vec![1e-12, 1e9 * f64::from(i), 1e-3 * f64::from(i * i)]).collect();
    let b: Vec<f64> = a.iter().map(|row| 2e12 * row[0] + 3e-9 * row[1] + 4e3 * row[2]).collect();
    let solution = nnls(&a, &b).unwrap();
    for (found, expected) in std::iter::zip(&solution.x, [2e12, 3e-9, 4e3]) {
        assert!((found / expected - 1.0).abs() < 1e-10, "{found} instead of {expected}");
    }
}

#[test]
fn refuses_broken_problems_and_says_where() {
    let none: [[f64; 2]; 0] = [];
    assert_eq!(nnls(&none, &[]), Err(NnlsError::Empty));
    assert_eq!(nnls(&[[]; 3], &[1.0; 3]), Err(NnlsError::Empty));
    assert_eq!(
        nnls(&[vec![1.0, 2.0], vec![1.0]], &[1.0, 2.0]),
        Err(NnlsError::Shape { row: 1, found: 2, expected: 3 })
    );
    assert_eq!(nnls(&[[1.0], [1.0]], &[1.0]), Err(NnlsError::Shape { row: 1, found: 1, expected: 2 }));
    assert_eq!(nnls(&[[1.0]], &[1.0, 2.0]), Err(NnlsError::Shape { row: 1, found: 1, expected: 2 }));
    assert_eq!(nnls(&[[1.0], [f64::NAN]], &[1.0, 1.0]), Err(NnlsError::NotFinite { row: 1 }));
    assert_eq!(nnls(&[[1.0]], &[f64::INFINITY]), Err(NnlsError::NotFinite { row: 0 }));
    assert_eq!(nnls(&[[f64::MAX], [f64::MAX]], &[1.0, 1.0]), Err(NnlsError::Overflow));
    assert_eq!(nnls(&[[1e-300]], &[1e300]), Err(NnlsError::Overflow));
}

#[test]
fn merged_triangles_equal_one_of_all_rows() {
    let rows: Vec<[f64; 4]> =
        (0..20).map(|i| [1.0, f64::from(i % 7), f64::from(i * i % 11), f64::from(i)]).collect();
    let fold = |rows: &[[f64; 4]]| {
        let mut triangle = Triangle::new(3);
        for row in rows {
            triangle.push_row(&mut row.clone());
        }
        triangle
    };
    let mut merged = fold(&rows[..3]);
    merged.merge(&fold(&rows[3..]));
    let (merged, whole) = (solve(&merged).unwrap(), solve(&fold(&rows)).unwrap());
    assert!((merged.residual_norm - whole.residual_norm).abs() < 1e-12);
    assert!(std::iter::zip(&merged.x, &whole.x).all(|(x, y)| (x - y).abs() < 1e-12));
}

#[test]
fn independence_is_the_sine_of_the_angle_to_the_other_columns() {
    let mut triangle = Triangle::new(3);
    for row in [[1.0, 1.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]] {
        triangle.push_row(&mut row.clone());
    }
    let shares = triangle.independence().unwrap();
    let half_root = 0.5_f64.sqrt();
    assert!((shares[0] - half_root).abs() < 1e-12 && (shares[1] - half_root).abs() < 1e-12);
    assert!(shares[2] <= 0.0);
}

#[test]
fn unconstrained_least_squares_leaves_dependent_columns_out() {
    let mut triangle = Triangle::new(3);
    for i in 0..5 {
        triangle.push_row(&mut [1.0, 2.0, f64::from(i), 7.0 - 3.0 * f64::from(i)]);
    }
    let x = triangle.least_squares().unwrap();
    assert!((x[0] - 7.0).abs() < 1e-12 && x[1] == 0.0 && (x[2] + 3.0).abs() < 1e-12, "{x:?}");
}

fn problems(most_columns: usize) -> impl Strategy<Value = (Matrix, Vec<f64>)> {
    (1..=most_columns, 1_usize..25).prop_flat_map(|(columns, rows)| {
        let row = prop::collection::vec(-10.0_f64..10.0, columns);
        (prop::collection::vec(row, rows), prop::collection::vec(-10.0_f64..10.0, rows))
    })
}

proptest! {
    #[test]
    fn satisfies_the_kkt_conditions((a, b) in problems(12)) {
        let solution = nnls(&a, &b).unwrap();
        let violation = kkt_violation(&a, &b, &solution.x);
        prop_assert!(violation < 1e-9, "violated by {violation}");
        let rest = norm(&residual(&a, &b, &solution.x));
        prop_assert!((rest - solution.residual_norm).abs() <= 1e-9 * norm(&b).max(1.0));
    }

    #[test]
    fn is_as_good_as_the_best_of_all_subsets((a, b) in problems(6)) {
        let found = nnls(&a, &b).unwrap().residual_norm;
        let best = exhaustive_residual(&a, &b);
        prop_assert!(found <= best + 1e-6 * norm(&b).max(1.0), "{found} over {best}");
    }

    #[test]
    fn equals_least_squares_where_those_are_not_negative(
        (a, _) in problems(5), x in prop::collection::vec(0.1_f64..5.0, 5),
    ) {
        let columns = a[0].len();
        let all: Vec<usize> = (0..columns).collect();
        let b: Vec<f64> =
            a.iter().map(|row| std::iter::zip(row, &x).map(|(value, x)| value * x).sum()).collect();
        let solution = nnls(&a, &b).unwrap();
        prop_assert!(solution.residual_norm <= 1e-9 * norm(&b).max(1.0));
        if let (true, Some(free)) = (a.len() > columns, naive_least_squares(&a, &b, &all)) {
            let unique = free.iter().zip(&x).all(|(free, x)| (free - x).abs() < 1e-6);
            for (found, free) in std::iter::zip(&solution.x, &free) {
                prop_assert!(!unique || (found - free).abs() < 1e-5, "{found} instead of {free}");
            }
        }
    }

    #[test]
    fn follows_the_units_of_its_columns((a, b) in problems(5), scale in 1e-6_f64..1e6) {
        let scaled: Matrix = a.iter().map(|row| row.iter().map(|value| value * scale).collect()).collect();
        let (plain, scaled) = (nnls(&a, &b).unwrap(), nnls(&scaled, &b).unwrap());
        prop_assert!((plain.residual_norm - scaled.residual_norm).abs() <= 1e-9 * norm(&b).max(1.0));
    }

    #[test]
    fn any_bits_are_solved_or_refused(
        a in prop::collection::vec(prop::array::uniform4(any::<f64>()), 0..8),
        b in prop::collection::vec(any::<f64>(), 0..8),
    ) {
        if let Ok(solution) = nnls(&a, &b) {
            prop_assert!(solution.x.iter().all(|value| value.is_finite() && *value >= 0.0));
        }
    }
}
