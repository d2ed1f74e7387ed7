//! The `shardcache` program.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use standalone::{Config, banner};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Exit code of a stop that a second signal cuts short.
const CUT_SHORT: i32 = 130;

/// A whole shardcache cluster in one process: a gateway and cache nodes, on an SQLite file unless DATABASE_URL is set.
#[derive(Debug, Parser)]
#[command(name = "shardcache", version, about)]
struct Args {
    #[command(flatten)]
    config: Config,
}

fn main() -> ExitCode {
    let args: Args = service::settings::parse_args();
    let log_format = args.config.log_format;
    service::program::run("shardcache", log_format, run(args.config))
}

async fn run(config: Config) -> anyhow::Result<()> {
    let stop = service::stop::on_signals();
    tokio::spawn(exit_on_second_signal(stop.clone()));
    match standalone::start(config.clone(), stop.clone()).await {
        Ok(running) => {
            // Nobody may be reading; that is no reason to stop.
            let _ = writeln!(std::io::stdout(), "{}", banner::text(&config, &running));
            running.stopped().await
        }
        Err(_) if stop.is_cancelled() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Whoever asks twice does not want to wait for the drain.
async fn exit_on_second_signal(stop: CancellationToken) {
    let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return;
    };
    let mut signals = 0;
    while signals < 2 {
        tokio::select! {
            _ = terminate.recv() => signals += 1,
            _ = interrupt.recv() => signals += 1,
        }
        stop.cancel();
    }
    std::process::exit(CUT_SHORT);
}
