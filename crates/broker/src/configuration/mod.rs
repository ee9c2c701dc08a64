//! What an operator may set: from the original's `server.ini`, from variables and from flags.
//!
//! Text in, values out: nothing here opens a file or reads the environment. Two steps: every source
//! is read by the one table of [`KEYS`] and every mistake is collected; then [`Settings`] resolves what
//! was given and checks that it agrees. What was given last in this list wins: built-in default, file,
//! variable, flag; for a topic then the patterns that match it, its own section, and what an
//! administrator altered at run time.

mod arithmetic;
mod durability;
mod effective;
mod ini;
mod key;
mod keys;
mod limits;
mod origin;
mod problem;
mod reference;
mod reload;
mod retention;
mod schedule;
mod settings;
mod topic;
mod value;
mod written;

pub use arithmetic::NotANumber;
pub use durability::{Durability, DurabilityMode, NotADurability};
pub use effective::{Effective, Warning};
pub use key::{Default, Effect, Family, Key, Kind, Place, Reload};
pub use keys::{KEYS, key};
pub use limits::Limits;
pub use origin::{Origin, Override};
pub use problem::{Errors, Mistake, Problem};
pub use reference::reference;
pub use reload::{Change, Changes, diff};
pub use retention::{Expired, NotARetention, Retention};
pub use schedule::{NotASchedule, Schedule};
pub use settings::{LogSettings, Settings, Times, Zookeeper, config_checksum};
pub use topic::TopicSettings;
pub use value::{NotAValue, Value};
pub use written::Sources;
