//! Numbers as the original's file writes them: `1024*1024*1024`, `2*(3+4)`, `-1`.
//!
//! `+ - * / %`, parentheses and signs over whole 64-bit numbers; nothing wraps and nothing is
//! rounded but `/`, which cuts towards zero.

use std::iter::{Enumerate, Peekable};
use std::str::Chars;

/// Why a text is no number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotANumber {
    /// A character that stands for nothing here.
    #[error("{found:?} at character {at} is no part of a whole number or of + - * / % ( )")]
    Unexpected {
        /// What stands there.
        found: char,
        /// Which character of the value, from 1.
        at: usize,
    },
    /// The text ends where a number is due.
    #[error("a number is missing at its end")]
    Missing,
    /// A parenthesis is never closed.
    #[error("a parenthesis isn't closed")]
    Unclosed,
    /// A step of it doesn't fit in 64 bits.
    #[error("it is too large")]
    Overflow,
    /// Something is divided by zero.
    #[error("it divides by zero")]
    DivisionByZero,
    /// More signs and parentheses within each other than anybody needs.
    #[error("its parentheses and signs are nested too deeply")]
    Depth,
}

/// How deep parentheses and signs may nest.
const DEPTH_MAX: u32 = 32;

/// The number that `text` comes to.
///
/// # Errors
/// If it is no expression, a step overflows, or something is divided by zero.
pub fn evaluate(text: &str) -> Result<i64, NotANumber> {
    let mut expression = Expression { rest: text.chars().enumerate().peekable() };
    let number = expression.sum(0)?;
    match expression.next_visible() {
        None => Ok(number),
        Some((at, found)) => Err(NotANumber::Unexpected { found, at: at + 1 }),
    }
}

/// What is still to be read.
struct Expression<'a> {
    rest: Peekable<Enumerate<Chars<'a>>>,
}

impl Expression<'_> {
    /// The next character that isn't white space, which stays unread.
    fn next_visible(&mut self) -> Option<(usize, char)> {
        while self.rest.next_if(|(_, c)| c.is_whitespace()).is_some() {}
        self.rest.peek().copied()
    }

    /// Reads one of `operators`, if it is next.
    fn operator(&mut self, operators: &[char]) -> Option<char> {
        let (_, c) = self.next_visible()?;
        operators.contains(&c).then(|| self.rest.next())?.map(|(_, c)| c)
    }

    fn sum(&mut self, depth: u32) -> Result<i64, NotANumber> {
        let mut total = self.product(depth)?;
        while let Some(operator) = self.operator(&['+', '-']) {
            let right = self.product(depth)?;
            total = match operator {
                '+' => total.checked_add(right),
                _ => total.checked_sub(right),
            }
            .ok_or(NotANumber::Overflow)?;
        }
        Ok(total)
    }

    fn product(&mut self, depth: u32) -> Result<i64, NotANumber> {
        let mut total = self.signed(depth)?;
        while let Some(operator) = self.operator(&['*', '/', '%']) {
            let right = self.signed(depth)?;
            total = match operator {
                '*' => total.checked_mul(right),
                _ if right == 0 => return Err(NotANumber::DivisionByZero),
                '/' => total.checked_div(right),
                _ => total.checked_rem(right),
            }
            .ok_or(NotANumber::Overflow)?;
        }
        Ok(total)
    }

    fn signed(&mut self, depth: u32) -> Result<i64, NotANumber> {
        if depth == DEPTH_MAX {
            return Err(NotANumber::Depth);
        }
        match self.operator(&['-', '+', '(']) {
            Some('-') => self.signed(depth + 1)?.checked_neg().ok_or(NotANumber::Overflow),
            Some('+') => self.signed(depth + 1),
            Some(_) => {
                let inner = self.sum(depth + 1)?;
                match self.operator(&[')']) {
                    Some(_) => Ok(inner),
                    None => Err(match self.next_visible() {
                        Some((at, found)) => NotANumber::Unexpected { found, at: at + 1 },
                        None => NotANumber::Unclosed,
                    }),
                }
            }
            None => self.digits(),
        }
    }

    fn digits(&mut self) -> Result<i64, NotANumber> {
        let (at, found) = self.next_visible().ok_or(NotANumber::Missing)?;
        if !found.is_ascii_digit() {
            return Err(NotANumber::Unexpected { found, at: at + 1 });
        }
        let mut number: i64 = 0;
        while let Some((_, digit)) = self.rest.next_if(|(_, c)| c.is_ascii_digit()) {
            let digit = i64::from(u32::from(digit) - u32::from('0'));
            number = number.checked_mul(10).and_then(|tens| tens.checked_add(digit)).ok_or(NotANumber::Overflow)?;
        }
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use NotANumber::*;

    #[test]
    fn products_bind_closer_than_sums_and_both_run_from_the_left() {
        for (text, number) in [
            ("0", 0),
            ("1024*1024*1024", 1 << 30),
            ("2 + 3*4", 14),
            ("(2+3) * 4", 20),
            ("20-5-3", 12),
            ("100/10/5", 2),
            ("7/2", 3),
            ("-7/2", -3),
            ("7%4", 3),
            ("-1", -1),
            ("--1", 1),
            ("2*-3", -6),
            ("+5", 5),
            (" 8 ", 8),
            ("((((1))))", 1),
            ("007", 7),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775807-1", i64::MIN),
        ] {
            assert_eq!(evaluate(text), Ok(number), "{text}");
        }
    }

    #[test]
    fn nothing_wraps() {
        for text in [
            "9223372036854775808",
            "9223372036854775807+1",
            "-9223372036854775807-2",
            "9223372036854775807*2",
            "(-9223372036854775807-1)/-1",
            "(-9223372036854775807-1)%-1",
            "-(-9223372036854775807-1)",
        ] {
            assert_eq!(evaluate(text), Err(Overflow), "{text}");
        }
    }

    #[test]
    fn what_is_no_number_is_refused_with_its_reason() {
        let unexpected = |found, at| Err(Unexpected { found, at });
        for (text, outcome) in [
            ("", Err(Missing)),
            ("1+", Err(Missing)),
            ("-", Err(Missing)),
            ("(1", Err(Unclosed)),
            ("(1 2)", unexpected('2', 4)),
            ("1/0", Err(DivisionByZero)),
            ("1%(2-2)", Err(DivisionByZero)),
            ("1 2", unexpected('2', 3)),
            ("1)", unexpected(')', 2)),
            ("1k", unexpected('k', 2)),
            ("1.5", unexpected('.', 2)),
            ("0x10", unexpected('x', 2)),
            ("*2", unexpected('*', 1)),
            ("1 == 1", unexpected('=', 3)),
            ("١", unexpected('١', 1)),
        ] {
            assert_eq!(evaluate(text), outcome, "{text}");
        }
    }

    #[test]
    fn a_tower_of_parentheses_is_refused_instead_of_followed() {
        assert_eq!(evaluate(&"(".repeat(100_000)), Err(Depth));
        assert_eq!(evaluate(&"-".repeat(100_000)), Err(Depth));
        assert_eq!(evaluate(&format!("{}1{}", "(".repeat(31), ")".repeat(31))), Ok(1));
    }
}
