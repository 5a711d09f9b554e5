//! The worker, as the process that supervises it starts it.

use std::env;
use std::io;
use std::time::Duration;

use peerlane::tune;
use peerlane::units::Seconds;
use peerlane_gpu::search;
use peerlane_gpu::session::{Role, Session};

use super::protocol::{AHEAD, Message, Request, Trial};
use crate::system;

/// The hidden command that makes this program a worker.
pub(crate) const COMMAND: &str = "worker";

const ROLE: Role =
    Role { name: "the measuring process", tick: Duration::from_millis(50), dying: Duration::from_secs(10) };

/// Extra patience beyond that of a step, since the worker's own report on a hung step is more precise.
const GRACE: f64 = 1.25;

/// How many times longer than a step opening the machine may take.
const OPENING: f64 = 3.0;

/// A running worker.
pub(crate) type Worker = Session<Message>;

/// Starts a worker.
pub(crate) fn start(request: &Request) -> io::Result<Worker> {
    let mut worker = spawn(request.trial.as_ref())?;
    worker.send(request)?;
    Ok(worker)
}

/// Starts a worker for this machine's GPUs before it is known what it is to do. It starts the driver and NVML meanwhile.
pub(crate) fn start_ahead() -> io::Result<Worker> {
    let mut worker = spawn(None)?;
    worker.send(&AHEAD)?;
    Ok(worker)
}

fn spawn(trial: Option<&Trial>) -> io::Result<Worker> {
    let mut command = search::own_command()?;
    if let Some(trial) = trial {
        let inherited =
            env::vars_os().map(|(name, _)| name).filter(|name| name.as_encoded_bytes().starts_with(b"NCCL_"));
        for name in inherited {
            command.env_remove(name);
        }
        command.envs(&trial.variables).envs(tune::ALWAYS);
    }
    // Ctrl-C is for this process only, which then ends the worker in order
    system::own_group(&mut command);
    command.arg(COMMAND);
    Session::start(ROLE, command)
}

/// How long a worker may be silent, with a machine that is open or is being opened.
pub(crate) fn patience(of_a_step: Seconds, open: bool) -> Duration {
    Duration::try_from_secs_f64(of_a_step.seconds() * if open { GRACE } else { OPENING }).unwrap_or(Duration::MAX)
}

/// Why a step is given up.
pub(crate) fn no_sign_of_life(silence: Duration) -> String {
    format!("no sign of life for {:.1} s", silence.as_secs_f64())
}
