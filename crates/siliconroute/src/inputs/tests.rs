//! Defaults, recipes, golden values and limits.

use siliconroute_core::tensor::TensorData;

use super::*;

fn input(name: &str, element: ElementType, shape: &[u64]) -> BoundInput {
    BoundInput { name: name.to_owned(), element, shape: shape.to_vec() }
}

fn make(name: &str, element: ElementType, shape: &[u64], recipe: Recipe) -> Result<TensorData, InputsError> {
    let recipes = Recipes(BTreeMap::from([(name.to_owned(), recipe)]));
    let mut made = generate(&[input(name, element, shape)], &recipes, 11)?;
    Ok(made.remove(0).tensor.into_parts().1)
}

const ALL_TYPES: [ElementType; 14] = [
    ElementType::Float32,
    ElementType::Float64,
    ElementType::Float16,
    ElementType::Bfloat16,
    ElementType::Int8,
    ElementType::Int16,
    ElementType::Int32,
    ElementType::Int64,
    ElementType::Uint8,
    ElementType::Uint16,
    ElementType::Uint32,
    ElementType::Uint64,
    ElementType::Bool,
    ElementType::String,
];

#[test]
fn defaults_follow_name_type_and_shape() {
    #[track_caller]
    fn check(name: &str, element: ElementType, shape: &[u64], expected: &Recipe) {
        assert_eq!(&default_recipe(&input(name, element, shape), None), expected, "{name}");
    }
    use ElementType::{Bool, Float16, Float32, Int8, Int32, Int64, String, Uint8};
    let tokens = Recipe::Integers { low: 0, high: 100 };
    let normal = Recipe::Normal { mean: 0.0, std: 1.0 };
    let rate = Recipe::Constant { value: 16_000.0 };
    let unit = Recipe::Uniform { low: 0.0, high: 1.0 };
    check("query", String, &[2], &Recipe::Text { value: "measure".to_owned() });
    check("use_cache_branch", Bool, &[1], &Recipe::Ones);
    check("attention_mask", Int64, &[2, 8], &Recipe::Ones);
    check("pixelMask", Float32, &[1, 1, 8, 8], &Recipe::Ones);
    check("token_type_ids", Int64, &[2, 8], &Recipe::Zeros);
    check("segment_ids:0", Int32, &[2, 8], &Recipe::Zeros);
    check("position_ids", Int64, &[2, 8], &Recipe::Range { wrap: Some(1 << 63) });
    check("cache_position", Int64, &[8], &Recipe::Range { wrap: Some(1 << 63) });
    check("sr", Int64, &[], &rate);
    check("sample_rate", Float32, &[1], &rate);
    check("sr", Int8, &[], &tokens);
    check("sr", Float32, &[4, 4], &normal);
    check("state", Float32, &[2, 1, 128], &Recipe::Zeros);
    check("initial_hidden", Float16, &[2, 1, 128], &Recipe::Zeros);
    check("past_key_values.0.key", Float32, &[1, 12, 0, 64], &Recipe::Zeros);
    check("h0", Float32, &[1, 1, 3], &Recipe::Zeros);
    check("prevstate", Float32, &[1, 3], &Recipe::Zeros);
    check("encoder_hidden_states", Float32, &[1, 8, 64], &normal);
    check("estates_x", Float32, &[8, 3], &Recipe::Zeros);
    check("statement", Float32, &[8, 3], &normal);
    check("input_lengths", Int64, &[2], &Recipe::Ones);
    check("input_ids", Int64, &[2, 8], &tokens);
    check("bytes", Uint8, &[2, 8], &tokens);
    check("image", Uint8, &[1, 224, 224, 3], &Recipe::Integers { low: 0, high: 256 });
    check("quantised", Int8, &[1, 3, 8, 8], &tokens);
    check("images", Float32, &[1, 3, 224, 224], &unit);
    check("images", Float32, &[1, 224, 224, 3], &unit);
    check("features", Float32, &[1, 64, 8, 8], &normal);
    check("threshold", Float32, &[], &Recipe::Ones);
    check("x", Float32, &[4, 16], &normal);
}

#[test]
fn every_default_fits_its_input() {
    let names = [
        "x",
        "mask",
        "token_type_ids",
        "position_ids",
        "sr",
        "state",
        "h0",
        "lengths",
        "images",
        "input_ids",
    ];
    let shapes: [&[u64]; 6] = [&[], &[1], &[0], &[2, 700], &[1, 3, 4, 4], &[2, 0, 3]];
    for name in names {
        for element in ALL_TYPES {
            for shape in shapes {
                let bound = input(name, element, shape);
                let made = generate(std::slice::from_ref(&bound), &Recipes::default(), 5).unwrap();
                let tensor = &made[0].tensor;
                assert_eq!(tensor.element(), element);
                assert_eq!(tensor.shape().iter().map(|&size| size as u64).collect::<Vec<_>>(), shape);
            }
        }
    }
}

#[test]
fn default_indices_stay_inside_the_table() {
    let inputs = [
        input("input_ids", ElementType::Int64, &[4, 64]),
        input("position_ids", ElementType::Int64, &[1, 64]),
    ];
    let index_limits = BTreeMap::from([("input_ids".to_owned(), 7), ("position_ids".to_owned(), 10)]);
    let limits = InputLimits { index_limits, ..InputLimits::default() };
    let made = generate_within(&inputs, &Recipes::default(), &limits, 1).unwrap();
    for (tensor, bound) in made.iter().zip([7, 10]) {
        let TensorData::Int64(values) = tensor.tensor.data() else { panic!("wrong type") };
        assert!(values.iter().all(|value| (0..bound).contains(value)), "{values:?}");
        assert!(values.contains(&(bound - 1)));
    }
}

#[test]
fn makes_the_same_bits_on_every_machine() {
    // Golden values of an independent implementation, `golden_inputs.py`.
    let made = make("x", ElementType::Float64, &[4], Recipe::Normal { mean: 0.0, std: 1.0 }).unwrap();
    let TensorData::Float64(values) = made else { panic!("wrong type") };
    let bits: Vec<u64> = values.iter().map(|value| value.to_bits()).collect();
    let golden: [u64; 4] = [
        4_599_679_608_303_171_706,
        13_820_616_349_630_027_116,
        4_598_982_150_119_547_517,
        4_608_811_401_987_977_608,
    ];
    assert_eq!(bits, golden);
    let made = make("ids", ElementType::Int32, &[6], Recipe::Integers { low: -5, high: 95 }).unwrap();
    assert_eq!(made, TensorData::Int32(vec![50, 28, 35, 58, 34, 32]));
}

#[test]
fn values_do_not_depend_on_the_other_inputs() {
    let x = input("x", ElementType::Float32, &[3, 5]);
    let y = input("y", ElementType::Float32, &[2]);
    let alone = generate(std::slice::from_ref(&x), &Recipes::default(), 9).unwrap();
    let together = generate(&[y, x], &Recipes::default(), 9).unwrap();
    assert_eq!(alone[0], together[1]);
}

#[test]
fn fills_as_the_recipe_says() {
    #[track_caller]
    fn check(element: ElementType, shape: &[u64], recipe: Recipe, expected: &TensorData) {
        assert_eq!(&make("x", element, shape, recipe).unwrap(), expected);
    }
    check(ElementType::Int32, &[2], Recipe::Constant { value: -3.0 }, &TensorData::Int32(vec![-3, -3]));
    check(ElementType::Float16, &[1], Recipe::Constant { value: 1.5 }, &TensorData::Float16(vec![0x3e00]));
    check(ElementType::Bfloat16, &[1], Recipe::Ones, &TensorData::Bfloat16(vec![0x3f80]));
    check(
        ElementType::Float32,
        &[1],
        Recipe::Constant { value: f64::NEG_INFINITY },
        &TensorData::Float32(vec![f32::NEG_INFINITY]),
    );
    check(ElementType::Bool, &[2], Recipe::Zeros, &TensorData::Bool(vec![false, false]));
    check(
        ElementType::Uint8,
        &[2, 3],
        Recipe::Range { wrap: None },
        &TensorData::Uint8(vec![0, 1, 2, 0, 1, 2]),
    );
    check(
        ElementType::Float32,
        &[1, 4],
        Recipe::Range { wrap: Some(3) },
        &TensorData::Float32(vec![0.0, 1.0, 2.0, 0.0]),
    );
    check(ElementType::Int64, &[], Recipe::Range { wrap: None }, &TensorData::Int64(vec![0]));
    check(
        ElementType::Uint64,
        &[1],
        Recipe::Constant { value: 2_f64.powi(63) },
        &TensorData::Uint64(vec![1 << 63]),
    );
    let text = Recipe::Text { value: "a b".to_owned() };
    check(ElementType::String, &[2], text, &TensorData::String(vec!["a b".to_owned(); 2]));
}

#[test]
fn one_hot_rows_have_a_single_one() {
    let made = make("x", ElementType::Float32, &[50, 7], Recipe::OneHot).unwrap();
    let TensorData::Float32(values) = made else { panic!("wrong type") };
    let places: Vec<usize> = values
        .chunks(7)
        .map(|row| {
            assert_eq!(row.iter().sum::<f32>().to_bits(), 1.0_f32.to_bits());
            row.iter().position(|&value| value > 0.5).unwrap()
        })
        .collect();
    assert!((0..7).all(|place| places.contains(&place)));
}

#[test]
fn uniform_values_stay_between_their_bounds() {
    for element in [ElementType::Float32, ElementType::Float64, ElementType::Float16, ElementType::Bfloat16] {
        let made =
            make("x", element, &[4096], Recipe::Uniform { low: -2.0, high: 4.0 }).unwrap().to_f64().unwrap();
        assert!(made.iter().all(|value| (-2.0..=4.0).contains(value)), "{element}");
        let mean = made.iter().sum::<f64>() / 4096.0;
        assert!((mean - 1.0).abs() < 0.14, "{element}: {mean}");
    }
}

#[test]
fn refuses_a_recipe_that_does_not_fit() {
    #[track_caller]
    fn check(element: ElementType, recipe: Recipe, expected: &str) {
        let error = make("x", element, &[4, 300], recipe).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("`x`"), "{error}");
    }
    check(ElementType::Int64, Recipe::Normal { mean: 0.0, std: 1.0 }, "take `integers`");
    check(ElementType::Float32, Recipe::Normal { mean: 0.0, std: -1.0 }, "at least 0");
    check(ElementType::Float32, Recipe::Normal { mean: f64::NAN, std: 1.0 }, "finite");
    check(ElementType::Float16, Recipe::Normal { mean: 0.0, std: 9000.0 }, "outside the range of float16");
    check(ElementType::Float32, Recipe::Uniform { low: 1.0, high: 1.0 }, "below");
    check(ElementType::Float64, Recipe::Uniform { low: -f64::MAX, high: f64::MAX }, "finite");
    check(ElementType::Float32, Recipe::Uniform { low: 0.0, high: 1e39 }, "outside the range of float32");
    check(ElementType::Int8, Recipe::Integers { low: 0, high: 129 }, "128 is outside -128 to 127");
    check(ElementType::Uint8, Recipe::Integers { low: -1, high: 2 }, "-1 is outside 0 to 255");
    check(ElementType::Int8, Recipe::Integers { low: 5, high: 5 }, "below");
    check(ElementType::Bool, Recipe::Integers { low: 0, high: 3 }, "2 is outside 0 to 1");
    check(ElementType::Float16, Recipe::Integers { low: 0, high: 5000 }, "which float16 holds exactly");
    check(ElementType::Int32, Recipe::Constant { value: 0.5 }, "no whole number");
    check(ElementType::Int32, Recipe::Constant { value: f64::NAN }, "no whole number");
    check(ElementType::Float32, Recipe::Constant { value: f64::NAN }, "outside the range");
    check(ElementType::Bfloat16, Recipe::Range { wrap: None }, "299 is outside -256 to 256");
    check(ElementType::Int8, Recipe::Range { wrap: Some(0) }, "at least 1");
    check(ElementType::String, Recipe::Zeros, "`text` is for string inputs");
    check(ElementType::Int8, Recipe::Text { value: String::new() }, "`text` is for string inputs");
}

#[test]
fn refuses_a_recipe_for_an_input_that_is_not_there() {
    let recipes = Recipes(BTreeMap::from([("imput".to_owned(), Recipe::Zeros)]));
    let error = generate(&[input("input", ElementType::Int8, &[1])], &recipes, 0).unwrap_err();
    assert_eq!(error.to_string(), "there is a recipe for `imput`, but the model's inputs are input");
}

#[test]
fn refuses_too_large_inputs_before_allocating() {
    #[track_caller]
    fn check(inputs: &[BoundInput]) {
        let error = generate(inputs, &Recipes::default(), 0).unwrap_err();
        assert!(matches!(&error, InputsError::TooLarge { input, .. } if input == "big"), "{error}");
    }
    check(&[input("big", ElementType::Float32, &[(1 << 30) + 1])]);
    check(&[input("big", ElementType::Float32, &[u64::MAX, u64::MAX])]);
    check(&[input("big", ElementType::Int8, &[u64::MAX, 1])]);
    check(&[input("big", ElementType::String, &[1 << 28])]);
    check(&[input("small", ElementType::Int8, &[3 << 30]), input("big", ElementType::Int8, &[2 << 30])]);
}

#[test]
fn recipes_read_from_toml() {
    let text = "x = { kind = \"uniform\", low = 0.0, high = 255.0 }\nsr = { kind = \"constant\", value = 16000 }\n\
                p = { kind = \"range\" }\n";
    let recipes: Recipes = toml::from_str(text).unwrap();
    assert_eq!(recipes.0["x"], Recipe::Uniform { low: 0.0, high: 255.0 });
    assert_eq!(recipes.0["sr"], Recipe::Constant { value: 16_000.0 });
    assert_eq!(recipes.0["p"], Recipe::Range { wrap: None });
    assert!(toml::from_str::<Recipes>("x = { kind = \"constant\", value = 1, low = 1 }").is_err());
    assert!(toml::from_str::<Recipes>("x = { kind = \"gauss\" }").is_err());
}
