//! Settings as a started program meets them: the process's own arguments, environment, exit code and stderr.
//!
//! Not under the usual harness: started with [`AS_PROGRAM`] set, this is the program; else it starts itself so, once a case.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::process::{Command, Output};

use clap::{Parser, Subcommand};
use service::settings::{ByteSize, ClusterToken, parse_args};

const AS_PROGRAM: &str = "SETTINGS_TEST_AS_PROGRAM";
const SECRET: &str = "Zx9SECRET";

#[derive(Parser, Debug)]
struct Program {
    #[arg(long, env = "SHARDCACHE_L1_BYTES", default_value = "1MiB")]
    l1_bytes: ByteSize,
    #[arg(long, env = "DATABASE_URL")]
    database_url: String,
    #[arg(long, env = "SHARDCACHE_CLUSTER_TOKEN")]
    cluster_token: Option<ClusterToken>,
    #[arg(long, env = "SAMPLE_QUIET")]
    quiet: bool,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Subcommand, Debug)]
enum Verb {
    Resize {
        #[arg(long, env = "SAMPLE_SIZE", default_value = "64KiB")]
        to: ByteSize,
        #[arg(long)]
        force: bool,
    },
}

type Variables<'a> = &'a [(&'a str, &'a str)];

const DATABASE: (&str, &str) = ("DATABASE_URL", "sqlite://x");

fn main() {
    if std::env::var_os(AS_PROGRAM).is_some() {
        println!("{:?}", parse_args::<Program>());
        return;
    }
    a_bad_setting_ends_the_program_with_code_2_and_one_line();
    a_secret_is_in_no_line();
    a_variable_that_is_not_text_is_named();
    variables_set_to_nothing_count_as_unset();
    help_succeeds_without_the_values_of_the_environment();
    an_unknown_variable_is_warned_of_and_harmless();
}

fn start<'a>(args: &[&str], variables: impl IntoIterator<Item = (&'a str, &'a OsStr)>) -> Output {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command.env_clear().env(AS_PROGRAM, "1").args(args).envs(variables).output().expect("started")
}

fn run(args: &[&str], variables: Variables<'_>) -> Output {
    start(args, variables.iter().map(|(name, value)| (*name, OsStr::new(*value))))
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

/// The only line of a start that must fail.
fn complaint(output: &Output) -> &str {
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    stderr.trim_end()
}

/// What the program understood.
fn understood(output: &Output) -> &str {
    assert!(output.status.success(), "{output:?}");
    text(&output.stdout)
}

fn a_bad_setting_ends_the_program_with_code_2_and_one_line() {
    let bad_size = "is not valid: a size is a whole number with B, kB, KiB, MB, MiB, GB or GiB, as 256MiB";
    let bad_l1 = |value: &str| format!("error: SHARDCACHE_L1_BYTES (--l1-bytes): {value:?} {bad_size}");
    let cases: [(&[&str], Variables<'_>, String); 8] = [
        (&[], &[], "error: DATABASE_URL (--database-url) must be set".into()),
        (&[], &[DATABASE, ("SHARDCACHE_L1_BYTES", "many")], bad_l1("many")),
        (&["--l1-bytes=many"], &[DATABASE], bad_l1("many")),
        (&["--l1-bytes=a\nb"], &[DATABASE], bad_l1("a\nb")),
        (
            &["resize", "--force"],
            &[DATABASE, ("SAMPLE_SIZE", "0")],
            "error: SAMPLE_SIZE (--to): \"0\" is not valid: must be more than 0".into(),
        ),
        (
            &["--l1-bytes"],
            &[DATABASE],
            "error: SHARDCACHE_L1_BYTES (--l1-bytes): \"\" is not valid: it must not be empty".into(),
        ),
        (&["--l2"], &[DATABASE], "error: unexpected argument '--l2' found".into()),
        (&["shrink"], &[DATABASE], "error: unrecognized subcommand 'shrink'".into()),
    ];
    for (args, variables, line) in cases {
        assert_eq!(complaint(&run(args, variables)), line, "{args:?} {variables:?}");
    }
    let quiet = run(&[], &[DATABASE, ("SAMPLE_QUIET", "perhaps")]);
    assert!(complaint(&quiet).starts_with("error: SAMPLE_QUIET (--quiet): \"perhaps\" is not valid: "), "{quiet:?}");
}

fn a_secret_is_in_no_line() {
    let token = format!("{SECRET} with blanks");
    let misspelt = format!("--cluster-tokn={SECRET}");
    let url = format!("postgres://user:{SECRET}@host/db");
    for output in [
        run(&[], &[DATABASE, ("SHARDCACHE_CLUSTER_TOKEN", &token)]),
        run(&["--cluster-token", &token], &[DATABASE]),
        run(&[&misspelt], &[DATABASE]),
        run(&[&url], &[DATABASE]),
        run(&["resize", &url], &[DATABASE]),
        run(&["--l1-bytes=0"], &[("DATABASE_URL", &url)]),
    ] {
        assert!(!complaint(&output).contains(SECRET), "{output:?}");
    }
}

fn a_variable_that_is_not_text_is_named() {
    let bytes = OsString::from_vec(vec![b'1', 0xff]);
    for name in ["SHARDCACHE_L1_BYTES", "DATABASE_URL", "SHARDCACHE_CLUSTER_TOKEN", "SAMPLE_QUIET"] {
        let database = (name != DATABASE.0).then_some((DATABASE.0, OsStr::new(DATABASE.1)));
        let output = start(&[], database.into_iter().chain([(name, bytes.as_os_str())]));
        assert!(complaint(&output).starts_with(&format!("error: {name} (--")), "{output:?}");
    }
}

fn variables_set_to_nothing_count_as_unset() {
    let empty = [
        DATABASE,
        ("SHARDCACHE_L1_BYTES", ""),
        ("SHARDCACHE_CLUSTER_TOKEN", ""),
        ("SAMPLE_QUIET", ""),
        ("SAMPLE_SIZE", ""),
    ];
    let unset = run(&["resize"], &[DATABASE]);
    assert_eq!(understood(&run(&["resize"], &empty)), understood(&unset));
    assert!(text(&unset.stdout).contains("l1_bytes: ByteSize(1048576)"), "{unset:?}");
    let missing = run(&[], &[("DATABASE_URL", "")]);
    assert_eq!(complaint(&missing), "error: DATABASE_URL (--database-url) must be set");
    let help = run(&["--help"], &empty);
    assert!(understood(&help).contains("[env: SHARDCACHE_L1_BYTES]"), "{help:?}");
}

fn help_succeeds_without_the_values_of_the_environment() {
    for args in [&["--help"][..], &["resize", "--help"]] {
        let output = run(args, &[("DATABASE_URL", SECRET), ("SAMPLE_SIZE", "77777")]);
        let help = understood(&output);
        assert!(help.contains("[env: ") && !help.contains(SECRET) && !help.contains("77777"), "{help}");
    }
}

fn an_unknown_variable_is_warned_of_and_harmless() {
    let output = run(&[], &[DATABASE, ("SHARDCACHE_TYPO", "1"), ("SHARDCACHE_LISTEN", "127.0.0.1:1")]);
    understood(&output);
    assert_eq!(
        text(&output.stderr),
        "warning: the environment variable SHARDCACHE_TYPO is not a setting and has no effect\n"
    );
}
