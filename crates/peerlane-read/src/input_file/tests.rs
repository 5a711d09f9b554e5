use std::time::Instant;

use super::*;

/// A folder of one test's own.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("peerlane-input-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        fs::write(self.0.join(name), content).unwrap();
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns some bytes and then nothing, ever.
struct Hangs(Option<Vec<u8>>);

impl Read for Hangs {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let Some(first) = self.0.take() else {
            loop {
                thread::park();
            }
        };
        into[..first.len()].copy_from_slice(&first);
        Ok(first.len())
    }
}

fn input_of(source: impl Read + Send + 'static) -> Input {
    Input {
        path: PathBuf::from("on a server\nthat is gone"),
        kind: Kind::Settings,
        source: Some(Box::new(source)),
        size: 0,
        patience: Some(Duration::from_millis(50)),
        mode: None,
        piece: Cursor::default(),
    }
}

#[test]
fn a_read_that_never_returns_is_given_up() {
    for first in [None, Some(b"begin".to_vec())] {
        let began = Instant::now();
        let refused = input_of(Hangs(Some(first.unwrap_or_default())).chain(Hangs(None))).all().unwrap_err();
        assert!(began.elapsed() < Duration::from_secs(2));
        let message = refused.to_string();
        assert!(message.starts_with("on a server\\u000athat is gone: no answer within 0.05 s"), "{message}");
    }
    // the next step has a new thread
    assert_eq!(within(PATIENCE, || 7), Some(7));
}

#[test]
fn a_file_that_never_opens_is_given_up() {
    let began = Instant::now();
    let opened = step(Duration::from_millis(50), || -> io::Result<File> {
        loop {
            thread::park();
        }
    });
    assert_eq!(opened.unwrap_err().kind(), ErrorKind::TimedOut);
    assert!(began.elapsed() < Duration::from_secs(2));
}

#[test]
fn a_limit_counts_what_is_read() {
    let limit = Kind::Settings.limit() as usize;
    assert_eq!(input_of(io::repeat(b'x').take(limit as u64)).all().unwrap().len(), limit);
    for source in [io::repeat(0).take(limit as u64 + 1), io::repeat(0).take(u64::MAX)] {
        let refused = input_of(source).all().unwrap_err().to_string();
        assert!(refused.ends_with(": larger than 1 MiB: not a settings file"), "{refused}");
    }
    // what is reported is enough to refuse
    let huge = Input { size: 1 << 40, ..input_of(Hangs(None)) };
    assert!(huge.all().is_err_and(|refused| refused.cause.kind() == ErrorKind::FileTooLarge));
}

#[test]
fn files_are_read_whole() {
    let folder = Scratch::new("whole");
    let long: Vec<u8> = (0..PIECE * 2 + 3).map(|i| i as u8).collect();
    let path = folder.file("long", &long);
    assert_eq!(read(&path, Kind::Settings).unwrap(), long);
    assert_eq!(head(&path, 3).unwrap(), [0, 1, 2]);
    assert!(text(&path, Kind::Settings).unwrap_err().to_string().ends_with("long: not UTF-8 text"));
    assert_eq!(read(&folder.file("piece", &long[..PIECE as usize]), Kind::Settings).unwrap().len() as u64, PIECE);
    assert_eq!(read(&folder.file("none", b""), Kind::Settings).unwrap(), b"");
    let absent = read(&folder.0.join("absent"), Kind::Settings).unwrap_err();
    assert!(absent.is_absent() && absent.to_string().contains("absent: "), "{absent}");
}

#[cfg(unix)]
#[test]
fn what_is_no_file_is_not_opened() {
    use std::os::unix::fs::symlink;
    let folder = Scratch::new("types");
    let _socket = std::os::unix::net::UnixListener::bind(folder.0.join("socket")).unwrap();
    symlink("/dev/zero", folder.0.join("zero")).unwrap();
    let pipe = folder.0.join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    let began = Instant::now();
    for (name, what) in [("pipe", "a FIFO"), ("socket", "a socket"), ("zero", "a device"), ("", "a folder")] {
        for refused in [read(&folder.0.join(name), Kind::Settings), head(&folder.0.join(name), 9)] {
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains(&format!("is {what}, not a file: ")), "{refused}");
        }
    }
    assert!(began.elapsed() < Duration::from_secs(1));
    assert_eq!(read(Path::new(EMPTY), Kind::Settings).unwrap(), b"");
    // of a source a pipe is read, once somebody writes to it
    let writer = thread::spawn({
        let pipe = pipe.clone();
        move || fs::write(pipe, "text").unwrap()
    });
    assert_eq!(read(&pipe, Kind::Source).unwrap(), b"text");
    writer.join().unwrap();
}

#[cfg(unix)]
#[test]
fn no_link_leads_out_of_a_folder() {
    use std::os::unix::fs::symlink;
    let (outside, inside) = (Scratch::new("outside"), Scratch::new("inside"));
    let secret = outside.file("secret", b"secret");
    fs::create_dir(inside.0.join("a")).unwrap();
    inside.file("a/file", b"text");
    inside.file(".hidden", b"");
    let links = [("within", "a/file"), ("folder", "a"), ("dead", "nowhere")];
    links.iter().for_each(|(name, to)| symlink(to, inside.0.join(name)).unwrap());
    symlink(&secret, inside.0.join("out")).unwrap();
    symlink(&outside.0, inside.0.join("b")).unwrap();
    let folder = Folder::of(&inside.0).unwrap();
    let entries = folder.entries(&inside.0).unwrap();
    let name = |entry: &Entry| entry.path.file_name().unwrap().to_string_lossy().into_owned();
    let all: Vec<(String, Option<What>)> =
        entries.iter().map(|entry| (name(entry), entry.what.as_ref().ok().copied())).collect();
    let (file, of_folder) = (Some(What::File), Some(What::Folder));
    let expected =
        [(".hidden", file), ("a", of_folder), ("b", None), ("folder", of_folder), ("out", None), ("within", file)];
    assert_eq!(all, expected.map(|(name, what)| (name.to_owned(), what)));
    assert!(entries.iter().all(|entry| entry.is_hidden() == (name(entry) == ".hidden")));
    for path in ["within", "folder/file"] {
        assert_eq!(folder.read(&inside.0.join(path), Kind::Source).unwrap(), b"text", "{path}");
    }
    for path in ["out", "b/secret", "a/../../secret"] {
        assert!(folder.read(&inside.0.join(path), Kind::Source).is_err(), "{path}");
    }
    let refused = folder.read(&inside.0.join("out"), Kind::Source).unwrap_err().to_string();
    assert!(refused.contains("out: its link leads out of "), "{refused}");
    assert!(!folder.holds(&inside.0.join("b")) && folder.holds(&inside.0.join("folder")));
    assert!(folder.names(&inside.0.join("b")).is_empty() && folder.link(&inside.0.join("b/secret")).is_none());
}
