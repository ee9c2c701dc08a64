//! What is destroyed is named twice: once to say what, once to confirm.

use crate::exit::{Failure, Outcome};
use std::io::{self, BufRead, IsTerminal, Write};

/// Flags of commands that destroy something.
#[derive(Debug, Clone, clap::Args)]
pub struct Confirmation {
    /// Confirms it: the name of what is destroyed, once more
    #[arg(long, value_name = "NAME", env = "METAQ_YES")]
    pub yes: Option<String>,
    /// Only say what would be done
    #[arg(long, env = "METAQ_DRY_RUN", value_parser = clap::builder::BoolishValueParser::new())]
    pub dry_run: bool,
}

impl Confirmation {
    /// Asks for the name of what is destroyed, unless a flag says it. `loss`: what will be lost, as a sentence.
    pub fn of(&self, name: &str, loss: &str) -> Outcome {
        match &self.yes {
            Some(typed) => judge(name, typed),
            None if io::stdin().is_terminal() && io::stderr().is_terminal() => {
                let failed = |error| Failure::failed(format!("nothing can be asked: {error}"));
                write!(io::stderr(), "{loss}\nType {name} to go on: ").map_err(failed)?;
                let mut typed = String::new();
                io::stdin().lock().read_line(&mut typed).map_err(failed)?;
                judge(name, typed.trim())
            }
            None => Err(Failure::usage(format!("{loss} Nothing was done; confirm with --yes {name}"))),
        }
    }
}

fn judge(name: &str, typed: &str) -> Outcome {
    if typed == name {
        return Ok(());
    }
    Err(Failure::usage(format!("nothing was done: {typed:?} was confirmed, not {name:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    #[test]
    fn only_the_name_itself_confirms() {
        let confirmed = |yes: &str| Confirmation { yes: Some(yes.to_owned()), dry_run: false }.of("orders", "Gone.");
        assert_eq!(confirmed("orders"), Ok(()));
        for wrong in ["order", "Orders", "y", ""] {
            assert_eq!(confirmed(wrong).unwrap_err().exit, Exit::Usage);
        }
    }
}
