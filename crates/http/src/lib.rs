//! What is told about a broker over HTTP: metrics and health. It only ever reads.
//!
//! | path | answer |
//! |---|---|
//! | `GET /metrics` | Prometheus text |
//! | `GET /health/live` | 200, or 503 if nothing but a restart helps |
//! | `GET /health/ready` | 200, or 503 with the reasons: each check, and what an operator should know |
//!
//! Everything else is answered 404 as JSON. A client has a limited time to say what it wants, may say only little, and
//! only so many may be connected: whoever stalls here holds up nobody else.

mod health;
mod metrics;
mod observed;
mod process;
mod sample;
mod serve;

pub use health::{Check, Health};
pub use observed::{Clock, Observed};
pub use sample::{Reading, Sample, Samples};
pub use serve::{Limits, serve};
