//! Requests and answers: a line of JSON and, below it, the bytes of inputs; JSON, or a page.

use peerlane::evidence::Files;
use peerlane::evidence::Item;
use peerlane::units::Bytes;
use peerlane::what_if::Edit;
use serde::Deserialize;
use serde_json::json;

use crate::answers;
use crate::session::Session;

/// What is asked.
#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Request {
    /// Forgets all inputs.
    Clear {},
    /// Takes one input, which follows the line: a system of the catalogue, a file, or the files of a folder one after another.
    Read {
        name: String,
        #[serde(default)]
        catalogue: bool,
        #[serde(default)]
        files: Option<Vec<Piece>>,
    },
    /// Makes machines of the inputs: of all together or, where they are to be compared, of each `apart`.
    Open {
        #[serde(default)]
        apart: bool,
    },
    /// The document of `check`.
    Check(Changes),
    /// The document of `predict`.
    Predict(Predict),
    /// The document of `explain`.
    Explain(Explain),
    /// The document of `compare`.
    Compare(Changes),
    /// The document of a page: with edits, before and after side by side.
    Report(Changes),
    /// The page itself.
    Page(Changes),
    /// One machine as a system file, with the edits made.
    System(Changes),
    /// The catalogue.
    Systems {},
    /// Names and titles of parts.
    Parts {},
}

/// A file of a folder.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Piece {
    path: String,
    size: usize,
}

/// Edits of the design, in the language of `--what-if`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Changes {
    #[serde(default)]
    edits: Vec<String>,
}

/// Of `predict`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Predict {
    #[serde(default)]
    edits: Vec<String>,
    #[serde(default)]
    sizes: Vec<String>,
    #[serde(default)]
    collectives: Vec<String>,
}

/// Of `explain`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Explain {
    #[serde(default)]
    edits: Vec<String>,
    /// The machine by name, where there are several.
    #[serde(default)]
    machine: Option<String>,
    a: String,
    b: String,
}

/// Why there is no answer, in sentences.
pub(crate) type Refusal = String;

/// What is answered, `{"ok": …}` or `{"error": "…"}`.
pub(crate) fn answer(session: &mut Session, request: &[u8]) -> Vec<u8> {
    let answered = parse(request).and_then(|(request, body)| act(session, request, body));
    match answered {
        Ok(document) => [b"{\"ok\":".as_slice(), document.as_bytes(), b"}"].concat(),
        Err(why) => json!({ "error": why }).to_string().into_bytes(),
    }
}

fn parse(request: &[u8]) -> Result<(Request, &[u8]), Refusal> {
    let end = request.iter().position(|byte| *byte == b'\n').unwrap_or(request.len());
    let (line, body) = request.split_at(end);
    let request = serde_json::from_slice(line).map_err(|e| format!("not a request: {e}"))?;
    Ok((request, body.get(1..).unwrap_or_default()))
}

fn act(session: &mut Session, request: Request, body: &[u8]) -> Result<String, Refusal> {
    match request {
        Request::Clear {} => {
            *session = Session::default();
            Ok("null".to_owned())
        }
        Request::Read { name, catalogue: true, .. } => session.read_known(&name),
        Request::Read { name, files: None, .. } => session.read_file(&name, body),
        Request::Read { name, files: Some(pieces), .. } => session.read_folder(&name, &folder(pieces, body)?),
        Request::Open { apart } => session.open(apart),
        Request::Check(Changes { edits }) => answers::check(session.subject()?, &parsed(&edits)?),
        Request::Predict(Predict { edits, sizes, collectives }) => {
            answers::predict(session.machines()?, &parsed(&edits)?, &in_bytes(&sizes)?, &in_bytes(&collectives)?)
        }
        Request::Explain(Explain { edits, machine, a, b }) => {
            answers::explain(session.machines()?, &parsed(&edits)?, machine.as_deref(), &a, &b)
        }
        Request::Compare(Changes { edits }) => answers::compare(session.machines()?, &parsed(&edits)?),
        Request::Report(Changes { edits }) => answers::report(session, &parsed(&edits)?),
        Request::Page(Changes { edits }) => answers::page(session.subject()?, &parsed(&edits)?),
        Request::System(Changes { edits }) => answers::system(session.machines()?, &parsed(&edits)?),
        Request::Systems {} => answers::systems(),
        Request::Parts {} => answers::parts(),
    }
}

fn parsed(edits: &[String]) -> Result<Vec<Edit>, Refusal> {
    edits.iter().map(|edit| edit.parse::<Edit>().map_err(|e| e.to_string())).collect()
}

fn in_bytes(sizes: &[String]) -> Result<Vec<Bytes>, Refusal> {
    sizes.iter().map(|size| size.parse::<Bytes>().map_err(|e| format!("{size}: {e}"))).collect()
}

/// The files of a folder, out of the bytes of all of them.
fn folder(pieces: Vec<Piece>, mut body: &[u8]) -> Result<Files, Refusal> {
    let mut files = Files::default();
    for Piece { path, size } in pieces {
        let Some((bytes, rest)) = body.split_at_checked(size) else {
            return Err(format!("{path}: shorter than stated"));
        };
        body = rest;
        files.insert(&path, Item::File(bytes.to_vec()));
    }
    Ok(files)
}
