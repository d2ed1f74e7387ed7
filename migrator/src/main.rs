//! The `migrator` program.

use std::process::ExitCode;

use migrator::cli::Cli;

fn main() -> ExitCode {
    let cli: Cli = service::settings::parse_args();
    service::logging::init(cli.settings.log_format);
    match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime.block_on(migrator::run::run(cli)),
        Err(error) => {
            eprintln!("migrator: cannot start: {error}");
            ExitCode::FAILURE
        }
    }
}
