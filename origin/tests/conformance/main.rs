//! One suite, both databases: every case of the modules below runs on Postgres and on SQLite.

mod change_steps;
mod changes;
mod control;
mod entries;
mod fence;
mod fixture;
mod leases;
mod migrations;
mod pools;
mod put_together;
mod ring;
mod slots;
mod take_over;
mod take_over_races;

mod postgres_faults;
mod sqlite_faults;

/// Makes a test on each database of every case: an `async fn(&Fixture)`.
macro_rules! on_both {
    ($($case:ident),+ $(,)?) => {
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case(&crate::fixture::Fixture::postgres().await).await;
            })+
        }
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case(&crate::fixture::Fixture::sqlite().await).await;
            })+
        }
    };
}
pub(crate) use on_both;
