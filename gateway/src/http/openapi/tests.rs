//! The document says what the code does: every route, every method, every code with its status. That answers look as it
//! says is shown by `tests/api/schemathesis.sh` on a running cluster.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use wire::ProblemCode;
use wire::entries::{ENTRIES_LIST, ENTRIES_MGET, ENTRIES_PREFIX, LIST_DEFAULT_LIMIT, LIST_MAX_LIMIT, MGET_MAX_KEYS};

use super::*;

const METHODS: [&str; 5] = ["get", "head", "put", "post", "delete"];

fn document() -> Value {
    serde_json::from_str(DOCUMENT).expect("JSON")
}

/// Follows `$ref`.
fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    match value["$ref"].as_str() {
        Some(reference) => document.pointer(&reference[1..]).unwrap_or_else(|| panic!("{reference} leads nowhere")),
        None => value,
    }
}

fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(members) => {
            found.extend(members.get("$ref").and_then(Value::as_str));
            members.values().for_each(|member| references(member, found));
        }
        Value::Array(elements) => elements.iter().for_each(|element| references(element, found)),
        _ => {}
    }
}

/// `path method` → the operation.
fn operations(document: &Value) -> BTreeMap<String, &Value> {
    let paths = document["paths"].as_object().expect("paths");
    let of = |(path, item): (&String, &'_ Value)| -> Vec<String> {
        let methods = METHODS.iter().filter(|method| item.get(**method).is_some());
        methods.map(|method| format!("{path} {method}")).collect()
    };
    let names = paths.iter().flat_map(of);
    names
        .map(|name| {
            let (path, method) = name.split_once(' ').expect("two words");
            let operation = &document["paths"][path][method];
            (name, operation)
        })
        .collect()
}

/// The operations that may answer a code, by their ids; none: not answered by any of its routes.
fn answered_by(code: ProblemCode) -> &'static [&'static str] {
    const WRITES: &[&str] = &["deleteEntry", "putEntry"];
    const ENTRY: &[&str] = &["deleteEntry", "getEntry", "headEntry", "putEntry"];
    const DATA_PLANE: &[&str] = &["deleteEntry", "getEntry", "headEntry", "listEntries", "mgetEntries", "putEntry"];
    const OF_A_USER: &[&str] =
        &["deleteEntry", "getEntry", "headEntry", "listEntries", "locateUser", "mgetEntries", "putEntry"];
    const BUT_HEALTH: &[&str] = &[
        "deleteEntry",
        "getEntry",
        "getRing",
        "headEntry",
        "listEntries",
        "locateUser",
        "metrics",
        "mgetEntries",
        "putEntry",
        "statusPage",
        "topUsers",
    ];
    const DATA_PLANE_AND_TOP: &[&str] =
        &["deleteEntry", "getEntry", "headEntry", "listEntries", "mgetEntries", "putEntry", "topUsers"];
    match code {
        ProblemCode::UserIdMissing | ProblemCode::UserIdInvalid | ProblemCode::OwnerUnavailable => OF_A_USER,
        ProblemCode::OriginUnavailable | ProblemCode::RateLimited => DATA_PLANE,
        ProblemCode::RequestInvalid | ProblemCode::Overloaded => DATA_PLANE_AND_TOP,
        ProblemCode::KeyInvalid => &["deleteEntry", "getEntry", "headEntry", "mgetEntries", "putEntry"],
        ProblemCode::ValueTooLarge | ProblemCode::RequestTimeout => &["mgetEntries", "putEntry"],
        ProblemCode::EntryNotFound => &["deleteEntry", "getEntry", "headEntry"],
        ProblemCode::PreconditionFailed => ENTRY,
        ProblemCode::WriteOutcomeUnknown => WRITES,
        // Of no route: the document's description has them.
        ProblemCode::NotFound | ProblemCode::MethodNotAllowed => &[],
        ProblemCode::Unauthorized | ProblemCode::Forbidden => BUT_HEALTH,
        // Between gateway, nodes and migrator only.
        ProblemCode::WrongOwner | ProblemCode::ChangeConflict => &[],
    }
}

#[test]
fn every_reference_leads_somewhere_and_every_component_is_used() {
    let document = document();
    let mut found = Vec::new();
    references(&document, &mut found);
    for reference in &found {
        assert!(document.pointer(&reference[1..]).is_some(), "{reference}");
    }
    for (kind, components) in document["components"].as_object().expect("components") {
        for name in components.as_object().expect("by name").keys() {
            let reference = format!("#/components/{kind}/{name}");
            assert!(found.contains(&reference.as_str()), "{reference} is not used");
        }
    }
}

#[test]
fn every_route_of_the_gateway_is_in_the_document_and_no_other() {
    let source = include_str!("../../http.rs");
    let routed = source.lines().filter_map(|line| line.trim().strip_prefix(".route(\"")?.split_once("\", get("));
    let mut expected: BTreeSet<String> = routed.map(|(path, _)| format!("{path} get")).collect();
    assert_eq!(expected.len(), source.matches(".route(").count(), "a route that is not read by GET alone");
    expected.extend(["get", "head", "put", "delete"].map(|method| format!("{ENTRIES_PREFIX}{{key}} {method}")));
    expected.extend([format!("{ENTRIES_LIST} get"), format!("{ENTRIES_MGET} post")]);
    let document = document();
    let told: BTreeSet<String> = operations(&document).into_keys().collect();
    assert_eq!(told, expected);
}

#[test]
fn every_code_is_told_by_the_routes_that_answer_it_under_its_status() {
    let document = document();
    let mut told: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for operation in operations(&document).values() {
        let id = operation["operationId"].as_str().expect("an id");
        for (status, response) in operation["responses"].as_object().expect("responses") {
            let response = resolved(&document, response);
            // A HEAD has the codes of its GET, without a body to say them in.
            let codes = if id == "headEntry" && status.starts_with(['4', '5']) {
                let get = &document["paths"]["/v1/entries/{key}"]["get"]["responses"][status];
                codes_of(resolved(&document, get))
            } else {
                codes_of(response)
            };
            for code in codes {
                assert_eq!(parsed(code).status().as_str(), status, "{code} of {id}");
                told.entry(code.to_owned()).or_default().insert(id);
            }
        }
    }
    for code in all_codes() {
        let expected: BTreeSet<&str> = answered_by(code).iter().copied().collect();
        assert_eq!(told.remove(code.name()).unwrap_or_default(), expected, "{}", code.name());
    }
}

fn codes_of(response: &Value) -> Vec<&str> {
    let schema = &response["content"]["application/problem+json"]["schema"];
    let codes = schema.pointer("/allOf/1/properties/code/enum").and_then(Value::as_array);
    codes.into_iter().flatten().map(|code| code.as_str().expect("a code")).collect()
}

fn parsed(code: &str) -> ProblemCode {
    serde_json::from_value(code.into()).unwrap_or_else(|_| panic!("{code} is no code"))
}

/// Every code, by what the table in the operators' manual lists: a code that is missing there is missing here.
fn all_codes() -> Vec<ProblemCode> {
    let manual = include_str!("../../../../docs/OPERATIONS.md");
    let (_, table) = manual.split_once("## Error codes").expect("the table");
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let codes: Vec<_> = rows.map(|(code, _)| parsed(code)).collect();
    assert_eq!(codes.len(), ProblemCode::ChangeConflict as usize + 1, "the table has every code, the last one too");
    codes
}

#[test]
fn examples_of_problems_are_what_the_code_makes_of_them() {
    let document = document();
    for (name, response) in document["components"]["responses"].as_object().expect("responses") {
        let example = &response["content"]["application/problem+json"]["example"];
        let code = parsed(example["code"].as_str().unwrap_or_else(|| panic!("{name} has no example")));
        let detail = example["detail"].as_str().expect("a detail");
        assert_eq!(*example, serde_json::to_value(wire::Problem::new(code, detail)).expect("JSON"), "{name}");
    }
}

#[test]
fn limits_are_those_of_the_code() {
    let document = document();
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    let schemas = &document["components"]["schemas"];
    assert_eq!(schemas["Key"]["maxLength"], placement::entry_key::KEY_MAX_BYTES);
    assert_eq!(
        document["components"]["parameters"]["User"]["schema"]["maxLength"],
        placement::user_id::USER_ID_MAX_BYTES
    );
    assert_eq!(schemas["MgetRequest"]["properties"]["keys"]["maxItems"], MGET_MAX_KEYS);
    assert_eq!(schemas["Ring"]["properties"]["slots"]["const"], placement::SLOT_COUNT);
    let limit = &document["paths"]["/v1/users/top"]["get"]["parameters"][0]["schema"];
    assert_eq!(
        (&limit["maximum"], &limit["default"]),
        (&wire::users::TOP_MAX.into(), &wire::users::TOP_DEFAULT.into())
    );
    let parameters = document["paths"][ENTRIES_LIST]["get"]["parameters"].as_array().expect("parameters");
    let limit = parameters.iter().find(|parameter| parameter["name"] == "limit").expect("limit");
    assert_eq!(
        (&limit["schema"]["maximum"], &limit["schema"]["default"]),
        (&LIST_MAX_LIMIT.into(), &LIST_DEFAULT_LIMIT.into())
    );
}
