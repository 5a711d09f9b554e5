//! Files of a zip archive, in memory and within limits.

use std::io::Read;

use flate2::read::DeflateDecoder;

/// The most files of an archive.
const MOST_FILES: usize = 65_535;

/// Whether it is a zip archive.
pub(super) fn is_zip(bytes: &[u8]) -> bool {
    bytes.starts_with(b"PK\x03\x04")
}

/// Its files, by the list at its end, until they unpack to more than `room` bytes. Those that are neither stored nor deflated
/// are errors.
pub(super) fn unzip(bytes: &[u8], mut room: usize) -> Vec<(String, Result<Vec<u8>, String>)> {
    let word = |at: usize| Some(u32::from(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?)));
    let long = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize);
    let mut all = Vec::new();
    let end = bytes.windows(4).rposition(|w| w == b"PK\x05\x06");
    let Some(mut at) = end.and_then(|end| long(end + 16)) else {
        return vec![(String::new(), Err("its list of files is missing: the archive is cut".to_owned()))];
    };
    while all.len() < MOST_FILES && bytes.get(at..at + 4) == Some(b"PK\x01\x02") {
        let entry = (|| {
            let (method, packed) = (word(at + 10)?, long(at + 20)?);
            let (name, extra, comment) = (word(at + 28)? as usize, word(at + 30)? as usize, word(at + 32)? as usize);
            let path = String::from_utf8_lossy(bytes.get(at + 46..at + 46 + name)?).into_owned();
            let local = long(at + 42)?;
            let start = local + 30 + word(local + 26)? as usize + word(local + 28)? as usize;
            Some((path, method, bytes.get(start..start.checked_add(packed)?)?, at + 46 + name + extra + comment))
        })();
        let Some((path, method, packed, next)) = entry else {
            all.push((String::new(), Err("the archive is damaged".to_owned())));
            break;
        };
        at = next;
        if path.ends_with('/') {
            continue;
        }
        let mut content = Vec::new();
        let read = match method {
            0 => packed.take(room as u64 + 1).read_to_end(&mut content),
            8 => DeflateDecoder::new(packed).take(room as u64 + 1).read_to_end(&mut content),
            _ => Err(std::io::Error::other(format!("compressed by method {method}, which is not read"))),
        };
        if content.len() > room {
            all.push((path, Err("the archive unpacks to too much; the rest is not read".to_owned())));
            break;
        }
        room -= content.len();
        all.push((path, read.map(|_| content).map_err(|e| e.to_string())));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(is_zip(&zip));
        assert_eq!(unzip(&zip, 100), [("a/b.json".to_owned(), Ok(b"{}".to_vec()))]);
        assert!(unzip(&zip, 1)[0].1.is_err());
        for cut in 0..zip.len() {
            let _ = unzip(&zip[..cut], 100);
        }
    }
}
