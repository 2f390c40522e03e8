//! A shape on the command line: `NAME:SIZE,SIZE,…`.
//!
//! Invariant: a parsed shape has at least one size, every size is at least 1 and their product fits 64 bits.

/// Why a shape argument cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShapeArgumentError {
    /// There is no name or no size.
    #[error("`{argument}` is no shape: write NAME:SIZE,SIZE,… as in input:1,3,224,224")]
    Form {
        /// The argument.
        argument: String,
    },
    /// A size is zero, negative or no number.
    #[error("`{argument}`: size `{size}` on axis {axis} is no whole number from 1 up")]
    Size {
        /// The argument.
        argument: String,
        /// The size as written.
        size: String,
        /// Its position, counted from 0.
        axis: usize,
    },
    /// There would be more elements than 64 bits count.
    #[error("`{argument}` has too many elements")]
    TooLarge {
        /// The argument.
        argument: String,
    },
}

/// Splits `name:1,3,224,224` at its last colon, as names may hold colons themselves.
///
/// # Errors
/// When the form is another, a size is not a whole number from 1 up, or their product exceeds 64 bits.
pub fn parse_shape_argument(argument: &str) -> Result<(String, Vec<u64>), ShapeArgumentError> {
    let form = || ShapeArgumentError::Form { argument: argument.to_owned() };
    let (name, sizes) = argument.rsplit_once(':').ok_or_else(form)?;
    if name.is_empty() || sizes.trim().is_empty() {
        return Err(form());
    }
    let size = |(axis, size): (usize, &str)| match size.trim().parse::<u64>() {
        Ok(size) if size > 0 => Ok(size),
        _ => Err(ShapeArgumentError::Size {
            argument: argument.to_owned(),
            size: size.trim().to_owned(),
            axis,
        }),
    };
    let shape = sizes.split(',').enumerate().map(size).collect::<Result<Vec<u64>, _>>()?;
    let elements = shape.iter().try_fold(1_u64, |product, &size| product.checked_mul(size));
    elements.ok_or_else(|| ShapeArgumentError::TooLarge { argument: argument.to_owned() })?;
    Ok((name.to_owned(), shape))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_at_the_last_colon() {
        #[track_caller]
        fn check(argument: &str, name: &str, shape: &[u64]) {
            assert_eq!(parse_shape_argument(argument), Ok((name.to_owned(), shape.to_vec())));
        }
        check("input:1,3,224,224", "input", &[1, 3, 224, 224]);
        check("serving:input:0:8", "serving:input:0", &[8]);
        check("x: 2, 3", "x", &[2, 3]);
    }

    #[test]
    fn refuses_what_is_no_shape() {
        #[track_caller]
        fn check(argument: &str, expected: &str) {
            let error = parse_shape_argument(argument).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        check("input", "write NAME:SIZE");
        check("", "write NAME:SIZE");
        check(":1,2", "write NAME:SIZE");
        check("x:", "write NAME:SIZE");
        check("x:0,3", "size `0` on axis 0 is no whole number from 1 up");
        check("x:1,-1", "size `-1` on axis 1");
        check("x:1,,2", "size `` on axis 1");
        check("x:1.5", "size `1.5`");
        check("x:batch", "size `batch`");
        check("x:99999999999999999999", "size `99999999999999999999`");
        check("x:18446744073709551615,2", "too many elements");
    }
}
