//! The secret that all processes of a run share. It answers challenges and is never sent.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// The least characters of a secret: whoever pretends to be the head can try guesses on what an agent answers.
const LEAST: usize = 16;

/// The most, so that a wrong file is not taken for one.
const MOST: usize = 4096;

/// Bytes of a tag.
pub(crate) const TAG: usize = 32;

/// Bytes of a block of SHA-256, to which HMAC fills up its key.
const BLOCK: usize = 64;

/// A key of HMAC-SHA256.
#[derive(Clone)]
pub struct Secret([u8; BLOCK]);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Secret {
    /// A secret, without white space around it.
    ///
    /// # Errors
    /// Where it is too short to withstand guessing, or too long to be one.
    pub fn new(text: &str) -> Result<Self, String> {
        let text = text.trim();
        match text.len() {
            0..LEAST => Err(format!("it has fewer than {LEAST} characters; make one with 'openssl rand -hex 16'")),
            LEAST..=MOST => Ok(Secret::of(text.as_bytes())),
            _ => Err(format!("it has more than {MOST} characters")),
        }
    }

    /// The key, for a process of this one's own.
    pub(crate) fn key(&self) -> &[u8] {
        &self.0
    }

    /// The secret with such a key.
    pub(crate) fn of_key(key: &[u8]) -> Option<Self> {
        key.try_into().ok().map(Secret)
    }

    /// As HMAC makes a key of bytes of any length.
    fn of(bytes: &[u8]) -> Secret {
        let mut key = [0; BLOCK];
        if bytes.len() > BLOCK {
            key[..TAG].copy_from_slice(&Sha256::digest(bytes));
        } else {
            key[..bytes.len()].copy_from_slice(bytes);
        }
        Secret(key)
    }

    /// A key that is good for one connection.
    pub(crate) fn derived(&self, parts: &[&[u8]]) -> Secret {
        Secret::of(&self.tag(parts))
    }

    fn mac(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new(&self.0.into());
        for part in parts {
            // with its length, so that no two lists of parts are the same bytes
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        mac
    }

    /// What only those who know the secret can say about these parts.
    pub(crate) fn tag(&self, parts: &[&[u8]]) -> [u8; TAG] {
        self.mac(parts).finalize().into_bytes().into()
    }

    /// Whether somebody who knows the secret said this, compared in constant time.
    pub(crate) fn is_tag(&self, parts: &[&[u8]], tag: &[u8]) -> bool {
        self.mac(parts).verify_slice(tag).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_can_be_no_guess() {
        assert!(Secret::new("  0123456789abcde \n").unwrap_err().contains("openssl"));
        assert!(Secret::new(&"x".repeat(5000)).is_err());
        let secret = Secret::new(" 0123456789abcdef\n").unwrap();
        assert_eq!(format!("{secret:?}"), "Secret(…)");
        assert_eq!(secret.tag(&[b"a"]), Secret::new("0123456789abcdef").unwrap().tag(&[b"a"]));
    }

    #[test]
    fn tags_differ_by_key_and_by_parts() {
        let (one, other) = (Secret::new(&"1".repeat(16)).unwrap(), Secret::new(&"2".repeat(16)).unwrap());
        let tag = one.tag(&[b"ab", b"c"]);
        assert!(one.is_tag(&[b"ab", b"c"], &tag));
        assert!(!one.is_tag(&[b"a", b"bc"], &tag));
        assert!(!one.is_tag(&[b"ab", b"c"], &tag[..31]));
        assert!(!other.is_tag(&[b"ab", b"c"], &tag));
        assert!(!one.derived(&[b"x"]).is_tag(&[b"ab", b"c"], &tag));
    }

    /// Keys of all lengths are those of HMAC-SHA256.
    #[test]
    fn the_function_is_hmac_sha256() {
        for length in [1, 31, 64, 65, 200] {
            let key = vec![b'k'; length];
            let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
            mac.update(&[0, 0, 0, 0, 0, 0, 0, 4]);
            mac.update(b"text");
            assert!(Secret::of(&key).is_tag(&[b"text"], &mac.finalize().into_bytes()), "{length}");
        }
    }
}
