//! Numbers of the line: what Java's `parseInt` and `parseLong` accept, and writing without allocation.

/// Signed 64-bit decimal: an optional `+` or `-`, then ASCII digits only, at least one.
pub(crate) fn parse_i64(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let magnitude = parse_u64(digits)?;
    if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

/// Signed 32-bit decimal, same form as [`parse_i64`].
pub(crate) fn parse_i32(text: &[u8]) -> Option<i32> {
    parse_i64(text).and_then(|number| i32::try_from(number).ok())
}

/// Unsigned 64-bit decimal: ASCII digits only, at least one, no sign.
pub(crate) fn parse_u64(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    // 19 digits can't overflow; the general loop is for leading zeros and refusals.
    if digits.len() <= 19 {
        let (mut number, mut refused) = (0u64, false);
        for &digit in digits {
            let digit = digit.wrapping_sub(b'0');
            refused |= digit > 9;
            number = number.wrapping_mul(10).wrapping_add(u64::from(digit));
        }
        return (!refused).then_some(number);
    }
    digits.iter().try_fold(0u64, |number, &digit| {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 { None } else { number.checked_mul(10)?.checked_add(u64::from(digit)) }
    })
}

/// Unsigned 32-bit decimal, same form as [`parse_u64`].
pub(crate) fn parse_u32(digits: &[u8]) -> Option<u32> {
    parse_u64(digits).and_then(|number| u32::try_from(number).ok())
}

/// Appends a number in decimal.
pub(crate) fn write(out: &mut Vec<u8>, number: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_what_java_accepts() {
        for (text, expected) in [
            ("0", Some(0)),
            ("-0", Some(0)),
            ("+5", Some(5)),
            ("-5", Some(-5)),
            ("0000000000000000000000000000007", Some(7)),
            ("2147483647", Some(i32::MAX)),
            ("-2147483648", Some(i32::MIN)),
            ("2147483648", None),
            ("-2147483649", None),
            ("99999999999999999999999999", None),
            ("", None),
            ("-", None),
            ("+", None),
            ("--5", None),
            ("+-5", None),
            ("5 ", None),
            ("5\n", None),
            ("0x5", None),
            ("1_0", None),
        ] {
            assert_eq!(parse_i32(text.as_bytes()), expected, "{text:?}");
        }
        assert_eq!(parse_i64(b"9223372036854775807"), Some(i64::MAX));
        assert_eq!(parse_i64(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(parse_i64(b"9223372036854775808"), None);
        assert_eq!(parse_u64(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse_u64(b"18446744073709551616"), None);
        assert_eq!(parse_u64(b"+1"), None);
    }
}
