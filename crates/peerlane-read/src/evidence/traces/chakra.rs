//! Chakra's execution traces in protobuf: a message with the version and then one a node, each after its length
//! (mlcommons/chakra, `schema/protobuf/et_def.proto` and `src/third_party/utils/protolib.py`).

use super::Recording;
use super::graph::{Attributes, Node, NodeKind, recording};
use super::wire::{Broken, Field, Wire, numbers};

/// The longest list of what a node waits for.
const MOST_WAITS: usize = 1 << 20;
/// The longest text of a process group's description that is looked at.
const MOST_VALUES: usize = 1 << 20;

pub(super) fn read(bytes: &[u8]) -> Result<Recording, String> {
    let mut wire = Wire { left: bytes };
    let mut nodes: Vec<Node> = Vec::new();
    let mut first = true;
    loop {
        let at = bytes.len() - wire.left.len();
        let message = match wire.message() {
            Ok(None) => break,
            Ok(Some(message)) => message,
            Err(broken) => return Err(why(broken, nodes.last(), at, bytes.len())),
        };
        // the first has the version
        if std::mem::take(&mut first) {
            continue;
        }
        // the bytes of a whole message do not end early: it is damaged
        let node = node(message).map_err(|_| why(Broken::Odd, nodes.last(), at, bytes.len()))?;
        nodes.push(node);
        if nodes.len() > super::MOST_RECORDS {
            return Err(format!("more than {} nodes, which is the most that are read", super::MOST_RECORDS));
        }
    }
    recording(nodes)
}

fn why(broken: Broken, last: Option<&Node>, at: usize, size: usize) -> String {
    let after = last.map_or_else(|| "before its first node".to_owned(), |node| format!("after node {}", node.id));
    match broken {
        Broken::Cut => {
            format!("cut off {after}: the message at byte {at} is longer than what is left of {size}; copy it again")
        }
        Broken::Odd => format!("damaged {after}: no node can be read at byte {at} of {size}; copy or convert it again"),
    }
}

fn node(message: &[u8]) -> Result<Node, Broken> {
    let mut node = Node::default();
    let text =
        |field: Field| field.bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default();
    Wire { left: message }.fields(|number, field| {
        match number {
            1 => node.id = field.number().unwrap_or_default(),
            2 => node.name = text(field),
            3 => node.kind = NodeKind::of(field.number().unwrap_or_default()),
            4 => numbers(field, &mut node.called_by)?,
            5 => numbers(field, &mut node.after)?,
            6 => node.start_us = field.number().unwrap_or_default(),
            7 => node.duration_us = field.number().unwrap_or_default(),
            8 => node.values = values(field.bytes().unwrap_or_default())?,
            10 => attribute(field.bytes().unwrap_or_default(), &mut node.attributes)?,
            _ => {}
        }
        if node.after.len() > MOST_WAITS { Err(Broken::Odd) } else { Ok(()) }
    })?;
    // of others the values are those of tensors
    if node.kind != NodeKind::Metadata {
        node.values = String::new();
    }
    Ok(node)
}

fn values(inputs: &[u8]) -> Result<String, Broken> {
    let mut found = String::new();
    Wire { left: inputs }.fields(|number, field| {
        if let (1, Some(bytes)) = (number, field.bytes().filter(|bytes| bytes.len() <= MOST_VALUES)) {
            found = String::from_utf8_lossy(bytes).into_owned();
        }
        Ok(())
    })?;
    Ok(found)
}

fn attribute(message: &[u8], to: &mut Attributes) -> Result<(), Broken> {
    let (mut name, mut value, mut text, mut list) = ("", None, None, Vec::new());
    Wire { left: message }.fields(|number, field| {
        match (number, field) {
            (1, Field::Bytes(bytes)) => name = std::str::from_utf8(bytes).unwrap_or_default(),
            // int32, int64, uint32, uint64, bool
            (7 | 9 | 11 | 13 | 27, Field::Number(n)) => value = Some(n.cast_signed()),
            // sint32, sint64
            (15 | 17, Field::Number(n)) => value = Some((n >> 1).cast_signed() ^ -((n & 1).cast_signed())),
            (19 | 23, Field::Four(n)) => value = Some(i64::from(i32::from_le_bytes(n))),
            (21 | 25, Field::Eight(n)) => value = Some(i64::from_le_bytes(n)),
            (28, Field::Bytes(packed)) => {
                Wire { left: packed }.fields(|_, field| numbers(field, &mut list))?;
            }
            (29, Field::Bytes(bytes)) => text = Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => {}
        }
        Ok(())
    })?;
    to.take(name, value, text, &list);
    Ok(())
}
