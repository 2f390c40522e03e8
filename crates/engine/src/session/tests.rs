//! Inputs that do not fit are told apart before any engine sees them.

use siliconroute_core::tensor::{Tensor, TensorData};

use super::*;

fn specs() -> Vec<TensorSpec> {
    vec![
        TensorSpec {
            name: "x".to_owned(),
            element: ElementType::Float32,
            shape: vec![Dimension::Free("batch".to_owned()), Dimension::Fixed(3)],
        },
        TensorSpec { name: "rate".to_owned(), element: ElementType::Int64, shape: vec![] },
    ]
}

fn x(shape: &[usize]) -> NamedTensor {
    let count = shape.iter().product();
    let tensor = Tensor::new(shape.to_vec(), TensorData::Float32(vec![0.5; count])).unwrap();
    NamedTensor { name: "x".to_owned(), tensor }
}

fn rate() -> NamedTensor {
    NamedTensor {
        name: "rate".to_owned(),
        tensor: Tensor::new(vec![], TensorData::Int64(vec![16_000])).unwrap(),
    }
}

#[test]
fn inputs_are_put_into_the_model_s_order() {
    let given = [rate(), x(&[2, 3])];
    let names: Vec<&str> =
        check_inputs(&specs(), &given).unwrap().iter().map(|input| input.name.as_str()).collect();
    assert_eq!(names, ["x", "rate"]);
}

#[test]
fn what_does_not_fit_is_named() {
    #[track_caller]
    fn check(inputs: &[NamedTensor], message: &str) {
        assert_eq!(check_inputs(&specs(), inputs).unwrap_err().to_string(), message);
    }
    let takes = "x: float32[batch,3], rate: int64[]";
    check(&[x(&[1, 3])], &format!("input `rate` is missing; the model takes {takes}"));
    let stranger = NamedTensor { name: "y".to_owned(), ..rate() };
    check(&[x(&[1, 3]), rate(), stranger], &format!("the model has no input `y`; it takes {takes}"));
    check(&[x(&[1, 3]), rate(), rate()], "input `rate` is given twice");
    check(&[x(&[1, 4]), rate()], "input `x` must have shape [batch, 3], not [1, 4]");
    check(&[x(&[3]), rate()], "input `x` must have shape [batch, 3], not [3]");
    let wrong = NamedTensor { name: "x".to_owned(), ..rate() };
    check(&[wrong, rate()], "input `x` must be float32, not int64");
}

#[test]
fn numbers_beyond_the_table_that_they_pick_from_are_named() {
    #[track_caller]
    fn check(numbers: Vec<i64>, wrong: Option<(usize, i128)>) {
        let rows = BTreeMap::from([("ids".to_owned(), 7)]);
        let tensor = Tensor::new(vec![numbers.len()], TensorData::Int64(numbers)).unwrap();
        let checked = check_indices(&rows, &[x(&[1, 3]), NamedTensor { name: "ids".to_owned(), tensor }]);
        let expected = wrong.map_or(Ok(()), |(element, found)| {
            Err(InputError::Index { name: "ids".to_owned(), found, element, rows: 7 })
        });
        assert_eq!(checked, expected);
    }
    check(vec![0, 6, -7], None);
    check(vec![0, 7, 9], Some((1, 7)));
    check(vec![-8], Some((0, -8)));
    check(vec![i64::MIN], Some((0, i64::MIN.into())));
}
