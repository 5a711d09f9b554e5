//! Files of a zip archive in memory.

use std::io::Read;

use flate2::read::DeflateDecoder;

/// The most files of an archive.
const MOST_FILES: usize = 65_535;

/// The path of a file and what reads its content, or why it cannot be read.
type Entry<'a> = Result<(String, Box<dyn Read + 'a>), String>;

/// A file's path, its method, its packed bytes, and where the next one stands in the list.
type Listed<'a> = (String, usize, &'a [u8], usize);

/// Its files, by the list at its end. Those that are neither stored nor deflated are errors.
///
/// One at a time: a decoder takes 70 kB, and an archive of some MiB lists 65,535 files.
pub(super) fn entries(bytes: &[u8]) -> impl Iterator<Item = Entry<'_>> {
    let end = bytes.windows(4).rposition(|w| w == b"PK\x05\x06");
    let mut at = end.and_then(|end| long(bytes, end + 16));
    let cut = at.is_none().then(|| Err("its list of files is missing: the archive is cut".to_owned()));
    let listed = std::iter::from_fn(move || {
        let here = at.filter(|&here| bytes.get(here..here + 4) == Some(b"PK\x01\x02"))?;
        let found = listed(bytes, here);
        at = found.as_ref().map(|found| found.3);
        Some(found)
    });
    cut.into_iter().chain(listed.filter_map(entry).take(MOST_FILES))
}

/// What is listed, unless it is a folder.
fn entry(found: Option<Listed<'_>>) -> Option<Entry<'_>> {
    let Some((path, method, packed, _)) = found else { return Some(Err("the archive is damaged".to_owned())) };
    let reader: Box<dyn Read> = match method {
        _ if path.ends_with('/') => return None,
        0 => Box::new(packed),
        8 => Box::new(DeflateDecoder::new(packed)),
        _ => return Some(Err(format!("{path}: compressed by method {method}, which is not read"))),
    };
    Some(Ok((path, reader)))
}

/// The path of the file that the list has there, its method, its packed bytes, and where the next one stands.
fn listed(bytes: &[u8], at: usize) -> Option<Listed<'_>> {
    let word = |at| word(bytes, at);
    let (method, packed) = (word(at + 10)?, long(bytes, at + 20)?);
    let (name, extra, comment) = (word(at + 28)?, word(at + 30)?, word(at + 32)?);
    let path = String::from_utf8_lossy(bytes.get(at + 46..at + 46 + name)?).into_owned();
    let local = long(bytes, at + 42)?;
    let start = local + 30 + word(local + 26)? + word(local + 28)?;
    Some((path, method, bytes.get(start..start.checked_add(packed)?)?, at + 46 + name + extra + comment))
}

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    Some(usize::from(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?)))
}

fn long(bytes: &[u8], at: usize) -> Option<usize> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize)
}

#[cfg(test)]
mod tests {
    use super::super::unpacked;

    #[test]
    fn stored_and_cut_archives() {
        // one file `a/b.json` with `{}`, stored
        let name = b"a/b.json";
        let mut zip = b"PK\x03\x04\x0a\0\0\0\0\0\0\0\0\0\0\0\0\0\x02\0\0\0\x02\0\0\0\x08\0\0\0".to_vec();
        zip.extend(name);
        zip.extend(b"{}");
        let list = zip.len() as u32;
        zip.extend(
            b"PK\x01\x02\x0a\0\x0a\0\0\0\0\0\0\0\0\0\0\0\0\0\x02\0\0\0\x02\0\0\0\x08\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        );
        zip.extend(name);
        zip.extend(b"PK\x05\x06\0\0\0\0\x01\0\x01\0\x36\0\0\0");
        zip.extend(list.to_le_bytes());
        zip.extend(b"\0\0");
        let unzip = |bytes: &[u8], keep| {
            let found = unpacked(bytes.to_vec(), keep, |_| false);
            let files: Vec<String> = found.files.iter().map(|(path, item)| format!("{path} {item:?}")).collect();
            (files, [found.unread, found.left_out].concat())
        };
        assert_eq!(unzip(&zip, 100), (vec![r#"a/b.json File([123, 125])"#.to_owned()], Vec::new()));
        let (files, problems) = unzip(&zip, 1);
        assert!(files.is_empty() && problems[0].contains("unpacks to more than"), "{problems:?}");
        for cut in 0..zip.len() {
            // the comment after the list is not needed
            assert!(unzip(&zip[..cut], 100).0.is_empty() || cut + 2 >= zip.len(), "{cut}");
        }
    }
}
