//! A suggestion for people: why, what it would look like, and the commands to run next.

use comfy_table::{Table, presets};
use wire::users::{UserLoad, UsersReport};

use super::judge::{FAIR_SHARES, Suggestion};
use super::outlook::NodeOutlook;

/// Why a user is worth moving, in one line.
pub(super) fn why(report: &UsersReport, load: &UserLoad, above: f64) -> String {
    format!(
        "it costs {} of the work of {}: more than {}, and more than {FAIR_SHARES} times the fair share among {} users",
        percent(load.share),
        report.node,
        percent(above),
        report.users_counted,
    )
}

/// The command that moves a user, for a shell.
pub(super) fn command(user: &str, pool: &str) -> String {
    let quoted = quoted(user);
    if user.starts_with('-') {
        // Else it would be taken for a flag.
        format!("migrator assign-user --pool {pool} -- {quoted}")
    } else {
        format!("migrator assign-user {quoted} --pool {pool}")
    }
}

/// A user's id holds any visible ASCII, also what a shell would carry out.
fn quoted(user: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:@%+,/".contains(&byte);
    if user.bytes().all(is_plain) { user.to_owned() } else { format!("'{}'", user.replace('\'', r"'\''")) }
}

impl Suggestion {
    /// For people.
    pub fn text(&self) -> String {
        let mut lines = Vec::new();
        if self.users.is_empty() {
            lines.push(format!("nobody costs more than {} of its node's work; nothing to move", percent(self.above)));
        } else {
            lines
                .push("users worth moving, by what they cost in the last minutes; nothing has been changed".to_owned());
            lines.push(self.users_table());
            lines.extend(self.users.iter().map(|user| format!("{}: {}", user.user, user.why)));
        }
        lines.push(self.nodes_table());
        let unanswered = |node| format!("{node} does not say who its users are: it is left out");
        lines.extend(self.unanswered.iter().map(unanswered));
        if !self.users.is_empty() {
            if !self.to_pool_exists {
                lines.push(format!(
                    "no node is in a pool of its own: start one with SHARDCACHE_NODE_POOL={} first",
                    self.to_pool
                ));
            }
            lines.extend(self.users.iter().map(|user| format!("run: {}", user.command)));
        }
        lines.join("\n")
    }

    fn users_table(&self) -> String {
        let mut table = Table::new();
        let head = ["user", "node", "share", "cores", "requests/s", "bytes/s"];
        table.load_style(presets::ASCII_MARKDOWN).set_header(head);
        for user in &self.users {
            table.add_row([
                user.user.clone(),
                user.node.to_string(),
                percent(user.share),
                format!("{:.3}", user.cores),
                format!("{:.0}", user.requests_per_second),
                format!("{:.0}", user.bytes_per_second),
            ]);
        }
        table.to_string()
    }

    fn nodes_table(&self) -> String {
        let mut table = Table::new();
        let head = ["pool", "node", "cores now", "after", "share of all now", "after"];
        table.load_style(presets::ASCII_MARKDOWN).set_header(head);
        let name =
            |row: &NodeOutlook| row.node.as_ref().map_or_else(|| "(to be started)".to_owned(), ToString::to_string);
        for row in &self.nodes {
            table.add_row([
                row.pool.clone(),
                name(row),
                format!("{:.3}", row.cores_now),
                format!("{:.3}", row.cores_after),
                percent(row.share_now),
                percent(row.share_after),
            ]);
        }
        table.to_string()
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_gives_the_shell_nothing_to_carry_out_and_the_migrator_no_flag() {
        for (user, expected) in [
            ("tenant-7", "migrator assign-user tenant-7 --pool vip"),
            ("$(reboot)", "migrator assign-user '$(reboot)' --pool vip"),
            ("a'b;c", r"migrator assign-user 'a'\''b;c' --pool vip"),
            ("--pool", "migrator assign-user --pool vip -- --pool"),
            ("~root", "migrator assign-user '~root' --pool vip"),
        ] {
            assert_eq!(command(user, "vip"), expected);
        }
    }

    #[test]
    fn without_users_to_move_it_says_so_and_gives_no_command() {
        let nodes = vec![NodeOutlook {
            pool: "shared".to_owned(),
            node: Some("n1".parse().expect("a node id")),
            cores_now: 0.5,
            cores_after: 0.5,
            share_now: 1.0,
            share_after: 1.0,
        }];
        let suggestion = Suggestion {
            users: Vec::new(),
            nodes,
            to_pool: "vip".to_owned(),
            to_pool_exists: false,
            above: 0.2,
            complete: false,
            unanswered: vec!["n2".parse().expect("a node id")],
        };
        let text = suggestion.text();
        assert!(text.starts_with("nobody costs more than 20.0 % of its node's work"), "{text}");
        assert!(text.contains("n2 does not say") && !text.contains("run:") && !text.contains("SHARDCACHE_NODE_POOL"));
    }
}
