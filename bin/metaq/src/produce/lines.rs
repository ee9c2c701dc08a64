//! Where messages come from: the command line, files, the standard input.

use crate::exit::{Failure, Outcome};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;
use std::sync::mpsc::SyncSender;

/// A message read from a file or the standard input is at most as large as any that can be asked for.
const MESSAGE_BYTES_MAX: u64 = i32::MAX as u64;

/// Where messages come from.
#[derive(Debug)]
pub enum Input {
    /// From the command line.
    Given(Vec<String>),
    /// From files; each line, or each file as a whole.
    Files(Vec<PathBuf>, bool),
    /// From the standard input; each line, or all of it.
    Standard(bool),
}

impl Input {
    /// Gives every message, until there is none or nobody takes it.
    pub fn read(self, to: &SyncSender<Vec<u8>>) -> Outcome {
        match self {
            Input::Given(messages) => {
                for message in messages {
                    if to.send(message.into_bytes()).is_err() {
                        break;
                    }
                }
                Ok(())
            }
            Input::Files(paths, whole) => {
                for path in paths {
                    let failed = |error| Failure::failed(format!("{} can't be read: {error}", path.display()));
                    let file = File::open(&path).map_err(failed)?;
                    if !give(BufReader::new(file), whole, to).map_err(failed)? {
                        break;
                    }
                }
                Ok(())
            }
            Input::Standard(whole) => give(io::stdin().lock(), whole, to)
                .map(|_| ())
                .map_err(|error| Failure::failed(format!("the standard input can't be read: {error}"))),
        }
    }
}

/// Gives the messages of one source. `Ok(false)`: nobody takes them.
fn give(mut source: impl BufRead, whole: bool, to: &SyncSender<Vec<u8>>) -> io::Result<bool> {
    loop {
        let mut message = Vec::new();
        let mut source = source.by_ref().take(MESSAGE_BYTES_MAX);
        let read = if whole { source.read_to_end(&mut message)? } else { source.read_until(b'\n', &mut message)? };
        if read == 0 && !whole {
            return Ok(true);
        }
        if !whole && message.last() == Some(&b'\n') {
            message.pop();
        }
        if to.send(message).is_err() {
            return Ok(false);
        }
        if whole {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    fn given(bytes: &[u8], whole: bool) -> Vec<String> {
        let (to, from) = sync_channel(10);
        assert!(give(bytes, whole, &to).unwrap());
        drop(to);
        from.iter().map(|message| String::from_utf8(message).unwrap()).collect()
    }

    #[test]
    fn a_line_is_a_message_and_an_empty_one_too() {
        assert_eq!(given(b"one\n\nthree", false), ["one", "", "three"]);
        assert_eq!(given(b"one\n", false), ["one"]);
        assert_eq!(given(b"", false), [""; 0]);
    }

    #[test]
    fn as_a_whole_everything_is_one_message() {
        assert_eq!(given(b"one\n\nthree\n", true), ["one\n\nthree\n"]);
        assert_eq!(given(b"", true), [""]);
    }
}
