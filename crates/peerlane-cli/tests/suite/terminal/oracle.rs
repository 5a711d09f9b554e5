//! The scanner: printable text, line breaks, and the colours of this program. Nothing else.

/// The parameters of the styles that this program uses, written down here once more; 4 is clap's, for headings of help.
const STYLES: [&str; 13] =
    ["0", "1", "2", "4", "31", "32", "33", "36", "38;5;16", "48;5;153", "48;5;208", "48;5;215", "48;5;223"];

/// Refuses what a terminal would act on, and lines that begin with the planted text.
pub(super) fn scan(bytes: &[u8], colours: bool) -> Result<(), String> {
    let text = std::str::from_utf8(bytes).map_err(|e| format!("not UTF-8: {e}"))?;
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let near = || text.get(text.len() - rest.len()..).unwrap_or_default().chars().take(60).collect::<String>();
        let before = || plain.chars().rev().take(60).collect::<Vec<_>>().into_iter().rev().collect::<String>();
        rest = match c {
            '\u{1b}' => {
                let style = rest.strip_prefix("\u{1b}[").and_then(|r| r.split_once('m'));
                match style.filter(|(style, _)| colours && STYLES.contains(style)) {
                    Some((_, after)) => after,
                    None => return Err(format!("an escape sequence: {:?} after {:?}", near(), before())),
                }
            }
            '\n' => {
                plain.push(c);
                &rest[1..]
            }
            '\0'..='\u{1f}'
            | '\u{7f}'..='\u{9f}'
            | '\u{61c}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' => return Err(format!("{:?} in {:?} after {:?}", c, near(), before())),
            c => {
                plain.push(c);
                &rest[c.len_utf8()..]
            }
        };
    }
    let fake = |line: &&str| line.trim_start_matches("peerlane: ").starts_with("FAKE");
    match plain.lines().find(fake) {
        Some(line) => Err(format!("a false line: {line:?}")),
        None => Ok(()),
    }
}

#[test]
fn the_scanner_sees_what_it_should() {
    for (bad, colours) in [
        ("\u{1b}[31mred", false),
        ("\u{1b}[5mblink", true),
        ("\u{1b}]0;t\u{7}", true),
        ("a\tb", true),
        ("a\rb", true),
        ("\u{9b}31m", true),
        ("\u{202e}", true),
        ("x\nFAKE: verdict ok", true),
        ("x\npeerlane: FAKE", true),
        ("x\n\u{1b}[1mFAKE", true),
    ] {
        assert!(scan(bad.as_bytes(), colours).is_err(), "{bad:?}");
    }
    assert!(scan(b"\xff", true).is_err());
    assert_eq!(scan("µ\n\u{1b}[48;5;153mx\u{1b}[0m is no FAKE\n".as_bytes(), true), Ok(()));
}
