//! From command line and environment to settings: one clear line when something is wrong, and never a secret in it.

use std::ffi::{OsStr, OsString};

use clap::builder::Resettable;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, Parser};

/// Exit code of a start that its settings stop.
const USAGE_EXIT_CODE: i32 = 2;
/// The prefix of our environment variables.
const PREFIX: &str = "SHARDCACHE_";
/// Every variable of the product. One file of variables may serve several programs, so a program warns only of variables
/// that none of them knows.
const VARIABLES: &[&str] = &[
    "SHARDCACHE_LISTEN",
    "SHARDCACHE_ADVERTISE",
    "SHARDCACHE_NODE_ID",
    "SHARDCACHE_NODE_WEIGHT",
    "SHARDCACHE_NODE_POOL",
    "SHARDCACHE_L1_BYTES",
    "SHARDCACHE_L1_TTL",
    "SHARDCACHE_L2_TTL",
    "SHARDCACHE_NEGATIVE_TTL",
    "SHARDCACHE_LEASE_TTL",
    "SHARDCACHE_AUDIT_EVERY",
    "SHARDCACHE_DRAIN",
    "SHARDCACHE_DRAIN_TIMEOUT",
    "SHARDCACHE_TAKEOVER_GRACE",
    "SHARDCACHE_CLUSTER_TOKEN",
    "SHARDCACHE_MAX_VALUE_BYTES",
    "SHARDCACHE_KEYLESS",
    "SHARDCACHE_AUTH",
    "SHARDCACHE_TOKEN_FILE",
    "SHARDCACHE_JWT_KEY_FILE",
    "SHARDCACHE_JWT_JWKS_FILE",
    "SHARDCACHE_JWT_AUDIENCE",
    "SHARDCACHE_JWT_ISSUER",
    "SHARDCACHE_JWT_USER_CLAIM",
    "SHARDCACHE_ADMIN_LISTEN",
    "SHARDCACHE_TRUSTED_PROXIES",
    "SHARDCACHE_ALLOW",
    "SHARDCACHE_DENY",
    "SHARDCACHE_ACCESS_LOG",
    "SHARDCACHE_LOG_HASH_KEY",
    "SHARDCACHE_RATE_USER",
    "SHARDCACHE_RATE_CLIENT",
    "SHARDCACHE_RATE_TOTAL",
    "SHARDCACHE_CONCURRENCY",
    "SHARDCACHE_FAULTS",
    "SHARDCACHE_FAULT_RULES",
    "SHARDCACHE_SHOW_USERS",
    "SHARDCACHE_LOG_FORMAT",
    "SHARDCACHE_NODES",
    "SHARDCACHE_DATA_DIR",
    "SHARDCACHE_TLS_CERT",
    "SHARDCACHE_TLS_KEY",
    "SHARDCACHE_TLS_CLIENT_CA",
    "SHARDCACHE_NODE_CA",
    "SHARDCACHE_NODE_CLIENT_CERT",
    "SHARDCACHE_NODE_CLIENT_KEY",
    "SHARDCACHE_REDIRECT_LISTEN",
    "SHARDCACHE_HEALTH_EVERY",
    "SHARDCACHE_OUTLIER",
    "SHARDCACHE_RETRY_BUDGET",
    "SHARDCACHE_HEDGE",
    "SHARDCACHE_BALANCE",
];

/// The settings of this process, from flags and environment.
///
/// A bad one ends the process with exit code 2 and one line on stderr; `--help` and `--version` print and exit 0. Unknown
/// `SHARDCACHE_*` variables get a warning.
pub fn parse_args<T: Parser>() -> T {
    let known = built(without_env_values(T::command()));
    let is_empty = |variable: &OsStr| std::env::var_os(variable).is_some_and(|value| value.is_empty());
    let effective = without_empty_variables(known.clone(), &is_empty);
    match effective.try_get_matches().and_then(|matches| T::from_arg_matches(&matches)) {
        Ok(settings) => {
            warn_unknown_variables(&known);
            settings
        }
        // Again by the command that still knows the empty variables, so that they are in the help too.
        Err(error) if is_help(error.kind()) => known.try_get_matches().err().unwrap_or(error).exit(),
        Err(error) => {
            eprintln!("{}", complaint(&known, &error));
            std::process::exit(USAGE_EXIT_CODE);
        }
    }
}

/// One warning line on stderr for each `SHARDCACHE_*` variable of the environment that no program of the product knows.
pub fn warn_unknown_variables(known: &Command) {
    for name in unknown_variables(known, std::env::vars_os().map(|(name, _)| name)) {
        eprintln!("warning: the environment variable {name} is not a setting and has no effect");
    }
}

fn is_help(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    )
}

/// Built, so that its arguments can be named in a complaint.
fn built(mut command: Command) -> Command {
    command.build();
    command
}

/// A variable set to nothing counts as unset: that is how compose files and shells pass on what they have not got.
fn without_empty_variables(command: Command, is_empty: &impl Fn(&OsStr) -> bool) -> Command {
    command
        .mut_args(|arg| if arg.get_env().is_some_and(is_empty) { arg.env(Resettable::Reset) } else { arg })
        .mut_subcommands(|command| without_empty_variables(command, is_empty))
}

/// Values of the environment never show in `--help`.
fn without_env_values(command: Command) -> Command {
    command.mut_args(|arg| arg.hide_env_values(true)).mut_subcommands(without_env_values)
}

fn all_args(command: &Command) -> Vec<&Arg> {
    let nested = command.get_subcommands().flat_map(all_args);
    command.get_arguments().chain(nested).collect()
}

fn unknown_variables(known: &Command, set: impl Iterator<Item = OsString>) -> Vec<String> {
    let args = all_args(known);
    let mut unknown: Vec<String> = set
        .filter_map(|name| name.into_string().ok())
        .filter(|name| name.starts_with(PREFIX) && !VARIABLES.contains(&name.as_str()))
        .filter(|name| !args.iter().any(|arg| arg.get_env().is_some_and(|env| env == name.as_str())))
        .collect();
    unknown.sort();
    unknown
}

/// One line that says which setting is wrong and why.
fn complaint(command: &Command, error: &clap::Error) -> String {
    let named = context(error, ContextKind::InvalidArg);
    let args = all_args(command);
    let arg = named.first().and_then(|shown| args.iter().find(|arg| arg.to_string() == *shown));
    let name = arg.map_or_else(|| named.join(", "), |arg| name_of(arg));
    match error.kind() {
        ErrorKind::ValueValidation | ErrorKind::InvalidValue => {
            let value = context(error, ContextKind::InvalidValue).concat();
            let secret = arg.is_none_or(|arg| is_secret(arg));
            let reason = reason(error);
            if secret {
                let hidden = if repeats(&reason, &value) { "the value is not valid (not shown)" } else { &reason };
                format!("error: {name}: {hidden}")
            } else {
                format!("error: {name}: {value:?} is not valid: {reason}")
            }
        }
        ErrorKind::MissingRequiredArgument => {
            let names: Vec<String> = named
                .iter()
                .map(|shown| {
                    args.iter().find(|arg| arg.to_string() == *shown).map_or((*shown).to_owned(), |arg| name_of(arg))
                })
                .collect();
            format!("error: {} must be set", names.join(", "))
        }
        // clap does not say which one it was; an argument of the command line has no name that could be told.
        ErrorKind::InvalidUtf8 => match args.iter().find(|arg| arg.get_env().is_some_and(is_not_text)) {
            Some(arg) => format!("error: {}: the value is not UTF-8", name_of(arg)),
            None => "error: an argument is not UTF-8".to_owned(),
        },
        _ => without_addresses(error.to_string().lines().next().unwrap_or("error: bad arguments")),
    }
}

/// `SHARDCACHE_LISTEN (--listen)`.
fn name_of(arg: &Arg) -> String {
    let flag = arg.get_long().map(|long| format!("--{long}")).unwrap_or_else(|| arg.to_string());
    match arg.get_env() {
        Some(variable) => format!("{} ({flag})", variable.to_string_lossy()),
        None => flag,
    }
}

fn is_not_text(variable: &OsStr) -> bool {
    std::env::var_os(variable).is_some_and(|value| value.to_str().is_none())
}

fn is_secret(arg: &Arg) -> bool {
    let id = arg.get_id().as_str();
    ["url", "token", "password", "secret", "hash_key"].iter().any(|word| id.contains(word))
}

fn reason(error: &clap::Error) -> String {
    if let Some(source) = std::error::Error::source(error) {
        return source.to_string().lines().collect::<Vec<_>>().join(" ");
    }
    let possible = context(error, ContextKind::ValidValue);
    if possible.is_empty() {
        "it must not be empty".to_owned()
    } else {
        format!("possible values are {}", possible.join(", "))
    }
}

/// Whether a reason given by some library repeats a part of a secret value.
fn repeats(reason: &str, value: &str) -> bool {
    const PUBLIC: [&str; 7] = ["postgres", "postgresql", "sqlite", "redis", "rediss", "unix", "localhost"];
    value
        .split(|c: char| !c.is_alphanumeric())
        .any(|part| part.len() >= 3 && !PUBLIC.contains(&part) && reason.contains(part))
}

/// An argument in the wrong place may be a URL with a password.
fn without_addresses(line: &str) -> String {
    if line.contains("://") {
        "error: unexpected argument (not shown, it looks like an address)".to_owned()
    } else {
        line.to_owned()
    }
}

fn context(error: &clap::Error, kind: ContextKind) -> Vec<&str> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => vec![text],
        Some(ContextValue::Strings(texts)) => texts.iter().map(String::as_str).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, FromArgMatches};

    use super::*;
    use crate::settings::{ByteSize, ClusterToken, LogFormat};

    #[derive(Parser, Debug)]
    struct Sample {
        #[arg(long, env = "SAMPLE_L1_BYTES", default_value = "1MiB")]
        l1_bytes: ByteSize,
        #[arg(long, env = "SAMPLE_DATABASE_URL", value_parser = refuse_url)]
        database_url: String,
        #[arg(long, env = "SAMPLE_TOKEN")]
        cluster_token: Option<ClusterToken>,
        #[arg(long, env = "SAMPLE_LOG_FORMAT")]
        log_format: Option<LogFormat>,
        #[arg(long, env = "SAMPLE_JSON")]
        json: bool,
        #[command(subcommand)]
        command: Option<Nested>,
    }

    #[derive(clap::Subcommand, Debug)]
    enum Nested {
        Resize {
            #[arg(long, env = "SAMPLE_L1_BYTES")]
            to: ByteSize,
        },
    }

    fn refuse_url(url: &str) -> Result<String, String> {
        if url.starts_with("sqlite://") { Ok(url.to_owned()) } else { Err(format!("what is {url}?")) }
    }

    fn complaint_of(args: &[&str]) -> String {
        let command = built(Sample::command());
        let args = std::iter::once("sample").chain(args.iter().copied());
        let error =
            command.clone().try_get_matches_from(args).and_then(|m| Sample::from_arg_matches(&m)).expect_err("bad");
        complaint(&command, &error)
    }

    #[test]
    fn a_bad_value_is_named_with_variable_flag_value_and_reason_in_one_line() {
        let line = complaint_of(&["--database-url", "sqlite://x", "--l1-bytes", "many"]);
        assert!(line.starts_with("error: SAMPLE_L1_BYTES (--l1-bytes): \"many\" is not valid: a size is"), "{line}");
        let line = complaint_of(&["--database-url", "sqlite://x", "--log-format", "xml"]);
        assert_eq!(
            line,
            "error: SAMPLE_LOG_FORMAT (--log-format): \"xml\" is not valid: possible values are pretty, json"
        );
        assert_eq!(complaint_of(&[]), "error: SAMPLE_DATABASE_URL (--database-url) must be set");
        assert_eq!(complaint_of(&["--database-url=sqlite://x", "--l2"]), "error: unexpected argument '--l2' found");
    }

    #[test]
    fn a_bad_value_of_a_subcommand_is_named_too() {
        let line = complaint_of(&["--database-url=sqlite://x", "resize", "--to", "0"]);
        assert!(line.starts_with("error: SAMPLE_L1_BYTES (--to): \"0\" is not valid"), "{line}");
    }

    #[test]
    fn a_variable_set_to_nothing_counts_as_unset() {
        let command = without_empty_variables(Sample::command(), &|variable| variable == "SAMPLE_L1_BYTES");
        let variable_of = |command: &Command, id: &str| {
            let arg = command.get_arguments().find(|arg| arg.get_id() == id).expect("arg");
            arg.get_env().map(|variable| variable.to_string_lossy().into_owned())
        };
        assert_eq!(variable_of(&command, "l1_bytes"), None);
        assert_eq!(variable_of(&command, "cluster_token").as_deref(), Some("SAMPLE_TOKEN"));
        assert_eq!(variable_of(command.find_subcommand("resize").expect("resize"), "to"), None);
    }

    #[test]
    fn a_secret_is_not_repeated_whatever_is_wrong_with_it() {
        for args in [
            &["--database-url", "postgres://u:Zx9SECRET@h/d"][..],
            &["postgres://u:Zx9SECRET@h/d"],
            &["--database-url=sqlite://x", "--cluster-token", "Zx9SECRET with blanks"],
        ] {
            let line = complaint_of(args);
            assert!(!line.contains("SECRET"), "{line}");
            assert_eq!(line.lines().count(), 1);
        }
        assert!(complaint_of(&["--database-url=sqlite://x", "--cluster-token", "a b"]).contains("visible ASCII"));
    }

    #[test]
    fn values_of_the_environment_are_hidden_in_the_help() {
        let command = without_env_values(Sample::command());
        assert!(command.get_arguments().filter(|arg| arg.get_env().is_some()).all(Arg::is_hide_env_values_set));
    }

    #[test]
    fn only_variables_that_no_program_knows_are_unknown() {
        let set = ["SHARDCACHE_TYPO", "SHARDCACHE_L1_BYTES", "PATH", "SAMPLE_X"].map(OsString::from);
        assert_eq!(unknown_variables(&Sample::command(), set.into_iter()), ["SHARDCACHE_TYPO"]);
    }
}
