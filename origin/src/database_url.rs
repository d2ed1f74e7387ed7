//! `DATABASE_URL`: `postgres://…` or `sqlite://path`.

use std::path::PathBuf;
use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;

/// A checked database URL. `Debug` and `Display` never show a password.
#[derive(Clone, PartialEq, Eq)]
pub enum DatabaseUrl {
    /// `postgres://…` or `postgresql://…`, whole.
    Postgres(String),
    /// The path of `sqlite://path` (`sqlite:///abs`, `sqlite://rel`).
    Sqlite(PathBuf),
}

/// A text that is no database URL; says why without repeating it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DatabaseUrlInvalid(pub String);

/// Query parameters that the driver knows; others (other clients have more) are left out when connecting.
const POSTGRES_PARAMETERS: [&str; 19] = [
    "sslmode",
    "ssl-mode",
    "sslrootcert",
    "ssl-root-cert",
    "ssl-ca",
    "sslcert",
    "ssl-cert",
    "sslkey",
    "ssl-key",
    "statement-cache-capacity",
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "password",
    "application_name",
    "options",
    "options[",
];

fn invalid(why: &str) -> DatabaseUrlInvalid {
    DatabaseUrlInvalid(why.to_owned())
}

impl FromStr for DatabaseUrl {
    type Err = DatabaseUrlInvalid;

    fn from_str(url: &str) -> Result<Self, DatabaseUrlInvalid> {
        let url = url.trim();
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(invalid("not a database URL: expected postgres://… or sqlite://path"));
        };
        match scheme {
            "postgres" | "postgresql" => {
                postgres_options(url)?;
                Ok(Self::Postgres(url.to_owned()))
            }
            "sqlite" => sqlite_path(rest).map(Self::Sqlite),
            _ => Err(invalid("unknown database scheme: expected postgres:// or sqlite://")),
        }
    }
}

/// How to connect; parameters that the driver does not know are left out, as it would log them with their values.
pub(crate) fn postgres_options(url: &str) -> Result<PgConnectOptions, DatabaseUrlInvalid> {
    let known = |pair: &&str| {
        let name = pair.split('=').next().unwrap_or("");
        POSTGRES_PARAMETERS.contains(&name) || name.starts_with("options[")
    };
    let url = match url.split_once('?') {
        Some((base, query)) => format!("{base}?{}", query.split('&').filter(known).collect::<Vec<_>>().join("&")),
        None => url.to_owned(),
    };
    let options = PgConnectOptions::from_str(&url).map_err(|_| {
        invalid("not a valid Postgres URL: expected postgres://user:password@host:port/database, special characters percent-encoded")
    })?;
    if options.get_port() == 0 {
        return Err(invalid("not a valid Postgres URL: the port is 1 to 65535"));
    }
    Ok(options)
}

fn sqlite_path(rest: &str) -> Result<PathBuf, DatabaseUrlInvalid> {
    if rest.contains('?') {
        return Err(invalid("not a valid SQLite URL: it takes no parameters, only sqlite://path"));
    }
    if rest.is_empty() || rest.ends_with('/') {
        return Err(invalid("not a valid SQLite URL: it names no file; expected sqlite://path"));
    }
    if rest.starts_with(':') || rest.contains('\0') {
        return Err(invalid("not a valid SQLite URL: the database is a file, shared by processes"));
    }
    Ok(PathBuf::from(rest))
}

impl std::fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite://{}", path.display()),
            Self::Postgres(url) => match postgres_options(url) {
                Ok(options) => {
                    let database = options.get_database().unwrap_or("");
                    write!(f, "postgres://{}:{}/{}", options.get_host(), options.get_port(), database)
                }
                Err(_) => f.write_str("postgres://…"),
            },
        }
    }
}

impl std::fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DatabaseUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn postgres_urls_are_taken_and_shown_without_credentials() {
        for scheme in ["postgres", "postgresql"] {
            let url =
                format!("{scheme}://alice:Zx9SECRET@db.example:6543/app?sslmode=disable&connect_timeout=Zx9SECRET");
            let url: DatabaseUrl = url.parse().expect("a URL");
            assert!(matches!(url, DatabaseUrl::Postgres(_)));
            assert_eq!(url.to_string(), "postgres://db.example:6543/app");
            assert_eq!(format!("{url:?}"), "DatabaseUrl(postgres://db.example:6543/app)");
        }
    }

    #[test]
    fn sqlite_urls_name_a_relative_or_absolute_file() {
        assert_eq!("sqlite://data/x.db".parse(), Ok(DatabaseUrl::Sqlite("data/x.db".into())));
        assert_eq!("sqlite:///var/x.db".parse(), Ok(DatabaseUrl::Sqlite("/var/x.db".into())));
    }

    #[test]
    fn bad_urls_are_refused_in_one_line_without_being_repeated() {
        let bad = [
            "",
            "Zx9SECRET",
            "mysql://a:Zx9SECRET@h/d",
            "postgres://a:Zx9SECRET@h:99999/d",
            "postgres://a:Zx9SECRET@h:x/d",
            "postgres://a:Zx9SECRET@h:0/d",
            "postgres://a:Zx9#SECRET@h:5432/d",
            "postgres://h/d?sslmode=Zx9SECRET",
            "postgres://h/d?port=Zx9SECRET",
            "sqlite://",
            "sqlite:///",
            "sqlite://:memory:",
            "sqlite://x.db?mode=Zx9SECRET",
        ];
        for url in bad {
            let error = url.parse::<DatabaseUrl>().expect_err(url).to_string();
            assert!(!error.contains("SECRET") && !error.contains("Zx9") && !error.contains('\n'), "{url}: {error}");
        }
    }
}
