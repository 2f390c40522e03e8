//! Steps between versions.

use super::*;

const FIRST: &str = "CREATE TABLE a (x INTEGER) STRICT; INSERT INTO a VALUES (7);";
const SECOND: &str = "ALTER TABLE a ADD COLUMN y INTEGER; UPDATE a SET y = x + 1;";
const BROKEN: &str = "CREATE TABLE b (x INTEGER) STRICT; INSERT INTO nothing VALUES (1);";

fn count(connection: &Connection, sql: &str) -> i64 {
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn each_step_runs_once() {
    let mut connection = Connection::open_in_memory().unwrap();
    migrate(&mut connection, &[FIRST]).unwrap();
    migrate(&mut connection, &[FIRST]).unwrap();
    assert_eq!((version(&connection).unwrap(), count(&connection, "SELECT sum(x) FROM a")), (1, 7));
    migrate(&mut connection, &[FIRST, SECOND]).unwrap();
    assert_eq!((version(&connection).unwrap(), count(&connection, "SELECT y FROM a")), (2, 8));
    assert_eq!(application_id(&connection).unwrap(), APPLICATION_ID);
}

#[test]
fn a_step_that_fails_leaves_the_version_before_it() {
    let mut connection = Connection::open_in_memory().unwrap();
    migrate(&mut connection, &[FIRST, BROKEN]).unwrap_err();
    assert_eq!(version(&connection).unwrap(), 1);
    assert_eq!(count(&connection, "SELECT count(*) FROM sqlite_schema"), 1);
    migrate(&mut connection, &[FIRST, SECOND]).unwrap();
    assert_eq!(version(&connection).unwrap(), 2);
}

#[test]
fn the_steps_are_numbered_without_gaps() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    let mut names: Vec<_> =
        folder.read_dir().unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    let numbers: Vec<usize> = names.iter().map(|name| name[..4].parse().unwrap()).collect();
    assert_eq!(numbers, (1..=MIGRATIONS.len()).collect::<Vec<_>>());
}
